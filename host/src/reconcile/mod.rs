//! One reconcile of one parent, as a list of steps: own writes seen → observe → call → validate → plan → guard → apply → report.
//!
//! Each step uses the results of the steps before it. Only `apply` and `report` have a client, and neither decides anything.

pub mod apply;
pub mod call;
mod carry_out;
mod decide;
mod finalizer;
mod finish;
mod kept_values;
mod observe;
mod own_writes_first;
pub mod related;
pub mod report;
pub mod rng_seed;
mod spans;
pub mod triggers;
mod unshown;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::Instrument;
use tracing::field::Empty;
use windlass_core::breaker::Breaker;
use windlass_core::contract::{Event, Phase};
use windlass_core::events::FinalizerEnd;
use windlass_core::ids::PluginName;
use windlass_core::json::Map;
use windlass_core::names::ANNOTATION_SUSPEND;
use windlass_core::next_step::{NextStep, next_step};
use windlass_core::object::Object;
use windlass_core::outcome::{Problem, Requeue, SuspendedBy, UNAVAILABLE, Verdict};
use windlass_core::plan::ChildId;
use windlass_core::reason::ParentReason;
use windlass_core::reserved::HostNamespace;
use windlass_core::snapshot::Snapshot;
use windlass_sandbox::registry::Registry;

use crate::live::own_writes::OwnWrites;
use crate::live::terminating::Terminating;
use crate::live::{Live, ParentKey};
use crate::queue::{Job, PluginQueue, Queue, Run, Trigger, Turn};
use crate::reconcile::apply::{Applied, Applier};
use crate::reconcile::call::Caller;
use crate::reconcile::observe::observe;
use crate::reconcile::related::Related;
use crate::reconcile::report::Reporter;
use crate::telemetry::{self, TRACE};

/// How soon a parent is reconciled again that waits for a cache, if no event comes first.
const CACHE_LAG: Duration = Duration::from_secs(1);

/// Reconciles parents.
pub struct Reconciler {
    registry: Registry<Live>,
    own_writes: OwnWrites,
    terminating: Terminating,
    breaker: Mutex<Breaker>,
    related: Related,
    caller: Caller,
    /// The queues of parents and of Plugins, for those that another parent's reconcile concerns.
    parents: Queue<PluginName, ParentKey>,
    plugins: PluginQueue,
    applier: Applier,
    reporter: Reporter,
}

/// How a desired state is carried out.
#[derive(Clone, Copy)]
struct How {
    phase: Phase,
    is_selected: bool,
    /// Whether the values of children are compared whose managedFields show no change.
    compares: bool,
}

/// What one reconcile came to, before it is reported.
struct Attempt {
    /// The plugin's part of the status, if the response has one.
    part: Option<Map>,
    applied: Applied,
    verdict: Verdict,
    /// Whether the plugin has cleaned up, so that the finalizer may be removed.
    finalized: bool,
    /// Whether the same response about the same objects would have the same result.
    is_final: bool,
    /// Whether the status is left as it is, because the problem passes soon or the Plugin's status reports it.
    silent: bool,
    /// The events of the response.
    events: Vec<Event>,
}

/// How one reconcile ended.
struct Ending {
    /// When to reconcile the parent again.
    requeue: Requeue,
    /// Whether the host wrote anything.
    wrote: bool,
    /// Whether the parent's conditions report the outcome.
    is_reported: bool,
}

impl Ending {
    /// The parent's status does not report it.
    fn unreported(requeue: Requeue) -> Self {
        Self { requeue, wrote: false, is_reported: false }
    }
}

impl Attempt {
    /// Nothing was sent.
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
    /// Reconciles one parent. Returns when to reconcile it again, and the plugin's resync interval.
    async fn run(&self, job: &Job<PluginName, ParentKey>, turn: &Turn<'_>) -> (Requeue, Duration) {
        let Some(live) = self.registry.get(&job.group) else {
            // When a component goes live, all parents are queued.
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
        // A paused reconcile goes on later.
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
    /// With the live plugins, the queues of parents and of Plugins, and what sends writes.
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
            // The caches are out of date. The Plugin's status reports why, and its recovery queues the parents that fail.
            span.record("windlass.outcome", "not_followed");
            live.failures.record(&job.key, Some((ParentReason::ApiError, "a kind of the plugin cannot be watched")));
            // The next reconcile must record a success, even if nothing has changed.
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
            NextStep::Ask(phase) => self.decide(live, snapshot, phase, job.trigger, turn).await,
            NextStep::AddFinalizer => self.add_finalizer(live, &snapshot).await,
            NextStep::RemoveFinalizer => self.skip_finalizer(live, &snapshot).await,
            NextStep::Suspended => self.suspended(live, &snapshot).await,
            NextStep::Leave => self.leave(live, &snapshot.parent),
            NextStep::Release => self.release(live, &snapshot).await,
        }
    }

    /// Leaves a parent that is being deleted, or is suspended. The deletions of other parents do not wait for it; while it is
    /// suspended, its own blocked deletions still count.
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

    /// Refuses a parent in the host's namespace: a plugin that saw objects there, or had children there, could act as the host.
    async fn in_host_namespace(&self, live: &Arc<Live>, snapshot: &Snapshot, home: HostNamespace) -> Requeue {
        // The plugin does not clean up there either, so the host removes its finalizer.
        match next_step(&snapshot.parent, &live.name, false, false, true) {
            NextStep::RemoveFinalizer => {
                return self.remove_finalizer(live, snapshot, &[], &FinalizerEnd::Skipped).await;
            }
            NextStep::Leave => return Requeue::WhenChanged,
            NextStep::Ask(_) | NextStep::AddFinalizer | NextStep::Suspended | NextStep::Release => {}
        }
        // Objects of a kind that exists without the plugin have other owners: the host reports nothing on them.
        let silent = !live.owns_kind();
        let attempt = Attempt { silent, ..self.without_plan(live, snapshot, &Problem::HostNamespace(home)) };
        self.finish(live, snapshot, (Phase::Sync, false), attempt).await.requeue
    }

    /// Reports on a suspended parent that the host writes nothing for it. If the whole Plugin is suspended, the Plugin's status
    /// reports it, and of the parents only those whose deletion waits for it.
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

fn id_of_parent(snapshot: &Snapshot) -> ChildId {
    ChildId { kind: snapshot.parent.kind.clone(), key: snapshot.parent.key.clone() }
}
