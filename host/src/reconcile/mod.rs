//! One reconcile of one parent, as a list of steps: own writes seen → observe → call → validate → plan → guard → apply → settle.
//!
//! Each step uses the results of the steps before it, and may be the last one: it returns an [`Ending`], and `settle` reports and
//! remembers it. Only `apply` and `report` have a client, and neither decides anything.

pub mod apply;
pub mod call;
mod carry_out;
mod decide;
mod ending;
mod finalizer;
mod kept_values;
mod observe;
mod own_writes_first;
pub mod related;
pub mod report;
pub mod rng_seed;
mod settle;
mod spans;
pub mod triggers;
mod unshown;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::Instrument;
use tracing::field::Empty;
use windlass_core::breaker::Breaker;
use windlass_core::events::FinalizerEnd;
use windlass_core::ids::{ObjectKey, PluginName};
use windlass_core::names::ANNOTATION_SUSPEND;
use windlass_core::next_step::{NextStep, next_step};
use windlass_core::object::Object;
use windlass_core::outcome::{Problem, Requeue, SuspendedBy, UNAVAILABLE};
use windlass_core::plan::ChildId;
use windlass_core::reason::ParentReason;
use windlass_core::reserved::HostNamespace;
use windlass_core::snapshot::Snapshot;
use windlass_sandbox::registry::Registry;

use self::apply::Applier;
use self::call::Caller;
use self::ending::{Attempt, Ending, Left};
use self::observe::observe;
use self::related::Related;
use self::report::Reporter;
use crate::live::{Live, ParentKey};
use crate::queue::{Job, PluginQueue, Queue, Run, Trigger, Turn};
use crate::telemetry::{self, TRACE};

/// How soon a parent is reconciled again that waits for a cache, if no event comes first.
const CACHE_LAG: Duration = Duration::from_secs(1);

/// Reconciles parents.
pub struct Reconciler {
    registry: Registry<Live>,
    /// Not part of the parents' records: it counts the writes of each object, and bounds its memory by their age.
    breaker: Mutex<Breaker>,
    related: Related,
    caller: Caller,
    /// The queues of parents and of Plugins, for those that another parent's reconcile concerns.
    parents: Queue<PluginName, ParentKey>,
    plugins: PluginQueue,
    applier: Applier,
    reporter: Reporter,
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
        let reconcile = async {
            let ending = self.steps(&live, job, turn).await;
            self.settle(&live, &job.key, ending).await
        };
        let requeue = reconcile.instrument(span.clone()).await;
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
        Self { registry, breaker: Mutex::default(), related, caller, parents, plugins, applier, reporter }
    }

    /// From the parent's key to the way in which its reconcile ends.
    async fn steps(&self, live: &Arc<Live>, job: &Job<PluginName, ParentKey>, turn: &Turn<'_>) -> Ending {
        if let Some(ending) = self.own_writes_first(live, &job.key).await {
            return ending;
        }
        if !live.is_followed() {
            return self.not_followed(live, &job.key).await;
        }
        let Some(snapshot) = spans::observed(|| observe(live, &job.key)) else {
            return self.not_shown(live, &job.key).await;
        };
        live.unselected.forget(&job.key);
        let span = tracing::Span::current();
        span.record("windlass.parent.uid", tracing::field::display(&snapshot.parent.uid));
        span.record("windlass.parent.generation", snapshot.parent.generation);
        if snapshot.parent.deleting {
            live.records.with(&job.key, |record| record.steady.end());
            self.follow(live, live.state.forget(&job.key));
        }
        if let Some(home) = live.account.home_of(&snapshot.parent) {
            return self.in_host_namespace(live, snapshot, home).await;
        }
        let Some(selected) = live.selects(&snapshot.parent) else {
            return Ending::waits("waiting_for_namespace", Requeue::Pause(CACHE_LAG));
        };
        match next_step(&snapshot.parent, &live.name, live.finalizes, live.suspended, selected) {
            NextStep::Ask(phase) => self.decide(live, snapshot, phase, job.trigger, turn).await,
            NextStep::AddFinalizer => self.add_finalizer(live, snapshot).await,
            NextStep::RemoveFinalizer => self.skip_finalizer(live, snapshot).await,
            NextStep::Suspended => suspended(snapshot),
            NextStep::Leave => leave(&snapshot.parent),
            NextStep::Release => self.release(live, snapshot).await,
        }
    }

    /// The caches are out of date. The Plugin's status reports why, and its recovery queues the parents that fail.
    async fn not_followed(&self, live: &Arc<Live>, key: &ObjectKey) -> Ending {
        let failure = Some((ParentReason::ApiError, "a kind of the plugin cannot be watched"));
        let waits = Ending::Waits { outcome: "not_followed", failure, requeue: UNAVAILABLE };
        self.skip_finalizer_unobserved(live, key).await.unwrap_or(waits)
    }

    /// Refuses a parent in the host's namespace: a plugin that saw objects there, or had children there, could act as the host.
    async fn in_host_namespace(&self, live: &Arc<Live>, snapshot: Snapshot, home: HostNamespace) -> Ending {
        // The plugin does not clean up there either, so the host removes its finalizer.
        match next_step(&snapshot.parent, &live.name, false, false, true) {
            NextStep::RemoveFinalizer => {
                return self.remove_finalizer(live, snapshot, FinalizerEnd::Skipped, Vec::new()).await;
            }
            NextStep::Leave => return Ending::Left(Left::InHostNamespace, Requeue::WhenChanged),
            NextStep::Ask(_) | NextStep::AddFinalizer | NextStep::Suspended | NextStep::Release => {}
        }
        // Objects of a kind that exists without the plugin have other owners: the host reports nothing on them.
        let attempt = Attempt { silent: !live.owns_kind(), ..Attempt::from(&Problem::HostNamespace(home)) };
        Ending::outcome(snapshot, attempt)
    }
}

/// Leaves a parent that is being deleted, or is suspended. The deletions of other parents do not wait for it; while it is suspended,
/// its own blocked deletions still count.
fn leave(parent: &Object) -> Ending {
    Ending::Left(if parent.deleting { Left::Deleting } else { Left::Suspended }, Requeue::WhenChanged)
}

/// Reports on a suspended parent that the host writes nothing for it. If the whole Plugin is suspended, the Plugin's status reports
/// it, and of the parents only those whose deletion waits for it.
fn suspended(snapshot: Snapshot) -> Ending {
    let by = if snapshot.parent.marks.is_true(ANNOTATION_SUSPEND) { SuspendedBy::Parent } else { SuspendedBy::Plugin };
    if by == SuspendedBy::Plugin && !snapshot.parent.deleting {
        return Ending::Left(Left::PluginSuspended, Requeue::WhenChanged);
    }
    Ending::problem(snapshot, &Problem::Suspended(by))
}

fn id_of_parent(snapshot: &Snapshot) -> ChildId {
    ChildId { kind: snapshot.parent.kind.clone(), key: snapshot.parent.key.clone() }
}
