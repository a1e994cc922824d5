//! One reconcile of one parent, step by step: own writes seen → observe → call → validate → plan → apply → report.
//!
//! Every step reads what the ones before it left; only `apply` and `report` can reach the API server, and neither
//! decides.

pub mod apply;
pub mod call;
mod kept_values;
mod observe;
pub mod related;
pub mod report;
pub mod rng_seed;
mod spans;
pub mod triggers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use parking_lot::Mutex;
use tracing::Instrument;
use tracing::field::Empty;
use windlass_core::breaker::Breaker;
use windlass_core::budget::{Budget, Cost};
use windlass_core::contract::{Event, Phase, Response};
use windlass_core::desired::{self, Desired, DesiredChild};
use windlass_core::digest::Digest;
use windlass_core::events::FinalizerEnd;
use windlass_core::guard::{self, Cause, Stop};
use windlass_core::ids::{ObjectKey, PluginName};
use windlass_core::json::Map;
use windlass_core::names::{ANNOTATION_SKIP_FINALIZE, ANNOTATION_SUSPEND, parent_reason as reason};
use windlass_core::next_step::{NextStep, finalizer_of, keeps_children, may_write_children, next_step};
use windlass_core::object::Object;
use windlass_core::observed_status::observed;
use windlass_core::outcome::{
    BACKOFF, LOOK_AGAIN, NAMESPACE_PATIENCE, Problem, Progress, Requeue, SuspendedBy, UNAVAILABLE, Verdict,
    WriteProblem,
};
use windlass_core::plan::{self, ChildId, Plan, Write};
use windlass_core::related::{Next, ReadProblem, Rounds};
use windlass_core::reserved::HostNamespace;
use windlass_core::snapshot::Snapshot;
use windlass_sandbox::registry::Registry;

use crate::cluster::writer::Subject;
use crate::live::component_state::Consequences;
use crate::live::memo::Names;
use crate::live::own_writes::{OwnWrites, Wait};
use crate::live::terminating::{self, Terminating};
use crate::live::unselected::GOOD_FOR;
use crate::live::{Live, ParentKey, StatusWriter};
use crate::queue::{Job, PluginQueue, Queue, Run, Trigger, Turn};
use crate::reconcile::apply::{Applied, Applier, Failed};
use crate::reconcile::call::{Answered, Caller};
use crate::reconcile::observe::{around, observe};
use crate::reconcile::related::Related;
use crate::reconcile::report::{Happened, Reported, Reporter};
use crate::telemetry::{self, TRACE};

/// A cache that is behind is asked again after this long, if no event comes first.
const CACHE_LAG: Duration = Duration::from_secs(1);

/// All that a reconcile needs.
pub struct Reconciler {
    registry: Registry<Live>,
    own_writes: OwnWrites,
    terminating: Terminating,
    breaker: Mutex<Breaker>,
    related: Related,
    caller: Caller,
    /// Where parents and Plugins go that another parent's reconcile concerns.
    parents: Queue<PluginName, ParentKey>,
    plugins: PluginQueue,
    applier: Applier,
    reporter: Reporter,
}

/// How what is desired is carried out.
#[derive(Clone, Copy)]
struct How {
    phase: Phase,
    is_selected: bool,
    /// Whether the values of children are compared that nobody changed by their managed fields.
    compares: bool,
}

/// What became of an object that the watch does not show.
enum Unshown {
    /// It does not exist, or has nothing that was made for it.
    Gone,
    /// It has left the selector, and has children.
    Left(Arc<Object>),
    /// The same, as far as is known: nothing is taken away while the Plugin is suspended.
    Suspended,
}

/// How far one reconcile came.
struct Attempt {
    /// The plugin's part of the status, if it gave one.
    part: Option<Map>,
    applied: Applied,
    verdict: Verdict,
    /// Whether the plugin has cleaned up, so that the finalizer may go.
    finalized: bool,
    /// Whether the same answer about the same objects would come to the same.
    is_final: bool,
    /// Whether the status stays as it is: what there is to say passes soon, or stands at the Plugin.
    silent: bool,
    /// What the plugin wants told.
    events: Vec<Event>,
}

/// How one reconcile ended.
struct Ending {
    /// When to come back.
    requeue: Requeue,
    /// Whether anything was written.
    wrote: bool,
    /// Whether the parent's conditions say what came of it.
    is_told: bool,
}

impl Ending {
    /// Nothing is said of it on the parent.
    fn untold(requeue: Requeue) -> Self {
        Self { requeue, wrote: false, is_told: false }
    }
}

impl Attempt {
    /// Nothing was written.
    fn failed(problem: &Problem) -> Self {
        let verdict = Verdict::from(problem);
        Self {
            part: None,
            applied: Applied::default(),
            verdict,
            finalized: false,
            is_final: false,
            silent: false,
            events: Vec::new(),
        }
    }
}

