//! A host that holds its Leases: what ends it, and in which order its parts stop.

use std::time::Duration;

use futures::future::select_all;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use windlass_sandbox::Sandbox;

use crate::cluster::events::EventWriter;
use crate::cluster::lease::{End, HeldLease, NotHolder};
use crate::serve::Readiness;

/// Time for running reconciles to end after SIGTERM; Kubernetes kills the process after 45 s (manifests/kustomize/base).
const GRACE: Duration = Duration::from_secs(20);

/// The tasks of a working host.
pub(super) struct Working {
    pub tasks: TaskTracker,
    pub sandbox: Sandbox,
    pub events: EventWriter,
}

impl Working {
    /// Lets running tasks end; returns whether all of them did.
    async fn end(self) -> bool {
        self.tasks.close();
        self.sandbox.stop();
        tracing::info!("stopping: running reconciles may end");
        let is_idle = tokio::time::timeout(GRACE, self.tasks.wait()).await.is_ok();
        if !is_idle {
            tracing::warn!("stopped with reconciles in progress; the next start resumes them");
        }
        // An event may still be on its way to the API server.
        self.events.close().await && is_idle
    }
}

/// A task that keeps a Lease.
pub(super) struct Keeper {
    /// Tells the task whether to release the Lease.
    pub end: oneshot::Sender<End>,
    pub keeping: JoinHandle<Result<(), NotHolder>>,
}

impl Keeper {
    pub(super) fn of(held: HeldLease, stop: &CancellationToken) -> Self {
        let (end, ended) = oneshot::channel();
        Self { end, keeping: tokio::spawn(held.keep(ended, stop.clone())) }
    }
}

/// A working host that holds its Leases.
pub(super) struct Running {
    pub keepers: Vec<Keeper>,
    pub serving: JoinHandle<anyhow::Result<()>>,
    pub closing: CancellationToken,
    pub readiness: Readiness,
    pub working: Working,
}

impl Running {
    /// Waits until `stop` is cancelled, a Lease is lost or the health address fails, and then stops the host.
    pub(super) async fn until(self, stop: CancellationToken) -> anyhow::Result<()> {
        let Self { mut keepers, mut serving, closing, readiness, working } = self;
        let (mut failed, mut kept) = (None, None);
        let any_lost = select_all(keepers.iter_mut().map(|keeper| &mut keeper.keeping));
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            served = &mut serving => failed = served.map_err(anyhow::Error::from).flatten().err(),
            (lost, at, _) = any_lost => kept = Some((lost, at)),
        }
        stop.cancel();
        readiness.stopping();
        let is_idle = working.end().await;
        let mut results = Vec::new();
        if let Some((lost, at)) = kept {
            keepers.remove(at);
            results.push(lost);
        }
        for Keeper { end, keeping } in keepers {
            // The task may have ended by itself meanwhile.
            let _ = end.send(if is_idle { End::Release } else { End::Expire });
            results.push(keeping.await);
        }
        closing.cancel();
        for kept in results {
            kept??;
        }
        failed.map_or(Ok(()), Err)
    }
}
