//! Every way a reconcile can end → what the conditions say, and when the parent is looked at again.

use std::cmp::Reverse;
use std::time::Duration;

use crate::contract::{CallFailure, Failure};
use crate::desired::{Refusal, asked_wait};
use crate::guard::Held;
use crate::ids::PluginName;
use crate::names::parent_reason as reason;
use crate::plan::ChildId;
use crate::related::ReadProblem;
use crate::reserved::HostNamespace;

/// Why a reconcile did not bring its parent to what is desired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The plugin gave no answer.
    Call(CallFailure),
    /// The plugin answered with a failure.
    Plugin(Failure),
    /// The plugin's answer was refused.
    Refused(Refusal),
    /// What the plugin requires is not served.
    Reads(ReadProblem),
    /// Writes that did not succeed, with the children they were for.
    Writes(Vec<(ChildId, WriteProblem)>),
    /// The watches of these kinds have not shown the host's own last writes for long, so nothing is decided (rule R3).
    CacheBehind(Vec<String>),
    /// Wanted children that are still being deleted.
    Terminating(Vec<ChildId>),
    /// Children that wait until others are ready (`rolling`).
    Rolling(Vec<ChildId>),
    /// Deletions of children that nobody asked for (rule R9).
    Held(Held),
    /// The same, of many parents of a Plugin.
    HeldAtPlugin(PluginName),
    /// Deletions that wait until new logic was asked for all parents (rule R9).
    PutOff,
    /// Objects that were written too often, and how long each must rest (rule R18).
    Thrashing(Vec<(ChildId, Duration)>),
    /// The plugin has no tokens left for writes of children; the next ones come after this time.
    WritesLimited(Duration),
    /// The plugin failed too often in a row; its next probe is so far away (rule R19).
    Quarantined(Duration),
    /// Nothing is to be written: by the parent's annotation, or by the Plugin (rule R16).
    Suspended(SuspendedBy),
    /// It lives in the host's own namespace, in which no plugin has parents.
    HostNamespace(HostNamespace),
    /// It is no longer a parent of the plugin; what was made for it is gone.
    Released(PluginName),
    /// The plugin was asked to clean up and has not finished; it wants to be asked again after so long (rule R14).
    Finalizing(Option<Duration>),
    /// The API server refused the plugin's part of the status.
    StatusRejected(String),
    /// Children that were not shown to the plugin, with their sizes in bytes, because the request would be larger than the
    /// limit.
    LeftOut {
        /// The children.
        children: Vec<(ChildId, u64)>,
        /// The limit of the request, in bytes.
        limit: u64,
        /// When the plugin wants to be asked again.
        again: Option<Duration>,
    },
}

/// Who suspended a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuspendedBy {
    /// Its own annotation.
    Parent,
    /// Its Plugin.
    Plugin,
}

/// Why one write did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteProblem {
    /// The name is taken by an object that is not this parent's (rule R5).
    Taken,
    /// Another applier owns fields of the child (rule R6).
    FieldConflict {
        /// What the API server said of the fields and their managers.
        conflicts: Vec<String>,
    },
    /// The object exists and is marked as this parent's child, but the cache did not show it: nothing of it was written
    /// (rule R3).
    CacheBehind,
    /// The child cannot be created: its namespace is being deleted.
    NamespaceTerminating,
    /// The object changed or went between the plan and the write: the next event brings the new state.
    Outdated,
    /// The API server refuses this object as it is.
    Rejected {
        /// HTTP status.
        code: u16,
        /// What it said.
        message: String,
    },
    /// The API server could not be asked, or wants to be left alone for a while.
    Unavailable {
        /// What happened.
        message: String,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
}

impl WriteProblem {
    /// Whether other children can be written all the same. The rest is about the API server, or the host's view of it:
    /// whatever is sent after it meets the same, and takes as long.
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

/// When a parent is looked at again, if nothing happens before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// After the plugin's resync interval, or what it asked for.
    Settled(Option<Duration>),
    /// After this long, or up to a tenth later; how often it failed before is neither forgotten nor added to.
    Pause(Duration),
    /// After this long.
    After(Duration),
    /// After the key's backoff, and at least this long.
    Backoff(Duration),
    /// After a backoff of seconds, and at least this long: the API server failed, which says nothing of the key. Keys must
    /// not stay behind for minutes when it is well again.
    Unavailable(Duration),
    /// Only when it changes.
    WhenChanged,
    /// Never: it is gone for good, and nothing of it is kept.
    Gone,
}