impl Run<PluginName, ParentKey> for Reconciler {
    /// Reconciles one parent. The time between unprompted runs is the plugin's resync interval.
    async fn run(&self, job: &Job<PluginName, ParentKey>, turn: &Turn<'_>) -> (Requeue, Duration) {
        let Some(live) = self.registry.get(&job.group) else {
            // Publishing a plugin queues all its parents.
            return (Requeue::WhenChanged, Duration::MAX);
        };
        let span = tracing::debug_span!(
            target: TRACE,
            "reconcile",
            windlass.plugin = %job.group,
            k8s.namespace.name = job.key.namespace.as_deref().unwrap_or_default(),
            windlass.parent.kind = &*live.parents.id.kind.kind,
            windlass.parent.name = &*job.key.name,
            windlass.parent.uid = Empty,
            windlass.parent.generation = Empty,
            windlass.trigger = job.trigger.as_str(),
            windlass.outcome = Empty,
            windlass.requeue_ms = Empty,
        );
        let began = Instant::now();
        let requeue = self.steps(&live, job, turn).instrument(span.clone()).await;
        telemetry::reconciled(&job.group, began.elapsed());
        // A pause waits for something, and then comes back.
        if !matches!(requeue, Requeue::Pause(_)) && live.state.asked(&job.key) {
            self.plugins.add(&(), &live.name, Trigger::Resync);
        }
        if let Requeue::Pause(delay)
        | Requeue::After(delay)
        | Requeue::Backoff(delay)
        | Requeue::Unavailable(delay)
        | Requeue::Settled(Some(delay)) = requeue
        {
            span.record("windlass.requeue_ms", telemetry::int(delay.as_millis()));
        }
        (requeue, live.resync)
    }
}

impl Reconciler {
    /// With the plugins of a registry, the queues of their parents and of themselves, and the hands that may write.
    pub fn new(
        registry: Registry<Live>,
        parents: Queue<PluginName, ParentKey>,
        plugins: PluginQueue,
        related: Related,
        caller: Caller,
        applier: Applier,
        reporter: Reporter,
    ) -> Self {
        let (own_writes, terminating, breaker) = (OwnWrites::default(), Terminating::default(), Mutex::default());
        Self { registry, own_writes, terminating, breaker, related, caller, parents, plugins, applier, reporter }
    }

    async fn steps(&self, live: &Arc<Live>, job: &Job<PluginName, ParentKey>, turn: &Turn<'_>) -> Requeue {
        let span = tracing::Span::current();
        if let Some(requeue) = self.own_writes_first(live, &job.key).await {
            return requeue;
        }
        if !live.is_followed() {
            // The caches show the past, and the Plugin says why; on recovery, parents that fail are asked again.
            span.record("windlass.outcome", "not_followed");
            live.failures.record(&job.key, Some((reason::API_ERROR, "a kind of the plugin cannot be watched")));
            // Asked again it must say that it does well, even if nothing has changed.
            live.memo.forget(&job.key);
            return self.given_up(live, &job.key).await.unwrap_or(UNAVAILABLE);
        }
        let Some(snapshot) = spans::observed(|| observe(live, &job.key)) else {
            return self.not_shown(live, &job.key).await;
        };
        live.unselected.forget(&job.key);
        span.record("windlass.parent.uid", tracing::field::display(&snapshot.parent.uid));
        span.record("windlass.parent.generation", snapshot.parent.generation);
        if snapshot.parent.deleting {
            live.memo.forget(&job.key);
            self.follow(live, live.state.forget(&job.key));
        }
        if let Some(home) = live.account.home_of(&snapshot.parent) {
            return self.in_host_namespace(live, &snapshot, home).await;
        }
        let Some(selected) = live.selects(&snapshot.parent) else {
            span.record("windlass.outcome", "waiting_for_namespace");
            return Requeue::Pause(CACHE_LAG);
        };
        match next_step(&snapshot.parent, &live.name, live.finalizes, live.suspended, selected) {
            NextStep::Ask(phase) => self.ask(live, snapshot, phase, job.trigger, turn).await,
            NextStep::AddFinalizer => self.add_finalizer(live, &snapshot).await,
            NextStep::RemoveFinalizer => self.skip_finalizer(live, &snapshot).await,
            NextStep::Suspended => self.suspended(live, &snapshot).await,
            NextStep::Leave => self.leave(live, &snapshot.parent),
            NextStep::Release => self.release(live, &snapshot).await,
        }
    }

    /// A user's way out counts whatever the caches show: takes the finalizer off a parent that is being deleted, where its annotation
    /// says so. Of parents that are not followed, the cache does not know either.
    async fn given_up(&self, live: &Arc<Live>, key: &ObjectKey) -> Option<Requeue> {
        let cached = live.parents.store.get(key)?;
        let is_asked = cached.deleting && cached.marks.is_true(ANNOTATION_SKIP_FINALIZE);
        let has_finalizer = || cached.finalizers.iter().any(|name| **name == *finalizer_of(&live.name));
        if !(is_asked || !live.parents.is_followed() && has_finalizer()) {
            return None;
        }
        let parent = live.parents.read(key).await.ok()??;
        let snapshot = around(live, Arc::new(parent));
        match next_step(&snapshot.parent, &live.name, live.finalizes, live.suspended, true) {
            NextStep::RemoveFinalizer if snapshot.parent.deleting => Some(self.skip_finalizer(live, &snapshot).await),
            _ => None,
        }
    }

    /// Does nothing about a parent, for which others need not wait. While it is only suspended, what it was last said to delete still
    /// counts.
    fn leave(&self, live: &Live, parent: &Object) -> Requeue {
        let (outcome, consequences) = if parent.deleting {
            ("deleting", live.state.forget(&parent.key))
        } else {
            ("suspended", live.state.unanswered(&parent.key))
        };
        tracing::Span::current().record("windlass.outcome", outcome);
        self.follow(live, consequences);
        Requeue::WhenChanged
    }

