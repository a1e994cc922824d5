//! One reconcile of one parent, from top to bottom: own writes seen → caches followed → observe → next step → required objects → call →
//! validate → plan → guard → rate → breaker → apply → finish.
//!
//! Each step uses the results of the steps before it, and may end the reconcile with an `Ending`, which `finish` reports and remembers.
//! The steps decide; what they read, write, wake and tell goes through the [`World`].

mod ending;
mod finalizer;
mod finish;
pub mod not_shown;
mod once;
mod own_writes_first;
mod plan_and_apply;
mod report;
mod respond;
mod without_call;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tracing::field::Empty;

use self::ending::{Attempt, Ending, Last, NothingToDo, Report, Reporting, outcome_of};
use self::plan_and_apply::take_tokens;
use self::without_call::{leave, no_response, suspended};
use super::applied::Applied;
use super::carried::Carried;
use super::next_step::{NextStep, keeps_children};
use super::not_ready::NotReady;
use super::outcome::{FinalizerEnd, Outcome, Problem, Progress, Requeue};
use super::plan::Plan;
use super::record::Record;
use super::record::steady::{Compared, Inputs, earlier};
use super::shared::Shared;
use super::shared::component_state::Consequences;
use super::terms::Terms;
use super::trigger::Trigger;
use super::world::{Follows, Happened, Selected, Wake, World};
use crate::contract::desired::{self, Desired, ResponseRejection};
use crate::contract::snapshot::Snapshot;
use crate::contract::{Event, FinalizeCause, Phase, ReadyMeans, Response};
use crate::guard::breaker::ParentRevision;
use crate::guard::deletions::SpecHash;
use crate::object::Object;
use crate::object::conditions::condition_of;
use crate::object::names::parent_condition;
use crate::object::parent::ParentRef;
use crate::value::ids::ObjectKey;

/// Target of the spans of reconciles.
pub const TRACE: &str = "windlass::trace";

/// Time after which a parent that waits for a cache is reconciled again, if no event queues it earlier.
const CACHE_LAG: Duration = Duration::from_secs(1);

/// How a desired state is carried out.
#[derive(Clone, Copy)]
struct How {
    pub phase: Phase,
    pub is_selected: bool,
    pub compared: Compared,
    /// Whether all children must be gone before the desired state is reached.
    pub until_gone: bool,
}

