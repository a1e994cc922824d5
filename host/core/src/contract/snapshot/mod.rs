//! The input of a call: a parent, its children and related objects from the caches, in canonical order.

use std::collections::HashSet;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::contract::desired::{DesiredChild, Grants};
use crate::contract::offer::Offer;
use crate::contract::related::Need;
use crate::contract::{FinalizeCause, LeftOut, Limits, Observed, Phase, ReadyMeans, Related, Request, Response};
use crate::object::Object;
use crate::object::child::ChildId;
use crate::object::observed_status::StatusShape;
use crate::object::parent::ParentRef;
use crate::value::digest::Digest;
use crate::value::ids::Gvk;

/// A parent and its children and related objects, as the caches held them at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// How children refer to the parent.
    pub parent_ref: ParentRef,
    /// The parent.
    pub parent: Arc<Object>,
    /// The parent's owned and retained children, ordered bytewise by apiVersion, kind, namespace and name.
    pub children: Vec<Arc<Object>>,
    /// Children that are omitted from the request, because it would be too large with them ([`Snapshot::fit`]), in the
    /// order of `children`. The host does not write them.
    pub left_out: Vec<Arc<Object>>,
    /// The related objects that the last final response, or the previous round of this reconcile, required, in the
    /// order of its requirements.
    pub related: Vec<Served>,
    /// The ids of the last response's requests to other systems.
    pub unsent: Box<[String]>,
    /// The Plugin's `spec.config`; `None` if it is not set.
    pub config: Option<Arc<[u8]>>,
    /// The time at which the reconcile began, in milliseconds since 1970, if the plugin asks for it. It is no part of the hash of a call.
    pub now: Option<u64>,
    /// What the plugin is offered and refused.
    pub offer: Arc<Offer>,
    /// Why the parent is finalized, if it is.
    pub cause: FinalizeCause,
    /// Whether the parent is finalized in a namespace that is being deleted, where no child can be created any more.
    pub namespace_terminating: bool,
}

/// The objects found for one requirement.
#[derive(Debug, Clone)]
pub struct Served {
    id: Arc<str>,
    metadata_only: bool,
    objects: Vec<Arc<Object>>,
}

impl Served {
    /// Creates the result for the requirement `id` from objects of one kind, and orders them bytewise by namespace and
    /// name.
    pub fn new(id: Arc<str>, mut objects: Vec<Arc<Object>>) -> Self {
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        Self { id, metadata_only: false, objects }
    }

    /// What was found for each requirement, from what was found for each need.
    pub fn of(needs: &[Need], found: impl IntoIterator<Item = Vec<Arc<Object>>>) -> Vec<Self> {
        let mut found = found.into_iter();
        let of_one = needs.chunk_by(|one, next| one.id == next.id);
        let served = of_one.filter_map(|of_one| {
            let objects = found.by_ref().take(of_one.len()).flatten().collect();
            let need = of_one.first()?;
            Some(Self { metadata_only: need.metadata_only, ..Self::new(need.id.clone(), objects) })
        });
        served.collect()
    }

    fn related(&self) -> Related {
        Related {
            id: self.id.to_string(),
            metadata_only: self.metadata_only,
            objects: self.objects.iter().map(|object| Observed::from(&**object)).collect(),
        }
    }
}

impl Snapshot {
    /// Creates a snapshot from objects that an index found, dropping objects that are not children of this parent, or
    /// that belong to another plugin. `inherits` returns whether the named plugin's children belong to this plugin by
    /// now. Related objects are not set yet.
    pub fn new(
        parent_ref: ParentRef,
        parent: Arc<Object>,
        candidates: impl IntoIterator<Item = Arc<Object>>,
        config: Option<Arc<[u8]>>,
        inherits: impl Fn(&str) -> bool,
    ) -> Self {
        let mut children: Vec<_> =
            candidates.into_iter().filter(|child| child.is_child_of(&parent_ref, &inherits)).collect();
        children.sort_by(|a, b| canonical(a, b));
        Self {
            parent_ref,
            parent,
            children,
            left_out: Vec::new(),
            related: Vec::new(),
            unsent: Box::default(),
            config,
            now: None,
            offer: Arc::default(),
            cause: FinalizeCause::default(),
            namespace_terminating: false,
        }
    }

