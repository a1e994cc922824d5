//! The identity of a parent, as its children refer to it.

use std::sync::Arc;

use crate::object::mark::MarkKey;
use crate::object::names;
use crate::object::{Object, OwnerKey};
use crate::value::ids::{GroupKind, Gvk, ObjectKey, PluginName, Uid};
use crate::value::json::{Map, Value};

/// The properties of a parent that children and conditions refer to.
#[derive(Debug, Clone, derive_more::Display)]
#[display("{} {key}", kind.kind)]
pub struct ParentRef {
    /// The plugin that reconciles the parent.
    pub plugin: PluginName,
    /// The parent's kind, in the version that the plugin receives.
    pub kind: Arc<Gvk>,
    /// The parent's namespace and name.
    pub key: ObjectKey,
    /// The parent's UID.
    pub uid: Uid,
    /// The key for the marks of the parent's children; set only for a cluster-scoped parent, and only if the host runs
    /// in a cluster.
    pub mark_key: Option<MarkKey>,
}

impl ParentRef {
    /// Creates the reference of a parent. `mark_key` is the host's key; children of namespaced parents need no mark.
    pub fn of(plugin: &PluginName, parent: &Object, mark_key: Option<&MarkKey>) -> Self {
        Self {
            plugin: plugin.clone(),
            kind: parent.kind.clone(),
            key: parent.key.clone(),
            uid: parent.uid.clone(),
            mark_key: mark_key.filter(|_| parent.key.namespace.is_none()).cloned(),
        }
    }

    /// The mark of a child; `None` if children of this parent have no marks. `retained` is true if the child outlives
    /// the parent.
    pub fn mark(&self, kind: &GroupKind, key: &ObjectKey, retained: bool) -> Option<String> {
        let owner = || if retained { self.retained_key() } else { OwnerKey::Uid(self.uid.clone()) };
        self.mark_key.as_ref().map(|mark_key| mark_key.mark(self.plugin.as_str(), &owner(), kind, key))
    }

    /// The controller ownerReference of every owned child (rule R4).
    pub fn owner_reference(&self) -> Map {
        Map::from([
            ("apiVersion", self.kind.api_version().into()),
            ("blockOwnerDeletion", true.into()),
            ("controller", true.into()),
            ("kind", Value::from(&*self.kind.kind)),
            ("name", Value::from(&*self.key.name)),
            ("uid", self.uid.to_string().into()),
        ])
    }

    /// The value of the annotation by which a retained child names its parent: plugin, kind, namespace and name of the
    /// parent that may re-adopt it.
    pub fn retained_for(&self) -> String {
        let group_kind = self.kind.group_kind();
        format!("{}/{}.{}/{}", self.plugin, group_kind.kind, group_kind.group, self.key)
    }

    /// Returns true if a retained child's annotation names this parent (see [`retained_for`](Self::retained_for)).
    pub fn is_named_by(&self, mark: &str) -> bool {
        let mut rest = Some(mark);
        let mut expect = |text: &str| rest = rest.and_then(|rest| rest.strip_prefix(text));
        let namespace = self.key.namespace.as_deref().map(|namespace| [namespace, "/"]);
        let head = [self.plugin.as_str(), "/", &*self.kind.kind, ".", &*self.kind.group, "/"];
        head.into_iter().chain(namespace.into_iter().flatten()).chain([&*self.key.name]).for_each(&mut expect);
        rest == Some("")
    }

    /// The key under which an index holds the parent's retained children.
    pub fn retained_key(&self) -> OwnerKey {
        OwnerKey::Retained(self.retained_for().into())
    }

    /// The labels of every child.
    pub fn child_labels(&self) -> [(&'static str, String); 2] {
        [(names::LABEL_PLUGIN, self.plugin.to_string()), (names::LABEL_PARENT_UID, self.uid.to_string())]
    }
}

impl Object {
    /// Returns true if this object is a retained child of a parent of that kind, namespace and name: the host may
    /// change it, but never prunes it.
    pub fn is_retained_for(&self, parent: &ParentRef) -> bool {
        let mark = || self.marks.get(names::ANNOTATION_RETAINED_FOR);
        self.controller.is_none() && mark().is_some_and(|mark| parent.is_named_by(mark))
    }

    /// Returns true if this object is a child of that parent: owned by it or retained for it. This check alone decides
    /// which children a plugin is shown, which objects may be changed, and which existing objects the host treats as
    /// its own. `inherits` returns whether the named plugin's children belong to this plugin by now.
    pub fn is_child_of(&self, parent: &ParentRef, inherits: impl Fn(&str) -> bool) -> bool {
        // Children of a namespaced parent live in its namespace; an object elsewhere that claims to be a child is
        // forged.
        (parent.key.namespace.is_none() || self.key.namespace == parent.key.namespace)
            // A parent of a built-in kind may have several plugins.
            && self.plugin().is_none_or(|label| label == parent.plugin.as_str() || inherits(label))
            && (self.is_owned_by(&parent.uid) || self.is_retained_for(parent))
            && parent.mark_key.as_ref().is_none_or(|key| key.holds(self))
    }

    /// Returns true if this object is a child of an earlier object of the parent's kind and name. Two objects of one
    /// name cannot exist at once, so the earlier parent is deleted, and the garbage collector will delete this child.
    pub fn is_left_by_predecessor_of(&self, parent: &ParentRef) -> bool {
        self.controller.as_ref().is_some_and(|controller| *controller != parent.uid)
            && self.marks.get(names::LABEL_PLUGIN) == Some(parent.plugin.as_str())
            && self.controller_kind_and_name() == Some((parent.kind.group_kind(), parent.key.name.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retained_child_names_exactly_one_parent() {
        let parent = |namespace: Option<&str>, name: &str| ParentRef {
            plugin: "echo".parse().expect("a name"),
            kind: Arc::new(Gvk::from_api_version("my-operator.dev/v1", "Echo")),
            key: ObjectKey::new(namespace, name),
            uid: Uid::from("u"),
            mark_key: None,
        };
        let parents =
            [parent(Some("n"), "web"), parent(None, "web"), parent(Some("n"), "we"), parent(Some("m"), "web")];
        for (at, one) in parents.iter().enumerate() {
            for (other_at, other) in parents.iter().enumerate() {
                assert_eq!(one.is_named_by(&other.retained_for()), at == other_at, "{one} {other}");
            }
            assert!(!one.is_named_by("") && !one.is_named_by(&format!("{}b", one.retained_for())));
        }
    }
}