/// One reconcile of a parent.
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

    /// The steps before `finish`. The futures of rare ones are boxed, so that the future of a reconcile is small.
    async fn steps(&self) -> Ending {
        if let Some(ending) = self.own_writes_first().await {
            return ending;
        }
        if self.world.follows() != Follows::All {
            return Box::pin(self.not_followed()).await;
        }
        let Some(parent) = self.world.cached_parent(self.key) else {
            return Box::pin(self.not_shown()).await;
        };
        self.world.forget_former_parent(self.key);
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
            NextStep::DeleteInOrder => Box::pin(self.delete_in_order(snapshot)).await,
            NextStep::DeleteChildren => self.delete_children(snapshot).await,
        }
    }

    /// Brings the children and status of the parent to what its plugin desires, unless nothing has changed since the last time.
    async fn call_and_carry_out(&self, mut snapshot: Snapshot, phase: Phase) -> Ending {
        if self.record(|record| record.has_untaken_notes())
            && let Some(ending) = Box::pin(self.take_back_notes(&mut snapshot)).await
        {
            return ending;
        }
        let (rounds, Selected { objects, took }) = self.required_before(&snapshot.parent_ref).await;
        snapshot.related = objects;
        snapshot.fit(self.terms.limits.request_bytes);
        snapshot.cause = self.cause_of(phase, &snapshot.parent);
        snapshot.namespace_terminating =
            phase == Phase::Finalize && self.record(|record| record.is_namespace_terminating(&snapshot.parent.uid));
        let call_hash = snapshot.hash(&self.terms.call_inputs, phase);
        let is_due = phase == Phase::Sync && self.is_comparison_due();
        let compared = if is_due { Compared::Values } else { Compared::ManagedFields };
        let state = self.shared.state.id;
        let now = self.shared.clock.date();
        snapshot.now = self.terms.clock.then(|| u64::try_from(now.as_millisecond()).unwrap_or_default());
        if let Some(requeue) = self.record(|record| record.steady.before_call(state, call_hash, compared, now)) {
            return Ending::Unchanged(None, requeue);
        }
        if phase == Phase::Finalize
            && let Some(ending) = self.outdated_before_clean_up(&snapshot).await
        {
            return ending;
        }
        let asked = self.response(&mut snapshot, phase, rounds, took, call_hash).await;
        let (response, call) = match asked {
            Ok(result) => result,
            Err(problem) => return no_response(snapshot, &problem),
        };
        let may_repeat = response.events.is_empty() && phase == Phase::Sync;
        let hash = may_repeat.then(|| snapshot.hash_response(&self.terms.rules, phase, &response));
        // A call that had the time counts until the time that the response names.
        let until = response.requeue_at;
        let call = call.filter(|_| until.is_some() || !self.terms.clock).map(|call| (state, call));
        let inputs = Inputs { call, response: hash, until, compared };
        let same = |hash| self.record(|record| record.steady.before_plan(hash, compared, now));
        if let Some(requeue) = hash.and_then(same) {
            self.note_nothing_is_deleted(&snapshot);
            return Ending::Unchanged(Some(inputs), requeue);
        }
        let (events, validated) = self.validated(&snapshot, response, phase, now);
        let attempt = match validated {
            Ok(desired) => {
                // A parent that is finalized but not deleted has left the label selector or the Plugin's namespaces.
                let is_selected = phase == Phase::Sync || snapshot.parent.deleting;
                let how = How { phase, is_selected, compared, until_gone: false };
                Attempt { events, ..self.carry_out(&mut snapshot, how, desired).await }
            }
            Err(refusal) => Attempt::from(&Problem::Refused(refusal)),
        };
        let report = Box::new(Report { inputs, ..Report::new(snapshot, attempt) });
        match phase {
            Phase::Sync => Ending::Report(report),
            Phase::Finalize => Box::pin(self.after_clean_up(report, FinalizerEnd::CleanedUp)).await,
        }
    }

    /// The events of a response, and the desired state that it says, or why it is rejected.
    fn validated(
        &self,
        snapshot: &Snapshot,
        response: Response,
        phase: Phase,
        now: Timestamp,
    ) -> (Vec<Event>, Result<Desired, ResponseRejection>) {
        let validated = desired::validate(&response, &snapshot.parent_ref, &self.terms.grants, &self.terms.limits);
        let validated = validated.map(|mut desired| {
            desired.requeue = earlier(desired.requeue, desired.requeue_at, now);
            if phase == Phase::Finalize && desired.finalized && !snapshot.parent.deleting {
                // The parent lives on outside the selectors, so no garbage collector deletes its children: the host does.
                desired.children.clear();
            }
            desired
        });
        (response.events, validated)
    }

    /// Deletes the children of a parent that goes, by stage, and removes its finalizer once they are gone (rule R23).
    async fn delete_in_order(&self, mut snapshot: Snapshot) -> Ending {
        if let Some(ending) = self.outdated_before_clean_up(&snapshot).await {
            return ending;
        }
        let (is_selected, until_gone) = (snapshot.parent.deleting, !keeps_children(&snapshot.parent));
        let how = How { phase: Phase::Finalize, is_selected, compared: Compared::ManagedFields, until_gone };
        let desired = Desired { finalized: true, ..Desired::default() };
        let attempt = self.carry_out(&mut snapshot, how, desired).await;
        self.after_clean_up(Box::new(Report::new(snapshot, attempt)), FinalizerEnd::ChildrenDeleted).await
    }

    /// Removes the finalizer of a parent if nothing is left to clean up, which is called `end`. Otherwise reports the attempt.
    async fn after_clean_up(&self, report: Box<Report>, end: FinalizerEnd) -> Ending {
        match self.end_of_finalizer(&report.snapshot, &report.attempt, end) {
            Some(end) => {
                let Report { snapshot, attempt: Attempt { part, applied, events, .. }, .. } = *report;
                self.end_clean_up(snapshot, end, Last { part, applied, events }).await
            }
            None => Ending::Report(report),
        }
    }

    /// Why a parent is finalized, if it is.
    fn cause_of(&self, phase: Phase, parent: &Object) -> FinalizeCause {
        if phase == Phase::Sync || parent.deleting {
            FinalizeCause::Deleted
        } else if self.world.selects_namespace(parent) {
            FinalizeCause::LeftSelector
        } else {
            FinalizeCause::LeftNamespaces
        }
    }

    /// Plans the writes that lead to the desired state, and sends those that may be sent now.
    async fn carry_out(&self, snapshot: &mut Snapshot, how: How, desired: Desired) -> Attempt {
        let phase = how.phase;
        let mut plan = self.plan(snapshot, how.compared, &desired);
        self.world.note(Happened::Planned(snapshot, &desired, &plan));
        // A parent whose plugin cleans up was read before the call.
        if self.world.hosts().may_share
            && phase == Phase::Sync
            && !plan.deletions().is_empty()
            && let Some(attempt) = self.outdated_before_deletions(snapshot).await
        {
            return attempt;
        }
        let blocked = self.guard(snapshot, how, &mut plan);
        // The rate limit comes first, because the breaker must count only writes that are sent.
        let (hosts, now) = (self.world.hosts().count, self.shared.clock.date());
        let limited = take_tokens(&mut self.shared.budget.lock(), self.key, &mut plan, hosts, now);
        let revision = (!plan.is_empty()).then(|| ParentRevision::of(&snapshot.parent));
        let thrashing = revision.map(|revision| self.admit(revision, &snapshot.parent, &mut plan)).unwrap_or_default();
        let (mut terminating, rolling, staged) =
            (plan.being_deleted(), std::mem::take(&mut plan.rolling), plan.staged.take());
        let mut applied = self.apply(snapshot, revision, plan).await;
        terminating.append(&mut applied.making_room);
        let carried = Carried {
            phase,
            snapshot: &*snapshot,
            desired: &desired,
            request_bytes: self.terms.limits.request_bytes,
            limited,
            applied: &applied,
            thrashing,
            blocked,
            terminating,
            rolling,
            staged,
            until_gone: how.until_gone,
        };
        let problem = carried.problem();
        let mut outcome = if let Some(problem) = &problem {
            let outcome = outcome_of(problem);
            // The plugin is called at the time that it asked for, whatever the parent waits for meanwhile.
            Outcome { requeue: outcome.requeue.or_as_asked(desired.requeue), ..outcome }
        } else {
            let mut outcome = self.of_applied(snapshot, how, &desired, &applied);
            outcome.add_absent(&desired.absent);
            outcome
        };
        if matches!(problem, Some(Problem::Writes(_))) {
            outcome.add_waiting_deletions(applied.kept_from_pruning);
        }
        let finalized = phase == Phase::Finalize && desired.finalized && !applied.marked;
        // The reconcile that sees the marked child reports.
        let is_later = matches!(problem, Some(Problem::PutOff(_))) || problem.is_none() && applied.marked;
        let reporting = Reporting::omitted_if(is_later);
        Attempt { part: desired.status, applied, outcome, is_planned: true, finalized, reporting, events: Vec::new() }
    }

    /// The outcome of an applied desired state: whether that is enough for the parent to be ready (rules R13 and R22).
    fn of_applied(&self, snapshot: &Snapshot, how: How, desired: &Desired, applied: &Applied) -> Outcome {
        let lost = NotReady::lost(snapshot, desired, &applied.changes);
        if !lost.is_empty() {
            return Outcome::not_ready(&lost, desired.requeue);
        }
        if let Some(waiting) = desired.waiting.as_deref().filter(|_| how.phase == Phase::Sync) {
            return Outcome::waiting(waiting, desired.requeue);
        }
        let of_plugin =
            || desired.status.as_ref().is_some_and(|part| condition_of(part, parent_condition::READY).is_some());
        let not_ready = match self.terms.ready_means {
            ReadyMeans::Children if how.phase == Phase::Sync && how.is_selected && !of_plugin() => {
                NotReady::among(snapshot, desired, &applied.changes)
            }
            ReadyMeans::Children | ReadyMeans::Applied | ReadyMeans::Plugin => Vec::new(),
        };
        if !not_ready.is_empty() {
            return Outcome::not_ready(&not_ready, desired.requeue);
        }
        let leaves_ready = self.terms.ready_means == ReadyMeans::Plugin;
        Outcome { leaves_ready, ..Outcome::applied(desired.children.len(), desired.requeue) }
    }

    /// Deletes the children of an object that is no longer a parent, as far as the deletion guard allows (rule R9).
    async fn delete_children(&self, mut snapshot: Snapshot) -> Ending {
        if !snapshot.children.iter().any(|child| child.controller.is_some()) {
            // The object may be a parent of another plugin: the host reports nothing on it, and does not wait for its
            // deletions.
            return Ending::NothingToDo(NothingToDo::NotSelected);
        }
        let how = How { phase: Phase::Sync, is_selected: false, compared: Compared::ManagedFields, until_gone: false };
        let mut attempt = self.carry_out(&mut snapshot, how, Desired::default()).await;
        if attempt.outcome.progress == Progress::Applied {
            attempt.outcome = outcome_of(&Problem::Released(self.terms.name.clone()));
        }
        // The next reconcile is not skipped, because the object may become a parent again.
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
        let snapshot = Snapshot::new(parent_ref, parent, children, config, |plugin| self.world.inherits(plugin));
        Snapshot { offer: self.terms.offer.clone(), ..snapshot }
    }

    /// Whether the values of the children are compared with the desired ones, although managedFields show no change: they show changes by
    /// other managers; a change under the host's own field manager shows in the values alone. A component with a clock may name a time that
    /// is far off: its children are compared in every call, so that none is needed for it before that time.
    fn is_comparison_due(&self) -> bool {
        let is_due =
            |record: &mut Record| record.steady.is_comparison_due(self.terms.settings.resync, self.shared.clock.now());
        self.terms.clock || self.trigger == Trigger::Resync || self.record(is_due)
    }

    /// Tells the rollout that this parent was called and deletes nothing: other parents may wait for that.
    fn note_nothing_is_deleted(&self, snapshot: &Snapshot) {
        let how = How { phase: Phase::Sync, is_selected: true, compared: Compared::ManagedFields, until_gone: false };
        self.guard(snapshot, how, &mut Plan::default());
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

/// A count as a span attribute: OpenTelemetry has no unsigned integers.
fn int(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
