//! The mark by which the host recognizes children of cluster-scoped parents as its own.
//!
//! The children of a namespaced parent live in its namespace, and only users with permissions in that namespace can
//! write them. A cluster-scoped parent has children in namespaces of other users, who may copy labels, annotations and
//! ownerReferences to their own objects. They cannot forge the mark: an HMAC (RFC 2104), with a key that only the hosts
//! of this cluster have, over the plugin, the parent, and the object's kind, namespace and name, so that a copied mark
//! is invalid.

use std::sync::Arc;

use crate::object::names::ANNOTATION_MARK;
use crate::object::{Object, OwnerKey};
use crate::value::digest;
use crate::value::ids::{GroupKind, ObjectKey};

/// Prefix of a mark; identifies its version.
const VERSION: &str = "1:";

/// The key for marks. Only the hosts of a cluster share it, so `Debug` hides it.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("MarkKey(..)")]
pub struct MarkKey(Arc<[u8; MarkKey::LENGTH]>);

impl MarkKey {
    /// Length of a key, in bytes.
    pub const LENGTH: usize = 32;

    /// Creates a key from bytes, which must be random.
    pub fn new(bytes: [u8; Self::LENGTH]) -> Self {
        Self(Arc::new(bytes))
    }

    /// The mark of a child with this plugin, parent, kind, namespace and name.
    pub fn mark(&self, plugin: &str, owner: &OwnerKey, kind: &GroupKind, key: &ObjectKey) -> String {
        let (ownership, owner) = match owner {
            OwnerKey::Uid(uid) => ("owned", uid.to_string()),
            OwnerKey::Retained(parent) => ("retained", parent.to_string()),
        };
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let parts = ["windlass.dev/mark", plugin, ownership, &owner, &kind.group, &kind.kind, namespace, &key.name];
        // If there were no result, `is_of` would reject the empty mark.
        let mac = digest::mac(&*self.0, &parts.map(str::as_bytes));
        mac.map(|mac| format!("{VERSION}{}", mac.hex())).unwrap_or_default()
    }

    /// Returns true if an object has a valid mark for the plugin and parent in its labels and annotations. The result
    /// is cached: objects are immutable, and a process has one key.
    pub fn holds(&self, object: &Object) -> bool {
        object.checked.or_check(|| match (object.plugin(), object.owner_key()) {
            (Some(plugin), Some(owner)) => self.is_of(object, plugin, &owner),
            _ => false,
        })
    }

    /// Returns true if an object has a valid mark for this plugin and parent, regardless of its labels.
    pub fn is_of(&self, object: &Object, plugin: &str, owner: &OwnerKey) -> bool {
        let wanted = || self.mark(plugin, owner, &object.kind.group_kind(), &object.key);
        // Not a constant-time comparison: an attacker could guess marks only for objects that they can write, and the
        // API server responds in milliseconds.
        object.marks.get(ANNOTATION_MARK).is_some_and(|mark| is_valid(mark, &wanted()))
    }
}

/// Returns true if an object's mark is the expected one. An empty mark is never valid.
fn is_valid(mark: &str, expected: &str) -> bool {
    !mark.is_empty() && mark == expected
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::object;
    use crate::value::ids::{Gvk, Uid};

    fn key() -> MarkKey {
        MarkKey::new([7; MarkKey::LENGTH])
    }

    /// A ConfigMap with these labels and annotations.
    fn child(labels: &Value, annotations: &Value, namespace: &str, name: &str) -> Object {
        let object = object(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": name, "namespace": namespace, "uid": "u", "resourceVersion": "7",
                "labels": labels, "annotations": annotations,
            },
        }));
        Object::clone(&object)
    }

    fn owned_by(uid: &str) -> Value {
        json!({"windlass.dev/plugin": "guard", "windlass.dev/parent-uid": uid})
    }

    fn mark(owner: &OwnerKey) -> String {
        let kind = Gvk::from_api_version("v1", "ConfigMap").group_kind();
        key().mark("guard", owner, &kind, &ObjectKey::new(Some("team-a"), "limits"))
    }

    #[test]
    fn s02_mark_is_valid_only_for_the_object_that_it_was_made_for() {
        let mark = mark(&OwnerKey::Uid(Uid::from("p")));
        let marked = json!({"windlass.dev/mark": mark});
        assert!(key().holds(&child(&owned_by("p"), &marked, "team-a", "limits")));
        let other_plugin = json!({"windlass.dev/plugin": "other", "windlass.dev/parent-uid": "p"});
        let as_retained = json!({"windlass.dev/mark": mark, "windlass.dev/retained-for": "p"});
        for (copy, difference) in [
            (child(&owned_by("p"), &marked, "team-b", "limits"), "another namespace"),
            (child(&owned_by("p"), &marked, "team-a", "others"), "another name"),
            (child(&owned_by("q"), &marked, "team-a", "limits"), "another parent"),
            (child(&other_plugin, &marked, "team-a", "limits"), "another plugin"),
            (child(&json!({}), &marked, "team-a", "limits"), "no labels"),
            (child(&owned_by("p"), &as_retained, "team-a", "limits"), "retained instead of owned"),
            (child(&owned_by("p"), &json!({}), "team-a", "limits"), "no mark"),
            (child(&owned_by("p"), &json!({"windlass.dev/mark": ""}), "team-a", "limits"), "an empty mark"),
        ] {
            assert!(!key().holds(&copy), "{difference}");
        }
        let mut secret = child(&owned_by("p"), &marked, "team-a", "limits");
        secret.kind = Arc::new(Gvk::from_api_version("v1", "Secret"));
        assert!(!key().holds(&secret), "another kind");
        let another_clusters_key = MarkKey::new([8; MarkKey::LENGTH]);
        assert!(!another_clusters_key.holds(&child(&owned_by("p"), &marked, "team-a", "limits")), "another key");
    }

    #[test]
    fn s02_mark_of_a_retained_child_depends_on_the_parents_name_and_not_on_its_uid() {
        let parent = "guard/Namespace./team-a";
        let mark = mark(&OwnerKey::Retained(parent.into()));
        let with = |parent: &str| {
            let annotations = json!({"windlass.dev/mark": mark, "windlass.dev/retained-for": parent});
            child(&owned_by("gone"), &annotations, "team-a", "limits")
        };
        assert!(key().holds(&with(parent)), "the uid of the parent does not matter");
        assert!(!key().holds(&with("guard/Namespace./team-b")));
    }

    #[test]
    fn s02_empty_mark_is_invalid_even_if_no_mark_could_be_computed() {
        assert!(is_valid("1:ab", "1:ab") && !is_valid("1:ab", "1:cd"));
        assert!(!is_valid("", "1:ab") && !is_valid("", ""));
    }

    #[test]
    fn debug_output_hides_the_mark_key() {
        assert_eq!(format!("{:?}", key()), "MarkKey(..)");
    }
}
