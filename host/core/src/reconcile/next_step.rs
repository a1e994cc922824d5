//! Decides the next step for a parent from its own state, before the plugin is called (rules R14 to R16).

use crate::contract::{Descriptor, Phase};
use crate::object::Object;
use crate::object::child::ChildId;
use crate::object::names;
use crate::reconcile::outcome::WriteProblem;
use crate::value::ids::PluginName;

/// The finalizer that the API server sets for a deletion that waits for the dependents (foreground deletion).
const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer that the API server sets for a deletion that orphans the dependents (`--cascade=orphan`). The garbage
/// collector removes it after it has released them.
const ORPHAN: &str = "orphan";

/// The next step for a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// Call the plugin.
    Call(Phase),
    /// Add the finalizer first: once children exist, the plugin must be called when the parent is deleted.
    AddFinalizer,
    /// Remove the finalizer: the plugin does not finalize, or a user skips its cleanup.
    RemoveFinalizer,
    /// Do not call the plugin: the parent or the Plugin is suspended.
    Suspended,
    /// Do nothing. Either the parent is being deleted without the plugin's finalizer, so the garbage collector deletes
    /// its children (rule R15); or the object is not a parent any more, but it or the Plugin is suspended, so its
    /// children stay.
    Leave,
    /// Delete the children by stage, and then remove the finalizer: the plugin does not clean up by itself.
    DeleteInOrder,
    /// Delete the children: the object is not a parent any more, and has no finalizer of the host (rule R9).
    DeleteChildren,
}

/// After the plugin's name, in the second finalizer of parents whose children are deleted by stage once the plugin has cleaned up. A parent
/// that is being deleted gets no new finalizer, so it has both from the start.
const ORDERED: &str = ".ordered";

/// The finalizer of a plugin's parents: the prefix and the plugin's name.
fn finalizer_of(plugin: &PluginName) -> String {
    format!("{}{plugin}", names::FINALIZER_PREFIX)
}

/// Which finalizers of a plugin a parent has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    first: bool,
    ordered: bool,
}

impl Held {
    fn by(parent: &Object, plugin: &PluginName) -> Self {
        let has = |wanted: &str| parent.finalizers.iter().any(|name| rest_of(plugin, name) == Some(wanted));
        Self { first: has(""), ordered: has(ORDERED) }
    }

    fn is_any(self) -> bool {
        self.first || self.ordered
    }
}

/// What comes after the plugin's name in a finalizer that begins with it.
fn rest_of<'a>(plugin: &PluginName, finalizer: &'a str) -> Option<&'a str> {
    finalizer.strip_prefix(names::FINALIZER_PREFIX)?.strip_prefix(plugin.as_str())
}

fn is_finalizer_of(plugin: &PluginName, finalizer: &str) -> bool {
    rest_of(plugin, finalizer).is_some_and(|rest| rest.is_empty() || rest == ORDERED)
}

/// What parents have the plugin's finalizer for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanUp {
    /// They have none.
    None,
    /// The host deletes their children by stage (`ordered-deletion`).
    InOrder,
    /// The plugin is called to clean up (`finalizes`).
    ByPlugin,
    /// The plugin is called to clean up. Then the host deletes their children by stage.
    ByPluginThenInOrder,
}

impl CleanUp {
    /// What a component needs the finalizer for.
    pub fn of(descriptor: &Descriptor) -> Self {
        match (descriptor.finalizes, descriptor.ordered_deletion) {
            (true, true) => Self::ByPluginThenInOrder,
            (true, false) => Self::ByPlugin,
            (false, true) => Self::InOrder,
            (false, false) => Self::None,
        }
    }

    fn calls_plugin(self) -> bool {
        matches!(self, Self::ByPlugin | Self::ByPluginThenInOrder)
    }

    fn is_in_order(self) -> bool {
        matches!(self, Self::InOrder | Self::ByPluginThenInOrder)
    }

    /// Whether a parent has the finalizers for it.
    fn is_held(self, held: Held) -> bool {
        match self {
            Self::None => true,
            Self::InOrder | Self::ByPlugin => held.first,
            Self::ByPluginThenInOrder => held.first && held.ordered,
        }
    }
}

/// What the next step depends on, in addition to the parent itself.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances {
    /// What the active component needs the finalizer for.
    pub clean_up: CleanUp,
    /// The Plugin has `spec.suspend`.
    pub suspended: bool,
    /// The Plugin still selects the object. An object that is no longer selected is finalized as if it were deleted.
    pub selected: bool,
}

