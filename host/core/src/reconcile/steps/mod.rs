//! One reconcile of one parent, from top to bottom: wait for own writes → observe → next step → call → validate → plan → guard → apply →
//! finish.
//!
//! Each step uses the results of the steps before it, and may end the reconcile with an `Ending`, which `finish` reports and remembers.
//! The steps decide; what they read, write, wake and tell goes through the [`World`].

mod desired_state;
mod ending;
mod finalizer;
mod finish;
pub mod not_shown;
mod own_writes_first;
mod report;
mod respond;

use std::sync::Arc;
use std::time::Duration;

use tracing::field::Empty;

use self::desired_state::How;
use self::ending::{Attempt, Ending, Last, NothingToDo, Report, outcome_of};
use super::due::drop_children_of_deselected;
use super::next_step::{Circumstances, NextStep, next_step};
use super::outcome::{FinalizerEnd, Problem, Progress, Requeue, SuspendedBy, UNAVAILABLE};
use super::plan::Plan;
use super::record::Record;
use super::record::steady::Inputs;
use super::shared::Shared;
use super::shared::component_state::Consequences;
use super::terms::Terms;
use super::trigger::Trigger;
use super::world::{Follows, Happened, Selected, Wake, World};
use crate::contract::Phase;
use crate::contract::desired::{self, Desired};
use crate::contract::reserved::HostNamespace;
use crate::contract::snapshot::Snapshot;
use crate::guard::deletions::SpecHash;
use crate::object::Object;
use crate::object::names::ANNOTATION_SUSPEND;
use crate::object::parent::ParentRef;
use crate::object::reason::ParentReason;
use crate::value::ids::ObjectKey;

/// Target of the spans of reconciles.
pub const TRACE: &str = "windlass::trace";

/// Time after which a parent that waits for a cache is reconciled again, if no event queues it earlier.
const CACHE_LAG: Duration = Duration::from_secs(1);

/// One reconcile of a parent. What is rare is boxed in it, so that a reconcile that runs is small.
pub struct Reconcile<'a> {
    /// What it reads from and writes to.
    pub world: &'a dyn World,
    /// The terms of the parent's Plugin.
    pub terms: &'a Terms,
    /// What the parents of the Plugin share.
    pub shared: &'a Shared,
    /// The parent.
    pub key: &'a ObjectKey,
    /// Why it is reconciled.
    pub trigger: Trigger,
}