/// How far a parent is on its way to what is desired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// All that is desired was written.
    Applied,
    /// Not yet; it is tried again (kstatus `Reconciling`).
    Reconciling,
    /// Nothing will be tried before the parent or the plugin changes (kstatus `Stalled`).
    Stalled,
    /// Nothing is tried because a person said so: neither on its way nor at an end.
    Suspended,
}

/// How a reconcile ended, in the terms of conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// How far the parent is.
    pub progress: Progress,
    /// Reason for the conditions; one of [`crate::names::parent_reason`].
    pub reason: &'static str,
    /// Message for the conditions.
    pub message: String,
    /// When to look again.
    pub requeue: Requeue,
}

impl Verdict {
    /// All that is desired was written.
    pub fn applied(children: usize, requeue: Option<Duration>) -> Self {
        let noun = if children == 1 { "child" } else { "children" };
        Self {
            progress: Progress::Applied,
            reason: reason::SUCCEEDED,
            message: format!("{children} {noun} applied"),
            requeue: Requeue::Settled(requeue),
        }
    }
}

/// When a plugin that cleans up is asked again, if it doesn't say.
const FINALIZE_AGAIN: Duration = Duration::from_secs(10);

/// How long a plugin may go on to ask for children in a namespace that is being deleted, before its finalizer is removed all
/// the same: no child can be created there any more, and the finalizer would keep the namespace for ever.
pub const NAMESPACE_PATIENCE: Duration = Duration::from_secs(30);

const WAY_OUT: &str = "To delete the object without it, annotate the object with windlass.dev/skip-finalize=true";

impl Verdict {
    /// The same of a parent that is being deleted: names the way out, so that nobody is stuck with a broken plugin. A
    /// plugin that refuses to clean up is asked again: nothing else can change what it says.
    #[must_use]
    pub fn while_finalizing(mut self) -> Self {
        if !self.message.contains(WAY_OUT) {
            self.message = format!("Cleaning up before the deletion: {}. {WAY_OUT}", self.message);
        }
        if matches!(self.requeue, Requeue::WhenChanged | Requeue::Settled(None)) && self.progress == Progress::Stalled {
            self.requeue = BACKOFF;
            self.progress = Progress::Reconciling;
        }
        self
    }
}

/// In the message of what passes within a second, and is nothing to tell anybody.
pub const TRYING_AGAIN: &str = "trying again";

/// After the key's backoff.
pub const BACKOFF: Requeue = Requeue::Backoff(Duration::ZERO);

/// As soon as the API server may be well again.
pub const UNAVAILABLE: Requeue = Requeue::Unavailable(Duration::ZERO);

/// How long a parent waits for its own writes before its conditions say so (rule R3). A watch lags by milliseconds; one
/// that lags longer is being restarted.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How often a parent that waits for its own writes looks for them, if no event comes first.
pub const LOOK_AGAIN: Duration = Duration::from_secs(5);