/// Decides the next step for a parent.
pub fn next_step(parent: &Object, plugin: &PluginName, circumstances: Circumstances) -> NextStep {
    let Circumstances { clean_up, suspended, selected } = circumstances;
    let held = Held::by(parent, plugin);
    let suspended = suspended || parent.marks.is_true(names::ANNOTATION_SUSPEND);
    let is_leaving = parent.deleting || !selected;
    let skips_cleanup = is_leaving && parent.marks.is_true(names::ANNOTATION_SKIP_FINALIZE);
    match (is_leaving, held.is_any()) {
        (true, false) if parent.deleting || suspended => NextStep::Leave,
        (true, false) => NextStep::DeleteChildren,
        // A user's request to skip the cleanup takes precedence.
        (true, true) if skips_cleanup => NextStep::RemoveFinalizer,
        _ if suspended => NextStep::Suspended,
        (true, true) if clean_up.calls_plugin() && held.first => NextStep::Call(Phase::Finalize),
        (true, true) if clean_up.is_in_order() => NextStep::DeleteInOrder,
        (true, true) => NextStep::RemoveFinalizer,
        (false, true) if clean_up == CleanUp::None => NextStep::RemoveFinalizer,
        (false, _) if clean_up.is_held(held) => NextStep::Call(Phase::Sync),
        (false, _) => NextStep::AddFinalizer,
    }
}

/// Returns true if children may be created or changed while the parent is being deleted: not in a foreground deletion,
/// where the API server waits for the children to disappear.
pub fn may_write_children(parent: &Object) -> bool {
    !(parent.deleting && parent.finalizers.iter().any(|name| **name == *FOREGROUND))
}

/// Returns true if the user orphans the children of the deleted parent: then none may be deleted because of it (rule
/// R15).
pub fn keeps_children(parent: &Object) -> bool {
    parent.deleting && parent.finalizers.iter().any(|name| **name == *ORPHAN)
}

/// Returns true if the API server refused a child because the parent's own namespace is being deleted. Only a
/// namespaced parent counts. A cluster-scoped parent does not block the deletion of the namespace, and may have
/// children elsewhere that the plugin must clean up.
pub fn is_in_terminating_namespace(parent: &Object, problems: &[(ChildId, WriteProblem)]) -> bool {
    parent.key.namespace.is_some()
        && problems.iter().any(|(child, problem)| {
            matches!(problem, WriteProblem::NamespaceTerminating) && child.key.namespace == parent.key.namespace
        })
}

/// What happens to the plugin's finalizers of a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalizerChange {
    /// It has those that this needs.
    Set(CleanUp),
    /// The plugin has cleaned up: the one for the order in which the children are deleted stays, if it has that.
    CleanedUp,
    /// All are removed.
    Remove,
}

/// The finalizers that a parent should have: all others, and the plugin's.
pub fn finalizers_with(parent: &Object, plugin: &PluginName, change: FinalizerChange) -> Vec<String> {
    let others = parent.finalizers.iter().filter(|name| !is_finalizer_of(plugin, name)).map(ToString::to_string);
    let (first, ordered) = match change {
        FinalizerChange::Set(clean_up) => (clean_up != CleanUp::None, clean_up == CleanUp::ByPluginThenInOrder),
        FinalizerChange::CleanedUp => (false, Held::by(parent, plugin).ordered),
        FinalizerChange::Remove => (false, false),
    };
    let first = first.then(|| finalizer_of(plugin));
    let ordered = ordered.then(|| format!("{}{ORDERED}", finalizer_of(plugin)));
    others.chain(first).chain(ordered).collect()
}

/// Returns true if a parent has a finalizer of the plugin.
pub fn has_finalizer(parent: &Object, plugin: &PluginName) -> bool {
    Held::by(parent, plugin).is_any()
}

