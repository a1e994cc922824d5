//! One reconcile of one parent, as a list of steps: wait for own writes → observe → call → validate → plan → guard → apply → finish.
//!
//! Each step uses the results of the steps before it, and may end the reconcile: it returns an [`Ending`], and `finish` reports and
//! remembers it. Only `world` sends writes, and it decides nothing.

mod ask;
pub mod call;
mod carry_out;
mod ending;
mod finalizer;
mod finish;
mod journal;
mod observe;
mod own_writes_first;
pub mod related;
pub mod report;
pub mod rng_seed;
mod selection;
mod spans;
pub mod triggers;
mod unshown;
pub mod world;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::Instrument;
use tracing::field::Empty;
use windlass_core::contract::reserved::HostNamespace;
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::guard::breaker::Breaker;
use windlass_core::object::Object;
use windlass_core::object::names::ANNOTATION_SUSPEND;
use windlass_core::object::reason::ParentReason;
use windlass_core::reconcile::next_step::{Circumstances, NextStep, next_step};
use windlass_core::reconcile::outcome::{FinalizerEnd, Problem, Requeue, SuspendedBy, UNAVAILABLE};
use windlass_core::value::ids::{ObjectKey, PluginName};

use self::call::Caller;
use self::ending::{Attempt, Ending, NothingToDo};
use self::journal::Journal;
use self::observe::observe;
use self::related::Related;
use self::report::Reporter;
use self::world::Worlds;
use crate::clock;
use crate::cluster::shards::Shards;
use crate::live::registry::Registry;
use crate::live::{Live, ParentKey};
use crate::queue::{Job, PluginQueue, Queue, Run, Trigger, Turn};
use crate::recent::Recent;
use crate::telemetry::{self, TRACE};

/// Time after which a parent that waits for a cache is reconciled again, if no event queues it earlier.
const CACHE_LAG: Duration = Duration::from_secs(1);

/// Reconciles parents.
pub struct Reconciler {
    registry: Registry<Live>,
    /// Counts the writes to each object. It drops old counts by itself, so it is not part of the parents' records.
    breaker: Mutex<Breaker>,
    related: Related,
    caller: Caller,
    /// The queues of parents and of Plugins: a reconcile queues other parents, or its Plugin, if its result affects them.
    parents: Queue<PluginName, ParentKey>,
    plugins: PluginQueue,
    worlds: Worlds,
    reporter: Reporter,
    shards: Shards,
    recent: Recent,
}

impl Run<PluginName, ParentKey> for Reconciler {
    /// Reconciles one parent. Returns when to reconcile it again, and the plugin's resync interval.
    async fn run(&self, job: &Job<PluginName, ParentKey>, turn: &Turn<'_>) -> (Requeue, Duration) {
        let Some(live) = self.registry.get(&job.group) else {
            // When a component goes live, all parents are queued.
            return (Requeue::WhenChanged, Duration::MAX);
        };
        if let Some(share) = live.shared.state.share()
            && !self.shards.may_reconcile(&job.group, &share.hash, &job.key)
        {
            // Another host reconciles it. When this host gains the parent, it is queued.
            return (let_go(&live, &job.key), Duration::MAX);
        }
        let span = tracing::debug_span!(
            target: TRACE,
            "reconcile",
            windlass.plugin = %job.group,
            k8s.namespace.name = job.key.namespace.as_deref().unwrap_or_default(),
            windlass.parent.kind = &*live.terms.parents.kind,
            windlass.parent.name = &*job.key.name,
            windlass.parent.uid = Empty,
            windlass.parent.generation = Empty,
            windlass.trigger = job.trigger.as_str(),
            windlass.outcome = Empty,
            windlass.requeue_ms = Empty,
        );
        let began = clock::now();
        let reconcile = async {
            let mut journal = Journal::new(self.recent.is_on());
            let ending = self.steps(&live, job, turn, &mut journal).await;
            let requeue = self.finish(&live, &job.key, ending, &mut journal).await;
            for reconciled in journal.close(&live, (&job.key, job.trigger), (requeue, clock::since(began))) {
                self.recent.add(reconciled);
            }
            requeue
        };
        let requeue = reconcile.instrument(span.clone()).await;
        live.shared.controller.reconciled(requeue, job.waited, clock::since(began));
        // A paused reconcile goes on later.
        if !matches!(requeue, Requeue::Pause(_)) && live.shared.state.note_reconciled(&job.key) {
            self.plugins.add(&(), &live.terms.name, Trigger::Resync);
        }
        // The queue chooses the length of a backoff, after this span has ended.
        if let Requeue::Pause(delay) | Requeue::After(delay) | Requeue::Settled(Some(delay)) = requeue {
            span.record("windlass.requeue_ms", telemetry::int(delay.as_millis()));
        }
        (requeue, live.terms.resync)
    }
}

