//! A host of the simulation: the engine as it is, on the connection of the simulated network.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::ready;

use anyhow::Context as _;
use futures::FutureExt as _;
use kube::Client;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;
use windlass_core::hosts::lease::{Timing, WhileHeld};
use windlass_engine::cluster::lease::{Election, GateFilter, NotHolder, WriteGate};
use windlass_engine::plugins::caps::Caps;
use windlass_engine::recent::Recent;
use windlass_engine::run::{Settings, run};
use windlass_sandbox::compile::Bounds;

use crate::connection::connect;
use crate::network::{FOR_EVER, Network};
use crate::setup::{Compiled, compiler};

/// Goes on with what a host does, except while it is paused: the process comes to no end then, and what it was about to write is not dropped.
async fn while_awake<T>(network: &Network, host: usize, mut running: Pin<&mut impl Future<Output = T>>) -> T {
    let mut awake = network.until_awake(host).boxed();
    poll_fn(|context| {
        ready!(awake.poll_unpin(context));
        awake = network.until_awake(host).boxed();
        running.as_mut().poll(context)
    })
    .await
}

/// How all hosts of a history are started.
#[derive(Debug, Clone, Copy)]
pub struct Flags {
    /// Number of hosts that share the parents.
    pub shards: u8,
    /// Number of parents that a host may reconcile at once.
    pub workers: usize,
    /// What a host does while another one holds the Lease.
    pub while_held: WhileHeld,
}

/// A running host.
pub struct Host {
    /// Its number; a host that starts again is another one.
    pub number: usize,
    stop: CancellationToken,
    network: Network,
    process: JoinHandle<()>,
}

impl Host {
    /// Starts a host.
    ///
    /// # Errors
    /// If its folder cannot be made.
    pub fn start(number: usize, flags: Flags, network: &Network, compiled: &Compiled) -> anyhow::Result<Self> {
        let Flags { shards, workers, while_held } = flags;
        let folder = compiled.folder_of(number).context("the folder of a host")?;
        let (stop, gate, timing) = (CancellationToken::new(), WriteGate::default(), Timing::default());
        let filter = GateFilter::new(gate.clone(), "windlass-system", timing.margin());
        let service = ServiceBuilder::new().filter(filter).service(connect(network, number, &gate));
        let settings = Settings {
            cache_dir: folder,
            health_addr: None,
            metrics: None,
            debug_addr: None,
            recent: Recent::new(0),
            requirements_memory: 1 << 20,
            workers,
            caps: Caps::without_flags()?,
            namespace: "windlass-system".to_owned(),
            election: Election { while_held, timing, shards },
            plain_http: Vec::new(),
            require_signatures: false,
            compiler: compiler(),
            compile: Bounds::default(),
            plugins: None,
        };
        let running = run(Client::new(service, "default"), gate, settings, stop.clone());
        network.note_host(number);
        let (own, started) = (network.clone(), Instant::now());
        let process = tokio::spawn(async move {
            let ended = while_awake(&own, number, pin!(running)).await;
            if ended.as_ref().is_err_and(|error| matches!(error.downcast_ref(), Some(NotHolder::Refused { .. }))) {
                own.note_refused_host(number, started);
            }
            let ended = ended.map_err(|error| format!("{error:#}"));
            own.with_trace(|trace| trace.note(&format!("host {number} ended: {ended:?}")));
            // What a process leaves behind ends with it.
            own.cut_off(number, FOR_EVER);
        });
        Ok(Self { number, stop, network: network.clone(), process })
    }

    /// Tells the host to stop, as SIGTERM does.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Whether its process has ended, by itself or because it was told to.
    pub fn has_ended(&self) -> bool {
        self.process.is_finished()
    }

    /// Ends the host at whatever it does: nothing that it sends arrives any more.
    pub fn crash(&self) {
        self.network.cut_off(self.number, FOR_EVER);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