    /// When to come back, while the caches do not show all that was written for a parent (rule R3).
    async fn own_writes_first(&self, live: &Arc<Live>, key: &ObjectKey) -> Option<Requeue> {
        let span = tracing::Span::current();
        let mut wait = self.own_writes.wait(&live.name, &**live, key);
        if let Wait::ForAnswers(subjects) = wait {
            for subject in subjects {
                match self.applier.look_up(live, key, &subject).await {
                    Ok(fact) => self.own_writes.looked_up(&live.name, key, &subject, fact),
                    Err(problem) => {
                        span.record("windlass.outcome", "unknown_write");
                        return Some(self.not_looked_up(live, key, subject, problem).await);
                    }
                }
            }
            wait = self.own_writes.wait(&live.name, &**live, key);
        }
        match wait {
            Wait::Over => None,
            Wait::ForWatch(wait) => {
                span.record("windlass.outcome", "waiting_for_own_writes");
                Some(Requeue::Pause(wait))
            }
            // Of another run: there is none for the same parent.
            Wait::ForAnswers(_) => Some(UNAVAILABLE),
            Wait::Long { told: true, .. } => {
                span.record("windlass.outcome", "waiting_for_own_writes");
                Some(Requeue::Pause(LOOK_AGAIN))
            }
            Wait::Long { kinds, .. } => {
                let said = self.say(live, key, &Problem::CacheBehind(kinds)).await;
                if said.as_ref().is_some_and(|said| said.is_told) {
                    self.own_writes.told(&live.name, key);
                }
                Some(said.map_or(Requeue::Pause(LOOK_AGAIN), |said| said.requeue))
            }
        }
    }

    /// Whether a write was carried out is not known, and the API server does not say it.
    async fn not_looked_up(&self, live: &Arc<Live>, key: &ObjectKey, of: Subject, problem: WriteProblem) -> Requeue {
        let subject = match of {
            Subject::Parent => ChildId { kind: live.parents.id.kind.clone(), key: key.clone() },
            Subject::Child(child) => child,
        };
        // A refusal stays until a person changes something; anything else passes, and would keep the parent from being
        // read as well.
        let is_refused = matches!(problem, WriteProblem::Rejected { .. });
        let problem = Problem::Writes(vec![(subject, problem)]);
        let said = if is_refused { self.say(live, key, &problem).await } else { None };
        if let Some(said) = said {
            return said.requeue;
        }
        let verdict = Verdict::from(&problem);
        let message = verdict.message.as_str();
        tracing::warn!(plugin = %live.name, object = %key, message, "reconcile failed");
        live.failures.record(key, Some((verdict.reason, message)));
        verdict.requeue
    }

    /// Says on a parent why nothing is decided for it, on what the API server has of it: its own cache may be behind, and
    /// with what that shows, the plugin's part of the status would go back. Nothing if it could not be said.
    async fn say(&self, live: &Arc<Live>, key: &ObjectKey, problem: &Problem) -> Option<Ending> {
        let parent = live.parents.read(key).await.ok()??;
        live.memo.forget(key);
        let snapshot = around(live, Arc::new(parent));
        match next_step(&snapshot.parent, &live.name, live.finalizes, live.suspended, true) {
            // A person's way out counts before anything else.
            NextStep::RemoveFinalizer => Some(Ending::untold(self.skip_finalizer(live, &snapshot).await)),
            NextStep::Leave | NextStep::Suspended | NextStep::Release => None,
            NextStep::Ask(phase) => {
                let attempt = self.without_plan(live, &snapshot, problem);
                Some(self.finish(live, &snapshot, (phase, false), attempt).await)
            }
            NextStep::AddFinalizer => {
                let attempt = self.without_plan(live, &snapshot, problem);
                Some(self.finish(live, &snapshot, (Phase::Sync, false), attempt).await)
            }
        }
    }

    /// The watch does not show it: it is gone, and nothing of it is kept; or it has left the selector, and is let go.
    async fn not_shown(&self, live: &Arc<Live>, key: &ObjectKey) -> Requeue {
        let span = tracing::Span::current();
        live.memo.forget(key);
        self.related.forget(&live.name, key);
        match self.unshown(live, key).await {
            Ok(Unshown::Suspended) => {
                // All of them are queued when the Plugin is no longer suspended.
                span.record("windlass.outcome", "suspended");
                self.follow(live, live.state.unanswered(key));
                Requeue::WhenChanged
            }
            Ok(Unshown::Left(parent)) => {
                let snapshot = around(live, parent);
                span.record("windlass.parent.uid", tracing::field::display(&snapshot.parent.uid));
                let requeue = match next_step(&snapshot.parent, &live.name, live.finalizes, live.suspended, false) {
                    NextStep::Release => self.release(live, &snapshot).await,
                    NextStep::RemoveFinalizer => self.skip_finalizer(live, &snapshot).await,
                    NextStep::Leave => self.leave(live, &snapshot.parent),
                    // The watch is about to show it, as it shows all that must be finalized.
                    NextStep::Ask(_) | NextStep::AddFinalizer | NextStep::Suspended => Requeue::WhenChanged,
                };
                match requeue {
                    // Nobody tells of its changes.
                    Requeue::WhenChanged | Requeue::Settled(_) => Requeue::After(GOOD_FOR),
                    requeue => requeue,
                }
            }
            Ok(Unshown::Gone) => {
                self.own_writes.forget(&live.name, key);
                self.terminating.forget(&live.name, key);
                live.memo.forget_gone(key);
                live.held.lock().forget(key);
                self.follow(live, live.state.gone(key));
                live.failures.record(key, None);
                span.record("windlass.outcome", "gone");
                Requeue::Gone
            }
            Err(error) => {
                span.record("windlass.outcome", reason::API_ERROR);
                let message = format!("whether the object has left the label selector could not be looked up: {error}");
                tracing::warn!(plugin = %live.name, object = %key, message, "reconcile failed");
                live.failures.record(key, Some((reason::API_ERROR, &message)));
                self.follow(live, live.state.unanswered(key));
                UNAVAILABLE
            }
        }
    }

