//! Runs plugins: compiles components in a child process, caches them on disk, and runs each call in a fresh instance
//! with limits that no guest can exceed. Depends on wasmtime, but not on the Kubernetes API server.
//!
//! | about | modules |
//! |---|---|
//! | from bytes to a component | [`compile`], [`attempts`] (that did not end), [`cache`], [`link`] (its imports) |
//! | one call | [`call`], [`engine`], [`limiter`], [`ticker`] (of the deadline), [`failure`] |
//! | what a guest imports | [`bindings`] (the contract), [`wasi`] (all of it but clocks, randomness and output is empty), [`notes`] (its log) |
#![allow(rustdoc::private_intra_doc_links, reason = "who works on the sandbox reads its private items as well")]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

mod attempts;
mod bindings;
mod cache;
mod call;
pub mod compile;
mod engine;
mod failure;
mod limiter;
mod link;
mod notes;
mod ticker;
mod wasi;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use wasmtime::component::Linker;
use wasmtime::{Engine, component};
use windlass_core::contract::{Limits, LoadFailure, Surface};
use windlass_core::digest::Digest;

pub use self::cache::CacheError;
pub use self::call::{Component, run_here};
pub use self::compile::CompilerCommand;
pub use self::wasi::Ambient;

use self::attempts::Attempts;
use self::bindings::v0_1::Pre;
use self::cache::{Cache, Compiled};
use self::call::{Code, State};
use self::compile::{Bounds, Compiler};
use self::engine::Engines;

/// How long an unused compiled file is kept: another process may be about to use it.
const UNUSED: Duration = Duration::from_hours(1);

/// Configuration of a [`Sandbox`]. Start from [`Options::new`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder of compiled components: private to this user, created if it does not exist.
    pub cache_dir: PathBuf,
    /// How to start the compiling child.
    pub compiler: CompilerCommand,
    /// Resources of one compilation.
    pub compile: Bounds,
    /// Wall-clock limit of one compilation; by default several times its CPU time. The limit that usually applies is
    /// the CPU time: the compiling child has a low priority, and a busy machine must not fail a valid component.
    pub compile_timeout: Option<Duration>,
    /// Maximum size of a component, in bytes.
    pub max_component_bytes: u64,
    /// Number of concurrent calls for which the pool has room; further calls run on demand, which is slower.
    pub call_slots: u32,
    /// Limits of the `describe` call when a component is loaded. The limits of its Plugin are not known at that time.
    pub describe: Limits,
    /// Whether compilations that this process does not survive are counted: the component is then compiled again at
    /// growing intervals. False for commands, which a user may interrupt.
    pub counts_attempts: bool,
}

impl Options {
    /// The default options.
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, |cores| u32::try_from(cores.get()).unwrap_or(2));
        Self {
            cache_dir: cache_dir.into(),
            compiler: CompilerCommand::own(),
            compile: Bounds::default(),
            compile_timeout: None,
            max_component_bytes: 64 * 1024 * 1024,
            // Calls compute and never wait, so more concurrent calls than this would only wait for the cores.
            call_slots: cores.saturating_mul(2),
            // The largest runtime (Python) needs this much to start on a busy machine.
            describe: Limits { memory: 256 * 1024 * 1024, deadline: Duration::from_secs(10), ..Limits::default() },
            counts_attempts: true,
        }
    }
}

/// Why a sandbox cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The cache folder cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// wasmtime cannot run here.
    #[error("the WebAssembly engine does not start: {0:#}")]
    Engine(wasmtime::Error),
}

/// Loads components. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox(Arc<Inner>);

struct Inner {
    options: Options,
    engines: Engines,
    pooled: Linker<State>,
    on_demand: Linker<State>,
    cache: Cache,
    attempts: Attempts,
    /// The lock admits one child at a time: each may take gigabytes for a moment.
    compiler: Mutex<Compiler>,
    /// Set by [`Sandbox::stop`]; from then on no component is compiled.
    stopped: AtomicBool,
}

impl Sandbox {
    /// Starts the engines.
    ///
    /// # Errors
    /// The cache folder is not private, or the machine cannot run wasmtime.
    pub fn new(options: Options) -> Result<Self, SandboxError> {
        let engines = Engines::new(options.call_slots.max(1)).map_err(SandboxError::Engine)?;
        let pooled = link::linker(&engines.pooled).map_err(SandboxError::Engine)?;
        let on_demand = link::linker(&engines.on_demand).map_err(SandboxError::Engine)?;
        let cache = Cache::open(options.cache_dir.clone(), engine::key())?;
        let attempts = Attempts::in_folder(&options.cache_dir);
        let compiler = Compiler {
            command: options.compiler.clone(),
            timeout: options.compile_timeout.unwrap_or_else(|| options.compile.timeout()),
            bounds: options.compile,
        };
        let (compiler, stopped) = (Mutex::new(compiler), AtomicBool::new(false));
        Ok(Self(Arc::new(Inner { options, engines, pooled, on_demand, cache, attempts, compiler, stopped })))
    }

    /// Loads a component from its bytes: from the cache, or by compiling them. Blocks until it is loaded.
    ///
    /// # Errors
    /// If the component cannot be loaded; the message is for the plugin author.
    pub fn load(&self, bytes: &[u8]) -> Result<Arc<Component>, LoadFailure> {
        let (size, limit) = (bytes.len() as u64, self.0.options.max_component_bytes);
        if size > limit {
            return Err(LoadFailure::TooLarge { size, limit });
        }
        compile::check_header(bytes)?;
        let digest = Digest::of(bytes);
        let linked = if let Some(linked) = self.linked(digest) {
            linked
        } else {
            let compiled = self.compile(digest, bytes)?;
            self.map(digest, &compiled)?
        };
        self.describe_first(linked)
    }

