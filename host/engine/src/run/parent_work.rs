//! The work on parents.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windlass_core::value::ids::{ObjectKey, PluginName};

use super::{Tasks, work_on};
use crate::cluster::secret_key::SecretKey;
use crate::queue::Queue;
use crate::reconcile::Reconciler;
use crate::reconcile::rng_seed::RngSeeds;
use crate::serve::Readiness;

/// Time until the host tries again to read the key of random seeds.
const KEY_RETRY: Duration = Duration::from_secs(5);

/// The work on parents.
pub(super) struct ParentWork {
    pub rng_key: SecretKey,
    /// Creates the reconciler, once the seeds are known.
    pub reconciler: Box<dyn FnOnce(RngSeeds) -> Reconciler + Send>,
    /// Number of parents that are reconciled at once.
    pub workers: usize,
    pub queue: Queue<PluginName, ObjectKey>,
    pub tasks: Tasks,
}

impl ParentWork {
    /// Starts to reconcile parents, once the seeds are known; ends when `stop` is cancelled.
    pub(super) async fn start(self, stop: &CancellationToken) {
        let Self { rng_key, reconciler, workers, queue, tasks } = self;
        if let Some(seeds) = rng_seeds(&rng_key, &tasks.readiness, stop).await {
            work_on(&tasks.running, workers, &queue, reconciler(seeds), stop);
            tasks.liveness.follow("parents", move || queue.stalled());
        }
    }
}

/// The seeds of calls. Tries until the key is available: with another key, plugins would get other random numbers.
/// Returns none if `stop` is cancelled meanwhile.
async fn rng_seeds(key: &SecretKey, readiness: &Readiness, stop: &CancellationToken) -> Option<RngSeeds> {
    loop {
        let error = match stop.run_until_cancelled(key.read_or_create()).await? {
            Ok(key) => {
                readiness.lacks(None);
                return Some(RngSeeds::new(&key));
            }
            Err(error) => error,
        };
        let message = format!("no parent is reconciled, because the key of random numbers is not available: {error}");
        tracing::warn!("{message}");
        readiness.lacks(Some(message));
        stop.run_until_cancelled(tokio::time::sleep(KEY_RETRY)).await?;
    }
}