/// Returns true if the children of a parent are still to be deleted by stage once its plugin has cleaned up.
pub fn is_ordered_after(parent: &Object, plugin: &PluginName, clean_up: CleanUp) -> bool {
    clean_up == CleanUp::ByPluginThenInOrder && Held::by(parent, plugin).ordered
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::object;
    use crate::value::ids::{Gvk, ObjectKey};

    const OURS: &str = "windlass.dev/echo";

    fn parent(meta: &Value) -> Arc<Object> {
        let mut all = json!({"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1"});
        for (key, value) in meta.as_object().expect("an object") {
            all[key] = value.clone();
        }
        object(&json!({"apiVersion": "my-operator.dev/v1", "kind": "Echo", "metadata": all}))
    }

    fn by_plugin(finalizes: bool) -> CleanUp {
        if finalizes { CleanUp::ByPlugin } else { CleanUp::None }
    }

    fn echo() -> PluginName {
        "echo".parse().expect("a name")
    }

    fn decide(parent: &Object, finalizes: bool, suspended: bool) -> NextStep {
        next_step(parent, &echo(), Circumstances { clean_up: by_plugin(finalizes), suspended, selected: true })
    }

    fn deleted(finalizers: &[&str], annotations: &Value) -> Arc<Object> {
        let time = "2026-01-01T00:00:00Z";
        parent(&json!({"deletionTimestamp": time, "finalizers": finalizers, "annotations": annotations}))
    }

    #[test]
    fn r14_finalizer_is_added_before_the_first_child_and_only_for_plugins_that_finalize() {
        let (plain, with_finalizer) = (parent(&json!({})), parent(&json!({"finalizers": [OURS]})));
        assert_eq!(decide(&plain, true, false), NextStep::AddFinalizer);
        assert_eq!(decide(&plain, false, false), NextStep::Call(Phase::Sync));
        assert_eq!(decide(&with_finalizer, true, false), NextStep::Call(Phase::Sync));
        assert_eq!(
            decide(&with_finalizer, false, false),
            NextStep::RemoveFinalizer,
            "the component no longer finalizes"
        );
        let other = parent(&json!({"finalizers": ["windlass.dev/echo-2"]}));
        assert_eq!(
            decide(&other, true, false),
            NextStep::AddFinalizer,
            "the finalizer of another plugin does not count"
        );
    }

    #[test]
    fn r14_deleted_parent_is_finalized_unless_the_skip_annotation_is_set() {
        let none = json!({});
        assert_eq!(decide(&deleted(&[OURS], &none), true, false), NextStep::Call(Phase::Finalize));
        assert_eq!(decide(&deleted(&[OURS], &none), false, false), NextStep::RemoveFinalizer);
        let skip = json!({"windlass.dev/skip-finalize": "true"});
        assert_eq!(decide(&deleted(&[OURS], &skip), true, false), NextStep::RemoveFinalizer);
        assert_eq!(
            decide(&deleted(&[OURS], &skip), true, true),
            NextStep::RemoveFinalizer,
            "suspension does not matter"
        );
        let early = parent(&json!({"finalizers": [OURS], "annotations": skip}));
        assert_eq!(
            decide(&early, true, false),
            NextStep::Call(Phase::Sync),
            "the annotation has no effect before the deletion"
        );
    }

    #[test]
    fn r15_deleted_parent_without_the_plugins_finalizer_is_left_alone() {
        for finalizes in [true, false] {
            assert_eq!(decide(&deleted(&["a/b"], &json!({})), finalizes, false), NextStep::Leave);
        }
    }

    #[test]
    fn r14_a_parent_that_has_left_the_selector_is_finalized_like_a_deleted_one() {
        let decide = |meta: &Value, finalizes, suspended| {
            next_step(
                &parent(meta),
                &echo(),
                Circumstances { clean_up: by_plugin(finalizes), suspended, selected: false },
            )
        };
        let with_finalizer = json!({"finalizers": [OURS]});
        assert_eq!(decide(&with_finalizer, true, false), NextStep::Call(Phase::Finalize));
        assert_eq!(decide(&with_finalizer, false, false), NextStep::RemoveFinalizer);
        assert_eq!(decide(&with_finalizer, true, true), NextStep::Suspended);
        let skip = json!({"finalizers": [OURS], "annotations": {"windlass.dev/skip-finalize": "true"}});
        assert_eq!(decide(&skip, true, false), NextStep::RemoveFinalizer);
        for finalizes in [true, false] {
            let plain = json!({});
            assert_eq!(
                decide(&plain, finalizes, false),
                NextStep::DeleteChildren,
                "a parent outside the selector gets no finalizer and no children"
            );
            assert_eq!(decide(&plain, finalizes, true), NextStep::Leave, "a suspended plugin deletes no children");
        }
    }

    #[test]
    fn r23_parent_whose_children_are_deleted_by_stage_has_a_finalizer() {
        let decide = |parent: &Object, selected, suspended| {
            [CleanUp::InOrder, CleanUp::ByPlugin].map(|clean_up| {
                let circumstances = Circumstances { clean_up, suspended, selected };
                next_step(parent, &echo(), circumstances)
            })
        };
        let with_finalizer = parent(&json!({"finalizers": [OURS]}));
        assert_eq!(decide(&parent(&json!({})), true, false), [NextStep::AddFinalizer; 2]);
        assert_eq!(decide(&with_finalizer, true, false), [NextStep::Call(Phase::Sync); 2]);
        let leaves = [NextStep::DeleteInOrder, NextStep::Call(Phase::Finalize)];
        assert_eq!(decide(&deleted(&[OURS], &json!({})), true, false), leaves);
        assert_eq!(decide(&with_finalizer, false, false), leaves);
        assert_eq!(decide(&deleted(&[OURS], &json!({})), true, true), [NextStep::Suspended; 2]);
        let skip = json!({"windlass.dev/skip-finalize": "true"});
        assert_eq!(decide(&deleted(&[OURS], &skip), true, false), [NextStep::RemoveFinalizer; 2]);
    }

    #[test]
    fn r23_plugin_cleans_up_before_its_children_are_deleted_by_stage_and_is_not_called_again() {
        const ORDERED: &str = "windlass.dev/echo.ordered";
        let decide = |parent: &Object, clean_up| {
            next_step(parent, &echo(), Circumstances { clean_up, suspended: false, selected: true })
        };
        let both = CleanUp::ByPluginThenInOrder;
        for held in [&[][..], &[OURS], &[ORDERED]] {
            let parent = parent(&json!({"finalizers": held}));
            assert_eq!(decide(&parent, both), NextStep::AddFinalizer, "{held:?}");
            assert_eq!(finalizers_with(&parent, &echo(), FinalizerChange::Set(both)), [OURS, ORDERED]);
        }
        assert_eq!(decide(&parent(&json!({"finalizers": [OURS, ORDERED]})), both), NextStep::Call(Phase::Sync));
        let none = json!({});
        let leaving = deleted(&[ORDERED, "a/b", OURS], &none);
        assert_eq!(decide(&leaving, both), NextStep::Call(Phase::Finalize));
        assert_eq!(finalizers_with(&leaving, &echo(), FinalizerChange::CleanedUp), ["a/b", ORDERED]);
        let cleaned_up = deleted(&["a/b", ORDERED], &none);
        assert_eq!(decide(&cleaned_up, both), NextStep::DeleteInOrder);
        assert_eq!(finalizers_with(&cleaned_up, &echo(), FinalizerChange::Remove), ["a/b"]);
        for without_order in [CleanUp::ByPlugin, CleanUp::None] {
            assert_eq!(decide(&cleaned_up, without_order), NextStep::RemoveFinalizer, "{without_order:?}");
        }
        // Its children do not go by stage, because a parent that is being deleted gets no finalizer, but the plugin cleans up.
        assert_eq!(decide(&deleted(&[OURS], &none), both), NextStep::Call(Phase::Finalize));
        assert!(!has_finalizer(&deleted(&["windlass.dev/echo.other"], &none), &echo()));
    }

    #[test]
    fn r14_no_child_is_written_during_a_foreground_deletion() {
        assert!(!may_write_children(&deleted(&[OURS, "foregroundDeletion"], &json!({}))));
        assert!(may_write_children(&deleted(&[OURS], &json!({}))));
    }

    #[test]
    fn r15_orphaning_deletion_is_finalized_and_keeps_the_children() {
        let orphaning = deleted(&[OURS, "orphan"], &json!({}));
        assert_eq!(decide(&orphaning, true, false), NextStep::Call(Phase::Finalize));
        assert!(keeps_children(&orphaning) && may_write_children(&orphaning));
        assert!(!keeps_children(&deleted(&[OURS, "foregroundDeletion"], &json!({}))));
        assert!(!keeps_children(&parent(&json!({"finalizers": ["orphan"]}))), "the parent is not being deleted");
    }

    #[test]
    fn r16_suspended_parent_is_left_unchanged() {
        let suspended = json!({"windlass.dev/suspend": "true"});
        assert_eq!(decide(&parent(&json!({"annotations": suspended})), true, false), NextStep::Suspended);
        assert_eq!(decide(&parent(&json!({})), false, true), NextStep::Suspended);
        assert_eq!(decide(&deleted(&[OURS], &suspended), true, false), NextStep::Suspended);
        let other = json!({"windlass.dev/suspend": "false"});
        assert_eq!(decide(&parent(&json!({"annotations": other})), false, false), NextStep::Call(Phase::Sync));
    }

    #[test]
    fn r14_other_finalizers_keep_their_order() {
        let parent = parent(&json!({"finalizers": ["a/b", OURS, "c/d"]}));
        assert_eq!(finalizers_with(&parent, &echo(), FinalizerChange::Remove), ["a/b", "c/d"]);
        assert_eq!(finalizers_with(&parent, &echo(), FinalizerChange::Set(CleanUp::ByPlugin)), ["a/b", "c/d", OURS]);
    }

    #[test]
    fn r14_only_the_parents_own_namespace_counts_as_terminating() {
        let kind = Arc::new(Gvk::from_api_version("batch/v1", "Job"));
        let of = |namespace: &str| ChildId { kind: kind.clone(), key: ObjectKey::new(Some(namespace), "clean") };
        let refused = |namespace: &str| [(of(namespace), WriteProblem::NamespaceTerminating)];
        let (namespaced, cluster_scoped) = (parent(&json!({})), parent(&json!({"namespace": null})));
        assert!(is_in_terminating_namespace(&namespaced, &refused("n")));
        assert!(!is_in_terminating_namespace(&namespaced, &refused("m")));
        assert!(!is_in_terminating_namespace(&cluster_scoped, &refused("n")));
        assert!(!is_in_terminating_namespace(&namespaced, &[(of("n"), WriteProblem::Outdated)]));
    }
}
