//! The command that runs a host: its flags, and the check of whether a host can run.

pub mod check;
pub mod cluster;
pub mod components;
mod election;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::error::ErrorKind;
use futures::future::BoxFuture;
use kube::Client;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use windlass_sandbox::CompilerCommand;

use self::check::Setup;
use self::cluster::ClusterArgs;
use self::components::{CompileArgs, RegistryArgs, default_cache_dir};
use self::election::ElectionArgs;
use crate::cluster::lease::{Election, GateFilter, NotHolder, WriteGate};
use crate::heap;
use crate::output::WithCauses;
use crate::plugins::caps::Caps;
use crate::recent::Recent;
use crate::run::{Settings, run, sandbox};
use crate::serve::DebugAddr;
use crate::telemetry::{self, Scrape, Telemetry};

/// Exit code: the plugin or the host rejected the input, or a check found a problem.
pub const INPUT_REJECTED: u8 = 1;
/// Exit code: the command failed. (clap uses 2 for wrong usage.)
pub const COMMAND_FAILED: u8 = 3;
/// Exit code: another host holds the Lease.
pub const NOT_HOLDER: u8 = 7;

/// What the exit codes of a host mean, for its help.
pub const EXIT_CODES: &str = "Exit codes:
  0  stopped by SIGTERM or SIGINT; with --check: all is well
  1  --check found a problem
  2  wrong usage
  3  the host could not start, or failed; the message says why
  7  this host does not hold the Lease `windlass` in the namespace: it lost it to another host, or, with
     --leader-elect=false, another host holds it; or it lost its shard";

/// Flags of a host.
#[derive(Debug, clap::Args)]
// The client of a host rejects impersonation.
#[command(mut_arg("as-user", |arg| arg.hide(true)), mut_arg("as-groups", |arg| arg.hide(true)))]
pub struct HostArgs {
    /// Check whether a host can run here (access to the API server, permissions, CRD, cache folder, addresses, clock,
    /// Lease), print what is missing and how to get it, and exit. It changes nothing in the cluster
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Namespace of the host; it contains the ServiceAccounts that Plugins name
    #[arg(short, long, env = "WINDLASS_NAMESPACE", default_value = "windlass-system")]
    namespace: String,
    /// Folder of compiled components and metadata of fetched sources; no other user may have access to it. Default:
    /// `$XDG_CACHE_HOME/windlass/components`, or `~/.cache/windlass/components`
    #[arg(long, env = "WINDLASS_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
    /// For development: folder of components. DIR/NAME.wasm replaces the source of the Plugin NAME, and is reloaded
    /// when it changes
    #[arg(long, value_name = "DIR", env = "WINDLASS_PLUGINS")]
    plugins: Option<PathBuf>,
    /// Address of /healthz and /readyz
    #[arg(long, env = "WINDLASS_HEALTH_ADDR", default_value = "0.0.0.0:8080")]
    health_addr: SocketAddr,
    /// Address of /metrics, in Prometheus' text format; 0 serves and collects none
    #[arg(long, env = "WINDLASS_METRICS_ADDR", default_value = "0.0.0.0:9090", value_name = "ADDRESS", value_parser = metrics_addr)]
    metrics_addr: Address,
    /// Address of the recent calls, for `windlass explain` and `windlass record`: on this machine or in this Pod only, and
    /// without values of Secrets; 0 serves none. Default: 127.0.0.1:8081 or, if another process uses it, the next free port,
    /// which the host logs
    #[arg(long, env = "WINDLASS_DEBUG_ADDR", value_name = "ADDRESS", value_parser = debug_addr)]
    debug_addr: Option<Address>,
    /// Memory for the recent calls of all parents, in bytes: at most five of each, the oldest of the plugin that uses most are
    /// dropped first; 0 keeps none
    #[arg(long, env = "WINDLASS_RECENT_CALLS_MEMORY", default_value = "2Mi", value_name = "BYTES", value_parser = bytes_or_none)]
    recent_calls_memory: u64,
    /// Memory for the requirements (requests for related objects) of each Plugin's parents, in bytes
    #[arg(long, env = "WINDLASS_REQUIREMENTS_MEMORY", default_value = "32Mi", value_name = "BYTES", value_parser = crate::plugins::caps::bytes)]
    requirements_memory: u64,
    /// Number of parents that are reconciled at the same time. One plugin has at most half of them at a time, and at
    /// most its Plugin's spec.concurrency (default 16)
    #[arg(long, env = "WINDLASS_WORKERS", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    #[command(flatten)]
    compile: CompileArgs,
    /// Require a signature by a key in the Plugin's spec.verify
    #[arg(long, env = "WINDLASS_REQUIRE_SIGNATURES")]
    require_signatures: bool,
    #[command(flatten)]
    election: ElectionArgs,
    #[command(flatten)]
    registries: RegistryArgs,
    #[command(flatten)]
    caps: Caps,
    #[command(flatten)]
    telemetry: telemetry::Options,
}

/// The address of a flag; none if its value is 0.
#[derive(Debug, Clone, Copy)]
struct Address(Option<SocketAddr>);

/// Parses the address of `/metrics`.
fn metrics_addr(text: &str) -> Result<Address, String> {
    match text.parse() {
        _ if text == "0" => Ok(Address(None)),
        Ok(address) => Ok(Address(Some(address))),
        Err(_) => Err("write an IP address and a port, as in 127.0.0.1:9090, or 0 for none".to_owned()),
    }
}

/// Default address of the recent calls.
const DEBUG_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);

/// Parses the address of the recent calls.
fn debug_addr(text: &str) -> Result<Address, String> {
    match text.parse::<SocketAddr>() {
        _ if text == "0" => Ok(Address(None)),
        // The address has no authentication.
        Ok(address) if address.ip().is_loopback() => Ok(Address(Some(address))),
        _ => Err("write a loopback address and a port, as in 127.0.0.1:8081, or 0 for none".to_owned()),
    }
}