    /// Omits the largest children until the request has at most `limit` bytes, or no children are left. A user who
    /// makes a child large must not prevent the plugin from reconciling the other children.
    pub fn fit(&mut self, limit: u64) {
        if !self.left_out.is_empty() {
            self.children.append(&mut self.left_out);
            self.children.sort_by(|a, b| canonical(a, b));
        }
        let mut size = self.size();
        if size <= limit {
            return;
        }
        let size_of = |child: &Object| child.json.unpacked_size() as u64;
        let mut largest: Vec<_> = self.children.iter().map(|child| (size_of(child), child.uid.clone())).collect();
        // A stable sort: among children of equal size, the first one in canonical order comes first.
        largest.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
        let mut left_out = HashSet::new();
        for (of_child, uid) in largest {
            if size <= limit {
                break;
            }
            size -= of_child;
            left_out.insert(uid);
        }
        (self.left_out, self.children) =
            std::mem::take(&mut self.children).into_iter().partition(|child| left_out.contains(&child.uid));
    }

    /// Whether an existing child is omitted from the request.
    pub fn is_left_out(&self, child: &DesiredChild) -> bool {
        self.left_out.iter().any(|left| left.key == child.key && left.kind.group_kind() == child.kind.group_kind())
    }

    /// Size of the request's objects and config in bytes, without the names beside them. Unpacks nothing.
    pub fn size(&self) -> u64 {
        let related = self.related.iter().flat_map(|served| &served.objects);
        let objects = std::iter::once(&self.parent).chain(&self.children).chain(related);
        let config = self.config.as_ref().map_or(0, |config| config.len());
        objects.map(|object| object.json.unpacked_size() as u64).sum::<u64>() + config as u64
    }

    /// All objects: the parent, its children, also those that are left out, and the related objects.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        let related = self.related.iter().flat_map(|served| &served.objects);
        std::iter::once(&self.parent).chain(&self.children).chain(&self.left_out).chain(related)
    }

    /// The request for a call.
    pub fn request(&self, phase: Phase) -> Request {
        Request {
            phase,
            parent: Observed::from(&*self.parent),
            children: self.children.iter().map(|child| Observed::from(&**child)).collect(),
            left_out: self.left_out.iter().map(|child| left_out(child)).collect(),
            related: self.related.iter().map(Served::related).collect(),
            unsent: self.unsent.clone(),
            config: self.config.clone(),
            now: self.now,
            offer: self.offer.clone(),
            cause: self.cause,
            namespace_terminating: self.namespace_terminating,
        }
    }

    /// The identity of a call: equal hashes mean equal inputs. Hashes the result of [`call_inputs`], the phase, the
    /// content hashes of all objects in their order, the optional kinds, why the parent is finalized, and whether the namespace is being deleted.
    pub fn hash(&self, call_inputs: &Digest, phase: Phase) -> Digest {
        let mut hash = self.hash_objects(call_inputs, phase);
        for served in &self.related {
            // Parts have their length as prefix, and no digest has the length of this tag, so related objects cannot be
            // confused with children. The count delimits each list.
            hash.add(b"related");
            hash.add(served.id.as_bytes());
            hash.add(&served.objects.len().to_le_bytes());
            for object in &served.objects {
                hash.add(object.content.as_bytes());
            }
        }
        match self.cause {
            FinalizeCause::Deleted => {}
            FinalizeCause::LeftSelector => hash.add(b"left-selector"),
            FinalizeCause::LeftNamespaces => hash.add(b"left-namespaces"),
        }
        if self.namespace_terminating {
            hash.add(b"namespace-terminating");
        }
        if !self.unsent.is_empty() {
            hash.add(b"unsent");
            self.unsent.iter().for_each(|id| hash.add(id.as_bytes()));
        }
        hash.digest()
    }

    /// The identity of a response's consequences: equal hashes mean equal plans and equal statuses. Hashes `rules` (the
    /// result of [`rules`]), the phase, the content hashes of the parent and its children, and the response without its
    /// events and requirements, which affect neither plan nor status.
    pub fn hash_response(&self, rules: &Digest, phase: Phase, response: &Response) -> Digest {
        let mut hash = self.hash_objects(rules, phase);
        // No digest has the length of this tag.
        hash.add(b"response");
        for child in &response.children {
            hash.add(child);
        }
        hash.add(b"end");
        hash.add(response.status.as_deref().unwrap_or_default());
        hash.add(&[
            u8::from(response.status.is_some()),
            u8::from(response.requeue.is_some()),
            u8::from(response.finalized),
        ]);
        hash.add(&response.requeue.unwrap_or_default().to_le_bytes());
        // At the end, where the number of the parts before is fixed.
        for options in response.options.iter().flatten() {
            options.for_each_part(|part| hash.add(part.as_bytes()));
        }
        if let Some(at) = response.requeue_at {
            hash.add(b"requeue at");
            hash.add(&at.get().to_le_bytes());
        }
        response.keep.for_each_part(|part| hash.add(part.as_bytes()));
        if let Some(waiting) = &response.waiting {
            hash.add(b"waiting");
            hash.add(waiting.as_bytes());
        }
        hash.digest()
    }

    fn hash_objects(&self, decides: &Digest, phase: Phase) -> Parts {
        let mut hash = Parts::default();
        hash.add(decides.as_bytes());
        hash.add(<&str>::from(phase).as_bytes());
        hash.add(self.parent.content.as_bytes());
        for child in &self.children {
            hash.add(child.content.as_bytes());
        }
        // No digest has the length of these tags.
        if !self.offer.kinds.is_empty() {
            hash.add(b"kinds");
            for kind in &self.offer.kinds {
                hash.add(kind.api_version().as_bytes());
                hash.add(kind.kind.as_bytes());
            }
        }
        if !self.left_out.is_empty() {
            hash.add(b"left out");
            for child in &self.left_out {
                hash.add(child.content.as_bytes());
            }
        }
        hash
    }
}

