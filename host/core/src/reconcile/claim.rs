//! When a create fails because the name exists, determines the relation of the existing object to the parent (rules R3
//! and R5).
//!
//! The cache did not show the object, so the plugin decided without it, and none of its content may be written. For
//! example, a password that the plugin generated because it saw none must never replace an existing one. At most the
//! marks are written; then the cache shows the object, and the next reconcile takes its content into account.

use crate::contract::desired::DesiredChild;
use crate::contract::reserved::TOKEN_SECRET;
use crate::contract::snapshot::Snapshot;
use crate::object::mark::MarkKey;
use crate::object::names;
use crate::object::parent::ParentRef;
use crate::object::{Object, OwnerKey};
use crate::value::json::{self, Map, Value};

/// The relation of an object that no cache shows to the parent that desires its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The object is marked as a child of this parent, or of an earlier parent of the same name: the cache is behind.
    Unseen,
    /// The object is a child that lost marks: the host restores them.
    Restore,
    /// The object has no controller, and the Plugin adopts: the host adds the marks and the ownerReference.
    Adopt,
    /// The object was a child, and the deletion of its parent released it (`--cascade=orphan`): the host leaves it as
    /// it is.
    Orphaned,
    /// The object does not belong to this parent.
    Foreign,
}

/// Determines the relation of the object with a desired child's name to the parent. `adopts` is the Plugin's
/// `spec.adopt`; `inherits` returns whether the named plugin's children belong to this plugin by now.
pub fn claim(found: &Object, snapshot: &Snapshot, adopts: bool, inherits: impl Fn(&str) -> bool) -> Claim {
    let Snapshot { parent_ref, parent, .. } = snapshot;
    // The watches select by this label, so an object without it is not in the caches.
    let is_watched = found.plugin().is_some();
    if is_watched && (found.is_child_of(parent_ref, &inherits) || found.is_left_by_predecessor_of(parent_ref)) {
        return Claim::Unseen;
    }
    if found.plugin().is_some_and(|label| label != parent_ref.plugin.as_str() && !inherits(label)) {
        return Claim::Foreign;
    }
    if !is_marked_for(found, parent_ref) {
        return match &found.controller {
            _ if !adopts || found.deleting || parent.deleting => Claim::Foreign,
            Some(controller) if *controller == parent.uid => Claim::Restore,
            None => Claim::Adopt,
            Some(_) => Claim::Foreign,
        };
    }
    match &found.controller {
        Some(controller) if *controller == parent.uid => Claim::Restore,
        None if found.is_retained_for(parent_ref) => Claim::Restore,
        None if parent.deleting && found.labelled.as_ref() == Some(&parent.uid) => Claim::Orphaned,
        // If the parent is being deleted, the garbage collector would delete an adopted object with it.
        None if adopts && !found.deleting && !parent.deleting => Claim::Adopt,
        Some(_) | None => Claim::Foreign,
    }
}

/// Names the owner of an object that is not this parent's child, for messages: its controller, and the Plugin whose label it has. None if
/// it has no controller.
pub fn owner_of(found: &Object) -> Option<String> {
    let (kind, name) = found.controller_kind_and_name()?;
    let plugin = found.plugin().map(|plugin| format!(" of Plugin {plugin}")).unwrap_or_default();
    Some(format!("{} {name}{plugin}", kind.kind))
}

/// Returns true if an object may be adopted for a desired child. A child is shown to the plugin, and a plugin may see a
/// ServiceAccount's token only if it may have such children. False for a Secret whose type is unknown, because only its metadata was read.
pub fn may_be_adopted(found: &Object, child: &DesiredChild) -> bool {
    let is_token = |secret_type: Option<&str>| secret_type == Some(TOKEN_SECRET);
    !found.kind.is("v1", "Secret")
        || is_token(child.body.get("type").and_then(Value::as_str))
        || found.field("type").is_some_and(|found| found.as_str().is_some() && !is_token(found.as_str()))
}

/// Returns true if an object has the mark of a child of this parent, or if children of this parent have no marks. A
/// user who may write an object can forge its labels and ownerReferences, but not its mark.
fn is_marked_for(found: &Object, parent: &ParentRef) -> bool {
    let owners = || [OwnerKey::Uid(parent.uid.clone()), parent.retained_key()];
    let is_of = |key: &MarkKey| owners().iter().any(|owner| key.is_of(found, parent.plugin.as_str(), owner));
    parent.mark_key.as_ref().is_none_or(is_of)
}

