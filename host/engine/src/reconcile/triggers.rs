//! Queues the parents and Plugins that a change in a cache concerns.

use std::sync::Arc;

use windlass_core::object::names::{ANNOTATION_ONCE, LABEL_PLUGIN};
use windlass_core::object::once::are_alike_but_for_notes;
use windlass_core::object::reason::ParentReason;
use windlass_core::object::{Object, OwnerKey};
use windlass_core::reconcile::record::Failing;
use windlass_core::value::difference::changed_fields;
use windlass_core::value::ids::{Gvk, ObjectKey, PluginName};

use crate::cluster::shards::Shards;
use crate::cluster::watch::{Change, WatchId};
use crate::live::interests::Interests;
use crate::live::registry::Registry;
use crate::live::{Live, ParentIndex, had_no_parents};
use crate::queue::{PluginQueue, Queue, Trigger};
use crate::telemetry::{CAUSE, one_line};

/// Turns changes into keys.
pub struct Triggers {
    registry: Registry<Live>,
    /// The live plugins by the watch of their parents.
    index: ParentIndex,
    /// Which parents require which objects.
    interests: Interests,
    parents: Queue<PluginName, ObjectKey>,
    plugins: PluginQueue,
    shards: Shards,
    /// The kind `Plugin`.
    own: Gvk,
}

impl Triggers {
    /// Uses the live plugins by name and by the watch of their parents, the requirements of parents, and the queues of
    /// parents and of Plugins.
    pub fn new(
        registry: Registry<Live>,
        index: ParentIndex,
        interests: Interests,
        parents: Queue<PluginName, ObjectKey>,
        plugins: PluginQueue,
        shards: Shards,
    ) -> Self {
        Self { registry, index, interests, parents, plugins, shards, own: windlass_api::plugin_kind() }
    }

    /// Queues the keys that a change concerns. A change that concerns no key costs a lookup and no allocation.
    pub fn on_change(&self, watch: &WatchId, change: &Change) {
        if watch.metadata_only {
            self.required_changed(watch, change);
            return;
        }
        if *watch.kind == self.own {
            self.plugin_changed(change);
            return;
        }
        self.index.for_each(watch, |plugin| self.parent_changed(plugin, change));
        if let Some(namespace) = &change.after
            && watch.labels.is_none()
            && watch.kind.is("v1", "Namespace")
        {
            self.namespace_changed(watch, namespace);
        }
        for child in states_of_a_child(change) {
            self.child_changed(child, change);
        }
        if let (Some(gone), None) = (&change.before, &change.after) {
            self.name_freed(gone, change);
        }
        // Required kinds are watched without a selector. Another watch of the same kind would queue the key twice.
        if watch.labels.is_none() {
            self.required_changed(watch, change);
        }
    }

    fn required_changed(&self, watch: &WatchId, change: &Change) {
        for interest in self.interests.concerned(watch, change) {
            self.queue(&interest.plugin, &interest.parent, change, Trigger::Event);
        }
    }

    /// Queues a parent, and tells why.
    fn queue(&self, plugin: &PluginName, parent: &ObjectKey, change: &Change, trigger: Trigger) {
        tell_cause(plugin, parent, change);
        self.parents.add(plugin, parent, trigger);
    }

    fn plugin_changed(&self, change: &Change) {
        let Some(object) = change.after.as_ref().or(change.before.as_ref()) else { return };
        // Recorded here, in the order of the watch: other hosts rely on what this host has seen.
        if let Ok(name) = object.key.name.parse::<PluginName>()
            && self.shards.plugin_changed(&name, change.before.is_none(), change.after.as_deref())
        {
            self.plugins.add(&(), &name, Trigger::Event);
        }
        if let (Some(before), Some(after)) = (&change.before, &change.after)
            && (&before.uid, before.generation, before.deleting, &before.marks)
                == (&after.uid, after.generation, after.deleting, &after.marks)
        {
            // Only the status changed, which the host writes itself, or metadata that it does not read.
            return;
        }
        match object.key.name.parse::<PluginName>() {
            Ok(name) => self.plugins.add(&(), &name, plugin_urgency(change)),
            // A CEL rule of the CRD rejects such names.
            Err(error) => tracing::warn!(%error, "a Plugin was skipped"),
        }
    }