impl From<&Problem> for Verdict {
    #[expect(clippy::too_many_lines, reason = "a table: one row for each problem")]
    fn from(problem: &Problem) -> Self {
        let (reason, message, requeue) = match problem {
            Problem::Call(failure) => (call_reason(failure), format!("The plugin's call failed: {failure}"), BACKOFF),
            Problem::Plugin(Failure::Invalid(message)) => (reason::INVALID_SPEC, message.clone(), Requeue::WhenChanged),
            Problem::Plugin(Failure::Retry { message, after }) => {
                (reason::WAITING, message.clone(), Requeue::After(asked_wait(*after)))
            }
            Problem::Plugin(Failure::Failed(message)) => (reason::PLUGIN_FAILED, message.clone(), BACKOFF),
            Problem::Refused(refusal) => {
                let reason = if refusal.is_malformed() { reason::MALFORMED_RESPONSE } else { reason::RESPONSE_REJECTED };
                (reason, format!("The plugin's answer was refused, nothing was written: {refusal}"), BACKOFF)
            }
            Problem::Reads(problem) => {
                let requeue = match problem {
                    ReadProblem::Limited { wait } => Requeue::Backoff(*wait),
                    problem if problem.reason() == reason::API_ERROR => UNAVAILABLE,
                    _ => BACKOFF,
                };
                (problem.reason(), problem.to_string(), requeue)
            }
            Problem::WritesLimited(wait) => (
                reason::RATE_LIMITED,
                "No child is written, because the plugin wants more writes than its rate allows (docs/limits.md), for this \
                 object or for others; this object is tried again as soon as writes are allowed"
                    .to_owned(),
                Requeue::Backoff(*wait),
            ),
            Problem::Writes(writes) => of_writes(writes),
            Problem::CacheBehind(kinds) => (
                reason::CACHE_BEHIND,
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
                reason::STATUS_REJECTED,
                format!("All children were applied, but the API server refused the plugin's status: {message}"),
                BACKOFF,
            ),
            Problem::LeftOut { children, limit, again } => of_left_out(children, *limit, *again),
            Problem::Terminating(children) => (
                reason::CHILDREN_TERMINATING,
                format!("Waiting for the deletion of {}", list(children.iter())),
                // The deletion is an event of its own; this is for the case that it never ends.
                Requeue::After(Duration::from_mins(1)),
            ),
            Problem::Rolling(children) => (
                reason::ROLLING_UPDATE,
                format!("{} wait until the children before them are ready", list(children.iter())),
                Requeue::After(Duration::from_mins(1)),
            ),
            // Allowing it changes the parent or its Plugin, and that is an event.
            Problem::Held(held) => (reason::DELETION_BLOCKED, held.to_string(), Requeue::Settled(None)),
            Problem::HeldAtPlugin(plugin) => {
                (reason::DELETION_BLOCKED, Held::told_to_parents(plugin), Requeue::Settled(None))
            }
            // Whoever decides it looks at this parent again.
            Problem::PutOff => (
                reason::DELETION_BLOCKED,
                "Deletions wait until the new logic was asked for all objects".to_owned(),
                Requeue::Pause(Duration::from_mins(1)),
            ),
            Problem::Thrashing(objects) => of_thrashing(objects),
            Problem::Quarantined(wait) => (
                reason::QUARANTINED,
                "The plugin is called only now and then, because its calls failed too often in a row: for this object, for \
                 several in its namespace, or in several namespaces; the last failure is in the events of those objects"
                    .to_owned(),
                Requeue::Pause(*wait),
            ),
            Problem::Suspended(by) => (reason::SUSPENDED, suspended(*by), Requeue::WhenChanged),
            Problem::HostNamespace(namespace) => (
                reason::HOST_NAMESPACE,
                format!(
                    "Namespace {namespace} is Windlass' own, and no plugin reconciles objects there; create the object in \
                     another namespace"
                ),
                Requeue::WhenChanged,
            ),
            Problem::Released(plugin) => (
                reason::NOT_SELECTED,
                format!(
                    "It has left the selector or the namespaces of Plugin {plugin}, and what was made for it was deleted"
                ),
                Requeue::WhenChanged,
            ),
            Problem::Finalizing(asked) => (
                reason::FINALIZING,
                format!("The plugin has not finished cleaning up. {WAY_OUT}"),
                Requeue::After(asked.unwrap_or(FINALIZE_AGAIN)),
            ),
        };
        let progress = match problem {
            Problem::Suspended(_) | Problem::Released(_) => Progress::Suspended,
            // Only a person's word goes on from here.
            Problem::Held(_) | Problem::HeldAtPlugin(_) | Problem::LeftOut { .. } => Progress::Stalled,
            _ if requeue == Requeue::WhenChanged => Progress::Stalled,
            _ => Progress::Reconciling,
        };
        Self { progress, reason, message: bounded(message), requeue }
    }
}

fn of_left_out(children: &[(ChildId, u64)], limit: u64, again: Option<Duration>) -> (&'static str, String, Requeue) {
    let named = list(children.iter().map(|(child, size)| format!("{child} ({size} bytes)")));
    let them = if children.len() == 1 { "it" } else { "them" };
    let message = format!(
        "The plugin is not shown {named}, which Windlass neither changes nor deletes: with {them} the request would be larger \
         than {limit} bytes. Make the children smaller, or raise spec.limits.requestBytes in the Plugin"
    );
    // A smaller child is an event, and another limit is a new component; the other children are looked at with each resync.
    (reason::LIMIT_EXCEEDED, message, Requeue::Settled(again))
}

fn call_reason(failure: &CallFailure) -> &'static str {
    match failure {
        CallFailure::Deadline { .. } => reason::DEADLINE_EXCEEDED,
        CallFailure::Memory { .. } => reason::MEMORY_LIMIT,
        CallFailure::StackOverflow
        | CallFailure::Trap { .. }
        | CallFailure::UnknownImport { .. }
        | CallFailure::Exit { .. } => reason::TRAPPED,
        CallFailure::TableElements { .. }
        | CallFailure::Instances { .. }
        | CallFailure::RequestTooLarge { .. }
        | CallFailure::ResponseTooLarge { .. } => reason::LIMIT_EXCEEDED,
        CallFailure::Malformed { .. } => reason::MALFORMED_RESPONSE,
        CallFailure::Host { .. } => reason::HOST_ERROR,
    }
}

