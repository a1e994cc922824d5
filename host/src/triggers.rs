//! A change in a cache → the keys that it concerns.

use windlass_core::ids::{Gvk, ObjectKey, PluginName};
use windlass_core::names::LABEL_PLUGIN;
use windlass_core::object::{Object, OwnerKey};
use windlass_sandbox::registry::Registry;

use crate::live::{Live, ParentKey};
use crate::plugins::{PluginQueue, Plugins};
use crate::queue::{Queue, Trigger};
use crate::related::Interests;
use crate::watch::Change;

/// Who is told of changes.
pub struct Triggers {
    /// The live plugins.
    pub registry: Registry<Live>,
    /// Keys of parents.
    pub parents: Queue<PluginName, ParentKey>,
    /// Keys of Plugins.
    pub plugins: PluginQueue,
    /// Who requires what.
    pub interests: Interests,
}

impl Triggers {
    /// Queues what a change of an object of this kind concerns.
    pub fn on_change(&self, kind: &Gvk, change: &Change) {
        if *kind == Plugins::kind() {
            self.plugin_changed(change);
            return;
        }
        for name in self.registry.names() {
            if self.registry.get(&name).is_some_and(|live| *live.parents.id.kind == *kind) {
                self.parent_changed(&name, change);
            }
        }
        for object in [&change.before, &change.after].into_iter().flatten() {
            self.child_changed(object);
        }
        for interest in self.interests.concerned(kind, change) {
            self.parents.add(&interest.plugin, interest.parent.clone(), Trigger::Event);
        }
    }

    fn plugin_changed(&self, change: &Change) {
        let Some(object) = change.after.as_ref().or(change.before.as_ref()) else { return };
        if let (Some(before), Some(after)) = (&change.before, &change.after)
            && (&before.uid, before.generation, before.deleting, &before.marks)
                == (&after.uid, after.generation, after.deleting, &after.marks)
        {
            // Our own word in the status.
            return;
        }
        match object.key.name.parse::<PluginName>() {
            Ok(name) => self.plugins.add(&(), name, Trigger::Fresh),
            // The CRD's own rule refuses such names.
            Err(error) => tracing::warn!(%error, "a Plugin was skipped"),
        }
    }

    fn parent_changed(&self, plugin: &PluginName, change: &Change) {
        match (&change.before, &change.after) {
            (_, Some(object)) => self.parents.add(plugin, object.key.clone(), urgency(change)),
            (Some(object), None) => {
                self.parents.forget(plugin, &object.key);
                self.interests.forget(plugin, &object.key);
            }
            (None, None) => {}
        }
    }

    /// A child concerns the parent that its marks name, of the plugin that its label names.
    fn child_changed(&self, child: &Object) {
        let Some(plugin) = child.marks.get(LABEL_PLUGIN).and_then(|name| name.parse::<PluginName>().ok()) else {
            return;
        };
        let Some(live) = self.registry.get(&plugin) else { return };
        let parent = match child.owner_key() {
            Some(OwnerKey::Uid(uid)) => live.parents.store.key_of(&uid).or_else(|| successor(&live, child)),
            Some(OwnerKey::Retained(parent)) => retained_parent(&parent),
            None => None,
        };
        if let Some(parent) = parent {
            self.parents.add(&plugin, parent, Trigger::Event);
        }
    }
}

/// The parent that has the name of a child's parent, which is gone: it may wait for the child to go.
fn successor(live: &Live, child: &Object) -> Option<ObjectKey> {
    let (kind, name) = child.controller_kind_and_name()?;
    let namespaced = ObjectKey::new(child.key.namespace.as_deref(), &name);
    let keys = [namespaced, ObjectKey::new(None, &name)];
    keys.into_iter().find(|key| kind == live.parents.id.kind.group_kind() && live.parents.store.get(key).is_some())
}

/// A new object or a new generation runs now; anything else waits for a backoff.
fn urgency(change: &Change) -> Trigger {
    match (&change.before, &change.after) {
        (Some(before), Some(after)) if before.uid == after.uid && before.generation == after.generation => {
            Trigger::Event
        }
        _ => Trigger::Fresh,
    }
}

/// `plugin/Kind.group/namespace/name`, or without the namespace (see `ParentRef::retained_for`).
fn retained_parent(text: &str) -> Option<ObjectKey> {
    let mut parts = text.splitn(3, '/');
    let (_plugin, _kind, key) = (parts.next()?, parts.next()?, parts.next()?);
    Some(match key.split_once('/') {
        Some((namespace, name)) => ObjectKey::new(Some(namespace), name),
        None => ObjectKey::new(None, key),
    })
}