    /// What became of an object that the watch does not show.
    async fn unshown(&self, live: &Live, key: &ObjectKey) -> kube::Result<Unshown> {
        let Some(uid) = live.unselected.uid(key) else { return Ok(Unshown::Gone) };
        if !live.has_children(&uid) {
            live.unselected.forget(key);
            return Ok(Unshown::Gone);
        }
        if live.suspended {
            return Ok(Unshown::Suspended);
        }
        Ok(live.unselected.read(key, &live.parents).await?.map_or(Unshown::Gone, Unshown::Left))
    }

    /// Takes away what was made for an object that is no parent any more, as far as the guard lets it (rule R9).
    async fn release(&self, live: &Arc<Live>, snapshot: &Snapshot) -> Requeue {
        live.memo.forget(&snapshot.parent.key);
        if !snapshot.children.iter().any(|child| child.controller.is_some()) {
            // Perhaps another one's: nothing is said of it, and nobody waits for what it would delete.
            self.follow(live, live.state.forget(&snapshot.parent.key));
            tracing::Span::current().record("windlass.outcome", "not_selected");
            live.failures.record(&snapshot.parent.key, None);
            return Requeue::WhenChanged;
        }
        let how = How { phase: Phase::Sync, is_selected: false, compares: false };
        let mut attempt = self.carry_out(live, snapshot, how, Desired::default()).await;
        if attempt.verdict.progress == Progress::Applied {
            attempt.verdict = Verdict::from(&Problem::Released(live.name.clone()));
        }
        self.finish(live, snapshot, (Phase::Sync, false), attempt).await.requeue
    }

    /// Brings a parent to what its plugin says.
    async fn ask(
        &self,
        live: &Arc<Live>,
        mut snapshot: Snapshot,
        phase: Phase,
        trigger: Trigger,
        turn: &Turn<'_>,
    ) -> Requeue {
        let sweep = trigger == Trigger::Sweep;
        snapshot.namespace_terminating =
            phase == Phase::Finalize && self.terminating.is_known(&live.name, &snapshot.parent);
        let (rounds, related) = self.related.begin(live, &snapshot.parent_ref).await;
        snapshot.related = related;
        snapshot.fit(live.limits.request_bytes);
        let first = snapshot.hash(&live.logic, phase);
        // Who owns which field says what changed; a change under the host's own name shows in the values alone.
        let is_due = || live.memo.is_comparison_due(&snapshot.parent.key, live.resync, Instant::now());
        let compares = phase == Phase::Sync && (trigger == Trigger::Resync || is_due());
        if let Some(requeue) = live.memo.settled(&snapshot.parent.key, live.state.id, first, compares) {
            tracing::Span::current().record("windlass.outcome", "unchanged");
            return requeue;
        }
        let (answered, call) = match self.answered(live, &mut snapshot, phase, (rounds, first), turn).await {
            Ok(answered) => answered,
            Err(problem) => return self.unanswered(live, &snapshot, phase, sweep, &problem).await,
        };
        let key = &snapshot.parent.key;
        let answer = answered.response.events.is_empty() && phase == Phase::Sync;
        let answer = answer.then(|| snapshot.hash_answer(&live.rules, phase, &answered.response));
        let names = Names { call: answered.pure.then_some((live.state.id, call)), answer };
        if let Some(requeue) = answer.and_then(|answer| live.memo.answered(key, answer, compares)) {
            return self.answered_as_before(live, &snapshot, names, requeue);
        }
        let attempt = self.attempt(live, &snapshot, (phase, compares), answered.response).await;
        let is_refused = phase == Phase::Finalize
            && snapshot.parent.deleting
            && terminating::refuses(&snapshot.parent, &attempt.applied.problems);
        let refused_for = is_refused.then(|| self.terminating.refused(&live.name, &snapshot.parent, Instant::now()));
        let end = match refused_for {
            _ if attempt.finalized && attempt.verdict.progress == Progress::Applied => Some(FinalizerEnd::CleanedUp),
            // What it retains cannot be kept where everything goes.
            Some(_) if attempt.finalized => Some(FinalizerEnd::CleanedUp),
            Some(time) if time >= NAMESPACE_PATIENCE => {
                Some(FinalizerEnd::NamespaceTerminating(snapshot.parent_ref.to_string()))
            }
            Some(_) | None => None,
        };
        if let Some(end) = end {
            self.own_writes.add(&live.name, key, attempt.applied.written);
            return self.remove_finalizer(live, &snapshot, &attempt.events, &end).await;
        }
        let (is_final, is_applied) = (attempt.is_final, attempt.verdict.progress == Progress::Applied);
        let Ending { requeue, wrote, .. } = self.finish(live, &snapshot, (phase, sweep), attempt).await;
        if compares && is_applied {
            live.memo.note_compared(key, Instant::now());
        }
        live.memo.keep(key, if is_final && !wrote { names } else { Names::default() }, requeue, compares);
        requeue
    }

    /// The plugin says what it said before of the same objects, and nothing follows from that.
    fn answered_as_before(&self, live: &Arc<Live>, snapshot: &Snapshot, names: Names, requeue: Requeue) -> Requeue {
        let key = &snapshot.parent.key;
        // Others may wait until this one was asked.
        self.guard(live, snapshot, (Phase::Sync, true), &mut Plan::default());
        live.failures.record(key, None);
        live.memo.keep_answered(key, names, requeue);
        tracing::Span::current().record("windlass.outcome", "unchanged");
        requeue
    }

