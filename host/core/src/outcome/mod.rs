//! Maps every way a reconcile can end to a condition reason, a message and the time of the next reconcile.

use std::cmp::Reverse;
use std::time::Duration;

use crate::contract::{CallFailure, Failure};
use crate::desired::{ResponseRejection, asked_wait};
use crate::guard::BlockedDeletions;
use crate::ids::PluginName;
use crate::line::one_line;
use crate::plan::ChildId;
use crate::reason::ParentReason;
use crate::related::ReadProblem;
use crate::reserved::HostNamespace;

/// Why a reconcile did not bring its parent to the desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The call of the plugin failed, so there is no response.
    Call(CallFailure),
    /// The plugin's response reports a failure.
    Plugin(Failure),
    /// The host rejected the plugin's response.
    Refused(ResponseRejection),
    /// Related objects that the plugin requires cannot be read.
    Reads(ReadProblem),
    /// Failed writes, each with its child.
    Writes(Vec<(ChildId, WriteProblem)>),
    /// The watches of these kinds have not shown the host's own last writes for longer than [`PATIENCE`], so nothing is
    /// planned (rule R3).
    CacheBehind(Vec<String>),
    /// Desired children whose live objects are still being deleted.
    Terminating(Vec<ChildId>),
    /// Children whose update waits until other children are ready (update strategy `rolling`).
    Rolling(Vec<ChildId>),
    /// Blocked deletions of this parent's children: no user asked for them (rule R9).
    DeletionsBlocked(BlockedDeletions),
    /// Deletions that are blocked at the named Plugin, because they concern many of its parents.
    DeletionsBlockedAtPlugin(PluginName),
    /// Deletions that wait until the plugin's new version was called for all parents (rule R9).
    PutOff,
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
    /// asked for, if any.
    Finalizing(Option<Duration>),
    /// The API server rejected the plugin's part of the status. Holds the API server's message.
    StatusRejected(String),
    /// Children that were omitted from the request, with their sizes in bytes, because the request would exceed its
    /// size limit.
    LeftOut {
        /// The omitted children.
        children: Vec<(ChildId, u64)>,
        /// The size limit of a request, in bytes.
        limit: u64,
        /// The requeue time that the plugin asked for, if any.
        again: Option<Duration>,
    },
}

impl Problem {
    /// The reason of `Stalled` or `Reconciling`; `reason` is that of `Ready`.
    fn cause(&self, reason: ParentReason) -> ParentReason {
        match self {
            Self::DeletionsBlocked(blocked) => blocked.because.reason(),
            Self::DeletionsBlockedAtPlugin(_) => ParentReason::BlockedAtPlugin,
            Self::Call(_)
            | Self::Plugin(_)
            | Self::Refused(_)
            | Self::Reads(_)
            | Self::WritesLimited(_)
            | Self::Writes(_)
            | Self::CacheBehind(_)
            | Self::StatusRejected(_)
            | Self::LeftOut { .. }
            | Self::Terminating(_)
            | Self::Rolling(_)
            | Self::PutOff
            | Self::Thrashing(_)
            | Self::Quarantined(_)
            | Self::Suspended(_)
            | Self::HostNamespace(_)
            | Self::Released(_)
            | Self::Finalizing(_) => reason,
        }
    }

    /// How far a parent with this problem has come.
    fn progress(&self) -> Progress {
        match self {
            Self::Suspended(_) | Self::Released(_) => Progress::Suspended,
            // These states last until a user acts.
            Self::Plugin(Failure::Invalid(_))
            | Self::HostNamespace(_)
            | Self::DeletionsBlocked(_)
            | Self::DeletionsBlockedAtPlugin(_)
            | Self::LeftOut { .. } => Progress::Stalled,
            Self::Call(_)
            | Self::Plugin(Failure::Retry { .. } | Failure::Failed(_))
            | Self::Refused(_)
            | Self::Reads(_)
            | Self::Writes(_)
            | Self::CacheBehind(_)
            | Self::Terminating(_)
            | Self::Rolling(_)
            | Self::PutOff
            | Self::Thrashing(_)
            | Self::WritesLimited(_)
            | Self::Quarantined(_)
            | Self::Finalizing(_)
            | Self::StatusRejected(_) => Progress::Reconciling,
        }
    }
}

