//! The settings of a host, and the sandbox that they describe.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use windlass_sandbox::compile::Bounds;
use windlass_sandbox::{CompilerCommand, Options, Sandbox};

use crate::cluster::lease::Election;
use crate::plugins::caps::Caps;
use crate::recent::Recent;
use crate::serve::DebugAddr;
use crate::telemetry::Scrape;

/// Settings of a host.
#[derive(Clone)]
pub struct Settings {
    /// Folder of compiled components.
    pub cache_dir: PathBuf,
    /// Address of `/healthz` and `/readyz`; none if they are not served.
    pub health_addr: Option<SocketAddr>,
    /// Address of `/metrics`, and what it serves; none if metrics are not served.
    pub metrics: Option<(SocketAddr, Scrape)>,
    /// Address of the recent calls; none if they are not served.
    pub debug_addr: Option<DebugAddr>,
    /// Keeps the recent calls.
    pub recent: Recent,
    /// Memory for the requirements of each Plugin's parents, in bytes.
    pub requirements_memory: usize,
    /// Number of parents that are reconciled at once.
    pub workers: usize,
    /// Upper bound of each limit of a Plugin.
    pub caps: Caps,
    /// The host's namespace, which contains the Plugins' ServiceAccounts.
    pub namespace: String,
    /// How the host takes part in the leader election.
    pub election: Election,
    /// Registries that are reached without TLS.
    pub plain_http: Vec<String>,
    /// Whether components must be signed.
    pub require_signatures: bool,
    /// How to start the compiling child.
    pub compiler: CompilerCommand,
    /// Resources of one compilation.
    pub compile: Bounds,
    /// Folder of components that take precedence over all sources.
    pub plugins: Option<PathBuf>,
}

/// The sandbox of a host with these settings.
///
/// # Errors
/// If wasmtime does not run here, or the cache folder cannot be used.
pub fn sandbox(settings: &Settings) -> anyhow::Result<Sandbox> {
    let options = Options::new(&settings.cache_dir);
    let describe = settings.caps.describe(&options.describe);
    let options = Options { describe, compiler: settings.compiler.clone(), compile: settings.compile, ..options };
    Sandbox::new(options)
        .with_context(|| format!("the sandbox cannot use --cache-dir {}", settings.cache_dir.display()))
}
