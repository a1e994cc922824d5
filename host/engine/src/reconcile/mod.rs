//! Runs the reconciles of parents: core's [steps](windlass_core::reconcile::steps), with the cluster as their [`world`].

pub mod call;
mod journal;
pub mod related;
pub mod rng_seed;
mod selection;
mod spans;
pub mod triggers;
pub mod world;
mod writing;

use std::time::Duration;

use parking_lot::Mutex;
use tracing::Instrument;
use tracing::field::Empty;
use windlass_core::reconcile::outcome::Requeue;
use windlass_core::reconcile::steps::Reconcile;
use windlass_core::value::ids::{ObjectKey, PluginName};

use self::journal::Journal;
use self::world::{Cluster, Worlds};
use crate::clock;
use crate::live::Live;
use crate::live::registry::Registry;
use crate::queue::{Job, Run, Trigger, Turn};
use crate::recent::Recent;
use crate::telemetry::{self, TRACE};

/// Reconciles parents.
pub struct Reconciler {
    /// The live plugins, whose parents are reconciled.
    pub registry: Registry<Live>,
    /// Makes the worlds of reconciles.
    pub worlds: Worlds,
    /// What happens is added to these calls.
    pub recent: Recent,
}

impl Run<PluginName, ObjectKey> for Reconciler {
    /// Reconciles one parent. Returns when to reconcile it again, and the plugin's resync interval.
    async fn run(&self, job: &Job<PluginName, ObjectKey>, turn: &Turn<'_>) -> (Requeue, Duration) {
        let Some(live) = self.registry.get(&job.group) else {
            // When a component goes live, all parents are queued.
            return (Requeue::WhenChanged, Duration::MAX);
        };
        if let Some(share) = live.shared.state.share()
            && !self.worlds.shards.may_reconcile(&job.group, &share.hash, &job.key)
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
            let journal = Mutex::new(Journal::new(self.recent.wants()));
            let world = Cluster { worlds: &self.worlds, live: &live, key: &job.key, turn, journal };
            let (terms, shared) = (&live.terms, &live.shared);
            let requeue = Reconcile { world: &world, terms, shared, key: &job.key, trigger: job.trigger }.run().await;
            let (journal, duration) = (world.journal.into_inner(), clock::since(began));
            for reconciled in journal.close(&live, &job.key, job.trigger, requeue, duration) {
                self.recent.add(reconciled);
            }
            requeue
        };
        let requeue = reconcile.instrument(span.clone()).await;
        live.calls.controller.reconciled(requeue, job.waited, clock::since(began));
        if requeue == Requeue::Gone {
            live.calls.measures.forget(&job.key);
        }
        // A paused reconcile goes on later.
        if !matches!(requeue, Requeue::Pause(_)) && live.shared.state.note_reconciled(&job.key) {
            self.worlds.plugins.add(&(), &live.terms.name, Trigger::Resync);
        }
        // The queue chooses the length of a backoff, after this span has ended.
        if let Requeue::Pause(delay) | Requeue::After(delay) | Requeue::Settled(Some(delay)) = requeue {
            span.record("windlass.requeue_ms", telemetry::int(delay.as_millis()));
        }
        (requeue, live.terms.settings.resync)
    }
}

/// Forgets what this host knows of a parent that another host reconciles.
fn let_go(live: &Live, parent: &ObjectKey) -> Requeue {
    if live.caches.unselected.uid(parent).is_some_and(|uid| !live.has_children(&uid)) {
        live.caches.unselected.forget(parent);
    }
    // The owner of the parent measures it now.
    live.calls.measures.forget(parent);
    if live.knows(parent) {
        live.shared.records.let_go(parent);
        return Requeue::WhenChanged;
    }
    live.shared.records.forget(parent);
    Requeue::Gone
}