/// The object that suspends a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuspendedBy {
    /// The parent's own annotation.
    Parent,
    /// The parent's Plugin.
    Plugin,
}

/// Why a single write failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteProblem {
    /// An object that is not a child of this parent already has the name (rule R5).
    Taken,
    /// Another field manager owns fields of the child (rule R6).
    FieldConflict {
        /// The API server's description of the fields and their managers.
        conflicts: Vec<String>,
    },
    /// The object exists and is marked as this parent's child, but the cache has not shown it, so the host wrote
    /// nothing to it (rule R3).
    CacheBehind,
    /// The child cannot be created, because its namespace is being deleted.
    NamespaceTerminating,
    /// The object changed or was deleted between plan and write. The next watch event brings its new state.
    Outdated,
    /// The API server rejects this object as it is.
    Rejected {
        /// HTTP status code.
        code: u16,
        /// The API server's message.
        message: String,
        /// What the API server rejects, as far as the host knows.
        rejection: Rejection,
    },
    /// The API server could not be reached, or asked the host to retry later.
    Unavailable {
        /// A description of the failure.
        message: String,
        /// The delay from the API server's `Retry-After` header.
        retry_after: Option<Duration>,
    },
}

/// What the API server rejects; distinguishes the cases in which a user can do something other than change the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// The change of a field that cannot change once the object exists.
    ImmutableField,
    /// The host's impersonation of the Plugin's ServiceAccount.
    Impersonation,
    /// A request for which the Plugin's ServiceAccount lacks permission.
    Permission,
    /// Anything else.
    Other,
}

impl Rejection {
    /// What a user can do, as the end of a message.
    fn hint(self) -> &'static str {
        match self {
            Self::ImmutableField => {
                "; with the update strategy `recreate` for this kind in the plugin, the child is deleted and recreated"
            }
            Self::Impersonation => {
                "; the host's Role is older than the host: apply the manifests of this version of Windlass"
            }
            Self::Permission => {
                "; the Plugin's ServiceAccount lacks this permission: grant it, as `windlass push --create-rbac` does"
            }
            Self::Other => "",
        }
    }
}

impl WriteProblem {
    /// Returns true if the failure concerns this child alone, so that other children can still be written. All other
    /// failures concern the API server, or the host's view of it: later requests would fail likewise, and take as long.
    pub fn is_childs_own(&self) -> bool {
        match self {
            Self::Taken
            | Self::FieldConflict { .. }
            | Self::NamespaceTerminating
            | Self::Outdated
            | Self::Rejected { .. } => true,
            Self::CacheBehind | Self::Unavailable { .. } => false,
        }
    }
}

/// When a parent is reconciled next, unless an event triggers it earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// After the plugin's resync interval, or after the time that the plugin asked for. Resets the key's backoff.
    Settled(Option<Duration>),
    /// After this time plus up to 10 % of jitter. The key's count of failures stays as it is.
    Pause(Duration),
    /// After this time.
    After(Duration),
    /// After the key's backoff, but not before this time has passed.
    Backoff(Duration),
    /// After a backoff of a few seconds, but not before this time has passed. The API server failed, which is unrelated
    /// to the key, so the key must not wait for minutes once the API server has recovered.
    Unavailable(Duration),
    /// Only when the parent changes.
    WhenChanged,
    /// Never: the parent no longer exists, and its state is dropped.
    Gone,
}