fn left_out(child: &Object) -> LeftOut {
    LeftOut { child: ChildId::of(child), size: child.json.unpacked_size() as u64 }
}

/// Hash of everything by which responses are validated and carried out; equal for all parents of a live component.
///
/// The Plugin's status has a hash over it, which a later release compares, so it depends on no name in this code.
pub fn rules(grants: &Grants, limits: &Limits, shape: StatusShape, ready_means: ReadyMeans) -> Digest {
    let mut hash = Parts::default();
    grants.for_each_part(|part| hash.add(part.as_bytes()));
    let Limits {
        memory,
        table_elements,
        instances,
        deadline,
        request_bytes,
        response_bytes,
        children,
        log_bytes,
        events,
        requirements,
        json_depth,
    } = limits;
    let sizes = [*memory, *request_bytes, *response_bytes].map(|size| size.to_string());
    let counts = [table_elements, instances, children, log_bytes, events, requirements, json_depth];
    let StatusShape { subresource, observed_generation, conditions } = shape;
    let flags = [subresource, observed_generation, conditions].map(|flag| flag.to_string());
    let counts = counts.into_iter().map(ToString::to_string);
    for part in sizes.into_iter().chain(counts).chain([deadline.as_nanos().to_string()]).chain(flags) {
        hash.add(part.as_bytes());
    }
    match ready_means {
        ReadyMeans::Applied => {}
        ReadyMeans::Children => hash.add(b"ready means children"),
        ReadyMeans::Plugin => hash.add(b"ready means plugin"),
    }
    hash.digest()
}

/// Hash of everything besides the objects that determines a response; equal for all parents of a live component:
/// contract version, the component's digest, config and granted kinds.
pub fn call_inputs(contract: &str, component: &Digest, config: Option<&[u8]>, grants: &[&Gvk]) -> Digest {
    let mut hash = Parts::default();
    hash.add(contract.as_bytes());
    hash.add(component.as_bytes());
    hash.add(config.unwrap_or_default());
    for kind in grants {
        hash.add(kind.api_version().as_bytes());
        hash.add(kind.kind.as_bytes());
    }
    hash.digest()
}

/// A hash over length-prefixed parts, so that different lists of parts never hash alike.
#[derive(Default)]
pub(crate) struct Parts(Sha256);

impl Parts {
    pub(crate) fn add(&mut self, part: &[u8]) {
        self.0.update(part.len().to_le_bytes());
        self.0.update(part);
    }

    pub(crate) fn digest(self) -> Digest {
        Digest::from_bytes(self.0.finalize().into())
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

#[cfg(test)]
mod tests;
