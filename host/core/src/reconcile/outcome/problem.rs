//! Why a reconcile did not bring its parent to the desired state.

use std::time::Duration;

use super::WriteProblem;
use crate::contract::desired::ResponseRejection;
use crate::contract::related::ReadProblem;
use crate::contract::reserved::HostNamespace;
use crate::contract::{CallFailure, Failure};
use crate::guard::deletions::BlockedDeletions;
use crate::object::child::ChildId;
use crate::reconcile::plan::Staged;
use crate::value::ids::PluginName;

/// Why the finalizer of a parent is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalizerEnd {
    /// The plugin has finished its cleanup.
    CleanedUp,
    /// All children are deleted, by stage; the component does nothing else to clean up.
    ChildrenDeleted,
    /// A user asked to skip the plugin's cleanup.
    Skipped,
    /// The component does not clean up (any more).
    Unneeded,
    /// The parent is in the host's namespace, where no plugin is called.
    NotCalled,
    /// The plugin desires children in the namespace of this parent, where objects can no longer be created.
    NamespaceTerminating(String),
}

/// Why a reconcile did not bring its parent to the desired state.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::From)]
pub enum Problem {
    /// The call of the plugin failed, so there is no response.
    Call(CallFailure),
    /// The plugin's response reports a failure.
    Plugin(Failure),
    /// The host rejected the plugin's response.
    Refused(ResponseRejection),
    /// Related objects that the plugin requires cannot be read.
    #[from]
    Reads(ReadProblem),
    /// Failed writes, each with its child.
    Writes(Vec<(ChildId, WriteProblem)>),
    /// The watches of these kinds have not shown the host's own last writes for longer than [`PATIENCE`](super::PATIENCE), so nothing is
    /// planned (rule R3).
    CacheBehind(Vec<String>),
    /// Desired children whose live objects are still being deleted.
    Terminating(Vec<ChildId>),
    /// Children whose update waits until other children are ready (update strategy `rolling`).
    Rolling(Vec<ChildId>),
    /// Children wait until those of lower stages are ready (rule R23).
    Staged(Box<Staged>),
    /// Blocked deletions of this parent's children: no user asked for them (rule R9).
    DeletionsBlocked(BlockedDeletions),
    /// Deletions that are blocked at the named Plugin, because they concern many of its parents.
    DeletionsBlockedAtPlugin(PluginName),
    /// Deletions that wait, so that the parent's status is left as it is (rule R9).
    PutOff(Awaited),
    /// Objects that were written too often, each with the time until its next write is allowed (rule R18).
    Thrashing(Vec<(ChildId, Duration)>),
    /// The plugin's rate limit for writes of children is used up; the next write is allowed after this time.
    WritesLimited(Duration),
    /// Too many calls of the plugin failed in a row; the next probe is due after this time (rule R19).
    Quarantined(Duration),
    /// Writes are suspended by the parent's annotation or by its Plugin (rule R16).
    Suspended(SuspendedBy),
    /// The parent lives in the host's own namespace, where plugins reconcile nothing.
    HostNamespace(HostNamespace),
    /// The named Plugin no longer selects the parent, and the parent's children are deleted.
    Released(PluginName),
    /// The plugin was called to finalize and has not finished (rule R14). The time is the requeue time that the plugin
    /// asked for, if any, and the text is what it waits for, if it says so.
    Finalizing(Option<Duration>, Option<Box<str>>),
    /// The plugin's finalizer is being removed from a parent that other finalizers keep.
    FinalizerRemoved {
        /// Why it is removed.
        end: FinalizerEnd,
        /// The other finalizers.
        others: Vec<String>,
    },
    /// The API server rejected the plugin's part of the status. Holds the API server's message.
    StatusRejected(String),
    /// Children that were omitted from the request, with their sizes in bytes, because the request would exceed its
    /// size limit.
    LeftOut {
        /// The omitted children.
        children: Vec<(ChildId, u64)>,
        /// The size limit of a request, in bytes.
        limit: u64,
    },
}

/// What deletions wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// The plugin's new version was not called for all parents yet.
    OtherParents,
    /// The leader decides about deletions of many parents.
    Leader,
    /// The cache does not show the parent as it is.
    Cache,
}

/// The object that suspends a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuspendedBy {
    /// The parent's own annotation.
    Parent,
    /// The parent's Plugin.
    Plugin,
}
