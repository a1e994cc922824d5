//! The live component of each plugin: a map with one writer and many readers. A reader never waits, and keeps the
//! component that it read for as long as its call runs.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use arc_swap::ArcSwap;
use windlass_core::value::ids::PluginName;

type Live<T> = HashMap<PluginName, Arc<T>>;

/// The read side. Cheap to clone.
#[derive(Clone)]
pub struct Registry<T>(Arc<ArcSwap<Live<T>>>);

impl<T> Registry<T> {
    /// Returns the present entry of this plugin, by its name or the name's text. Later changes do not affect the
    /// returned value.
    pub fn get<N>(&self, name: &N) -> Option<Arc<T>>
    where
        PluginName: Borrow<N>,
        N: Hash + Eq + ?Sized,
    {
        self.0.load().get(name).cloned()
    }

    /// Calls `act` for each entry, in no order.
    pub fn for_each(&self, act: impl FnMut(&Arc<T>)) {
        self.0.load().values().for_each(act);
    }

    /// The names of all entries, sorted.
    pub fn names(&self) -> Vec<PluginName> {
        let mut names: Vec<_> = self.0.load().keys().cloned().collect();
        names.sort();
        names
    }
}

/// The only writer: it cannot be cloned, and its methods need exclusive access.
pub struct Publisher<T>(Registry<T>);

impl<T> Publisher<T> {
    /// Creates an empty registry and its writer.
    #[expect(clippy::new_without_default, reason = "a second writer should not appear by accident")]
    pub fn new() -> Self {
        Self(Registry(Arc::new(ArcSwap::from_pointee(HashMap::new()))))
    }

    /// Returns a reader.
    pub fn registry(&self) -> Registry<T> {
        Registry(self.0.0.clone())
    }

    /// Publishes an entry, and returns the previous one.
    pub fn publish(&mut self, name: PluginName, entry: Arc<T>) -> Option<Arc<T>> {
        let mut next = Live::clone(&self.0.0.load());
        let before = next.insert(name, entry);
        self.0.0.store(Arc::new(next));
        before
    }

    /// Removes an entry and returns it; running calls keep the entry until they end.
    pub fn retract(&mut self, name: &PluginName) -> Option<Arc<T>> {
        let mut next = Live::clone(&self.0.0.load());
        let before = next.remove(name);
        self.0.0.store(Arc::new(next));
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_keeps_its_component_while_a_newer_one_is_published() {
        let echo: PluginName = "echo".parse().unwrap();
        let mut publisher = Publisher::new();
        let registry = publisher.registry();
        assert!(registry.get(&echo).is_none());
        publisher.publish(echo.clone(), Arc::new("old"));
        let read = registry.get(&echo).unwrap();
        assert_eq!(publisher.publish(echo.clone(), Arc::new("new")).as_deref(), Some(&"old"));
        assert_eq!((*read, *registry.get(&echo).unwrap()), ("old", "new"));
        assert_eq!(registry.names(), std::slice::from_ref(&echo));
        publisher.retract(&echo);
        assert!(registry.clone().get(&echo).is_none());
    }
}