    /// Returns a component of this digest that was [loaded](Self::load) before, possibly by an earlier process. This
    /// needs only the compiled file, not the component's bytes; `None` if that file is missing or unusable, or if
    /// `describe` fails. Blocks while the file is mapped.
    pub fn find(&self, digest: Digest) -> Option<Arc<Component>> {
        self.describe_first(self.linked(digest)?).ok()
    }

    /// Stops the present compilation, and prevents later compilations: all of them fail. The stopped compilation does
    /// not count as one that killed the process.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns true after [`stop`](Self::stop).
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Relaxed)
    }

    /// Removes the compiled files of components that are not in `used`, except files of the last hour. Blocks until
    /// done. Returns the number of removed files.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn retain(&self, used: &HashSet<Digest>) -> std::io::Result<usize> {
        self.0.attempts.retain(|digest| used.iter().any(|used| used.hex() == digest));
        self.0.cache.retain(used, SystemTime::now() - UNUSED)
    }

    fn describe_first(&self, (surface, code): Linked) -> Result<Arc<Component>, LoadFailure> {
        Component::describe_first(surface, code, &self.0.options.describe).map(Arc::new).map_err(LoadFailure::Describe)
    }

    /// Loads a component from the cache.
    fn linked(&self, digest: Digest) -> Option<Linked> {
        let compiled = self.0.cache.find(digest)?;
        if compiled.component_size > self.0.options.max_component_bytes {
            return None;
        }
        self.map(digest, &compiled)
            .inspect_err(|error| {
                // For example, the component was compiled on a machine with another processor.
                tracing::warn!(%digest, %error, "a compiled component is of no use here: compiling again");
                self.0.cache.remove(digest);
            })
            .ok()
    }

    fn compile(&self, digest: Digest, bytes: &[u8]) -> Result<Compiled, LoadFailure> {
        let cache = &self.0.cache;
        let unkept = |error: CacheError| LoadFailure::Cache { message: error.to_string() };
        let compiler = self.0.compiler.lock().unwrap_or_else(PoisonError::into_inner);
        // The previous holder of the lock may have compiled the same component.
        if let Some(compiled) = cache.find(digest) {
            return Ok(compiled);
        }
        if self.is_stopped() {
            return Err(LoadFailure::stopping());
        }
        let attempts = self.0.options.counts_attempts.then_some(&self.0.attempts);
        let attempt = attempts.map(|attempts| attempts.begin(digest, SystemTime::now())).transpose()?;
        let file = cache.begin().map_err(unkept)?;
        let outcome = compiler.compile(bytes, file.as_file(), &self.0.stopped);
        drop(attempt);
        outcome?;
        cache.keep(digest, bytes.len() as u64, file).map_err(unkept)
    }

    /// Maps a compiled file and links it: for the pool if it fits a slot, otherwise on demand.
    fn map(&self, digest: Digest, compiled: &Compiled) -> Result<Linked, LoadFailure> {
        let unusable = |error: wasmtime::Error| LoadFailure::Compiler { message: format!("{error:#}") };
        let unlinked = |error: wasmtime::Error| LoadFailure::Compile { message: format!("{error:#}") };
        let Inner { engines, pooled, on_demand, .. } = &*self.0;
        let later = OnceLock::new();
        // The pool rejects components that do not fit its slots.
        let (component, pre, unknown) = if let Ok(component) = Cache::map(&engines.pooled, compiled) {
            let (pre, unknown) = link_to(pooled, &component).map_err(unlinked)?;
            (component, Some(pre), unknown)
        } else {
            let component = Cache::map(&engines.on_demand, compiled).map_err(unusable)?;
            let (pre, unknown) = link_to(on_demand, &component).map_err(unlinked)?;
            // The cell was empty until now.
            let _ = later.set(Ok(pre));
            (component, None, unknown)
        };
        let surface = link::surface(&component, digest, compiled.component_size, unknown);
        let sandbox = self.clone();
        let link_on_demand = Box::new(move || sandbox.link_on_demand(digest));
        Ok((surface, Code { engines: engines.clone(), pooled: pre, on_demand: later, link_on_demand }))
    }

    fn link_on_demand(&self, digest: Digest) -> Result<Pre<State>, String> {
        let compiled = self.0.cache.find(digest).ok_or("its compiled file has gone from the cache")?;
        let linked = Cache::map(&self.0.engines.on_demand, &compiled)
            .and_then(|component| link_to(&self.0.on_demand, &component));
        linked.map(|(pre, _)| pre).map_err(|error| format!("{error:#}"))
    }
}

/// A component's interface, and its callable code.
type Linked = (Surface, Code);

fn link_to(linker: &Linker<State>, component: &component::Component) -> wasmtime::Result<(Pre<State>, Vec<String>)> {
    let mut linker = linker.clone();
    let unsupported = link::trap_unsupported(&mut linker, component)?;
    Ok((Pre::new(linker.instantiate_pre(component)?)?, unsupported))
}

const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Component>();
    shared::<Sandbox>();
    shared::<Engine>();
};