/// The gravest problem speaks for all: what a person must settle first, then what the API server refuses, then what
/// passes by itself.
#[expect(clippy::too_many_lines, reason = "a table: one row for each problem")]
fn of_writes(writes: &[(ChildId, WriteProblem)]) -> (&'static str, String, Requeue) {
    // Of equals always the same: writes end in any order, and another message would be another write of the status.
    let gravest = writes.iter().min_by_key(|(child, problem)| (Reverse(gravity(problem)), child.to_string()));
    let Some((child, problem)) = gravest else {
        return (reason::API_ERROR, "A write failed".to_owned(), BACKOFF);
    };
    let more = match writes.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more with problems)"),
    };
    let (reason, message, requeue) = match problem {
        WriteProblem::Taken => (
            reason::CONFLICT,
            format!(
                "{child} exists already and is not a child of this object; it was left alone. Delete or rename it{more}"
            ),
            BACKOFF,
        ),
        WriteProblem::FieldConflict { conflicts } => (
            reason::FIELD_CONFLICT,
            format!(
                "Nothing of {child} was written, because others own fields of it: {}. Annotate the child with {}=true in \
                 the plugin's answer to take them over{more}",
                conflicts.join("; "),
                crate::names::ANNOTATION_TAKE_OVER
            ),
            BACKOFF,
        ),
        WriteProblem::Rejected { code, message } => {
            let hint = match code {
                422 if is_about_immutability(message) => {
                    "; a plugin that asks for the update strategy `recreate` for this kind has it deleted and made anew"
                }
                403 if message.contains(" cannot impersonate ") => {
                    "; the host's own Role is older than the host: apply Windlass' manifests again"
                }
                403 if message.contains(" cannot ") => {
                    "; the Plugin's ServiceAccount lacks this right: grant it, as `windlass push --create-rbac` does"
                }
                _ => "",
            };
            (reason::CHILD_REJECTED, format!("The API server refused {child} ({code}): {message}{hint}{more}"), BACKOFF)
        }
        WriteProblem::Unavailable { message, .. } => {
            (reason::API_ERROR, format!("{child} could not be written: {message}{more}"), UNAVAILABLE)
        }
        WriteProblem::CacheBehind => (
            reason::CACHE_BEHIND,
            format!(
                "{child} exists and is marked as a child of this object, but the host's watch of {} has not shown it yet; \
                 it was left as it is until the watch does{more}",
                child.kind.kind
            ),
            Requeue::Pause(LOOK_AGAIN),
        ),
        WriteProblem::NamespaceTerminating => (
            reason::NAMESPACE_TERMINATING,
            format!("{child} cannot be created, because its namespace is being deleted{more}"),
            BACKOFF,
        ),
        WriteProblem::Outdated => {
            (reason::API_ERROR, format!("{child} changed while it was written; {TRYING_AGAIN}{more}"), UNAVAILABLE)
        }
    };
    (reason, message, as_asked(requeue, writes))
}

/// Longest wait that the API server, or a proxy before it, may ask for: objects must not stay wrong for an hour because of
/// one answer.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

/// Not before the API server wants to be asked again, whichever of the problems is named.
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

/// The API server has no reason of its own for a field that must not change; these are the words of its validation.
fn is_about_immutability(message: &str) -> bool {
    ["immutable", "may not change", "may not be changed", "updates to "].iter().any(|words| message.contains(words))
}

fn of_thrashing(objects: &[(ChildId, Duration)]) -> (&'static str, String, Requeue) {
    let wait = objects.iter().map(|(_, wait)| *wait).min().unwrap_or(Duration::from_mins(1));
    let names: Vec<ChildId> = objects.iter().map(|(object, _)| object.clone()).collect();
    let message = format!(
        "{} was written too often and is written once a minute now: the plugin's answers flip, or somebody else keeps \
         changing it",
        list(names.iter())
    );
    (reason::THRASHING, message, Requeue::After(wait))
}

fn suspended(by: SuspendedBy) -> String {
    match by {
        SuspendedBy::Parent => {
            format!("Nothing is written while the annotation {} is \"true\"", crate::names::ANNOTATION_SUSPEND)
        }
        SuspendedBy::Plugin => "Nothing is written while the Plugin says spec.suspend".to_owned(),
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

/// A condition's message holds 32 768 characters (API conventions); a guest's trap or message may be longer, and a
/// status that large helps nobody.
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
