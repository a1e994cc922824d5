//! What a reconcile reads from and writes to. The host's own is the cluster; `windlass diff` has one of dry runs.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::api_response::{Ack, Refused};
use super::claim::Claim;
use crate::contract::desired::DesiredChild;
use crate::object::Object;
use crate::object::child::{ChildId, Delete};
use crate::object::managed::{Ownership, Removal};
use crate::value::ids::{ObjectKey, Uid};
use crate::value::json::Map;

/// What a world returns later. The box is cheap beside a request.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The world of one parent's reconcile. Every write goes through it, and every read that a write needs. It decides nothing.
pub trait World: Send + Sync {
    /// Whether the plugin adopts existing objects that have its children's names (`spec.adopt`).
    fn adopts(&self) -> bool;
    /// Whether the children of another plugin belong to this one by now, because that plugin is gone.
    fn inherits(&self, plugin: &str) -> bool;
    /// The parent of this key, as the caches show it.
    fn cached_parent(&self, key: &ObjectKey) -> Option<Arc<Object>>;
    /// The object that has a child's name, if the caches show it as a child.
    fn cached_child(&self, child: &ChildId) -> Option<Arc<Object>>;
    /// The resource of an object's kind, by which a response names it; empty if the kind is not known any more.
    fn plural(&self, of: &ChildId) -> &str;
    /// Reads an object; none if it does not exist.
    fn read<'a>(&'a self, what: Read<'a>) -> Later<'a, Result<Option<Object>, Refused>>;
    /// The object that a create of this child would give, if its name were free. Nothing is created.
    fn fresh<'a>(&'a self, child: &'a DesiredChild) -> Later<'a, Result<Map, Refused>>;
    /// Sends a write once.
    fn send<'a>(&'a self, request: ApiRequest<'a>) -> Later<'a, Result<Ack, Refused>>;
    /// Lets time pass.
    fn pause(&self, time: Duration) -> Later<'_, ()>;
    /// Is told what was found, for developers.
    fn note(&self, claim: &Claim);
}

/// A read.
#[derive(Debug, Clone, Copy)]
pub enum Read<'a> {
    /// The parent of this key.
    Parent(&'a ObjectKey),
    /// The object that has a child's name, or a part of it.
    Child(&'a ChildId, Part),
}

/// The part of an object that is read, or that a response has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Its metadata.
    Metadata,
    /// All of it.
    Whole,
}

/// A write.
#[derive(Debug)]
pub enum ApiRequest<'a> {
    /// The creation of a child.
    Create(&'a DesiredChild),
    /// The server-side apply of a child to the object with this uid, if it still has this version.
    Apply {
        /// The child.
        child: &'a DesiredChild,
        /// The object's uid.
        uid: &'a Uid,
        /// The object's version.
        resource_version: u64,
        /// Whether ownership of fields is taken from other managers.
        force: Force,
        /// What the response has of the object.
        returns: Part,
    },
    /// The merge patch that makes an existing object a child ([`claim::marks`](super::claim::marks)).
    Mark {
        /// The child.
        child: &'a DesiredChild,
        /// The object before the patch.
        found: &'a Object,
        /// The patch.
        marks: &'a Map,
    },
    /// The change of entries in managedFields before an apply. The apply then removes from the object what the host's Apply entry alone owns and
    /// the child lacks.
    Migrate {
        /// The child.
        child: &'a DesiredChild,
        /// The object's version.
        resource_version: u64,
        /// The place of the Update entry that the host left, and what becomes of it; none if there is no such entry.
        left: Option<(usize, Removal)>,
        /// What the host's entry owns after that; none if it stays as it is.
        own: Option<&'a Ownership>,
        /// What entries of other managers own after that, of those that change.
        taken: &'a [Ownership],
    },
    /// A deletion.
    Delete(&'a Delete),
    /// The change of a parent's finalizers.
    Finalizers {
        /// The parent.
        parent: &'a Object,
        /// All finalizers that it has after the write.
        finalizers: &'a [String],
    },
    /// The server-side apply of a parent's whole status. The host writes it only to this version of the parent.
    Status {
        /// The parent.
        parent: &'a Object,
        /// The status.
        status: Map,
    },
}

impl ApiRequest<'_> {
    /// The object that is written.
    pub fn object(&self) -> ChildId {
        match self {
            Self::Create(child)
            | Self::Apply { child, .. }
            | Self::Mark { child, .. }
            | Self::Migrate { child, .. } => child.id(),
            Self::Delete(delete) => delete.child.clone(),
            Self::Finalizers { parent, .. } | Self::Status { parent, .. } => ChildId::of(parent),
        }
    }
}

/// Whether an apply forces ownership of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// The API server rejects an apply that conflicts with another manager.
    No,
    /// The apply forces ownership of the fields.
    Yes,
}
