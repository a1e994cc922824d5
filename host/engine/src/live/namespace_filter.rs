//! Selects the namespaces whose objects are parents of a Plugin, by their current labels.

use std::sync::Arc;

use windlass_core::object::Object;
use windlass_core::object::selector::Selector;
use windlass_core::value::ids::ObjectKey;

use crate::cluster::watch::Watch;

/// `spec.namespaceSelector`, with the watch of all Namespaces.
#[derive(Clone)]
pub struct NamespaceFilter {
    /// The selector.
    pub selector: Selector,
    /// The watch of all Namespaces.
    pub watch: Arc<Watch>,
}

impl NamespaceFilter {
    /// Whether a parent's namespace is selected; always true for a cluster-scoped parent. None while the watch does not
    /// show the namespace.
    pub fn selects(&self, parent: &Object) -> Option<bool> {
        let Some(namespace) = &parent.key.namespace else { return Some(true) };
        let namespace = self.watch.store.get(&ObjectKey::new(None, namespace))?;
        Some(namespace.with_labels(|labels| self.selector.matches(labels)))
    }
}

impl PartialEq for NamespaceFilter {
    fn eq(&self, other: &Self) -> bool {
        self.selector.to_string() == other.selector.to_string() && Arc::ptr_eq(&self.watch, &other.watch)
    }
}
