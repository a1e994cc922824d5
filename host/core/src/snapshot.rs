//! What a plugin is shown: a parent and its children as the caches hold them, in canonical order.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::contract::{Phase, Request};
use crate::digest::Digest;
use crate::ids::Gvk;
use crate::object::Object;
use crate::parent::ParentRef;

/// A parent and what exists because of it, at one moment of the caches.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// How children refer to the parent.
    pub parent_ref: ParentRef,
    /// The parent.
    pub parent: Arc<Object>,
    /// Its children: owned or retained, ordered bytewise by apiVersion, kind, namespace and name.
    pub children: Vec<Arc<Object>>,
    /// The Plugin's `spec.config`.
    pub config: Option<Arc<[u8]>>,
}

impl Snapshot {
    /// From what indexes found; objects that are not this parent's are left out.
    pub fn new(
        parent_ref: ParentRef,
        parent: Arc<Object>,
        candidates: impl IntoIterator<Item = Arc<Object>>,
        config: Option<Arc<[u8]>>,
    ) -> Self {
        let retained_for = parent_ref.retained_for();
        let mut children: Vec<_> = candidates
            .into_iter()
            // A namespaced parent's children live where it does; whatever says otherwise in another namespace is forged.
            .filter(|child| parent.key.namespace.is_none() || child.key.namespace == parent.key.namespace)
            .filter(|child| child.is_owned_by(&parent.uid) || child.is_retained_for(&retained_for))
            .collect();
        children.sort_by(|a, b| canonical(a, b));
        Self { parent_ref, parent, children, config }
    }

    /// What the plugin is asked.
    pub fn request(&self, phase: Phase) -> Request {
        Request {
            phase,
            parent: self.parent.json.clone(),
            children: self.children.iter().map(|child| child.observed()).collect(),
            related: Vec::new(),
            config: self.config.clone(),
        }
    }

    /// The identity of a call: equal hashes mean equal inputs. Over contract version, the component's digest, phase,
    /// config, granted kinds, and the content hashes of all objects in their order.
    pub fn hash<'a>(
        &self,
        contract: &str,
        component: &Digest,
        phase: Phase,
        grants: impl Iterator<Item = &'a Gvk>,
    ) -> Digest {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update(bytes.len().to_le_bytes());
            hash.update(bytes);
        };
        part(contract.as_bytes());
        part(component.as_bytes());
        part(match phase {
            Phase::Sync => b"sync",
            Phase::Finalize => b"finalize",
        });
        part(self.config.as_deref().unwrap_or_default());
        for kind in grants {
            part(kind.api_version().as_bytes());
            part(kind.kind.as_bytes());
        }
        part(self.parent.content.as_bytes());
        for child in &self.children {
            part(child.content.as_bytes());
        }
        Digest::from_bytes(hash.finalize().into())
    }
}

fn canonical(a: &Object, b: &Object) -> std::cmp::Ordering {
    let by_kind = if Arc::ptr_eq(&a.kind, &b.kind) {
        std::cmp::Ordering::Equal
    } else {
        a.kind.api_version().cmp(&b.kind.api_version()).then_with(|| a.kind.kind.cmp(&b.kind.kind))
    };
    by_kind.then_with(|| a.key.cmp(&b.key))
}