    /// Queues the parents in a namespace whose labels may have changed, for the Plugins that select namespaces. This is
    /// rare, so all live plugins are checked.
    fn namespace_changed(&self, watch: &WatchId, namespace: &Object) {
        self.registry.for_each(|live| {
            if live.caches.namespaces.as_ref().is_some_and(|filter| filter.watch.id == *watch) {
                for parent in live.caches.parents.store.in_namespace(Some(&namespace.key.name)) {
                    self.parents.add(&live.terms.name, &parent.key, Trigger::Event);
                }
            }
        });
    }

    fn parent_changed(&self, plugin: &PluginName, change: &Change) {
        let live = || self.registry.get(plugin);
        match (&change.before, &change.after) {
            (before, Some(object)) => {
                self.queue(plugin, &object.key, change, urgency(change));
                if before.is_none()
                    && let Some(live) = live()
                {
                    live.shared.records.parents_changed();
                }
            }
            (Some(object), None) => {
                if let Some(live) = live() {
                    live.shared.records.removed(&object.key);
                    // A parent that is deleted with its children has not left the label selector.
                    if live.caches.unselected.may_be() && !object.deleting && live.has_children(&object.uid) {
                        live.caches.unselected.add(&object.key, object.uid.clone());
                    }
                }
                // The next run finds the parent gone, and removes its record.
                self.queue(plugin, &object.key, change, Trigger::Changed);
                self.interests.forget(plugin, &object.key);
            }
            (None, None) => {}
        }
    }

    /// Queues the parents that desire a child of this name and could not create it. The conflict is solved, so they do not wait for the
    /// end of a backoff.
    fn name_freed(&self, gone: &Object, change: &Change) {
        self.registry.for_each(|live| {
            for parent in live.shared.state.contended.freed(gone) {
                self.queue(&live.terms.name, &parent, change, Trigger::Changed);
            }
        });
    }

    /// Queues the parent that a child's labels and ownerReference name, for the plugin that its label names.
    fn child_changed(&self, child: &Object, change: &Change) {
        let is_there = change.after.is_some();
        let Some(live) = child.marks.get(LABEL_PLUGIN).and_then(|name| self.registry.get(name)) else { return };
        let parent = match child.owner_key() {
            Some(OwnerKey::Uid(uid)) => {
                let (shown, unselected) = (&live.caches.parents.store, &live.caches.unselected);
                let lost = || unselected.parent_of_lost(child, is_there, |parent| shown.get(parent).is_some());
                shown.key_of(&uid).or_else(lost).or_else(|| successor(&live, child))
            }
            Some(OwnerKey::Retained(parent)) => retained_parent(&parent),
            None => None,
        };
        if let Some(parent) = parent {
            // What a deleted child took up, such as a port or a part of a quota, may be what another one waits for.
            let is_refused = |failure: Failing| failure.reason == ParentReason::ChildRejected;
            let is_freed =
                !is_there && live.shared.records.with(&parent, |record| record.failure().is_some_and(is_refused));
            // Its time to live may end before a backoff does, and the parent must say that it was ready (rule R25).
            let is_noted = child.marks.get(ANNOTATION_ONCE).is_some();
            let trigger = if is_freed || is_noted { Trigger::Changed } else { Trigger::Event };
            self.queue(&live.terms.name, &parent, change, trigger);
        }
    }
}

/// Largest number of changed fields that are named as the cause of a reconcile.
const FIELDS_MAX: usize = 3;

/// Logs why a parent is queued, for `windlass dev` and the log at debug level. Without a listener, it reads no object.
fn tell_cause(plugin: &PluginName, parent: &ObjectKey, change: &Change) {
    if !tracing::event_enabled!(target: CAUSE, tracing::Level::DEBUG) {
        return;
    }
    let Some(object) = change.after.as_ref().or(change.before.as_ref()) else { return };
    let happened = match (&change.before, &change.after) {
        (None, _) => "appeared".to_owned(),
        (_, None) => "deleted".to_owned(),
        (Some(before), Some(after)) if after.deleting && !before.deleting => "being deleted".to_owned(),
        (Some(before), Some(after)) => {
            let fields = changed_fields(&before.json.bytes(), &after.json.bytes(), FIELDS_MAX);
            if fields.is_empty() { "changed".to_owned() } else { format!("{} changed", fields.join(", ")) }
        }
    };
    tracing::debug!(
        target: CAUSE,
        %plugin,
        namespace = parent.namespace.as_deref(),
        name = &*parent.name,
        kind = &*object.kind.kind,
        object = %object.key,
        change = &*one_line(&happened),
        "parent queued"
    );
}

