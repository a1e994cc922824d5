//! The world of a reconcile: everything that it reads, writes, wakes and reports. The host's world is the cluster; that of `windlass diff`
//! consists of dry runs.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::api_response::{Ack, Refused};
use super::applied::Applied;
use super::events::{Before, Note, Occasion};
use super::outcome::{Outcome, Progress, WriteProblem};
use super::plan::Plan;
use super::recent::StatusResult;
use super::written::Written;
use crate::contract::desired::{Desired, DesiredChild};
use crate::contract::related::{Needs, ReadProblem};
use crate::contract::reserved::HostNamespace;
use crate::contract::snapshot::{Served, Snapshot};
use crate::contract::{CallFailure, Phase, PluginResult};
use crate::guard::deletions::Leavers;
use crate::guard::quarantine::QuarantineChange;
use crate::object::Object;
use crate::object::child::{ChildId, Delete};
use crate::object::managed::{Ownership, Removal};
use crate::object::parent::ParentRef;
use crate::object::reason::ParentReason;
use crate::value::digest::Digest;
use crate::value::ids::{ObjectKey, Uid};
use crate::value::json::Map;

/// What a world returns later. The box is cheap beside a request.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Permission to call the plugin, until it is dropped.
pub type Permit<'a> = Box<dyn Send + 'a>;

/// The world of one parent's reconcile. Everything that a reconcile reads, writes, wakes and tells goes through it. It decides nothing.
///
/// The default methods are those of a single host that may do everything, whose caches are current, and which reports nothing.
#[expect(unused_variables, reason = "the names say what a world is told")]
pub trait World: Writing {
    /// Which caches follow the API server. Others are out of date.
    fn follows(&self) -> Follows {
        Follows::All
    }
    /// The objects that the caches show as children of a parent.
    fn children(&self, of: &ParentRef) -> Vec<Arc<Object>>;
    /// Whether the Plugin selects an object of the parent kind. None while that is not known.
    fn selects(&self, parent: &Object) -> Option<bool> {
        Some(true)
    }
    /// Whether the Plugin selects the object's namespace.
    fn selects_namespace(&self, parent: &Object) -> bool {
        true
    }
    /// Whether a parent that the caches do not show any more still has children of the plugin.
    fn is_former_parent(&self, key: &ObjectKey) -> bool {
        false
    }
    /// Forgets a former parent: it has no children any more, or the caches show it again.
    fn forget_former_parent(&self, key: &ObjectKey) {}
    /// The parents in a namespace that have children of the plugin and are not being deleted.
    fn leavers(&self, namespace: Option<&str>) -> Leavers {
        Leavers::default()
    }
    /// Whether the cache of its object shows a write, which was executed before this time; also if the kind is not watched any more.
    fn shows(&self, parent: &ObjectKey, write: &Written, at: Instant) -> bool {
        true
    }
    /// The host's namespace, if an object is in it, or is it.
    fn host_namespace_of(&self, object: &Object) -> Option<HostNamespace> {
        None
    }
    /// The hosts that reconcile the parents of the plugin.
    fn hosts(&self) -> Hosts {
        Hosts { count: 1, may_share: false }
    }

    /// What the last final response for a parent required; none if it required nothing.
    fn required_before(&self, parent: &ObjectKey) -> Option<Needs> {
        None
    }
    /// Remembers what a final response requires; none if the parent is gone.
    fn remember_required(&self, parent: &ObjectKey, needs: Option<&Needs>) {}
    /// The objects that a parent requires. From now on, a change of them wakes the parent.
    fn serve<'a>(&'a self, parent: &'a ParentRef, needs: &'a Needs) -> Later<'a, Result<Selected, ReadProblem>>;
    /// Checks that the plugin may read this parent.
    fn may_read<'a>(&'a self, parent: &'a ParentRef) -> Later<'a, Result<(), ReadProblem>> {
        Box::pin(ready(Ok(())))
    }
    /// Checks that the plugin's finalizer may be set on this parent.
    fn may_finalize<'a>(&'a self, parent: &'a ParentRef) -> Later<'a, Result<(), WriteProblem>> {
        Box::pin(ready(Ok(())))
    }

    /// Waits until the plugin may be called for a parent in this namespace.
    fn permit<'a>(&'a self, namespace: Option<&'a Arc<str>>) -> Later<'a, Result<Permit<'a>, CallFailure>> {
        Box::pin(ready(Ok(Box::new(()) as Permit<'_>)))
    }
    /// Calls the plugin, as a permit allows it.
    fn call<'a>(&'a self, permit: &'a Permit<'_>, call: Call<'a>) -> Later<'a, Called>;

    /// Queues a parent, or the Plugin.
    fn wake(&self, who: Wake<'_>) {}
    /// The outcome that was reported before this one, or what `unknown` returns if nothing is remembered of the parent.
    fn reported_before(&self, parent: &Uid, outcome: &Outcome, unknown: &dyn Fn() -> Before) -> Before {
        Before::Same
    }
    /// Emits events. Never waits.
    fn emit(&self, about: About<'_>, notes: Vec<Note>, occasion: Occasion) {}
    /// Receives what happened, for traces, metrics, the log and the recent calls.
    fn note(&self, happened: Happened<'_>);
}

/// The part of a world to which a plan is carried out. Every write goes through it, and every read that a write needs.
pub trait Writing: Send + Sync {
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
    /// Whether the API server would accept this as the next version of a child: the dry run of its replacement.
    fn try_out<'a>(&'a self, live: &'a Object, after: &'a Map) -> Later<'a, Result<(), Refused>>;
    /// Sends a write once.
    fn send<'a>(&'a self, request: ApiRequest<'a>) -> Later<'a, Result<Ack, Refused>>;
    /// Lets time pass.
    fn pause(&self, time: Duration) -> Later<'_, ()>;
}

/// Which caches follow the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// The caches of all kinds.
    All,
    /// The cache of the parents, and not all others.
    Parents,
    /// Not even the cache of the parents.
    NotParents,
}

/// The hosts that reconcile the parents of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hosts {
    /// Their number.
    pub count: usize,
    /// Whether hosts may hand parents over to each other.
    pub may_share: bool,
}

/// The objects that requirements select.
#[derive(Debug, Default)]
pub struct Selected {
    /// In the order of the requirements.
    pub objects: Vec<Served>,
    /// How long the selection took: work that the plugin causes, like its call.
    pub took: Duration,
}

/// A call of the plugin.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// What the plugin is given.
    pub snapshot: &'a Snapshot,
    /// The purpose of the call.
    pub phase: Phase,
    /// Hash of the call.
    pub hash: Digest,
    /// How long the call may take.
    pub deadline: Duration,
}

