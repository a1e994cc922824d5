//! The work on Plugins: a leader reconciles them, a standby prepares them.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windlass_core::reconcile::outcome::Requeue;
use windlass_core::value::ids::PluginName;

use super::{PLUGIN_WORKERS, Tasks, work_on};
use crate::cluster::watch::Watch;
use crate::plugins::Plugins;
use crate::queue::{Job, Run, Turn};

/// Time between removals of data that no Plugin uses.
const TIDY: Duration = Duration::from_hours(1);
/// Longest wait for Plugins to be prepared before this host takes a shard.
const PREPARED: Duration = Duration::from_mins(2);
/// Time between two checks whether the cache of Plugins has caught up, or Plugins are prepared.
const CATCH_UP: Duration = Duration::from_millis(100);

/// The work on Plugins.
#[derive(Clone)]
pub(super) struct PluginWork {
    pub plugins: Arc<Plugins>,
    pub tasks: Tasks,
}

impl PluginWork {
    /// Starts to prepare Plugins for the moment when this host leads or has a shard, until `stop` is cancelled.
    pub(super) fn stand_by(&self, stop: &CancellationToken) {
        self.begin(Prepare { work: self.clone(), stop: stop.clone() }, stop);
        let (work, stop) = (self.clone(), stop.clone());
        self.tasks.running.spawn(async move {
            if listed(&work.plugins.own, &stop).await.is_some() {
                work.note_prepared();
            }
        });
    }

    /// Starts the work of the host that holds the leader's Lease; it ends when `stop` is cancelled.
    pub(super) fn lead(&self, stop: &CancellationToken) {
        self.tasks.readiness.leading();
        self.plugins.begin_to_lead();
        self.begin(BringUp(self.clone()), stop);
        let (work, stop) = (self.clone(), stop.clone());
        self.tasks.running.spawn(async move {
            if listed(&work.plugins.own, &stop).await.is_some() {
                work.note_tried().await;
            }
        });
    }

    /// Marks the standby as ready once every Plugin is prepared.
    fn note_prepared(&self) {
        if self.plugins.all_prepared() {
            self.tasks.readiness.standing_by();
        }
    }

    /// Marks the host as ready once every Plugin was reconciled.
    async fn note_tried(&self) {
        if self.plugins.all_tried() && self.tasks.readiness.ready() {
            self.plugins.tidy().await;
        }
    }

    fn begin(&self, work: impl Run<(), PluginName> + 'static, stop: &CancellationToken) {
        work_on(&self.tasks.running, PLUGIN_WORKERS, &self.plugins.queue, work, stop);
        let queue = self.plugins.queue.clone();
        self.tasks.liveness.follow("Plugins", move || queue.stalled());
        self.tasks.running.spawn(tidy_now_and_then(self.plugins.clone(), stop.clone()));
    }

    /// Waits until every Plugin is prepared, but not for ever: a source may not respond.
    pub(super) async fn prepared(&self, stop: &CancellationToken) {
        let prepared = async {
            while !(listed(&self.plugins.own, stop).await.is_some() && self.plugins.all_prepared()) {
                tokio::time::sleep(CATCH_UP).await;
            }
        };
        if tokio::time::timeout(PREPARED, prepared).await.is_err() {
            tracing::warn!("not every Plugin could be prepared: the leader must reconcile all parents of those");
        }
    }

    /// Waits until the cache of Plugins shows what the API server has now. Returns none if `stop` is cancelled before.
    pub(super) async fn catch_up(&self, stop: &CancellationToken) -> Option<()> {
        listed(&self.plugins.own, stop).await?;
        loop {
            match stop.run_until_cancelled(self.plugins.is_caught_up()).await? {
                Ok(true) => return Some(()),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "the Plugins cannot be listed yet"),
            }
            stop.run_until_cancelled(tokio::time::sleep(CATCH_UP)).await?;
        }
    }
}

/// Reconciles Plugins. The host is ready when each Plugin was reconciled once.
struct BringUp(PluginWork);

impl Run<(), PluginName> for BringUp {
    async fn run(&self, job: &Job<(), PluginName>, _: &Turn<'_>) -> (Requeue, Duration) {
        // Boxed, because the future is large and lives until the component is loaded.
        let outcome = Box::pin(self.0.plugins.reconcile(job)).await;
        self.0.note_tried().await;
        outcome
    }
}

/// Prepares Plugins while the host stands by. It is ready when it has prepared each Plugin once.
struct Prepare {
    work: PluginWork,
    /// Cancelled when the host leads.
    stop: CancellationToken,
}

impl Run<(), PluginName> for Prepare {
    async fn run(&self, job: &Job<(), PluginName>, _: &Turn<'_>) -> (Requeue, Duration) {
        // A preparation writes nothing, so it can be dropped at any moment.
        match self.stop.run_until_cancelled(Box::pin(self.work.plugins.prepare_standby(job))).await {
            Some(outcome) => {
                self.work.note_prepared();
                outcome
            }
            // This host leads now: the Plugin is for the leader's workers.
            None => (Requeue::After(Duration::ZERO), Duration::MAX),
        }
    }
}

/// Removes unused data once an hour: each push adds a component, and unused ones must not fill the disk.
async fn tidy_now_and_then(plugins: Arc<Plugins>, stop: CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(TIDY) => plugins.tidy().await,
        }
    }
}

/// Waits until the Plugins are listed. Returns none if `stop` is cancelled before.
async fn listed(own: &Watch, stop: &CancellationToken) -> Option<()> {
    loop {
        match stop.run_until_cancelled(own.synced(Duration::from_secs(10))).await? {
            Ok(()) => return Some(()),
            Err(health) => tracing::warn!(
                ?health,
                "Plugins cannot be watched yet: are Windlass' CRDs installed (`windlass crd | kubectl apply -f -`), and may \
                 this host watch them?"
            ),
        }
        // The watch retries by itself; this pause only spaces the log lines.
        stop.run_until_cancelled(tokio::time::sleep(Duration::from_secs(10))).await?;
    }
}