/// Parses a number of bytes, or 0.
fn bytes_or_none(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { crate::plugins::caps::bytes(text) }
}

/// Longest wait for busy threads after everything else has ended.
pub const LINGER: Duration = Duration::from_secs(2);

/// The exit code of a command, whose error is printed.
pub fn exit_code(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        crate::err!("error: {}", WithCauses(&error));
        ExitCode::from(COMMAND_FAILED)
    })
}

/// Runs until SIGTERM or SIGINT, or checks whether a host can run. Values of flags that contradict each other end the process, with the
/// usage of `command`.
///
/// # Errors
/// If the host cannot start, or fails.
// It is generic, so its futures are compiled with each binary. Those of `check` and `client`, which run once, are in boxes: they are
// compiled with this crate, and share its copies of generic code.
pub fn main(
    args: &HostArgs,
    compiler: CompilerCommand,
    command: impl FnOnce() -> clap::Command,
) -> anyhow::Result<ExitCode> {
    let election = args.election.election();
    let election = election.unwrap_or_else(|error| command().error(ErrorKind::ValueValidation, error).exit());
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        if args.check { args.check(compiler, election).await } else { args.run(compiler, election).await }
    });
    // Work that blocks a thread, such as a component's `describe`, must not keep the process alive.
    runtime.shutdown_timeout(LINGER);
    result
}

/// The runtime of a host, whose threads share one heap.
///
/// # Errors
/// If its threads cannot be started.
pub fn runtime() -> anyhow::Result<Runtime> {
    heap::share();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Guests run between two polls of sockets and timers, so poll more often than every 61 tasks, the default.
        .event_interval(8)
        .build()
        .context("no runtime")?;
    runtime.spawn(heap::return_unused_now_and_then());
    Ok(runtime)
}

impl HostArgs {
    fn debug_addr(&self) -> Option<DebugAddr> {
        self.debug_addr.map_or(Some(DebugAddr::From(DEBUG_ADDR)), |Address(address)| address.map(DebugAddr::Exactly))
    }

    async fn run(&self, compiler: CompilerCommand, election: Election) -> anyhow::Result<ExitCode> {
        let telemetry = Telemetry::start(&self.telemetry, self.metrics_addr.0.is_some(), None)?;
        let gate = WriteGate::default();
        let client = self.client(&gate, election).await?;
        let settings = self.settings(compiler, election, telemetry.scrape.clone())?;
        let stop = CancellationToken::new();
        let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be handled")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be handled")?;
        let on_signal = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            on_signal.cancel();
        });
        let result = run(client, gate, settings, stop).await;
        telemetry.close();
        match result {
            Err(error) if error.is::<NotHolder>() => {
                crate::err!("error: {}", WithCauses(&error));
                Ok(ExitCode::from(NOT_HOLDER))
            }
            result => result.map(|()| ExitCode::SUCCESS),
        }
    }

    fn check(&self, compiler: CompilerCommand, election: Election) -> BoxFuture<'_, anyhow::Result<ExitCode>> {
        Box::pin(async move {
            let settings = self.settings(compiler, election, None)?;
            let metrics_addr = self.metrics_addr.0.map(|address| ("--metrics-addr", address));
            let setup = Setup {
                // The gate stays closed: no check can write.
                client: self.client(&WriteGate::default(), election).await,
                cache: sandbox(&settings).map(drop),
                settings,
                addresses: std::iter::once(("--health-addr", self.health_addr)).chain(metrics_addr).collect(),
            };
            Ok(check::main(setup).await)
        })
    }

    fn client(&self, gate: &WriteGate, election: Election) -> BoxFuture<'_, anyhow::Result<Client>> {
        let filter = GateFilter::new(gate.clone(), &self.namespace, election.timing.margin());
        Box::pin(self.cluster.client_of_host(filter))
    }

    fn settings(
        &self,
        compiler: CompilerCommand,
        election: Election,
        scrape: Option<Scrape>,
    ) -> anyhow::Result<Settings> {
        Ok(Settings {
            cache_dir: self.cache_dir.clone().map_or_else(default_cache_dir, Ok)?,
            health_addr: Some(self.health_addr),
            metrics: self.metrics_addr.0.zip(scrape),
            // Nobody reads calls that are not served.
            recent: Recent::new(self.debug_addr().map_or(0, |_| self.recent_calls_memory)),
            debug_addr: self.debug_addr(),
            requirements_memory: usize::try_from(self.requirements_memory).unwrap_or(usize::MAX),
            workers: usize::from(self.workers),
            caps: self.caps.clone(),
            namespace: self.namespace.clone(),
            election,
            plain_http: self.registries.plain_http.clone(),
            require_signatures: self.require_signatures,
            plugins: self.plugins.clone(),
            compiler,
            compile: self.compile.bounds(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_calls_are_served_on_loopback_addresses_only() {
        let parsed = |text: &str| debug_addr(text).map(|address| address.0.map(|address| address.to_string()));
        for address in ["127.0.0.1:8081", "127.0.0.2:0", "[::1]:8081"] {
            assert_eq!(parsed(address), Ok(Some(address.to_owned())));
        }
        assert_eq!(parsed("0"), Ok(None));
        for address in ["0.0.0.0:8081", "10.0.0.1:8081", "[::]:8081", "localhost", "8081"] {
            assert!(parsed(address).is_err_and(|message| message.contains("loopback")), "{address}");
        }
        assert_eq!((bytes_or_none("0"), bytes_or_none("4Mi")), (Ok(0), Ok(4 * 1024 * 1024)));
    }
}
