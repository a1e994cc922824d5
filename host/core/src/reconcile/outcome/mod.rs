//! Maps every way a reconcile can end to a condition reason, a message and the time of the next reconcile.

mod problem;
mod requeue;
mod write_problem;

use std::sync::Arc;
use std::time::Duration;

pub use self::problem::{Awaited, FinalizerEnd, Problem, SuspendedBy};
pub use self::requeue::{BACKOFF, LOOK_AGAIN, PATIENCE, Requeue, UNAVAILABLE};
use self::write_problem::of_writes;
pub use self::write_problem::{Rejection, WriteProblem, name_is_taken};
use crate::contract::desired::asked_wait;
use crate::contract::related::ReadProblem;
use crate::contract::{CallFailure, Failure};
use crate::guard::deletions::{BlockReason, BlockedDeletions};
use crate::object::child::ChildId;
use crate::object::reason::ParentReason;
use crate::reconcile::not_ready::NotReady;
use crate::reconcile::plan::Staged;
use crate::value::ids::Gvk;
use crate::value::line::one_line;

/// Time until a finalizing plugin is called again, if it does not ask for a time.
const FINALIZE_AGAIN: Duration = Duration::from_secs(10);

/// How long a plugin may keep desiring children in a namespace that is being deleted. After that the host removes the
/// parent's finalizer: the API server creates no object in such a namespace, and the finalizer would block the
/// namespace's deletion forever.
pub const NAMESPACE_PATIENCE: Duration = Duration::from_secs(30);

const WAY_OUT: &str = "To delete the object without it, annotate the object with windlass.dev/skip-finalize=true";

/// How far a parent has come towards its desired state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Progress {
    /// The desired state is applied.
    Applied,
    /// The desired state is applied, and children are not ready yet (kstatus `Reconciling`).
    Unready,
    /// The desired state is applied, and a child does not become ready by itself (kstatus `Stalled`).
    Failed,
    /// The desired state is not applied yet; the host tries again (kstatus `Reconciling`).
    Reconciling,
    /// The host does not try again before the parent or the plugin changes (kstatus `Stalled`).
    Stalled,
    /// The host has nothing more to do, because a user suspended, deselected or deleted the parent; neither reconciling nor stalled.
    Suspended,
}

impl Progress {
    /// Whether the whole desired state is applied, so that the same inputs need no further write.
    pub fn is_applied(self) -> bool {
        matches!(self, Self::Applied | Self::Unready | Self::Failed)
    }
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
    /// Why deletions of children stay blocked, if `reason` is another one: a later process reads it back.
    pub blocked: Option<BlockReason>,
    /// Whether the condition `Ready` of an applied desired state is the plugin's alone.
    pub leaves_ready: bool,
}

impl Outcome {
    fn new(progress: Progress, reason: ParentReason, message: String, requeue: Requeue) -> Self {
        Self { progress, reason, cause: reason, message, requeue, blocked: None, leaves_ready: false }
    }

    /// The outcome of a reconcile that applied the whole desired state.
    pub fn applied(children: usize, requeue: Option<Duration>) -> Self {
        let noun = if children == 1 { "child" } else { "children" };
        let message = format!("{children} {noun} applied");
        Self::new(Progress::Applied, ParentReason::Succeeded, message, Requeue::Settled(requeue))
    }

    /// The outcome of a reconcile that applied the whole desired state, of which these children are not ready.
    pub fn not_ready(children: &[NotReady], requeue: Option<Duration>) -> Self {
        let (progress, reason) = if children.iter().any(|child| child.is_failed) {
            (Progress::Failed, ParentReason::ChildFailed)
        } else {
            (Progress::Unready, ParentReason::WaitingForReady)
        };
        let message = bounded(one_line(&bounded(of_not_ready(children))).into_owned());
        Self::new(progress, reason, message, Requeue::Settled(requeue))
    }

    /// The outcome of a reconcile that applied the whole desired state of a plugin that waits for this.
    pub fn waiting(message: &str, requeue: Option<Duration>) -> Self {
        let message = bounded(one_line(&bounded(message.to_owned())).into_owned());
        Self::new(Progress::Unready, ParentReason::Waiting, message, Requeue::Settled(requeue))
    }

