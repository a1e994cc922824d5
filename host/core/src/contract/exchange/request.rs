//! What a plugin is asked, and what it asks to be shown beside its parent and its children.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::contract::offer::Offer;
use crate::object::Object;
use crate::object::child::ChildId;
use crate::value::ids::Gvk;

/// The purpose of a call. The texts are external: recordings have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Phase {
    /// Return what should exist.
    Sync,
    /// The parent is being deleted, or is no longer selected: return what should still exist, and whether the cleanup is finished.
    Finalize,
}

/// Why a parent is finalized. The texts are external: recordings have them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FinalizeCause {
    /// It is being deleted.
    #[default]
    Deleted,
    /// It does not match the plugin's selector any more.
    LeftSelector,
    /// Its namespace does not match the Plugin's namespace selector any more.
    LeftNamespaces,
}

/// A child that a request leaves out, because it would be too large with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The child.
    #[serde(flatten)]
    pub child: ChildId,
    /// Its size as JSON, in bytes.
    pub size: u64,
}

/// An object as a plugin receives it. The bytes are shared with the caches; the only copy is the one into the guest's
/// memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The kind, as in the object's `apiVersion` and `kind`.
    pub kind: Gvk,
    /// Namespace; `None` for a cluster-scoped object.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
    /// Whether the object is being deleted.
    pub deleting: bool,
    /// The API server's JSON without managedFields, always with apiVersion and kind.
    pub object: Arc<[u8]>,
}

impl From<&Object> for Observed {
    fn from(object: &Object) -> Self {
        Self {
            kind: Gvk::clone(&object.kind),
            namespace: object.key.namespace.clone(),
            name: object.key.name.clone(),
            deleting: object.deleting,
            object: object.json.bytes(),
        }
    }
}

/// Everything that a response may depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The purpose of the call.
    pub phase: Phase,
    /// The parent.
    pub parent: Observed,
    /// Children that the parent owns, ordered bytewise by apiVersion, kind, namespace, name.
    pub children: Vec<Observed>,
    /// The children that are left out.
    pub left_out: Vec<LeftOut>,
    /// The related objects, in the order in which the last final response, or the previous round of this reconcile,
    /// required them.
    pub related: Vec<Related>,
    /// The ids of the last response's requests to other systems. Each is answered with "not granted": the host sends none yet.
    pub unsent: Box<[String]>,
    /// The Plugin's `spec.config`; `None` if it is not set.
    pub config: Option<Arc<[u8]>>,
    /// The time at which the reconcile began, in milliseconds since 1970, if the descriptor has `clock`.
    pub now: Option<u64>,
    /// What the plugin is offered and refused.
    pub offer: Arc<Offer>,
    /// In [`Phase::Finalize`]: why.
    pub cause: FinalizeCause,
    /// Whether the parent is finalized in a namespace that is being deleted, where no child can be created any more.
    pub namespace_terminating: bool,
}

impl Request {
    /// The request for a parent without children, related objects and config.
    pub fn about(phase: Phase, parent: Observed) -> Self {
        let (children, left_out, related, unsent) = Default::default();
        let (config, cause, offer) = (None, FinalizeCause::default(), Arc::default());
        let (now, namespace_terminating) = (None, false);
        Self { phase, parent, children, left_out, related, unsent, config, now, offer, cause, namespace_terminating }
    }
}

/// Objects served for one [`Requirement`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Related {
    /// The requirement's ID.
    pub id: String,
    /// Whether the objects are without anything but their metadata.
    pub metadata_only: bool,
    /// The objects found.
    pub objects: Vec<Observed>,
}

/// A request to read objects that the plugin does not own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenRequirement", into = "WrittenRequirement")]
pub struct Requirement {
    /// ID that the plugin chose, unique within a response.
    pub id: String,
    /// The kind.
    pub kind: Gvk,
    /// The namespaces; of a cluster-scoped kind, the objects are in none.
    pub namespaces: Namespaces,
    /// The selected objects.
    pub select: Selection,
    /// Whether the metadata of the objects is enough.
    pub metadata_only: bool,
}

/// Namespaces of related objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Namespaces {
    /// The parent's.
    #[default]
    OfParent,
    /// These.
    Named(Vec<String>),
    /// All that the plugin may read.
    All,
}

/// A requirement as recordings have it, and golden cases: one namespace is a text, as in contract 0.1, several are a list, and all are the
/// word.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenRequirement {
    id: String,
    #[serde(flatten)]
    kind: Gvk,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespaces: Option<WrittenNamespaces>,
    #[serde(flatten)]
    select: Selection,
    #[serde(default, skip_serializing_if = "is_false")]
    metadata_only: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenNamespaces {
    Named(Vec<String>),
    Word(Word),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    All,
}

impl From<Requirement> for WrittenRequirement {
    fn from(Requirement { id, kind, namespaces, select, metadata_only }: Requirement) -> Self {
        let (namespace, namespaces) = match namespaces {
            Namespaces::OfParent => (None, None),
            Namespaces::Named(names) => match <[String; 1]>::try_from(names) {
                Ok([one]) => (Some(one), None),
                Err(several) => (None, Some(WrittenNamespaces::Named(several))),
            },
            Namespaces::All => (None, Some(WrittenNamespaces::Word(Word::All))),
        };
        Self { id, kind, namespace, namespaces, select, metadata_only }
    }
}

impl From<WrittenRequirement> for Requirement {
    fn from(WrittenRequirement { id, kind, namespace, namespaces, select, metadata_only }: WrittenRequirement) -> Self {
        let namespaces = match (namespaces, namespace) {
            (Some(WrittenNamespaces::Named(names)), _) => Namespaces::Named(names),
            (Some(WrittenNamespaces::Word(Word::All)), _) => Namespaces::All,
            (None, Some(one)) => Namespaces::Named(vec![one]),
            (None, None) => Namespaces::OfParent,
        };
        Self { id, kind, namespaces, select, metadata_only }
    }
}

/// The objects that a [`Requirement`] selects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Selection {
    /// The object with this name.
    Name(String),
    /// The objects that match this label selector, in kubectl's syntax.
    Labels(String),
}