/// The states of a child whose parents a change concerns: the new one, and the old one if it names another parent.
fn states_of_a_child(change: &Change) -> impl Iterator<Item = &Arc<Object>> {
    let names_the_same = |before: &&Arc<Object>| {
        let after = change.after.as_ref();
        after.is_some_and(|after| {
            (&after.marks, &after.labelled, &after.controller) == (&before.marks, &before.labelled, &before.controller)
        })
    };
    change.before.iter().filter(move |before| !names_the_same(before)).chain(&change.after)
}

/// The existing parent with the name of a child's former parent: it may wait for that child's deletion.
fn successor(live: &Live, child: &Object) -> Option<ObjectKey> {
    let (kind, name) = child.controller_kind_and_name()?;
    let namespaced = ObjectKey::new(child.key.namespace.as_deref(), &name);
    let keys = [namespaced, ObjectKey::new(None, &name)];
    keys.into_iter().find(|key| kind == live.terms.parents.group_kind() && live.caches.parents.store.get(key).is_some())
}

/// A new object, a new generation, changed labels or annotations and a deletion end a backoff; any other change waits
/// for its end, as do the host's own notes about children that are created once.
fn urgency(change: &Change) -> Trigger {
    match (&change.before, &change.after) {
        (Some(before), Some(after))
            if (&before.uid, before.generation, before.deleting, before.others_marks)
                == (&after.uid, after.generation, after.deleting, after.others_marks)
                && are_alike_but_for_notes(before, after) =>
        {
            Trigger::Event
        }
        _ => Trigger::Changed,
    }
}

/// At a start of the host, Plugins that had parents are reconciled before the others.
fn plugin_urgency(change: &Change) -> Trigger {
    match (&change.before, &change.after) {
        (None, Some(plugin)) if had_no_parents(plugin) => Trigger::Sweep,
        _ => Trigger::Changed,
    }
}

/// Parses `plugin/Kind.group/namespace/name`, or the same without the namespace (see `ParentRef::retained_for`).
fn retained_parent(text: &str) -> Option<ObjectKey> {
    let mut parts = text.splitn(3, '/');
    let (_plugin, _kind, key) = (parts.next()?, parts.next()?, parts.next()?);
    Some(match key.split_once('/') {
        Some((namespace, name)) => ObjectKey::new(Some(namespace), name),
        None => ObjectKey::new(None, key),
    })
}

#[cfg(test)]
mod tests {
    use windlass_core::hosts::lease::Timing;

    use super::*;
    use crate::cluster::discovery::silent_api_server;
    use crate::live::registry::Publisher;
    use crate::queue::Busy;