    /// There is no answer: says why.
    async fn unanswered(
        &self,
        live: &Arc<Live>,
        snapshot: &Snapshot,
        phase: Phase,
        sweep: bool,
        problem: &Problem,
    ) -> Requeue {
        live.memo.forget(&snapshot.parent.key);
        let silent = passes_unsaid(problem) && is_observed(snapshot);
        let attempt = Attempt { silent, ..self.without_plan(live, snapshot, problem) };
        self.finish(live, snapshot, (phase, sweep), attempt).await.requeue
    }

    /// Everything up to the status: what the plugin answered, and what of it came to be.
    async fn attempt(
        &self,
        live: &Arc<Live>,
        snapshot: &Snapshot,
        (phase, compares): (Phase, bool),
        answer: Response,
    ) -> Attempt {
        let desired = match desired::validate(&answer, &snapshot.parent_ref, &live.grants, &live.limits) {
            Ok(desired) => finalizing(desired, snapshot, phase),
            Err(refusal) => return self.without_plan(live, snapshot, &Problem::Refused(refusal)),
        };
        // What must clean up while it lives on has left the selector or the namespaces.
        let is_selected = phase == Phase::Sync || snapshot.parent.deleting;
        let how = How { phase, is_selected, compares };
        Attempt { events: answer.events, ..self.carry_out(live, snapshot, how, desired).await }
    }

    /// From what is desired to what of it came to be.
    async fn carry_out(
        &self,
        live: &Arc<Live>,
        snapshot: &Snapshot,
        How { phase, is_selected, compares }: How,
        desired: Desired,
    ) -> Attempt {
        let differing = |live: &Object, child: &DesiredChild| {
            let differing = if compares { plan::differing(live, child) } else { None };
            differing.filter(|values| !self.applier.is_insisted_on(live, child, *values))
        };
        let mut plan = spans::planned(|| planned(live, snapshot, &desired, differing));
        let held = self.guard(live, snapshot, (phase, is_selected), &mut plan);
        // A user may allow it at any moment, also while this reconcile ends, and that is in no snapshot; nor are children that
        // were left out.
        let is_final = held.is_none() && snapshot.left_out.is_empty();
        // Before the breaker, which would count what is not written.
        let limited = limited(&live.budget, &mut plan);
        let thrashing = self.breaker.lock().admit_plan(&snapshot.parent, &mut plan, Instant::now());
        let (terminating, rolling) = (being_deleted(&plan), std::mem::take(&mut plan.rolling));
        let applied = if plan.is_empty() {
            Applied::default()
        } else {
            self.applier.apply(live, snapshot, plan).instrument(tracing::debug_span!(target: TRACE, "apply")).await
        };
        // The first of these that is so; what is graver comes first.
        let problem = if let Some(wait) = limited {
            Some(Problem::WritesLimited(wait))
        } else if !applied.problems.is_empty() {
            Some(Problem::Writes(applied.problems.clone()))
        } else if !thrashing.is_empty() {
            Some(Problem::Thrashing(thrashing))
        } else if let Some(held) = held {
            Some(held)
        } else if !terminating.is_empty() {
            Some(Problem::Terminating(terminating))
        } else if !rolling.is_empty() {
            Some(Problem::Rolling(rolling))
        } else if !snapshot.left_out.is_empty() {
            // Also where the plugin says that it has cleaned up: it has not seen all that there is.
            Some(left_out(snapshot, live.limits.request_bytes, desired.requeue))
        } else if phase == Phase::Finalize && !desired.finalized {
            Some(Problem::Finalizing(desired.requeue))
        } else {
            None
        };
        let verdict = match &problem {
            Some(problem) => Verdict::from(problem),
            None => Verdict::applied(desired.children.len(), desired.requeue),
        };
        let finalized = phase == Phase::Finalize && desired.finalized;
        let silent = matches!(problem, Some(Problem::PutOff));
        Attempt { part: desired.status, applied, verdict, finalized, is_final, silent, events: Vec::new() }
    }

    /// It ended before anything was planned: no other parent waits for what this one would have deleted.
    fn without_plan(&self, live: &Live, snapshot: &Snapshot, problem: &Problem) -> Attempt {
        self.follow(live, live.state.unanswered(&snapshot.parent.key));
        Attempt::failed(problem)
    }

    /// What the plugin answers, and the name of the call. It is called until it has seen all that its answer depends on.
    async fn answered(
        &self,
        live: &Arc<Live>,
        snapshot: &mut Snapshot,
        phase: Phase,
        (mut rounds, mut name): (Rounds, Digest),
        turn: &Turn<'_>,
    ) -> Result<(Answered, Digest), Problem> {
        let parent = snapshot.parent_ref.clone();
        self.related.review_parent(live, &parent).await.map_err(Problem::Reads)?;
        let answered = loop {
            let answered = self.caller.call(live, snapshot, phase, &name, turn).await?;
            let required =
                live.reads.grants.resolve(&answered.response.requirements, &parent.key, live.limits.requirements);
            match rounds.answered(required.map_err(|refusal| Problem::Reads(refusal.into()))?) {
                Next::Final => break answered,
                Next::Again => {
                    let served = self.related.serve(live, &parent, rounds.served()).await;
                    snapshot.related = served.map_err(Problem::Reads)?;
                    snapshot.fit(live.limits.request_bytes);
                    name = snapshot.hash(&live.logic, phase);
                }
                Next::Unsettled => return Err(Problem::Reads(ReadProblem::Unsettled)),
            }
        };
        self.related.keep(&live.name, &parent.key, rounds.served());
        Ok((answered, name))
    }

