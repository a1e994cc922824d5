//! The ways in which one reconcile can end. `finish` does what each of them requires.

use std::time::Duration;

use crate::contract::Event;
use crate::contract::snapshot::Snapshot;
use crate::object::reason::ParentReason;
use crate::reconcile::applied::Applied;
use crate::reconcile::outcome::{FinalizerEnd, Outcome, Problem, Requeue};
use crate::reconcile::record::steady::Inputs;
use crate::reconcile::written::Written;
use crate::value::json::Map;

/// How one reconcile ended.
#[derive(strum::IntoStaticStr)]
pub(super) enum Ending {
    /// No watch shows the parent, and it has no children that the host must delete: everything about it is forgotten. It does not exist, or
    /// an event will queue it.
    Gone,
    /// The host has nothing to do for the parent until something changes, and reports nothing on it.
    NothingToDo(NothingToDo),
    /// The reconcile waits for a cache. The deletions of other parents still wait for it.
    Waits {
        /// What it waits for, for the span.
        outcome: &'static str,
        /// What the Plugin's status counts as a failure of this parent; none for a regular wait.
        failure: Option<(ParentReason, &'static str)>,
        requeue: Requeue,
    },
    /// The reconcile failed before its plan, and the parent's status cannot report it. The deletions of other parents no longer wait for it.
    Unreported {
        /// For the span.
        outcome: &'static str,
        reason: ParentReason,
        message: String,
        requeue: Requeue,
    },
    /// Nothing has changed since the last reconcile (rule R17). The inputs are those of a call that returned the same response; none if the
    /// call was skipped.
    Unchanged(Option<Inputs>, Requeue),
    /// The finalizer was set or removed, or the parent was gone by then. The parent is reconciled again as soon as its cache shows that.
    FinalizerChanged(Box<FinalizerChanged>),
    /// The host has an outcome to report in the parent's status.
    Report(Box<Report>),
    /// No watch shows the parent, because it has left the label selector: no event will queue it, so it is reconciled again after a while.
    Unshown(Box<Ending>),
}

/// Why the host has nothing to do for a parent.
#[derive(Clone, Copy)]
pub(super) enum NothingToDo {
    /// It is being deleted, and has no finalizer of the plugin.
    Deleting,
    /// Its Plugin does not select it any more, but it or its Plugin is suspended, so its children stay. Its blocked deletions stay in the
    /// rollout.
    DeselectedWhileSuspended,
    /// Its Plugin is suspended and selects it.
    PluginSuspended,
    /// It is in the host's namespace, and is being deleted without the plugin's finalizer.
    InHostNamespace,
    /// The Plugin does not select it, and it has no children.
    NotSelected,
}

/// Finalizers that were set or removed.
pub(super) struct FinalizerChanged {
    pub snapshot: Snapshot,
    pub written: Written,
    /// Why one was removed. None if they were set.
    pub removed: Option<FinalizerEnd>,
    pub last: Last,
}

/// What is left of the last response of a plugin when its finalizer is removed.
#[derive(Default)]
pub(super) struct Last {
    /// The plugin's part of the status, if the response has one.
    pub part: Option<Map>,
    pub applied: Applied,
    pub events: Vec<Event>,
}

/// The outcome of a reconcile, with everything that is reported and remembered of it.
pub(super) struct Report {
    pub snapshot: Snapshot,
    pub attempt: Attempt,
    /// The inputs of this result. If it needed no write, a later reconcile with the same inputs is skipped (rule R17).
    pub inputs: Inputs,
    /// Whether this outcome reports a long wait for the host's own writes.
    pub is_long_wait: bool,
}

/// What a reconcile came to, before it is reported.
pub(super) struct Attempt {
    /// The plugin's part of the status, if the response has one.
    pub part: Option<Map>,
    pub applied: Applied,
    pub outcome: Outcome,
    /// False if no plan was made. Then the rollout stops waiting for this parent's deletions.
    pub is_planned: bool,
    /// Whether the plugin has cleaned up, so that the finalizer may be removed.
    pub finalized: bool,
    pub reporting: Reporting,
    /// The events of the response.
    pub events: Vec<Event>,
}

/// Whether the outcome is reported: in the parent's status, by events, and as a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reporting {
    Full,
    /// The status is left as it is, because the problem passes soon or the Plugin's status reports it. Events tell of
    /// writes, and those of the response are emitted.
    WritesOnly,
}

impl Reporting {
    pub fn omitted_if(is_omitted: bool) -> Self {
        if is_omitted { Self::WritesOnly } else { Self::Full }
    }
}

/// The outcome of a problem, which is traced for developers: the simulator counts by it which problems its histories reach.
pub(super) fn outcome_of(problem: &Problem) -> Outcome {
    tracing::trace!(?problem);
    if let Problem::Writes(failed) = problem {
        for (_, problem) in failed {
            tracing::trace!(write_problem = ?problem);
        }
    }
    Outcome::from(problem)
}

impl From<&Problem> for Attempt {
    /// A reconcile that ended before its plan, so that nothing was sent.
    fn from(problem: &Problem) -> Self {
        Self {
            part: None,
            applied: Applied::default(),
            outcome: outcome_of(problem),
            is_planned: false,
            finalized: false,
            reporting: Reporting::Full,
            events: Vec::new(),
        }
    }
}

impl Report {
    /// No inputs are remembered, so the next reconcile is not skipped.
    pub fn new(snapshot: Snapshot, attempt: Attempt) -> Self {
        Self { snapshot, attempt, inputs: Inputs::default(), is_long_wait: false }
    }
}

impl Ending {
    /// The reconcile goes on later.
    pub fn waits(outcome: &'static str, requeue: Requeue) -> Self {
        Self::Waits { outcome, failure: None, requeue }
    }

    /// Reports this outcome; the next reconcile is not skipped.
    pub fn outcome(snapshot: Snapshot, attempt: Attempt) -> Self {
        Self::Report(Box::new(Report::new(snapshot, attempt)))
    }

    /// Reports a problem that prevented a plan.
    pub fn problem(snapshot: Snapshot, problem: &Problem) -> Self {
        Self::outcome(snapshot, Attempt::from(problem))
    }
}

/// The requeue of a parent whose changes no watch shows.
pub(super) fn at_the_latest(requeue: Requeue, after: Duration) -> Requeue {
    match requeue {
        Requeue::WhenChanged | Requeue::Settled(_) => Requeue::After(after),
        Requeue::Pause(_) | Requeue::After(_) | Requeue::Backoff(_) | Requeue::Unavailable(_) | Requeue::Gone => {
            requeue
        }
    }
}