/// How far a parent has come towards its desired state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The desired state is applied.
    Applied,
    /// The desired state is not applied yet; the host tries again (kstatus `Reconciling`).
    Reconciling,
    /// The host does not try again before the parent or the plugin changes (kstatus `Stalled`).
    Stalled,
    /// The host does nothing because a user suspended or deselected the parent; neither reconciling nor stalled.
    Suspended,
}

/// The outcome of a reconcile, as conditions report it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How far the parent has come.
    pub progress: Progress,
    /// The reason of `Ready`.
    pub reason: ParentReason,
    /// The reason of `Stalled` or `Reconciling`, if present. It differs from `reason` only while deletions are blocked,
    /// at the parent or at its Plugin: then `cause` is the reason of the block, which a later process reads back.
    pub cause: ParentReason,
    /// The message of the conditions.
    pub message: String,
    /// When to reconcile next.
    pub requeue: Requeue,
}

impl Outcome {
    /// The outcome of a reconcile that applied the whole desired state.
    pub fn applied(children: usize, requeue: Option<Duration>) -> Self {
        let noun = if children == 1 { "child" } else { "children" };
        Self {
            progress: Progress::Applied,
            reason: ParentReason::Succeeded,
            cause: ParentReason::Succeeded,
            message: format!("{children} {noun} applied"),
            requeue: Requeue::Settled(requeue),
        }
    }
}

/// Time until a finalizing plugin is called again, if it does not ask for a time.
const FINALIZE_AGAIN: Duration = Duration::from_secs(10);

/// How long a plugin may keep desiring children in a namespace that is being deleted. After that the host removes the
/// parent's finalizer: the API server creates no object in such a namespace, and the finalizer would block the
/// namespace's deletion forever.
pub const NAMESPACE_PATIENCE: Duration = Duration::from_secs(30);

const WAY_OUT: &str = "To delete the object without it, annotate the object with windlass.dev/skip-finalize=true";

impl Outcome {
    /// Converts the outcome into that of a parent that is being deleted. The message names the annotation that skips
    /// the finalizer, so that a broken plugin cannot block a deletion. A plugin that rejects the cleanup is retried
    /// with backoff, because no change of the parent would trigger the next call.
    #[must_use]
    pub fn while_finalizing(mut self) -> Self {
        // The message of this reason already names the annotation.
        if self.reason != ParentReason::Finalizing {
            self.message = format!("Cleaning up before the deletion: {}. {WAY_OUT}", self.message);
        }
        if matches!(self.requeue, Requeue::WhenChanged | Requeue::Settled(None)) && self.progress == Progress::Stalled {
            self.requeue = BACKOFF;
            self.progress = Progress::Reconciling;
        }
        self
    }
}

/// After the key's backoff.
pub const BACKOFF: Requeue = Requeue::Backoff(Duration::ZERO);

/// After the backoff for failures of the API server.
pub const UNAVAILABLE: Requeue = Requeue::Unavailable(Duration::ZERO);

/// How long a parent waits for its own writes to appear in the caches before its conditions report the delay (rule R3).
/// A watch usually lags by milliseconds; a longer lag means that the watch is being restarted.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How often a parent that waits for its own writes checks the caches, if no event triggers it earlier.
pub const LOOK_AGAIN: Duration = Duration::from_secs(5);