    /// Takes deletions out of a plan that nobody asked for (rule R9): too many of one parent, or of a whole plugin.
    fn guard(
        &self,
        live: &Arc<Live>,
        snapshot: &Snapshot,
        (phase, is_selected): (Phase, bool),
        plan: &mut Plan,
    ) -> Option<Problem> {
        let parent = &snapshot.parent;
        let cause = || match guard::cause(snapshot, phase, live.shape) {
            cause if is_selected || cause == Cause::Deleted => cause,
            _ if live.is_home(parent) => Cause::LeftSelector,
            _ => Cause::LeftNamespaces,
        };
        let leavers = || live.with_children_in(parent.key.namespace.as_deref());
        let mut held = live.held.lock();
        let (stop, consequences) = live.state.judge((&mut held, live.guard), snapshot, cause, leavers, plan);
        drop(held);
        self.follow(live, consequences);
        stop.map(|stop| match stop {
            Stop::PutOff => Problem::PutOff,
            Stop::AtParent(held) => Problem::Held(held),
            Stop::AtPlugin(_) => Problem::HeldAtPlugin(live.name.clone()),
        })
    }

    /// Queues whom a decision about deletions concerns beside this parent.
    fn follow(&self, live: &Live, consequences: Consequences) {
        for parent in consequences.parents {
            self.parents.add(&live.name, &parent, Trigger::Event);
        }
        if consequences.plugin {
            self.plugins.add(&(), &live.name, Trigger::Fresh);
        }
    }

    /// Writes the status and remembers what was written, so that the next decision waits for it. `sweep`: the plugin was asked
    /// about all its parents, and not because of this one.
    async fn finish(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        (phase, sweep): (Phase, bool),
        attempt: Attempt,
    ) -> Ending {
        let Attempt { part, applied, mut verdict, silent, events, .. } = attempt;
        if phase == Phase::Finalize && snapshot.parent.deleting {
            verdict = verdict.while_finalizing();
        }
        tracing::Span::current().record("windlass.outcome", verdict.reason);
        if is_failing(verdict.progress) && !silent {
            tracing::warn!(
                plugin = %live.name,
                object = %snapshot.parent_ref,
                reason = verdict.reason,
                message = %telemetry::one_line(&verdict.message),
                "reconcile failed"
            );
        }
        let reported =
            if silent { Reported::default() } else { self.report(live, snapshot, part.as_ref(), &mut verdict).await };
        self.reporter.tell(
            live,
            snapshot,
            Happened {
                changes: &applied.changes,
                verdict: reported.instead.as_ref().unwrap_or(&verdict),
                status_differs: reported.written.is_some() || reported.failed.is_some(),
                silent,
                events: &events,
                sweep,
            },
        );
        if part.is_some() && live.status_writer == StatusWriter::Nobody && live.state.note_unwritten_status() {
            // The Plugin says it.
            self.plugins.add(&(), &live.name, Trigger::Resync);
        }
        if live.budget.lock().take_news() {
            self.plugins.add(&(), &live.name, Trigger::Fresh);
        }
        let mut written = applied.written;
        written.extend(reported.written);
        let is_told = !silent && reported.failed.is_none() && reported.again.is_none();
        let refused = reported.failed.as_ref().filter(|problem| is_refused_status(live, problem)).cloned();
        let refused = refused.map(|problem| Verdict::from(&Problem::Writes(vec![(id_of_parent(snapshot), problem)])));
        let requeue = match reported.failed {
            None => reported.again.map_or(verdict.requeue, Requeue::After),
            Some(problem) => status_not_written(snapshot, problem),
        };
        let wrote = !written.is_empty();
        self.own_writes.add(&live.name, &snapshot.parent.key, written);
        if !silent {
            let verdict = refused.as_ref().filter(|_| !is_failing(verdict.progress)).unwrap_or(&verdict);
            let failure = is_failing(verdict.progress).then_some((verdict.reason, verdict.message.as_str()));
            live.failures.record(&snapshot.parent.key, failure);
        }
        Ending { requeue, wrote, is_told }
    }

    async fn report(&self, live: &Live, snapshot: &Snapshot, part: Option<&Map>, verdict: &mut Verdict) -> Reported {
        let span = tracing::debug_span!(target: TRACE, "report", windlass.status_written = Empty);
        let mut reported =
            self.reporter.report(live, snapshot, part, verdict, &self.breaker).instrument(span.clone()).await;
        if let (Some(_), Some(WriteProblem::Rejected { code, message })) = (part, &reported.failed)
            && *code != 404
        {
            // What the plugin says of itself does not fit the kind: the host's part must not be lost with it.
            *verdict = Verdict::from(&Problem::StatusRejected(message.clone()));
            reported =
                self.reporter.report(live, snapshot, None, verdict, &self.breaker).instrument(span.clone()).await;
        }
        span.record("windlass.status_written", reported.failed.is_none() && reported.written.is_some());
        reported
    }

    /// Sets the finalizer, if the plugin may have one on this parent.
    async fn add_finalizer(&self, live: &Live, snapshot: &Snapshot) -> Requeue {
        match self.related.review_finalizer(live, &snapshot.parent_ref).await {
            Ok(()) => self.set_finalizer(live, snapshot, None).await,
            Err(problem) => {
                let problem = Problem::Writes(vec![(id_of_parent(snapshot), problem)]);
                self.finalizer_not_set(live, snapshot, &problem).await
            }
        }
    }

    /// Takes the finalizer off, because the plugin does not finalize (any more) or a person asked for that.
    async fn skip_finalizer(&self, live: &Live, snapshot: &Snapshot) -> Requeue {
        let is_asked = snapshot.parent.marks.is_true(ANNOTATION_SKIP_FINALIZE);
        let end = if is_asked { FinalizerEnd::Skipped } else { FinalizerEnd::CleanedUp };
        self.remove_finalizer(live, snapshot, &[], &end).await
    }