    fn object(text: &str) -> Arc<Object> {
        let kind = Arc::new(Gvk::from_api_version("v1", "Namespace"));
        let text = format!(r#"{{"metadata":{{"name":"n","uid":"1","resourceVersion":"1",{text}}}}}"#);
        Arc::new(Object::from_api(&kind, &text).expect("an object"))
    }

    fn changed(before: &str, after: &str) -> Change {
        Change { before: Some(object(before)), after: Some(object(after)) }
    }

    #[test]
    fn r13_change_of_spec_labels_or_annotations_runs_now_and_other_changes_wait_for_the_backoff() {
        let plain = r#""labels":{"team":"a"}"#;
        for fresh in [
            r#""annotations":{"windlass.dev/suspend":"true"}"#,
            r#""deletionTimestamp":"2026-01-01T00:00:00Z""#,
            r#""generation":2"#,
            r#""labels":{"team":"b"}"#,
            r#""labels":{"team":"a"},"annotations":{"note":"x"}"#,
        ] {
            assert_eq!(urgency(&changed(plain, fresh)), Trigger::Changed, "{fresh}");
        }
        assert_eq!(urgency(&changed(plain, r#""labels":{"team":"a"},"finalizers":["a/b"]"#)), Trigger::Event);
        let noted = r#""labels":{"team":"a"},"annotations":{"windlass.dev/once-1f":"begun"}"#;
        assert_eq!(urgency(&changed(plain, noted)), Trigger::Event, "the host writes it at each attempt");
        assert_eq!(urgency(&Change { before: None, after: Some(object(plain)) }), Trigger::Changed);
    }

    #[test]
    fn plugins_without_parents_are_reconciled_after_those_with_parents() {
        let listed = |status: &str| {
            let text = format!(r#"{{"metadata":{{"name":"n","uid":"1","resourceVersion":"1"}},"status":{status}}}"#);
            let plugin = Object::from_api(&Arc::new(windlass_api::plugin_kind()), &text).expect("an object");
            Change { before: None, after: Some(Arc::new(plugin)) }
        };
        assert_eq!(plugin_urgency(&listed(r#"{"parents":0}"#)), Trigger::Sweep);
        assert_eq!(plugin_urgency(&listed(r#"{"parents":1}"#)), Trigger::Changed);
        assert_eq!(plugin_urgency(&listed("{}")), Trigger::Changed, "a new Plugin that was never live");
        let changed = Change { before: listed("{}").after, ..listed(r#"{"parents":0}"#) };
        assert_eq!(plugin_urgency(&changed), Trigger::Changed, "a Plugin that changes is urgent");
    }

    #[test]
    fn r01_child_that_loses_its_parents_label_triggers_its_former_parent() {
        let child = |labels: &str| {
            format!(
                r#""labels":{{"windlass.dev/plugin":"echo"{labels}}},"ownerReferences":[{{"uid":"p","controller":true}}]"#
            )
        };
        let (web, other) = (r#","windlass.dev/parent-uid":"p""#, r#","windlass.dev/parent-uid":"q""#);
        let owners = |change: &Change| states_of_a_child(change).map(|child| child.owner_key()).collect::<Vec<_>>();
        let parent = |uid: &str| Some(OwnerKey::Uid(uid.into()));
        assert_eq!(owners(&changed(&child(web), &child(""))), [parent("p"), None]);
        assert_eq!(owners(&changed(&child(web), &child(other))), [parent("p"), parent("q")]);
        assert_eq!(
            owners(&changed(&child(web), &child(&format!(r#"{web},"app":"x""#)))),
            [parent("p")],
            "the parent is triggered once"
        );
        assert_eq!(owners(&Change { after: None, ..changed(&child(web), &child(web)) }), [parent("p")]);
        let retained = r#""labels":{"windlass.dev/plugin":"echo","windlass.dev/parent-uid":"p"},"annotations":{"windlass.dev/retained-for":"x"}"#;
        let owned = format!(r#"{retained},"ownerReferences":[{{"uid":"p","controller":true}}]"#);
        let of_x = Some(OwnerKey::Retained("x".into()));
        assert_eq!(owners(&changed(&owned, retained)), [parent("p"), of_x], "the object is no longer a child of p");
    }

    #[tokio::test]
    async fn parent_is_queued_only_for_the_plugins_of_its_watch() {
        let watch = |labels: Option<&str>| WatchId {
            labels: labels.map(str::to_owned),
            ..WatchId::of_kind(Arc::new(Gvk::from_api_version("v1", "Namespace")))
        };
        let index = ParentIndex::default();
        let team: PluginName = "team".parse().expect("a name");
        index.replace([(team.clone(), watch(Some("team"))), ("tier".parse().expect("a name"), watch(Some("tier")))]);
        let parents = Queue::new(1, 1, Busy { of_all: 1, of_group: 1 });
        let shards = Shards::new(silent_api_server(), "windlass-system", Timing::default(), 1);
        let triggers = Triggers::new(
            Publisher::new().registry(),
            index,
            Interests::new(usize::MAX),
            parents.clone(),
            PluginQueue::new(1, 1, Busy { of_all: 1, of_group: 1 }),
            shards,
        );
        let appeared = Change { before: None, after: Some(object(r#""generation":1"#)) };
        // A watch with another selector, and the watch of the kind as children, do not show parents.
        for labels in [None, Some(LABEL_PLUGIN), Some("team")] {
            triggers.on_change(&watch(labels), &appeared);
        }
        let job = parents.next().await;
        assert_eq!((job.group, job.key), (team, ObjectKey::new(None, "n")));
        let another = tokio::time::timeout(std::time::Duration::ZERO, parents.next()).await;
        assert!(another.is_err(), "no other plugin is triggered");
    }

    #[test]
    fn parent_of_a_retained_child_may_be_namespaced_or_cluster_scoped() {
        assert_eq!(retained_parent("p/Echo.g/ns/name"), Some(ObjectKey::new(Some("ns"), "name")));
        assert_eq!(retained_parent("p/Tenant.g/name"), Some(ObjectKey::new(None, "name")));
    }
}
