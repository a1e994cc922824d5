//! The work on Plugins: a leader reconciles them, a standby prepares them.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windlass_core::ids::PluginName;
use windlass_core::outcome::Requeue;

use crate::plugins::Plugins;
use crate::queue::{Job, Run, Turn};
use crate::serve::Readiness;

/// Reconciles Plugins. The host is ready when each Plugin was reconciled once.
pub(super) struct BringUp {
    pub plugins: Arc<Plugins>,
    pub readiness: Readiness,
}

impl BringUp {
    /// Marks the host as ready once every Plugin was reconciled.
    pub(super) async fn check(&self) {
        if self.plugins.all_tried() && self.readiness.ready() {
            self.plugins.tidy().await;
        }
    }
}

impl Run<(), PluginName> for BringUp {
    async fn run(&self, job: &Job<(), PluginName>, _: &Turn<'_>) -> (Requeue, Duration) {
        // Boxed, because the future is large and lives until the component is loaded.
        let outcome = Box::pin(self.plugins.reconcile(job)).await;
        self.check().await;
        outcome
    }
}

/// Prepares Plugins while the host stands by. It is ready when it has prepared each Plugin once.
pub(super) struct Prepare {
    pub plugins: Arc<Plugins>,
    pub readiness: Readiness,
    /// Cancelled when the host leads.
    pub stop: CancellationToken,
}

impl Prepare {
    /// Marks the standby as ready once every Plugin is prepared.
    pub(super) fn check(&self) {
        if self.plugins.all_prepared() {
            self.readiness.standing_by();
        }
    }
}

impl Run<(), PluginName> for Prepare {
    async fn run(&self, job: &Job<(), PluginName>, _: &Turn<'_>) -> (Requeue, Duration) {
        // A preparation writes nothing, so it can be dropped at any moment.
        match self.stop.run_until_cancelled(Box::pin(self.plugins.prepare_standby(job))).await {
            Some(outcome) => {
                self.check();
                outcome
            }
            // This host leads now: the Plugin is for the leader's workers.
            None => (Requeue::After(Duration::ZERO), Duration::MAX),
        }
    }
}