/// Builds the metadata that makes an existing object a child, without any other content: the host's labels and
/// annotations and, for an adopted object, the ownerReference in addition to the existing ones. UID and resourceVersion
/// restrict the write to the version that was examined.
///
/// A child that only lost marks gets back those of what it is: retained or owned, whether or not the plugin desires that by now. With
/// other marks it would be no child any more, and the next reconcile would not see it.
pub fn marks(found: &Object, child: &DesiredChild, parent: &ParentRef, adopted: bool) -> Map {
    let is_retained = if adopted { child.owner.is_none() } else { found.controller.is_none() };
    let labels = Map::from(parent.child_labels().map(|(label, value)| (label, Value::from(value))));
    let mut annotations = Map::default();
    if let Some(mark) = parent.mark(&found.kind.group_kind(), &found.key, is_retained) {
        annotations.insert(names::ANNOTATION_MARK, mark);
    }
    if is_retained {
        annotations.insert(names::ANNOTATION_RETAINED_FOR, parent.retained_for());
    } else if found.marks.get(names::ANNOTATION_RETAINED_FOR).is_some() {
        annotations.insert(names::ANNOTATION_RETAINED_FOR, Value::Null);
    }
    let mut meta = Map::from([
        ("uid", Value::from(found.uid.to_string())),
        ("resourceVersion", Value::from(found.resource_version.to_string())),
        ("labels", labels.into()),
        ("annotations", annotations.into()),
    ]);
    let reference = child.body.get("metadata").and_then(|meta| meta.at(&["ownerReferences"])?.as_array());
    if adopted && let Some(reference) = reference {
        let found = json::parse(&found.json.bytes(), json::OBJECT_DEPTH).ok();
        let others = found.as_ref().and_then(|found| found.at(&["metadata", "ownerReferences"])?.as_array());
        meta.insert("ownerReferences", [others.unwrap_or_default(), reference].concat());
    }
    Map::from([("metadata", meta.into())])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{PARENT_UID, created, object, pod, snapshot, validate};

    /// A child as the host's POST left it, with a change.
    fn found(change: impl Fn(&mut serde_json::Value)) -> serde_json::Value {
        let desired = validate(&[pod("a")]).expect("valid");
        let mut found = created(&desired.children[0]);
        change(&mut found["metadata"]);
        found
    }

    fn judged(found: &serde_json::Value, adopts: bool) -> Claim {
        claim(&object(found), &snapshot(&[]), adopts, |_| false)
    }

    const RETAINED: &str = "echo/Echo.my-operator.dev/default/hello";

    #[test]
    fn r05_owner_of_an_object_is_named_by_its_controller_and_plugin() {
        let of = |change: &dyn Fn(&mut serde_json::Value)| owner_of(&object(&found(change)));
        assert_eq!(of(&|_| {}).as_deref(), Some("Echo hello of Plugin echo"));
        assert_eq!(of(&|meta| meta["labels"] = json!({})).as_deref(), Some("Echo hello"));
        assert_eq!(of(&|meta| meta["ownerReferences"] = json!([])), None, "a parent has released it");
    }

    #[test]
    fn r03_unknown_object_with_all_marks_of_a_child_proves_that_the_cache_is_behind() {
        for adopts in [false, true] {
            assert_eq!(judged(&found(|_| {}), adopts), Claim::Unseen);
            let terminating = found(|meta| meta["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
            assert_eq!(judged(&terminating, adopts), Claim::Unseen);
            let retained = found(|meta| {
                meta["ownerReferences"] = json!([]);
                meta["annotations"]["windlass.dev/retained-for"] = json!(RETAINED);
            });
            assert_eq!(judged(&retained, adopts), Claim::Unseen, "a retained child is not a conflict");
            let predecessors = found(|meta| {
                meta["ownerReferences"][0]["uid"] = json!("earlier");
                meta["labels"]["windlass.dev/parent-uid"] = json!("earlier");
            });
            assert_eq!(judged(&predecessors, adopts), Claim::Unseen, "the garbage collector is about to delete it");
        }
    }

    #[test]
    fn r05_child_that_lost_marks_gets_them_back_whether_the_plugin_adopts_or_not() {
        for adopts in [false, true] {
            assert_eq!(judged(&found(|meta| meta["labels"] = json!({})), adopts), Claim::Restore);
            let half = found(|meta| meta["labels"] = json!({"windlass.dev/plugin": "echo"}));
            assert_eq!(judged(&half, adopts), Claim::Restore);
            let other_half = found(|meta| meta["labels"] = json!({"windlass.dev/parent-uid": PARENT_UID}));
            assert_eq!(judged(&other_half, adopts), Claim::Restore);
            let retained = found(|meta| {
                *meta = json!({"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7",
                    "annotations": {"windlass.dev/retained-for": RETAINED}});
            });
            assert_eq!(judged(&retained, adopts), Claim::Restore);
        }
    }

    #[test]
    fn r05_object_without_controller_is_adopted_only_if_the_plugin_adopts_and_other_objects_never() {
        let controlled = found(|meta| meta["ownerReferences"][0]["uid"] = json!("another-parent"));
        let another_plugins = found(|meta| meta["labels"]["windlass.dev/plugin"] = json!("another"));
        for adopts in [false, true] {
            assert_eq!(judged(&another_plugins, adopts), Claim::Foreign);
        }
        let mut another_parents = controlled;
        another_parents["metadata"]["ownerReferences"][0]["name"] = json!("another");
        assert_eq!(judged(&another_parents, true), Claim::Foreign);
        let uncontrolled = found(|meta| {
            *meta = json!({"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"});
        });
        assert_eq!((judged(&uncontrolled, false), judged(&uncontrolled, true)), (Claim::Foreign, Claim::Adopt));
        let mut terminating = uncontrolled;
        terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(judged(&terminating, true), Claim::Foreign);
    }

    /// Like [`judged`], for a cluster-scoped parent, whose children have marks.
    fn judged_by_mark(found: &serde_json::Value, adopts: bool) -> Claim {
        let mut snapshot = snapshot(&[]);
        snapshot.parent_ref.key.namespace = None;
        snapshot.parent_ref.mark_key = Some(MarkKey::new([7; MarkKey::LENGTH]));
        claim(&object(found), &snapshot, adopts, |_| false)
    }

    #[test]
    fn s02_object_without_mark_is_no_child_of_a_cluster_scoped_parent_unless_the_plugin_adopts() {
        let forged = found(|_| {});
        assert_eq!((judged_by_mark(&forged, false), judged_by_mark(&forged, true)), (Claim::Foreign, Claim::Restore));
        let retained = found(|meta| {
            meta["ownerReferences"] = json!([]);
            meta["annotations"]["windlass.dev/retained-for"] = json!("echo/Echo.my-operator.dev/hello");
        });
        assert_eq!((judged_by_mark(&retained, false), judged_by_mark(&retained, true)), (Claim::Foreign, Claim::Adopt));
        let another_parents = found(|meta| {
            meta["ownerReferences"][0]["uid"] = json!("another-parent");
            meta["ownerReferences"][0]["name"] = json!("another");
        });
        assert_eq!(judged_by_mark(&another_parents, true), Claim::Foreign);

        let kind = crate::value::ids::Gvk::from_api_version("v1", "Pod").group_kind();
        let key = crate::value::ids::ObjectKey::new(Some("default"), "a");
        let owner = OwnerKey::Uid(crate::value::ids::Uid::from(PARENT_UID));
        let mark = MarkKey::new([7; MarkKey::LENGTH]).mark("echo", &owner, &kind, &key);
        let own = found(|meta| meta["annotations"]["windlass.dev/mark"] = json!(mark));
        assert_eq!(judged_by_mark(&own, false), Claim::Unseen);
        let stripped = found(|meta| {
            meta["labels"] = json!({});
            meta["annotations"]["windlass.dev/mark"] = json!(mark);
        });
        assert_eq!(judged_by_mark(&stripped, false), Claim::Restore, "its labels are restored");
    }

    #[test]
    fn s01_service_account_token_is_adopted_only_if_the_plugin_may_own_token_secrets() {
        let secret = |secret_type: &str| {
            object(&json!({"apiVersion": "v1", "kind": "Secret", "type": secret_type,
                "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"}}))
        };
        let mut child = DesiredChild::clone(&validate(&[pod("a")]).expect("valid").children[0]);
        assert!(may_be_adopted(&secret("Opaque"), &child));
        assert!(!may_be_adopted(&secret(TOKEN_SECRET), &child));
        let metadata_alone = object(&json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"}}));
        assert!(!may_be_adopted(&metadata_alone, &child), "it may be the Secret of a token");
        // The child passed validation, so token Secrets are granted.
        child.body.insert("type", TOKEN_SECRET);
        assert!(may_be_adopted(&secret(TOKEN_SECRET), &child));
    }

    #[test]
    fn r15_child_orphaned_by_the_deletion_of_its_parent_is_not_adopted_again() {
        let orphan = found(|meta| meta["ownerReferences"] = json!([]));
        assert_eq!((judged(&orphan, false), judged(&orphan, true)), (Claim::Foreign, Claim::Adopt));
        let mut snapshot = snapshot(&[]);
        snapshot.parent = std::sync::Arc::new(Object { deleting: true, ..Object::clone(&snapshot.parent) });
        for adopts in [false, true] {
            assert_eq!(claim(&object(&orphan), &snapshot, adopts, |_| false), Claim::Orphaned);
            let uncontrolled = found(|meta| {
                *meta = json!({"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"});
            });
            assert_eq!(claim(&object(&uncontrolled), &snapshot, adopts, |_| false), Claim::Foreign);
        }
    }

    #[test]
    fn r03_only_marks_are_written_to_an_object_that_the_cache_does_not_show() {
        let child = validate(&[pod("a")]).expect("valid").children[0].clone();
        let uncontrolled = object(&found(|meta| {
            *meta = json!({"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7",
                "ownerReferences": [{"uid": "another", "kind": "ConfigMap", "name": "c", "apiVersion": "v1"}]});
        }));
        let text = Value::Object(marks(&uncontrolled, &child, &snapshot(&[]).parent_ref, true)).to_string();
        let adopted: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let meta = |field: &str| &adopted["metadata"][field];
        assert_eq!((meta("uid"), meta("resourceVersion")), (&json!("u"), &json!("7")));
        let labels = json!({"windlass.dev/plugin": "echo", "windlass.dev/parent-uid": PARENT_UID});
        assert_eq!((meta("labels"), meta("annotations")), (&labels, &json!({})), "nothing was applied yet");
        let owners = adopted["metadata"]["ownerReferences"].as_array().expect("a list");
        let uids: Vec<_> = owners.iter().map(|owner| owner["uid"].as_str().unwrap_or_default()).collect();
        assert_eq!(uids, ["another", PARENT_UID], "existing owners stay");
        assert!(adopted["spec"].is_null());
    }

    #[test]
    fn r05_restored_child_is_seen_as_a_child_whether_or_not_it_is_desired_as_retained() {
        for (is_retained, is_cluster_scoped, annotations) in [
            (false, false, json!({})),
            (false, false, json!({"windlass.dev/retain": "true"})),
            (true, false, json!({})),
            (true, false, json!({"windlass.dev/retain": "true"})),
            (false, true, json!({})),
            (false, true, json!({"windlass.dev/retain": "true"})),
            (true, true, json!({})),
            (true, true, json!({"windlass.dev/retain": "true"})),
        ] {
            let mut parent = snapshot(&[]).parent_ref;
            if is_cluster_scoped {
                parent.key.namespace = None;
                parent.mark_key = Some(MarkKey::new([7; MarkKey::LENGTH]));
            }
            let mut desired = pod("a");
            desired["metadata"]["annotations"] = annotations;
            let child = validate(&[desired]).expect("valid").children[0].clone();
            let mut restored = found(|meta| {
                meta["labels"] = json!({});
                meta["annotations"] = json!({});
                if is_retained {
                    meta["ownerReferences"] = json!([]);
                    meta["annotations"]["windlass.dev/retained-for"] = json!(parent.retained_for());
                }
            });
            let text = Value::Object(marks(&object(&restored), &child, &parent, false)).to_string();
            let written: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            for field in ["labels", "annotations"] {
                let present = restored["metadata"][field].as_object_mut().expect("an object");
                present.extend(written["metadata"][field].as_object().expect("an object").clone());
                present.retain(|_, value| !value.is_null());
            }
            let seen = object(&restored);
            assert!(seen.is_child_of(&parent, |_| false), "{restored}");
            assert_eq!(seen.is_retained_for(&parent), is_retained);
        }
    }

    #[test]
    fn s02_forged_retained_mark_is_removed_when_a_child_is_restored() {
        let child = validate(&[pod("a")]).expect("valid").children[0].clone();
        let forged = object(&found(|meta| meta["annotations"]["windlass.dev/retained-for"] = json!("x")));
        let text = Value::Object(marks(&forged, &child, &snapshot(&[]).parent_ref, false)).to_string();
        let written: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(written["metadata"]["annotations"], json!({"windlass.dev/retained-for": null}));
    }
}