/// The end of a call.
#[derive(Debug)]
pub struct Called {
    /// The result.
    pub result: Result<PluginResult, CallFailure>,
    /// Whether the same request would get the same response: the component read no wall clock.
    pub is_pure: bool,
}

/// Who is to be reconciled.
#[derive(Debug, Clone, Copy)]
pub enum Wake<'a> {
    /// Another parent.
    Parent(&'a ObjectKey),
    /// The Plugin: its status changes, or its parents may be shared.
    Plugin,
    /// The Plugin, without haste.
    PluginLater,
    /// The leader, which must reconcile the parent: this host has a share of the parents only.
    Leader,
    /// All that a change of the component's quarantine concerns.
    Quarantine(QuarantineChange),
}

/// The object that events are about.
#[derive(Debug, Clone, Copy)]
pub enum About<'a> {
    /// A parent.
    Parent(&'a ParentRef),
    /// The Plugin, because no event can be created in the namespace of this parent.
    PluginOf(&'a ParentRef),
}

/// What happened in a reconcile.
#[derive(Debug)]
pub enum Happened<'a> {
    /// The reconcile is about this parent, as it is.
    Seen(&'a Snapshot),
    /// Nothing has changed since the last call, so the plugin was not called.
    CallSkipped,
    /// These writes lead from the snapshot to the desired state: before the deletion guard, the rate limit and the breaker.
    Planned(&'a Snapshot, &'a Desired, &'a Plan),
    /// The reconcile ended.
    Ended(&'a Ended<'a>),
}

/// How a reconcile ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ended<'a> {
    /// The outcome in a word: the reason of the parent's condition, or why nothing is reported.
    pub outcome: &'static str,
    /// How far the parent has come; none if the host reports nothing of it.
    pub progress: Option<Progress>,
    /// The message of the parent's conditions.
    pub message: &'a str,
    /// The writes; none if there was no plan.
    pub applied: Option<&'a Applied>,
    /// What happened to the parent's status.
    pub status: StatusResult,
    /// The parent that the outcome is reported of; none if nothing is reported.
    pub parent: Option<&'a ParentRef>,
    /// Whether the end is worth a record although the plugin was not called.
    pub is_notable: bool,
    /// Why the parent does not have its desired state, unless that is left out of its status.
    pub failure: Option<(ParentReason, &'a str)>,
    /// Why the parent's status was not written.
    pub unwritten: Option<&'a str>,
}

/// A read.
#[derive(Debug, Clone, Copy)]
pub enum Read<'a> {
    /// The parent of this key.
    Parent(&'a ObjectKey),
    /// The object with the key of a parent that the caches do not show any more. It may have been read a moment ago. None if it is being
    /// deleted or is selected again.
    FormerParent(&'a ObjectKey),
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

/// What is changed in an object before an apply.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prepared<'a> {
    /// The place of the Update entry that the host left, and what becomes of it; none if there is no such entry.
    pub left: Option<(usize, Removal)>,
    /// What the host's entry owns; none if it stays as it is.
    pub own: Option<&'a Ownership>,
    /// What entries of other managers own, of those that change.
    pub taken: &'a [Ownership],
    /// Maps that are emptied, as JSON pointers.
    pub emptied: &'a [String],
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
    /// The change of entries in managedFields, and of maps that must be empty, before an apply. The apply then removes from the object what
    /// the host's Apply entry alone owns and the child lacks.
    Prepare {
        /// The child.
        child: &'a DesiredChild,
        /// The object's version.
        resource_version: u64,
        /// What is changed.
        prepared: Prepared<'a>,
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
    /// The change of annotations of a parent.
    Annotations {
        /// The parent.
        parent: &'a Object,
        /// The version that it must still have; none if any will do.
        version: Option<u64>,
        /// The annotations and their values; none for those that are removed.
        annotations: &'a [(String, Option<String>)],
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
            | Self::Prepare { child, .. } => child.id(),
            Self::Delete(delete) => delete.child.clone(),
            Self::Finalizers { parent, .. } | Self::Annotations { parent, .. } | Self::Status { parent, .. } => {
                ChildId::of(parent)
            }
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