    /// Takes the finalizer off, and has told why.
    async fn remove_finalizer(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        last_words: &[Event],
        end: &FinalizerEnd,
    ) -> Requeue {
        self.set_finalizer(live, snapshot, Some((last_words, end))).await
    }

    /// The finalizer is a write of its own: what follows from it begins with its event. It is set, or removed for a reason,
    /// after the plugin's last events.
    async fn set_finalizer(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        removed: Option<(&[Event], &FinalizerEnd)>,
    ) -> Requeue {
        let wanted = removed.is_none();
        let outcome = if wanted { "finalizer_added" } else { "finalizer_removed" };
        tracing::Span::current().record("windlass.outcome", outcome);
        let parent = &snapshot.parent;
        let admitted = self.breaker.lock().admit(parent, &parent.kind, &parent.key, Instant::now());
        if let Err(wait) = admitted {
            // Somebody undoes it.
            let thrashing = Problem::Thrashing(vec![(id_of_parent(snapshot), wait)]);
            return self.finalizer_not_set(live, snapshot, &thrashing).await;
        }
        let set = self.applier.set_finalizer(live, parent, wanted);
        match set.instrument(tracing::debug_span!(target: TRACE, "apply")).await {
            Ok(written) => {
                if let (Some(_), true, Some((last_words, end))) = (&written, parent.deleting, removed) {
                    if let FinalizerEnd::NamespaceTerminating(parent) = end {
                        tracing::warn!(plugin = %live.name, %parent, "finalizer removed: the namespace is being deleted");
                    }
                    self.reporter.tell_finalized(live, snapshot, last_words, end);
                }
                // Nothing written: the parent is gone, and the cache will show it.
                let again = if written.is_some() { Duration::ZERO } else { CACHE_LAG };
                self.own_writes.add(&live.name, &parent.key, written.into_iter().collect());
                Requeue::Pause(again)
            }
            // The parent has changed, as its event will show: nothing to tell anybody.
            Err(Failed { problem: WriteProblem::Outdated, .. }) => UNAVAILABLE,
            Err(Failed { problem, awaited }) => {
                self.own_writes.add(&live.name, &parent.key, awaited.map(|awaited| *awaited).into_iter().collect());
                let problem = Problem::Writes(vec![(id_of_parent(snapshot), problem)]);
                self.finalizer_not_set(live, snapshot, &problem).await
            }
        }
    }

    /// Says why the finalizer is not as it should be.
    async fn finalizer_not_set(&self, live: &Live, snapshot: &Snapshot, problem: &Problem) -> Requeue {
        let phase = if snapshot.parent.deleting { Phase::Finalize } else { Phase::Sync };
        let attempt = self.without_plan(live, snapshot, problem);
        self.finish(live, snapshot, (phase, false), attempt).await.requeue
    }

    /// A plugin that saw what is in the host's namespace, or had children there, could act as the host.
    async fn in_host_namespace(&self, live: &Arc<Live>, snapshot: &Snapshot, home: HostNamespace) -> Requeue {
        // The plugin is not asked to clean up either, and nobody else would take its finalizer off.
        match next_step(&snapshot.parent, &live.name, false, false, true) {
            NextStep::RemoveFinalizer => {
                return self.remove_finalizer(live, snapshot, &[], &FinalizerEnd::Skipped).await;
            }
            NextStep::Leave => return Requeue::WhenChanged,
            NextStep::Ask(_) | NextStep::AddFinalizer | NextStep::Suspended | NextStep::Release => {}
        }
        // Objects of a kind that exists without the plugin lie there for reasons of their own: nothing is said of them.
        let silent = !live.owns_kind();
        let attempt = Attempt { silent, ..self.without_plan(live, snapshot, &Problem::HostNamespace(home)) };
        self.finish(live, snapshot, (Phase::Sync, false), attempt).await.requeue
    }

    /// Says on the parent that nothing is written because of it. A whole suspended Plugin says so itself, and once: only
    /// a parent whose deletion waits for it is told.
    async fn suspended(&self, live: &Live, snapshot: &Snapshot) -> Requeue {
        let by =
            if snapshot.parent.marks.is_true(ANNOTATION_SUSPEND) { SuspendedBy::Parent } else { SuspendedBy::Plugin };
        if by == SuspendedBy::Plugin && !snapshot.parent.deleting {
            tracing::Span::current().record("windlass.outcome", "suspended");
            return Requeue::WhenChanged;
        }
        let phase = if snapshot.parent.deleting { Phase::Finalize } else { Phase::Sync };
        let attempt = self.without_plan(live, snapshot, &Problem::Suspended(by));
        self.finish(live, snapshot, (phase, false), attempt).await.requeue
    }
}

/// What is desired of a parent that is cleaned up.
fn finalizing(mut desired: Desired, snapshot: &Snapshot, phase: Phase) -> Desired {
    if phase == Phase::Finalize && desired.finalized && !snapshot.parent.deleting {
        // It has left the selector and lives on: no garbage collector takes what it owns.
        desired.children.clear();
    }
    desired
}

/// The writes that lead from a snapshot to what is desired, as far as they may be made now.
fn planned(
    live: &Live,
    snapshot: &Snapshot,
    desired: &Desired,
    differing: impl Fn(&Object, &DesiredChild) -> Option<Digest>,
) -> Plan {
    let mut plan = plan::plan_comparing(snapshot, desired, differing);
    plan.put_off_creates(|child| is_held_by_predecessor(live, snapshot, child));
    plan.keep_left_out(snapshot);
    if !may_write_children(&snapshot.parent) {
        plan.writes.clear();
    }
    if keeps_children(&snapshot.parent) {
        plan.keep_children();
    }
    if snapshot.parent.deleting && desired.finalized {
        // The parent goes right after, and with it what it owns.
        plan.keep_retained_writes();
    }
    plan
}

