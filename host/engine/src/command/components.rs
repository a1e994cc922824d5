//! The flags of fetching and compiling components, and the default folder of compiled ones.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use windlass_sandbox::compile::Bounds;

use crate::plugins::caps::{bytes, time};

/// How registries are reached.
#[derive(Debug, Clone, clap::Args)]
pub struct RegistryArgs {
    /// Registries to reach without TLS, as in registry:5000; registries on this machine are always reached without TLS
    #[arg(long, value_name = "HOST[:PORT]", env = "WINDLASS_PLAIN_HTTP", value_delimiter = ',')]
    pub plain_http: Vec<String>,
}

/// Limits of the process that compiles a component.
#[derive(Debug, Clone, clap::Args)]
pub struct CompileArgs {
    /// Memory limit of the process that compiles a component; default: 2Gi, or three quarters of the container's memory
    /// if that is less
    #[arg(long, value_name = "BYTES", env = "WINDLASS_COMPILE_MEMORY", value_parser = bytes)]
    compile_memory: Option<u64>,
    /// Limit of the CPU time of the process that compiles a component, which a slow machine may have to raise. The limit
    /// of its wall time is 7.5 times as long
    #[arg(long, value_name = "TIME", env = "WINDLASS_COMPILE_CPU_TIME", default_value = "2m", value_parser = seconds)]
    compile_cpu_time: Duration,
}

impl CompileArgs {
    /// The limits.
    pub fn bounds(&self) -> Bounds {
        let bounds = Bounds::default();
        Bounds { memory: self.compile_memory.unwrap_or(bounds.memory), cpu: self.compile_cpu_time }
    }
}

/// Parses a time of at least a second: the kernel counts CPU time in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    if time < Duration::from_secs(1) { Err("must be at least 1s".to_owned()) } else { Ok(time) }
}

/// The default cache folder: `$XDG_CACHE_HOME/windlass/components`, or `~/.cache/windlass/components`.
///
/// # Errors
/// If the user has no folder for caches.
pub fn default_cache_dir() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Ok(base.context("no folder for compiled components: set --cache-dir")?.join("windlass/components"))
}
