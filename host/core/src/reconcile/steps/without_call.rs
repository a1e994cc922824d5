//! The ends of reconciles without a response of the plugin, or without a call.

use super::Reconcile;
use super::ending::{Attempt, Ending, Last, NothingToDo, Reporting};
use crate::contract::related::ReadProblem;
use crate::contract::reserved::HostNamespace;
use crate::contract::snapshot::Snapshot;
use crate::object::Object;
use crate::object::names::ANNOTATION_SUSPEND;
use crate::object::observed_status::observed;
use crate::object::reason::ParentReason;
use crate::reconcile::next_step::{Circumstances, CleanUp, NextStep, next_step};
use crate::reconcile::outcome::{FinalizerEnd, Problem, SuspendedBy, UNAVAILABLE};

impl Reconcile<'_> {
    /// Ends the reconcile of a parent whose caches are out of date. The Plugin's status reports why; when the watches recover, the host
    /// queues the parents that failed meanwhile.
    pub(super) async fn not_followed(&self) -> Ending {
        let failure = Some((ParentReason::ApiError, "a kind of the plugin cannot be watched"));
        let waits = Ending::Waits { outcome: "not_followed", failure, requeue: UNAVAILABLE };
        self.skip_clean_up_unobserved().await.unwrap_or(waits)
    }

    /// Refuses a parent in the host's namespace: a plugin that saw objects there, or had children there, could act as the host.
    pub(super) async fn in_host_namespace(&self, snapshot: Snapshot, host_namespace: HostNamespace) -> Ending {
        // The plugin does not clean up there either, so the host removes its finalizer.
        let never_calls = Circumstances { clean_up: CleanUp::None, suspended: false, selected: true };
        match next_step(&snapshot.parent, &self.terms.name, never_calls) {
            NextStep::RemoveFinalizer => {
                return self.set_finalizer(snapshot, Some(FinalizerEnd::NotCalled), Last::default()).await;
            }
            NextStep::Leave => return Ending::NothingToDo(NothingToDo::InHostNamespace),
            NextStep::Call(_)
            | NextStep::AddFinalizer
            | NextStep::DeleteInOrder
            | NextStep::Suspended
            | NextStep::DeleteChildren => {}
        }
        // Objects of a kind that exists without the plugin have other owners: the host reports nothing on them.
        let reporting = Reporting::omitted_if(!self.terms.owns_kind);
        let attempt = Attempt { reporting, ..Attempt::from(&Problem::HostNamespace(host_namespace)) };
        Ending::outcome(snapshot, attempt)
    }
}

/// Ends a reconcile without a response, and reports why.
pub(super) fn no_response(snapshot: Snapshot, problem: &Problem) -> Ending {
    let reporting = Reporting::omitted_if(is_omitted_from_status(problem) && is_observed(&snapshot.parent));
    Ending::outcome(snapshot, Attempt { reporting, ..Attempt::from(problem) })
}

/// Ends the reconcile of a parent that needs nothing: it is being deleted without the plugin's finalizer, or it was deselected while it or
/// its Plugin is suspended. The rollout does not wait for it; the blocked deletions of a deselected parent stay in the rollout.
pub(super) fn leave(parent: &Object) -> Ending {
    Ending::NothingToDo(if parent.deleting { NothingToDo::Deleting } else { NothingToDo::DeselectedWhileSuspended })
}

/// Reports `Suspended` in the parent's status. If the whole Plugin is suspended, the Plugin's status says so, and only parents that are
/// being deleted report it as well.
pub(super) fn suspended(snapshot: Snapshot) -> Ending {
    let by = if snapshot.parent.marks.is_true(ANNOTATION_SUSPEND) { SuspendedBy::Parent } else { SuspendedBy::Plugin };
    if by == SuspendedBy::Plugin && !snapshot.parent.deleting {
        return Ending::NothingToDo(NothingToDo::PluginSuspended);
    }
    Ending::problem(snapshot, &Problem::Suspended(by))
}

/// Whether the status is left as it is for this problem, if it already has the current generation.
fn is_omitted_from_status(problem: &Problem) -> bool {
    // The Plugin's status reports a quarantine; ten thousand parents need not repeat it. After a start, a large cache takes a
    // while to fill, which harms no parent. A watch that fails or is silent is another problem.
    matches!(problem, Problem::Quarantined(_) | Problem::Reads(ReadProblem::NotFilled { .. }))
}

/// Whether the status is about the parent's current generation.
fn is_observed(parent: &Object) -> bool {
    let observed = observed(parent).get("observedGeneration").cloned();
    observed.is_some() && observed == parent.generation.map(Into::into)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::value::ids::Gvk;

    #[test]
    fn parent_does_not_become_unready_while_a_related_cache_is_filled_after_a_start() {
        let kind = || Gvk::from_api_version("v1", "Secret");
        assert!(is_omitted_from_status(&Problem::Reads(ReadProblem::NotFilled {
            kind: kind(),
            waited: Duration::from_secs(10)
        })));
        let refused = ReadProblem::NotWatched { kind: kind(), code: 403, message: String::new() };
        for reported in [refused, ReadProblem::Stalled { kind: kind(), message: String::new() }, ReadProblem::Unsettled]
        {
            assert!(!is_omitted_from_status(&Problem::Reads(reported)));
        }
    }
}