impl Reconcile<'_> {
    /// Reconciles the parent. Returns when to reconcile it again.
    pub async fn run(&self) -> Requeue {
        let ending = self.steps().await;
        self.finish(ending).await
    }

    /// The steps before `finish`.
    async fn steps(&self) -> Ending {
        if let Some(ending) = self.own_writes_first().await {
            return ending;
        }
        if self.world.follows() != Follows::All {
            return self.not_followed().await;
        }
        let Some(parent) = self.world.cached_parent(self.key) else {
            return Box::pin(self.not_shown()).await;
        };
        let snapshot = self.observe(parent);
        if snapshot.parent.deleting {
            self.record(|record| record.steady.end());
            self.wake(&self.shared.state.forget_deletions(self.key));
        }
        if let Some(host_namespace) = self.world.host_namespace_of(&snapshot.parent) {
            return self.in_host_namespace(snapshot, host_namespace).await;
        }
        let Some(selected) = self.world.selects(&snapshot.parent) else {
            return Ending::waits("waiting_for_namespace", Requeue::Pause(CACHE_LAG));
        };
        match self.terms.next_step(&snapshot.parent, selected) {
            NextStep::Call(phase) => self.call_and_carry_out(snapshot, phase).await,
            NextStep::AddFinalizer => self.add_finalizer(snapshot).await,
            NextStep::RemoveFinalizer => self.skip_clean_up(snapshot).await,
            NextStep::Suspended => suspended(snapshot),
            NextStep::Leave => leave(&snapshot.parent),
            NextStep::DeleteChildren => self.delete_children(snapshot).await,
        }
    }

    /// Brings the children and status of the parent to what its plugin desires, unless nothing has changed since the last time.
    async fn call_and_carry_out(&self, mut snapshot: Snapshot, phase: Phase) -> Ending {
        let (rounds, Selected { objects, took }) = self.required_before(&snapshot.parent_ref).await;
        snapshot.related = objects;
        snapshot.fit(self.terms.limits.request_bytes);
        snapshot.namespace_terminating =
            phase == Phase::Finalize && self.record(|record| record.is_namespace_terminating(&snapshot.parent.uid));
        let call_hash = snapshot.hash(&self.terms.call_inputs, phase);
        let compares = phase == Phase::Sync && self.is_comparison_due();
        let state = self.shared.state.id;
        if let Some(requeue) = self.record(|record| record.steady.before_call(state, call_hash, compares)) {
            return Ending::Unchanged(None, requeue);
        }
        if phase == Phase::Finalize
            && let Some(ending) = self.outdated_before_clean_up(&snapshot).await
        {
            return ending;
        }
        let asked = self.response(&mut snapshot, phase, (rounds, took), call_hash).await;
        let (response, call) = match asked {
            Ok(result) => result,
            Err(problem) => return no_response(snapshot, &problem),
        };
        let may_repeat = response.events.is_empty() && phase == Phase::Sync;
        let hash = may_repeat.then(|| snapshot.hash_response(&self.terms.rules, phase, &response));
        let inputs = Inputs { call: call.map(|call| (state, call)), response: hash, is_compared: compares };
        let same = |hash| self.record(|record| record.steady.before_plan(hash, compares));
        if let Some(requeue) = hash.and_then(same) {
            self.note_nothing_is_deleted(&snapshot);
            return Ending::Unchanged(Some(inputs), requeue);
        }
        let (parent, grants) = (&snapshot.parent_ref, &self.terms.grants);
        let attempt = match desired::validate(&response, parent, grants, &self.terms.limits) {
            Ok(desired) => {
                let desired = drop_children_of_deselected(desired, &snapshot, phase);
                // A parent that is finalized but not deleted has left the label selector or the Plugin's namespaces.
                let is_selected = phase == Phase::Sync || snapshot.parent.deleting;
                let how = How { phase, is_selected, compares };
                Attempt { events: response.events, ..self.carry_out(&snapshot, how, desired).await }
            }
            Err(refusal) => Attempt::from(&Problem::Refused(refusal)),
        };
        match self.end_of_finalizer(&snapshot, phase, &attempt) {
            Some(end) => {
                let Attempt { part, applied, events, .. } = attempt;
                Box::pin(self.end_clean_up(snapshot, end, Last { part, applied, events })).await
            }
            None => Ending::Report(Box::new(Report { inputs, ..Report::new(snapshot, attempt) })),
        }
    }

    /// Deletes the children of an object that is no longer a parent, as far as the deletion guard allows (rule R9).
    async fn delete_children(&self, snapshot: Snapshot) -> Ending {
        if !snapshot.children.iter().any(|child| child.controller.is_some()) {
            // The object may be a parent of another plugin: the host reports nothing on it, and does not wait for its
            // deletions.
            return Ending::nothing_to_do(NothingToDo::NotSelected);
        }
        let how = How { phase: Phase::Sync, is_selected: false, compares: false };
        let mut attempt = self.carry_out(&snapshot, how, Desired::default()).await;
        if attempt.outcome.progress == Progress::Applied {
            attempt.outcome = outcome_of(&Problem::Released(self.terms.name.clone()));
        }
        // The next reconcile is not skipped, because the object may become a parent again.
        Ending::outcome(snapshot, attempt)
    }

    /// Ends the reconcile of a parent whose caches are out of date. The Plugin's status reports why; when the watches recover, the host
    /// queues the parents that failed meanwhile.
    async fn not_followed(&self) -> Ending {
        let failure = Some((ParentReason::ApiError, "a kind of the plugin cannot be watched"));
        let waits = Ending::Waits { outcome: "not_followed", failure, requeue: UNAVAILABLE };
        self.skip_clean_up_unobserved().await.unwrap_or(waits)
    }

    /// Refuses a parent in the host's namespace: a plugin that saw objects there, or had children there, could act as the host.
    async fn in_host_namespace(&self, snapshot: Snapshot, host_namespace: HostNamespace) -> Ending {
        // The plugin does not clean up there either, so the host removes its finalizer.
        let never_calls = Circumstances { finalizes: false, suspended: false, selected: true };
        match next_step(&snapshot.parent, &self.terms.name, never_calls) {
            NextStep::RemoveFinalizer => return self.remove_finalizer(snapshot, FinalizerEnd::NotCalled).await,
            NextStep::Leave => return Ending::nothing_to_do(NothingToDo::InHostNamespace),
            NextStep::Call(_) | NextStep::AddFinalizer | NextStep::Suspended | NextStep::DeleteChildren => {}
        }
        // Objects of a kind that exists without the plugin have other owners: the host reports nothing on them.
        let attempt =
            Attempt { silent: !self.terms.owns_kind, ..Attempt::from(&Problem::HostNamespace(host_namespace)) };
        Ending::outcome(snapshot, attempt)
    }

    /// The snapshot of the parent, with its children from the caches.
    fn observe(&self, parent: Arc<Object>) -> Snapshot {
        let span = tracing::debug_span!(target: TRACE, "observe", windlass.children = Empty);
        let snapshot = span.in_scope(|| self.around(parent));
        span.record("windlass.children", int(snapshot.children.len()));
        self.world.note(Happened::Seen(&snapshot));
        snapshot
    }

    /// This parent, with its children from the caches.
    fn around(&self, parent: Arc<Object>) -> Snapshot {
        let parent_ref = ParentRef::of(&self.terms.name, &parent, self.terms.mark_key.as_ref());
        let (children, config) = (self.world.children(&parent_ref), self.terms.config.clone());
        Snapshot::new(parent_ref, parent, children, config, |plugin| self.world.inherits(plugin))
    }

    /// Whether the values of the children are compared with the desired ones, although managedFields show no change: they show changes by
    /// other managers; a change under the host's own field manager shows in the values alone.
    fn is_comparison_due(&self) -> bool {
        let is_due = |record: &mut Record| record.steady.is_comparison_due(self.terms.resync, self.shared.clock.now());
        self.trigger == Trigger::Resync || self.record(is_due)
    }

    /// Tells the rollout that this parent was called and deletes nothing: other parents may wait for that.
    fn note_nothing_is_deleted(&self, snapshot: &Snapshot) {
        self.guard(snapshot, (Phase::Sync, true), &mut Plan::default());
        self.note_observed(&snapshot.parent);
    }

    /// Remembers the spec of a parent, as `status.observedGeneration` does for a kind whose status the host writes.
    fn note_observed(&self, parent: &Object) {
        let observed = (!self.terms.shape.has_generation()).then(|| SpecHash::of(parent));
        self.record(|record| record.observed = observed);
    }

    /// Gives access to the record of the parent.
    fn record<T>(&self, access: impl FnOnce(&mut Record) -> T) -> T {
        self.shared.records.with(self.key, access)
    }

    /// Wakes the other parents, and the Plugin, that a decision about deletions concerns.
    fn wake(&self, consequences: &Consequences) {
        consequences.parents.iter().for_each(|parent| self.world.wake(Wake::Parent(parent)));
        if consequences.plugin {
            self.world.wake(Wake::Plugin);
        }
    }
}

