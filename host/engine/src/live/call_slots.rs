//! How many calls run at once: of the host, of one plugin, and of one namespace of a plugin's parents.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::clock;

/// Number of namespaces whose permits are kept although no call of them runs or waits.
const KEPT: usize = 64;

/// Largest number of calls that run at once: one for each core, because a call keeps a core busy, but at least three, so that a plugin, and
/// a namespace within it, whose calls take long leave one to others.
pub fn calls_at_once() -> usize {
    clock::cores().max(3)
}

/// Largest number of calls for the parents of one namespace that run at once.
fn calls_of_namespace() -> usize {
    calls_at_once() - 2
}

/// The permits for the calls of one plugin. A call first waits for those of its namespace, so namespaces take turns.
#[derive(Debug)]
pub struct CallSlots {
    of_plugin: Semaphore,
    of_namespaces: Mutex<HashMap<Option<Arc<str>>, Arc<Semaphore>>>,
}

impl Default for CallSlots {
    fn default() -> Self {
        // One is left to the other plugins.
        Self { of_plugin: Semaphore::new(calls_at_once() - 1), of_namespaces: Mutex::default() }
    }
}

impl CallSlots {
    /// Waits until a call for a parent in this namespace may run. It runs until the permits are dropped.
    ///
    /// # Errors
    /// Never: no permits are withdrawn.
    pub async fn acquire(
        &self,
        namespace: Option<&Arc<str>>,
    ) -> Result<(OwnedSemaphorePermit, SemaphorePermit<'_>), AcquireError> {
        Ok((self.of_namespace(namespace).acquire_owned().await?, self.of_plugin.acquire().await?))
    }

    fn of_namespace(&self, namespace: Option<&Arc<str>>) -> Arc<Semaphore> {
        let mut all = self.of_namespaces.lock();
        let namespace = namespace.cloned();
        if let Some(known) = all.get(&namespace) {
            return known.clone();
        }
        if all.len() >= KEPT {
            all.retain(|_, permits| Arc::strong_count(permits) > 1);
        }
        all.entry(namespace).or_insert_with(|| Arc::new(Semaphore::new(calls_of_namespace()))).clone()
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, poll};

    use super::*;

    #[tokio::test]
    async fn calls_of_one_namespace_leave_one_to_others_and_namespaces_take_turns() {
        let slots = CallSlots::default();
        let [slow, other, third] = ["slow", "other", "third"].map(Arc::<str>::from);
        let mut of_slow = Vec::new();
        while let Some(slot) = slots.acquire(Some(&slow)).now_or_never() {
            of_slow.push(slot.expect("a permit"));
        }
        assert_eq!(of_slow.len(), calls_of_namespace());
        let mut waiting: Vec<_> = (0..9).map(|_| Box::pin(slots.acquire(Some(&slow)))).collect();
        for next in &mut waiting {
            assert!(poll!(next).is_pending());
        }
        let of_other = slots.acquire(Some(&other)).now_or_never().expect("at once").expect("a permit");
        let mut of_third = Box::pin(slots.acquire(Some(&third)));
        assert!(poll!(&mut of_third).is_pending(), "the plugin has no more");
        of_slow.clear();
        assert!(poll!(&mut of_third).is_ready(), "it has waited longest for those of the plugin");
        drop(of_other);
    }

    #[test]
    fn permits_of_namespaces_without_calls_are_dropped() {
        let slots = CallSlots::default();
        let busy: Arc<str> = "busy".into();
        let held = slots.acquire(Some(&busy)).now_or_never().expect("at once").expect("a permit");
        for namespace in 0..1000 {
            let namespace: Arc<str> = namespace.to_string().into();
            drop(slots.acquire(Some(&namespace)).now_or_never());
        }
        assert!(slots.of_namespaces.lock().len() <= KEPT);
        assert_eq!(slots.of_namespace(Some(&busy)).available_permits(), calls_of_namespace() - 1);
        drop(held);
    }
}
