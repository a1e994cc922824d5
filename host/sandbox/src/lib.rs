//! Runs plugins: compiles components in a child process, caches them on disk, and runs each call in a fresh instance
//! with limits that no guest can exceed. Depends on wasmtime, but not on the Kubernetes API server.
//!
//! | about | modules |
//! |---|---|
//! | from bytes to a component | [`compile`], [`attempts`] (that did not end), [`cache`], [`mapping`], [`link`] (its imports) |
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
mod mapping;
mod notes;
mod ticker;
mod wasi;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use wasmtime::Engine;
use wasmtime::component::Linker;
use windlass_core::contract::{Limits, LoadFailure, Surface};
use windlass_core::value::digest::Digest;

pub use self::cache::CacheError;
pub use self::call::{Component, run_here};
pub use self::compile::CompilerCommand;
pub use self::wasi::Ambient;

use self::attempts::Attempts;
use self::cache::{Cache, Compiled};
use self::call::{Code, State};
use self::compile::{Bounds, Compiler};
use self::engine::Engines;
use self::mapping::Mapping;

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
    pooled: Arc<Linker<State>>,
    on_demand: Arc<Linker<State>>,
    cache: Cache,
    /// Those that are still used somewhere, and perhaps some that are not.
    loaded: Mutex<Vec<Weak<Component>>>,
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
        let linker = |engine| link::linker(engine).map(Arc::new).map_err(SandboxError::Engine);
        let (pooled, on_demand) = (linker(&engines.pooled)?, linker(&engines.on_demand)?);
        let cache = Cache::open(options.cache_dir.clone(), engine::key())?;
        let attempts = Attempts(options.cache_dir.clone());
        let compiler = Compiler {
            command: options.compiler.clone(),
            timeout: options.compile_timeout.unwrap_or_else(|| options.compile.timeout()),
            bounds: options.compile,
        };
        Ok(Self(Arc::new(Inner {
            options,
            engines,
            pooled,
            on_demand,
            cache,
            loaded: Mutex::default(),
            attempts,
            compiler: Mutex::new(compiler),
            stopped: AtomicBool::new(false),
        })))
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
            self.map(digest, compiled)?
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

    /// Releases the code of components that no call needed since this was last called: an idle component needs no memory
    /// for it, and the next call maps it again. Running calls keep what they need.
    pub fn release_unused(&self) {
        let mut loaded = self.0.loaded.lock();
        loaded.retain(|component| component.upgrade().inspect(|component| component.release_unused()).is_some());
    }

    fn describe_first(&self, (surface, code): Linked) -> Result<Arc<Component>, LoadFailure> {
        let described = Component::describe_first(surface, code, &self.0.options.describe);
        let component = described.map(Arc::new).map_err(LoadFailure::Describe)?;
        self.0.loaded.lock().push(Arc::downgrade(&component));
        Ok(component)
    }

    /// Loads a component from the cache.
    fn linked(&self, digest: Digest) -> Option<Linked> {
        let compiled = self.0.cache.find(digest)?;
        if compiled.component_size > self.0.options.max_component_bytes {
            return None;
        }
        self.map(digest, compiled)
            .inspect_err(|error| {
                // For example, the component was compiled on a machine with another processor.
                tracing::warn!(%digest, %error, "a compiled component is of no use here: compiling again");
                self.0.cache.remove(digest);
            })
            .ok()
    }

    fn compile(&self, digest: Digest, bytes: &[u8]) -> Result<Compiled, LoadFailure> {
        let cache = &self.0.cache;
        let unkept = |error: CacheError| LoadFailure::Cache(error.to_string());
        let compiler = self.0.compiler.lock();
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
    fn map(&self, digest: Digest, compiled: Compiled) -> Result<Linked, LoadFailure> {
        let unusable = |error: wasmtime::Error| LoadFailure::Compiler(format!("{error:#}"));
        let Inner { engines, pooled, on_demand, .. } = &*self.0;
        let file = Arc::new(compiled);
        // The pool rejects components that do not fit its slots.
        let (linker, component) = match Cache::map(&engines.pooled, &file) {
            Ok(component) => (pooled, component),
            Err(_) => (on_demand, Cache::map(&engines.on_demand, &file).map_err(unusable)?),
        };
        let unlinked = |error: wasmtime::Error| LoadFailure::Compile(format!("{error:#}"));
        let (mapping, unsupported) = Mapping::of(&component, linker, &file).map_err(unlinked)?;
        let (pooled, on_demand) = if Arc::ptr_eq(linker, pooled) {
            (Some(mapping), Mapping::later(on_demand, &file))
        } else {
            (None, mapping)
        };
        let surface = link::surface(&component, digest, file.component_size, unsupported);
        Ok((surface, Code { ticker: engines.ticker.clone(), pooled, on_demand }))
    }
}

/// A component's interface, and its callable code.
type Linked = (Surface, Code);

const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Component>();
    shared::<Sandbox>();
    shared::<Engine>();
};