/// Ends a reconcile without a response, and reports why.
fn no_response(snapshot: Snapshot, problem: &Problem) -> Ending {
    let silent = respond::is_omitted_from_status(problem) && respond::is_observed(&snapshot.parent);
    Ending::outcome(snapshot, Attempt { silent, ..Attempt::from(problem) })
}

/// Ends the reconcile of a parent that needs nothing: it is being deleted without the plugin's finalizer, or it was deselected while it or
/// its Plugin is suspended. The rollout does not wait for it; the blocked deletions of a deselected parent stay in the rollout.
fn leave(parent: &Object) -> Ending {
    Ending::nothing_to_do(if parent.deleting { NothingToDo::Deleting } else { NothingToDo::DeselectedWhileSuspended })
}

/// Reports `Suspended` in the parent's status. If the whole Plugin is suspended, the Plugin's status says so, and only parents that are
/// being deleted report it as well.
fn suspended(snapshot: Snapshot) -> Ending {
    let by = if snapshot.parent.marks.is_true(ANNOTATION_SUSPEND) { SuspendedBy::Parent } else { SuspendedBy::Plugin };
    if by == SuspendedBy::Plugin && !snapshot.parent.deleting {
        return Ending::nothing_to_do(NothingToDo::PluginSuspended);
    }
    Ending::problem(snapshot, &Problem::Suspended(by))
}

/// A count as a span attribute: OpenTelemetry has no unsigned integers.
fn int(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