impl From<&Problem> for Outcome {
    #[expect(clippy::too_many_lines, reason = "a table: one row for each problem")]
    fn from(problem: &Problem) -> Self {
        let (reason, message, requeue) = match problem {
            Problem::Call(failure) => (call_reason(failure), format!("The plugin's call failed: {failure}"), BACKOFF),
            Problem::Plugin(Failure::Invalid(message)) => (ParentReason::InvalidSpec, message.clone(), Requeue::WhenChanged),
            Problem::Plugin(Failure::Retry { message, after }) => {
                (ParentReason::Waiting, message.clone(), Requeue::After(asked_wait(*after)))
            }
            Problem::Plugin(Failure::Failed(message)) => (ParentReason::PluginFailed, message.clone(), BACKOFF),
            Problem::Refused(refusal) => {
                let reason = if refusal.is_malformed() { ParentReason::MalformedResponse } else { ParentReason::ResponseRejected };
                (reason, format!("The plugin's response was rejected, and nothing was written: {refusal}"), BACKOFF)
            }
            Problem::Reads(problem) => {
                let requeue = match problem {
                    ReadProblem::Limited { wait } => Requeue::Backoff(*wait),
                    problem if problem.reason() == ParentReason::ApiError => UNAVAILABLE,
                    ReadProblem::Refused(_)
                    | ReadProblem::Denied(_)
                    | ReadProblem::NotWatched { .. }
                    | ReadProblem::NotFilled { .. }
                    | ReadProblem::Stalled { .. }
                    | ReadProblem::NotReviewed { .. }
                    | ReadProblem::Unsettled => BACKOFF,
                };
                (problem.reason(), problem.to_string(), requeue)
            }
            Problem::WritesLimited(wait) => (
                ParentReason::RateLimited,
                "No child was written, because the plugin exceeds its rate of writes (docs/limits.md), for this object or for \
                 others. The host tries again as soon as the rate allows"
                    .to_owned(),
                Requeue::Backoff(*wait),
            ),
            Problem::Writes(writes) => of_writes(writes),
            Problem::CacheBehind(kinds) => (
                ParentReason::CacheBehind,
                format!(
                    "No child is written, because the host's watch of {} has not shown the host's own last writes for \
                     more than {} s. The host goes on as soon as the watch shows them. If this stays so, look for errors \
                     of the API server and in the host's log, and restart the host",
                    kinds.join(", "),
                    PATIENCE.as_secs()
                ),
                Requeue::Pause(LOOK_AGAIN),
            ),
            Problem::StatusRejected(message) => (
                ParentReason::StatusRejected,
                format!("All children were applied, but the API server refused the plugin's status: {message}"),
                BACKOFF,
            ),
            Problem::LeftOut { children, limit, again } => of_left_out(children, *limit, *again),
            Problem::Terminating(children) => (
                ParentReason::ChildrenTerminating,
                format!("Waiting for the deletion of {}", list(children.iter())),
                // The end of the deletion triggers a reconcile; the requeue covers deletions that never end.
                Requeue::After(Duration::from_mins(1)),
            ),
            Problem::Rolling(children) => (
                ParentReason::RollingUpdate,
                format!("{} wait until the children before them are ready", list(children.iter())),
                Requeue::After(Duration::from_mins(1)),
            ),
            // Allowing the deletions changes the parent or its Plugin, which triggers a reconcile.
            Problem::DeletionsBlocked(blocked) => (ParentReason::DeletionBlocked, blocked.to_string(), Requeue::Settled(None)),
            Problem::DeletionsBlockedAtPlugin(plugin) => {
                (ParentReason::DeletionBlocked, BlockedDeletions::message_for_parents(plugin), Requeue::Settled(None))
            }
            // The rollout queues this parent once it has decided.
            Problem::PutOff => (
                ParentReason::DeletionBlocked,
                "Deletions wait until all parents were reconciled with the new component".to_owned(),
                Requeue::Pause(Duration::from_mins(1)),
            ),
            Problem::Thrashing(objects) => of_thrashing(objects),
            Problem::Quarantined(wait) => (
                ParentReason::Quarantined,
                "The plugin is called only seldom, because its calls failed too often in a row: for this object, for several \
                 objects of its namespace, or in several namespaces. The events of those objects have the last failure"
                    .to_owned(),
                Requeue::Pause(*wait),
            ),
            Problem::Suspended(by) => (ParentReason::Suspended, suspended(*by), Requeue::WhenChanged),
            Problem::HostNamespace(namespace) => (
                ParentReason::HostNamespace,
                format!(
                    "Windlass runs in namespace {namespace}, and no plugin reconciles objects there. Create the object in \
                     another namespace"
                ),
                Requeue::WhenChanged,
            ),
            Problem::Released(plugin) => (
                ParentReason::NotSelected,
                format!(
                    "Plugin {plugin} no longer selects this object, by its labels or its namespace; its children were deleted"
                ),
                Requeue::WhenChanged,
            ),
            Problem::Finalizing(asked) => (
                ParentReason::Finalizing,
                format!("The plugin has not finished cleaning up. {WAY_OUT}"),
                Requeue::After(asked.unwrap_or(FINALIZE_AGAIN)),
            ),
        };
        Self {
            progress: problem.progress(),
            reason,
            cause: problem.cause(reason),
            message: bounded(one_line(&message).into_owned()),
            requeue,
        }
    }
}