impl Reconciler {
    /// Creates a reconciler.
    pub fn new(
        registry: Registry<Live>,
        parents: Queue<PluginName, ParentKey>,
        (plugins, shards): (PluginQueue, Shards),
        (related, recent): (Related, Recent),
        caller: Caller,
        worlds: Worlds,
        reporter: Reporter,
    ) -> Self {
        let breaker = Mutex::default();
        Self { registry, breaker, related, caller, parents, plugins, worlds, reporter, shards, recent }
    }

    /// Runs the steps of one reconcile before `finish`.
    async fn steps(
        &self,
        live: &Arc<Live>,
        job: &Job<PluginName, ParentKey>,
        turn: &Turn<'_>,
        journal: &mut Journal,
    ) -> Ending {
        if let Some(ending) = self.own_writes_first(live, &job.key).await {
            return ending;
        }
        if !live.caches.is_followed() {
            return self.not_followed(live, &job.key).await;
        }
        let Some(snapshot) = spans::observed(|| observe(live, &job.key)) else {
            return self.not_shown(live, &job.key).await;
        };
        live.shared.unselected.forget(&job.key);
        let span = tracing::Span::current();
        span.record("windlass.parent.uid", tracing::field::display(&snapshot.parent.uid));
        span.record("windlass.parent.generation", snapshot.parent.generation);
        spans::link(&span, live, &snapshot.parent);
        if snapshot.parent.deleting {
            live.shared.records.with(&job.key, |record| record.steady.end());
            self.queue_consequences(live, live.shared.state.forget_deletions(&job.key));
        }
        if let Some(host_namespace) = live.account.host_namespace_of(&snapshot.parent) {
            return self.in_host_namespace(live, snapshot, host_namespace).await;
        }
        let Some(selected) = live.caches.selects(&snapshot.parent) else {
            return Ending::waits("waiting_for_namespace", Requeue::Pause(CACHE_LAG));
        };
        match live.terms.next_step(&snapshot.parent, selected) {
            NextStep::Call(phase) => self.call_and_carry_out(live, snapshot, (phase, job.trigger), turn, journal).await,
            NextStep::AddFinalizer => self.add_finalizer(live, snapshot).await,
            NextStep::RemoveFinalizer => self.skip_clean_up(live, snapshot).await,
            NextStep::Suspended => suspended(snapshot),
            NextStep::Leave => leave(&snapshot.parent),
            NextStep::DeleteChildren => self.delete_children(live, snapshot).await,
        }
    }

    /// Ends the reconcile of a parent whose caches are out of date. The Plugin's status reports why; when the watches recover, the host
    /// queues the parents that failed meanwhile.
    async fn not_followed(&self, live: &Arc<Live>, key: &ObjectKey) -> Ending {
        let failure = Some((ParentReason::ApiError, "a kind of the plugin cannot be watched"));
        let waits = Ending::Waits { outcome: "not_followed", failure, requeue: UNAVAILABLE };
        self.skip_clean_up_unobserved(live, key).await.unwrap_or(waits)
    }

    /// Refuses a parent in the host's namespace: a plugin that saw objects there, or had children there, could act as the host.
    async fn in_host_namespace(&self, live: &Arc<Live>, snapshot: Snapshot, host_namespace: HostNamespace) -> Ending {
        // The plugin does not clean up there either, so the host removes its finalizer.
        let never_calls = Circumstances { finalizes: false, suspended: false, selected: true };
        match next_step(&snapshot.parent, &live.terms.name, never_calls) {
            NextStep::RemoveFinalizer => {
                return self.remove_finalizer(live, snapshot, FinalizerEnd::NotCalled, Vec::new()).await;
            }
            NextStep::Leave => return Ending::nothing_to_do(NothingToDo::InHostNamespace),
            NextStep::Call(_) | NextStep::AddFinalizer | NextStep::Suspended | NextStep::DeleteChildren => {}
        }
        // Objects of a kind that exists without the plugin have other owners: the host reports nothing on them.
        let attempt =
            Attempt { silent: !live.terms.owns_kind, ..Attempt::from(&Problem::HostNamespace(host_namespace)) };
        Ending::outcome(snapshot, attempt)
    }
}

/// Forgets what this host knows of a parent that another host reconciles.
fn let_go(live: &Live, parent: &ObjectKey) -> Requeue {
    if live.shared.unselected.uid(parent).is_some_and(|uid| !live.has_children(&uid)) {
        live.shared.unselected.forget(parent);
    }
    // The owner of the parent measures it now.
    live.shared.measures.forget(parent);
    if live.knows(parent) {
        live.shared.records.let_go(parent);
        return Requeue::WhenChanged;
    }
    live.shared.records.forget(parent);
    Requeue::Gone
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