    /// Whether the host has done for this generation of the parent what it can.
    pub fn is_of_this_generation(&self) -> bool {
        match self.progress {
            Progress::Applied | Progress::Unready | Progress::Failed => true,
            // The children that wait for the failed one are still to be written.
            Progress::Stalled => self.reason != ParentReason::ChildFailed,
            Progress::Reconciling | Progress::Suspended => false,
        }
    }

    /// Adds to the message that the API server also rejected the plugin's status, with this message of the API server.
    pub fn add_rejected_status(&mut self, message: &str) {
        let more = format!(
            "{}. The API server also rejected the plugin's status: {}",
            self.message,
            one_line(&shortened(message))
        );
        self.message = bounded(more);
    }

    /// Adds to the message that returned children of these kinds are left out.
    pub fn add_absent(&mut self, kinds: &[Arc<Gvk>]) {
        if !kinds.is_empty() {
            let kinds = list(kinds.iter());
            let more =
                format!("{}. Left out are children of kinds that the cluster does not serve: {kinds}", self.message);
            self.message = bounded(more);
        }
    }

    /// Adds to the message of failed writes that this many deletions wait for them.
    pub fn add_waiting_deletions(&mut self, deletions: usize) {
        if deletions > 0 {
            let waiting = if deletions == 1 { "1 deletion waits" } else { &format!("{deletions} deletions wait") };
            let more = format!("{}. {waiting} until all writes succeed", self.message);
            self.message = bounded(more);
        }
    }

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

impl From<&Problem> for Outcome {
    fn from(problem: &Problem) -> Self {
        let outcome = unbounded(problem);
        Self { message: bounded(one_line(&bounded(outcome.message)).into_owned()), ..outcome }
    }
}

/// The outcome of a problem, with a message of any length.
#[expect(clippy::too_many_lines, reason = "a table: one row for each problem")]
fn unbounded(problem: &Problem) -> Outcome {
    let reconciling = |reason, message, requeue| Outcome::new(Progress::Reconciling, reason, message, requeue);
    // Until a user acts.
    let stalled = |reason, message, requeue| Outcome::new(Progress::Stalled, reason, message, requeue);
    let suspended = |reason, message| Outcome::new(Progress::Suspended, reason, message, Requeue::WhenChanged);
    match problem {
        Problem::Call(failure) => {
            reconciling(call_reason(failure), format!("The plugin's call failed: {failure}"), BACKOFF)
        }
        Problem::Plugin(Failure::Invalid(message)) => {
            stalled(ParentReason::InvalidSpec, message.clone(), Requeue::WhenChanged)
        }
        Problem::Plugin(Failure::Retry { message, after }) => {
            reconciling(ParentReason::Waiting, message.clone(), Requeue::After(asked_wait(*after)))
        }
        Problem::Plugin(Failure::Failed(message)) => reconciling(ParentReason::PluginFailed, message.clone(), BACKOFF),
        Problem::Refused(refusal) => {
            let reason = if refusal.is_malformed { ParentReason::MalformedResponse } else { ParentReason::ResponseRejected };
            let message = format!("The plugin's response was rejected, and nothing was written: {refusal}");
            reconciling(reason, message, BACKOFF)
        }
        Problem::Reads(problem) => {
            let requeue = match problem {
                ReadProblem::Limited(wait) => Requeue::Backoff(*wait),
                problem if problem.reason() == ParentReason::ApiError => UNAVAILABLE,
                _ => BACKOFF,
            };
            reconciling(problem.reason(), problem.to_string(), requeue)
        }
        Problem::WritesLimited(wait) => reconciling(
            ParentReason::RateLimited,
            "No child was written, because the plugin exceeds its rate of writes (docs/limits.md), for this object or for \
             others. The host tries again as soon as the rate allows"
                .to_owned(),
            Requeue::Backoff(*wait),
        ),
        Problem::Writes(writes) => of_writes(writes),
        Problem::CacheBehind(kinds) => reconciling(
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
        Problem::StatusRejected(message) => {
            let message = shortened(message);
            let message = format!("All children were applied, but the API server refused the plugin's status: {message}");
            reconciling(ParentReason::StatusRejected, message, BACKOFF)
        }
        // A smaller child triggers an event, and a new limit activates the component again. Each resync reconciles the other
        // children.
        Problem::LeftOut { children, limit } => {
            stalled(ParentReason::LimitExceeded, of_left_out(children, *limit), Requeue::Settled(None))
        }
        Problem::Terminating(children) => reconciling(
            ParentReason::ChildrenTerminating,
            format!("Waiting for the deletion of {}", list(children.iter())),
            // The end of the deletion triggers a reconcile; the requeue covers deletions that never end.
            Requeue::After(Duration::from_mins(1)),
        ),
        Problem::Rolling(children) => reconciling(
            ParentReason::RollingUpdate,
            format!("{} wait until the children before them are ready", list(children.iter())),
            Requeue::After(Duration::from_mins(1)),
        ),
        Problem::Staged(staged) => {
            let Staged { waiting, not_ready, .. } = &**staged;
            // A change of the awaited children triggers a reconcile; the requeue covers a write that changed nothing.
            let requeue = Requeue::After(Duration::from_mins(1));
            let wait = if waiting.len() == 1 { "waits" } else { "wait" };
            let them = if not_ready.len() == 1 { "it" } else { "them" };
            let message = format!("{}. {} {wait} for {them}", of_not_ready(not_ready), list(waiting.iter()));
            if not_ready.iter().any(|child| child.is_failed) {
                stalled(ParentReason::ChildFailed, message, requeue)
            } else {
                reconciling(ParentReason::WaitingForReady, message, requeue)
            }
        }
        // Allowing the deletions changes the parent or its Plugin, which triggers a reconcile.
        Problem::DeletionsBlocked(blocked) => Outcome {
            cause: blocked.because.reason(),
            ..stalled(ParentReason::DeletionBlocked, blocked.to_string(), Requeue::Settled(None))
        },
        Problem::DeletionsBlockedAtPlugin(plugin) => {
            let message = BlockedDeletions::message_for_parents(plugin);
            let outcome = stalled(ParentReason::DeletionBlocked, message, Requeue::Settled(None));
            Outcome { cause: ParentReason::BlockedAtPlugin, ..outcome }
        }
        // The end of the wait queues this parent.
        Problem::PutOff(awaited) => {
            let message = match awaited {
                Awaited::OtherParents => "Deletions wait until all parents were reconciled with the new component",
                Awaited::Leader => "Deletions wait until the leading host has decided about those of all parents",
                Awaited::Cache => "Deletions wait until the host's watch shows the latest version of this object",
            };
            reconciling(ParentReason::DeletionBlocked, message.to_owned(), Requeue::Pause(Duration::from_mins(1)))
        }
        Problem::Thrashing(objects) => {
            let wait = objects.iter().map(|(_, wait)| *wait).min().unwrap_or(Duration::from_mins(1));
            let message = format!(
                "{} was written too often and is written once a minute now. Each write is undone (by another controller, an \
                 admission webhook or a time to live, such as a Job's ttlSecondsAfterFinished), or the plugin's responses \
                 alternate, for example in the names of children",
                list(objects.iter().map(|(object, _)| object))
            );
            reconciling(ParentReason::Thrashing, message, Requeue::After(wait))
        }
        Problem::Quarantined(wait) => reconciling(
            ParentReason::Quarantined,
            "The plugin is called only seldom, because its calls failed too often in a row: for this object, for several \
             objects of its namespace, or in several namespaces. The events of those objects have the last failure"
                .to_owned(),
            Requeue::Pause(*wait),
        ),
        Problem::Suspended(SuspendedBy::Parent) => suspended(
            ParentReason::Suspended,
            format!("No child is written while the annotation {} is \"true\"", crate::object::names::ANNOTATION_SUSPEND),
        ),
        Problem::Suspended(SuspendedBy::Plugin) => suspended(
            ParentReason::Suspended,
            "No child is written while spec.suspend of the Plugin is true".to_owned(),
        ),
        Problem::HostNamespace(namespace) => stalled(
            ParentReason::HostNamespace,
            format!(
                "Windlass runs in namespace {namespace}, and no plugin reconciles objects there. Create the object in \
                 another namespace"
            ),
            Requeue::WhenChanged,
        ),
        Problem::Released(plugin) => suspended(
            ParentReason::NotSelected,
            format!(
                "Plugin {plugin} no longer selects this object, by its labels, its annotations or its namespace; its children were deleted"
            ),
        ),
        Problem::FinalizerRemoved { end, others } => {
            suspended(ParentReason::FinalizerRemoved, of_finalizer_removed(end, others))
        }
        Problem::Finalizing(asked, waiting) => reconciling(
            ParentReason::Finalizing,
            match waiting {
                Some(waiting) => format!("The plugin has not finished cleaning up: {}. {WAY_OUT}", waiting.trim_end_matches('.')),
                None => format!("The plugin has not finished cleaning up. {WAY_OUT}"),
            },
            Requeue::After(asked.unwrap_or(FINALIZE_AGAIN)),
        ),
    }
}

fn of_finalizer_removed(end: &FinalizerEnd, others: &[String]) -> String {
    let why = match end {
        FinalizerEnd::CleanedUp => "The plugin has cleaned up",
        FinalizerEnd::ChildrenDeleted => "All children are deleted",
        FinalizerEnd::Skipped => "The plugin did not clean up, as a user asked",
        FinalizerEnd::Unneeded => "The component does not clean up",
        FinalizerEnd::NotCalled => "The plugin did not clean up, because no plugin is called in the host's namespace",
        FinalizerEnd::NamespaceTerminating(_) => "The plugin did not clean up, because the namespace is being deleted",
    };
    format!("{why}. Its finalizer is removed; the object is kept by {}", list(others.iter()))
}

/// Names the children that are not ready, each with the reason.
fn of_not_ready(children: &[NotReady]) -> String {
    const SHOWN: usize = 3;
    let mut all: Vec<_> = children.iter().take(SHOWN).map(ToString::to_string).collect();
    match children.len().saturating_sub(SHOWN) {
        0 => {}
        1 => all.push("1 more is not ready".to_owned()),
        more => all.push(format!("{more} more are not ready")),
    }
    all.join("; ")
}

fn of_left_out(children: &[(ChildId, u64)], limit: u64) -> String {
    let named = list(children.iter().map(|(child, size)| format!("{child} ({size} bytes)")));
    let (were, them) = if children.len() == 1 { ("was", "it") } else { ("were", "them") };
    format!(
        "{named} {were} left out of the request, because the request would be larger than {limit} bytes with {them}. Windlass \
         neither changes nor deletes {them}. Make the children smaller, or raise spec.limits.requestBytes in the Plugin"
    )
}

fn call_reason(failure: &CallFailure) -> ParentReason {
    match failure {
        CallFailure::Deadline(_) => ParentReason::DeadlineExceeded,
        CallFailure::Memory(_) => ParentReason::MemoryLimit,
        CallFailure::StackOverflow
        | CallFailure::Trap(_)
        | CallFailure::UnsupportedImport(_)
        | CallFailure::Exit(_) => ParentReason::Trapped,
        CallFailure::TableElements(_)
        | CallFailure::Instances(_)
        | CallFailure::RequestTooLarge { .. }
        | CallFailure::ResponseTooLarge(_) => ParentReason::LimitExceeded,
        CallFailure::Malformed(_) => ParentReason::MalformedResponse,
        CallFailure::Host(_) => ParentReason::HostError,
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

/// Shortens a message of the API server in its middle: the object and the field are named at its beginning, the cause at its end, and a dump
/// of the value may stand between them. The ellipsis touches both parts, as [`masking`](crate::object::masking) expects of a cut.
pub(crate) fn shortened(message: &str) -> std::borrow::Cow<'_, str> {
    const HEAD: usize = 300;
    const TAIL: usize = 200;
    if message.len() <= HEAD + TAIL {
        return message.into();
    }
    let head = message.get(..message.floor_char_boundary(HEAD)).unwrap_or_default();
    let tail = message.get(message.ceil_char_boundary(message.len() - TAIL)..).unwrap_or_default();
    format!("{head}…{tail}").into()
}

/// Truncates a message to 1024 bytes and an ellipsis. A condition's message may have 32 768 characters (API
/// conventions), but a guest's message may be longer, and users cannot read a status of that size.
pub fn bounded(message: String) -> String {
    const MAX: usize = 1024;
    if message.len() <= MAX {
        return message;
    }
    format!("{}…", message.get(..message.floor_char_boundary(MAX)).unwrap_or_default())
}

#[cfg(test)]
mod tests;