fn of_left_out(children: &[(ChildId, u64)], limit: u64, again: Option<Duration>) -> (ParentReason, String, Requeue) {
    let named = list(children.iter().map(|(child, size)| format!("{child} ({size} bytes)")));
    let (were, them) = if children.len() == 1 { ("was", "it") } else { ("were", "them") };
    let message = format!(
        "{named} {were} left out of the request, because the request would be larger than {limit} bytes with {them}. Windlass \
         neither changes nor deletes {them}. Make the children smaller, or raise spec.limits.requestBytes in the Plugin"
    );
    // A smaller child triggers an event, and a new limit activates the component again. Each resync reconciles the other
    // children.
    (ParentReason::LimitExceeded, message, Requeue::Settled(again))
}

fn call_reason(failure: &CallFailure) -> ParentReason {
    match failure {
        CallFailure::Deadline { .. } => ParentReason::DeadlineExceeded,
        CallFailure::Memory { .. } => ParentReason::MemoryLimit,
        CallFailure::StackOverflow
        | CallFailure::Trap { .. }
        | CallFailure::UnsupportedImport { .. }
        | CallFailure::Exit { .. } => ParentReason::Trapped,
        CallFailure::TableElements { .. }
        | CallFailure::Instances { .. }
        | CallFailure::RequestTooLarge { .. }
        | CallFailure::ResponseTooLarge { .. } => ParentReason::LimitExceeded,
        CallFailure::Malformed { .. } => ParentReason::MalformedResponse,
        CallFailure::Host { .. } => ParentReason::HostError,
    }
}

/// Reports the most severe problem: first conflicts, which a user must resolve, then rejections by the API server, then
/// problems that pass by themselves.
fn of_writes(writes: &[(ChildId, WriteProblem)]) -> (ParentReason, String, Requeue) {
    // Ties are broken by the child's name: writes end in any order, and another message would cause another status
    // write.
    let gravest = writes.iter().min_by_key(|(child, problem)| (Reverse(gravity(problem)), child.to_string()));
    let Some((child, problem)) = gravest else {
        return (ParentReason::ApiError, "A write failed".to_owned(), BACKOFF);
    };
    let more = match writes.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more with problems)"),
    };
    let (reason, message, requeue) = match problem {
        WriteProblem::Taken => (
            ParentReason::Conflict,
            format!(
                "{child} exists already and is not a child of this object, so it was left unchanged. Delete or rename it{more}"
            ),
            BACKOFF,
        ),
        WriteProblem::FieldConflict { conflicts } => (
            ParentReason::FieldConflict,
            format!(
                "{child} was not applied, because other field managers own fields of it: {}. To force ownership, the plugin \
                 annotates the child with {}=true{more}",
                conflicts.join("; "),
                crate::names::ANNOTATION_TAKE_OVER
            ),
            BACKOFF,
        ),
        WriteProblem::Rejected { code, message, rejection } => {
            let hint = rejection.hint();
            (
                ParentReason::ChildRejected,
                format!("The API server refused {child} ({code}): {message}{hint}{more}"),
                BACKOFF,
            )
        }
        WriteProblem::Unavailable { message, .. } => {
            (ParentReason::ApiError, format!("{child} could not be written: {message}{more}"), UNAVAILABLE)
        }
        WriteProblem::CacheBehind => (
            ParentReason::CacheBehind,
            format!(
                "{child} exists and is marked as a child of this object, but the host's watch of {} has not shown it yet; \
                 it was left as it is until the watch does{more}",
                child.kind.kind
            ),
            Requeue::Pause(LOOK_AGAIN),
        ),
        WriteProblem::NamespaceTerminating => (
            ParentReason::NamespaceTerminating,
            format!("{child} cannot be created, because its namespace is being deleted{more}"),
            BACKOFF,
        ),
        WriteProblem::Outdated => {
            (ParentReason::Outdated, format!("{child} changed while it was written; trying again{more}"), UNAVAILABLE)
        }
    };
    (reason, message, as_asked(requeue, writes))
}