/// The children that the plugin was not shown.
fn left_out(snapshot: &Snapshot, limit: u64, again: Option<Duration>) -> Problem {
    let of = |child: &Arc<Object>| (ChildId::of(child), child.json.unpacked_size() as u64);
    Problem::LeftOut { children: snapshot.left_out.iter().map(of).collect(), limit, again }
}

/// Whether a parent whose status speaks of its spec need not say what kept the plugin from being called.
fn passes_unsaid(problem: &Problem) -> bool {
    // Ten thousand parents need not all say what their Plugin says. After a start a large cache takes its time, and no parent
    // is worse for it; a watch that fails, or is silent, is another problem.
    matches!(problem, Problem::Quarantined(_) | Problem::Reads(ReadProblem::NotFilled { .. }))
}

/// Takes all writes out of a plan that its plugin has no tokens for; answers with how long it takes until there are some.
fn limited(budget: &Mutex<Budget>, plan: &mut Plan) -> Option<Duration> {
    if plan.is_empty() {
        return None;
    }
    let count = plan.writes.len() + plan.prunes.len();
    let wait = budget.lock().spend(Cost::Write, count, Timestamp::now()).err()?;
    plan.writes.clear();
    plan.prunes.clear();
    Some(wait)
}

/// Whether the status speaks of the parent as it is now.
fn is_observed(snapshot: &Snapshot) -> bool {
    let observed = observed(&snapshot.parent).get("observedGeneration").cloned();
    observed.is_some() && observed == snapshot.parent.generation.map(Into::into)
}

/// Whether a parent is not as its plugin wants it, and nobody asked for that.
fn is_failing(progress: Progress) -> bool {
    matches!(progress, Progress::Reconciling | Progress::Stalled)
}

/// Whether a status of a kind that is not the plugin's own is refused: its parent cannot say so itself.
fn is_refused_status(live: &Live, problem: &WriteProblem) -> bool {
    live.status_writer == StatusWriter::Account
        && matches!(problem, WriteProblem::FieldConflict { .. } | WriteProblem::Rejected { code: 400..=403 | 422, .. })
}

/// When to try a status again that was not written: always, since nothing else may ever happen to the parent.
fn status_not_written(snapshot: &Snapshot, problem: WriteProblem) -> Requeue {
    if matches!(problem, WriteProblem::Rejected { code: 404, .. }) {
        // It is gone, as its event will show.
        return BACKOFF;
    }
    let failed = Verdict::from(&Problem::Writes(vec![(id_of_parent(snapshot), problem)]));
    tracing::warn!(object = %snapshot.parent_ref, message = failed.message, "status was not written");
    failed.requeue
}

fn id_of_parent(snapshot: &Snapshot) -> ChildId {
    ChildId { kind: snapshot.parent.kind.clone(), key: snapshot.parent.key.clone() }
}

/// Whether a child's name is held by a child of an earlier parent of this name, which the garbage collector has not
/// reached yet. Its end is an event (see [`crate::reconcile::triggers`]).
fn is_held_by_predecessor(live: &Live, snapshot: &Snapshot, child: &DesiredChild) -> bool {
    live.child_watch(&child.kind)
        .and_then(|watch| watch.store.get(&child.key))
        .is_some_and(|found| found.is_left_by_predecessor_of(&snapshot.parent_ref))
}

/// Children whose deletion must end before they can be as wanted.
fn being_deleted(plan: &Plan) -> Vec<ChildId> {
    let replaced = plan.writes.iter().filter_map(|write| match write {
        Write::Replace(delete) => Some(delete.child.clone()),
        Write::Create(_) | Write::Apply { .. } => None,
    });
    plan.terminating.iter().cloned().chain(replaced).collect()
}

#[cfg(test)]
mod tests {
    use windlass_core::ids::{Gvk, Uid};
    use windlass_core::plan::Delete;

    use super::*;

    #[test]
    fn parent_does_not_become_unready_while_a_related_cache_is_filled_after_a_start() {
        let kind = || Gvk::from_api_version("v1", "Secret");
        assert!(passes_unsaid(&Problem::Reads(ReadProblem::NotFilled {
            kind: kind(),
            waited: Duration::from_secs(10)
        })));
        let refused = ReadProblem::NotWatched { kind: kind(), code: 403, message: String::new() };
        for said in [refused, ReadProblem::Stalled { kind: kind(), message: String::new() }, ReadProblem::Unsettled] {
            assert!(!passes_unsaid(&Problem::Reads(said)));
        }
    }

    #[test]
    fn plan_of_a_plugin_without_tokens_is_put_off_as_a_whole() {
        let child =
            ChildId { kind: Arc::new(Gvk::from_api_version("v1", "Pod")), key: ObjectKey::new(Some("n"), "web-0") };
        let wanted = Plan { prunes: vec![Delete { child, uid: Uid::from("1") }], ..Plan::default() };
        let budget = Mutex::new(Budget::new(Timestamp::now()));
        let mut plan = wanted.clone();
        assert_eq!((limited(&budget, &mut plan), &plan), (None, &wanted));
        budget.lock().spend(Cost::Write, 200_000, Timestamp::now()).expect("it may be owed");
        let wait = limited(&budget, &mut plan).expect("nothing is left");
        assert!(wait > Duration::from_mins(1) && plan.is_empty(), "{wait:?}");
        assert_eq!(limited(&budget, &mut plan), None, "a parent that needs no write waits for nothing");
    }
}