/// Longest `Retry-After` that the host honours from the API server or a proxy in front of it. A single response must
/// not stop reconciling for an hour.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

/// Raises the requeue to the longest `Retry-After` among the failed writes, whichever problem the message reports.
fn as_asked(requeue: Requeue, writes: &[(ChildId, WriteProblem)]) -> Requeue {
    let asked = writes.iter().filter_map(|(_, problem)| match problem {
        WriteProblem::Unavailable { retry_after, .. } => *retry_after,
        WriteProblem::Taken
        | WriteProblem::FieldConflict { .. }
        | WriteProblem::CacheBehind
        | WriteProblem::NamespaceTerminating
        | WriteProblem::Outdated
        | WriteProblem::Rejected { .. } => None,
    });
    match (asked.max(), requeue) {
        (Some(asked), Requeue::Unavailable(_)) => Requeue::Unavailable(asked.min(RETRY_AFTER_MAX)),
        (Some(asked), _) => Requeue::Backoff(asked.min(RETRY_AFTER_MAX)),
        (None, requeue) => requeue,
    }
}

fn gravity(problem: &WriteProblem) -> u8 {
    match problem {
        WriteProblem::Outdated => 0,
        WriteProblem::Unavailable { .. } => 1,
        WriteProblem::CacheBehind => 2,
        WriteProblem::NamespaceTerminating => 3,
        WriteProblem::Rejected { .. } => 4,
        WriteProblem::FieldConflict { .. } => 5,
        WriteProblem::Taken => 6,
    }
}

fn of_thrashing(objects: &[(ChildId, Duration)]) -> (ParentReason, String, Requeue) {
    let wait = objects.iter().map(|(_, wait)| *wait).min().unwrap_or(Duration::from_mins(1));
    let names: Vec<ChildId> = objects.iter().map(|(object, _)| object.clone()).collect();
    let message = format!(
        "{} was written too often and is written once a minute now: the plugin's responses alternate, or another controller \
         keeps changing it",
        list(names.iter())
    );
    (ParentReason::Thrashing, message, Requeue::After(wait))
}

fn suspended(by: SuspendedBy) -> String {
    match by {
        SuspendedBy::Parent => {
            format!("No child is written while the annotation {} is \"true\"", crate::names::ANNOTATION_SUSPEND)
        }
        SuspendedBy::Plugin => "No child is written while spec.suspend of the Plugin is true".to_owned(),
    }
}

fn list(children: impl ExactSizeIterator<Item = impl ToString>) -> String {
    const SHOWN: usize = 5;
    let more = children.len().saturating_sub(SHOWN);
    let mut names: Vec<String> = children.take(SHOWN).map(|child| child.to_string()).collect();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// Truncates a message to 1024 bytes and an ellipsis. A condition's message may have 32 768 characters (API
/// conventions), but a guest's message may be longer, and users cannot read a status of that size.
pub fn bounded(message: String) -> String {
    const MAX: usize = 1024;
    if message.len() <= MAX {
        return message;
    }
    let end = message.char_indices().map(|(at, _)| at).take_while(|at| *at <= MAX).last().unwrap_or(0);
    format!("{}…", message.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests;
