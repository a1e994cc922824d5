//! The part of WASI 0.2 that the contract offers: enough for language runtimes to start, deterministic, and without
//! access to anything outside the call. No function blocks, so no asynchronous runtime is needed.
//!
//! The interfaces' types and linking are those of wasmtime-wasi. The implementations of wasmtime-wasi are unused: they
//! block on tokio, and read the host's clocks, entropy and files.

mod empty;
mod io;

use std::time::{Duration, SystemTime};

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng as _, SeedableRng as _};
use wasmtime::bail;
use wasmtime::component::{HasSelf, Linker, Resource, ResourceType};
use wasmtime_wasi::p2::bindings::sync::{filesystem::types as filesystem_types, io as wasi_io};
use wasmtime_wasi::p2::bindings::{cli, clocks, random};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable};

use crate::call::State;
use crate::notes::{Notes, Stream};

/// Interfaces that [`add_to_linker`] provides, in the provided version.
pub(crate) const SUPPORTED: &[&str] = &[
    "wasi:cli/environment@0.2.12",
    "wasi:cli/exit@0.2.12",
    "wasi:cli/stderr@0.2.12",
    "wasi:cli/stdin@0.2.12",
    "wasi:cli/stdout@0.2.12",
    "wasi:cli/terminal-input@0.2.12",
    "wasi:cli/terminal-output@0.2.12",
    "wasi:cli/terminal-stderr@0.2.12",
    "wasi:cli/terminal-stdin@0.2.12",
    "wasi:cli/terminal-stdout@0.2.12",
    "wasi:clocks/monotonic-clock@0.2.12",
    "wasi:clocks/wall-clock@0.2.12",
    "wasi:filesystem/preopens@0.2.12",
    "wasi:filesystem/types@0.2.12",
    "wasi:io/error@0.2.12",
    "wasi:io/poll@0.2.12",
    "wasi:io/streams@0.2.12",
    "wasi:random/insecure-seed@0.2.12",
    "wasi:random/insecure@0.2.12",
    "wasi:random/random@0.2.12",
];

/// The type of a resource in a supported interface, for unsupported interfaces that use it.
pub(crate) fn resource(name: &str) -> Option<ResourceType> {
    Some(match name {
        "pollable" => ResourceType::host::<DynPollable>(),
        "input-stream" => ResourceType::host::<DynInputStream>(),
        "output-stream" => ResourceType::host::<DynOutputStream>(),
        "error" => ResourceType::host::<wasi_io::error::Error>(),
        "descriptor" => ResourceType::host::<filesystem_types::Descriptor>(),
        "terminal-input" => ResourceType::host::<cli::terminal_input::TerminalInput>(),
        "terminal-output" => ResourceType::host::<cli::terminal_output::TerminalOutput>(),
        _ => return None,
    })
}

/// Maximum number of handles that a guest may have open: each costs the host some memory.
const HANDLES: u32 = 4096;

/// Maximum number of bytes in one request for random bytes; a larger request is a mistake or an attempt to fill the
/// host's memory.
const RANDOM_BYTES: u64 = 1024 * 1024;

/// Time by which each read of a clock advances the clock, in nanoseconds, so that a busy loop on the clock ends.
const CLOCK_STEP: u64 = CLOCK_STEP_NANOSECONDS as u64;
const CLOCK_STEP_NANOSECONDS: u32 = 1000;

/// A call's inputs in addition to its request. Equal inputs give equal responses.
#[derive(Debug, Clone, Copy)]
pub struct Ambient {
    /// Seed of the random numbers.
    pub seed: [u8; 32],
    /// The wall clock's time at the start of the call. It advances with the virtual clock, not with real time, so that
    /// no guest can measure how much CPU time other guests use (SECURITY.md).
    pub now: SystemTime,
}

impl Ambient {
    /// Creates inputs with this seed and the present time.
    pub fn now(seed: [u8; 32]) -> Self {
        Self { seed, now: SystemTime::now() }
    }
}

/// The guest called exit.
#[derive(Debug, thiserror::Error)]
#[error("exit")]
pub(crate) struct Exit;

/// The WASI state of one call.
pub(crate) struct Wasi {
    pub(crate) notes: Notes,
    /// Whether the guest read the wall clock.
    pub(crate) impure: bool,
    random: ChaCha20Rng,
    /// The monotonic clock, in nanoseconds.
    now: u64,
    /// The wall clock's time when the monotonic clock was zero.
    began: SystemTime,
    handles: u32,
    timers: io::Timers,
}

impl Wasi {
    pub(crate) fn new(notes: Notes, ambient: Ambient) -> Self {
        Self {
            notes,
            impure: false,
            random: ChaCha20Rng::from_seed(ambient.seed),
            now: 0,
            began: ambient.now,
            handles: 0,
            timers: io::Timers::default(),
        }
    }

    /// Creates a resource, which its number identifies; no state is stored.
    fn hand_out<R: 'static>(&mut self, number: u32) -> wasmtime::Result<Resource<R>> {
        self.count_handle()?;
        Ok(Resource::new_own(number))
    }

    fn count_handle(&mut self) -> wasmtime::Result<()> {
        if self.handles >= HANDLES {
            bail!("more than {HANDLES} WASI resources at a time");
        }
        self.handles += 1;
        Ok(())
    }

    fn take_back(&mut self) {
        self.handles = self.handles.saturating_sub(1);
    }

    fn random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        if len > RANDOM_BYTES {
            bail!("{len} random bytes wanted, more than {RANDOM_BYTES} at a time");
        }
        let mut bytes = vec![0; usize::try_from(len)?];
        self.random.fill_bytes(&mut bytes);
        Ok(bytes)
    }
}

/// Provides all interfaces of [`SUPPORTED`].
pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    type Own = HasSelf<Wasi>;
    let wasi: fn(&mut State) -> &mut Wasi = |state| &mut state.wasi;
    cli::exit::add_to_linker::<State, Own>(linker, wasi)?;
    cli::stderr::add_to_linker::<State, Own>(linker, wasi)?;
    cli::stdin::add_to_linker::<State, Own>(linker, wasi)?;
    cli::stdout::add_to_linker::<State, Own>(linker, wasi)?;
    clocks::monotonic_clock::add_to_linker::<State, Own>(linker, wasi)?;
    clocks::wall_clock::add_to_linker::<State, Own>(linker, wasi)?;
    wasi_io::error::add_to_linker::<State, Own>(linker, wasi)?;
    wasi_io::poll::add_to_linker::<State, Own>(linker, wasi)?;
    wasi_io::streams::add_to_linker::<State, Own>(linker, wasi)?;
    random::insecure::add_to_linker::<State, Own>(linker, wasi)?;
    random::insecure_seed::add_to_linker::<State, Own>(linker, wasi)?;
    random::random::add_to_linker::<State, Own>(linker, wasi)?;
    empty::add_to_linker(linker)
}

impl clocks::monotonic_clock::Host for Wasi {
    fn now(&mut self) -> wasmtime::Result<u64> {
        self.now = self.now.saturating_add(CLOCK_STEP);
        Ok(self.now)
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(CLOCK_STEP)
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.subscribe_timer(when)
    }

    fn subscribe_duration(&mut self, duration: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.subscribe_timer(self.now.saturating_add(duration))
    }
}

impl clocks::wall_clock::Host for Wasi {
    fn now(&mut self) -> wasmtime::Result<clocks::wall_clock::Datetime> {
        self.impure = true;
        // A busy loop on this clock ends, too.
        self.now = self.now.saturating_add(CLOCK_STEP);
        // A host clock before 1970 is not supported.
        let began = self.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = began.saturating_add(Duration::from_nanos(self.now));
        Ok(clocks::wall_clock::Datetime { seconds: now.as_secs(), nanoseconds: now.subsec_nanos() })
    }

    fn resolution(&mut self) -> wasmtime::Result<clocks::wall_clock::Datetime> {
        Ok(clocks::wall_clock::Datetime { seconds: 0, nanoseconds: CLOCK_STEP_NANOSECONDS })
    }
}

impl random::random::Host for Wasi {
    fn get_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.random_bytes(len)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.random.next_u64())
    }
}

impl random::insecure::Host for Wasi {
    fn get_insecure_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.random_bytes(len)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.random.next_u64())
    }
}

impl random::insecure_seed::Host for Wasi {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.random.next_u64(), self.random.next_u64()))
    }
}

impl cli::exit::Host for Wasi {
    fn exit(&mut self, _status: Result<(), ()>) -> wasmtime::Result<()> {
        Err(Exit.into())
    }

    fn exit_with_code(&mut self, _status: u8) -> wasmtime::Result<()> {
        Err(Exit.into())
    }
}

impl cli::stdin::Host for Wasi {
    fn get_stdin(&mut self) -> wasmtime::Result<Resource<DynInputStream>> {
        self.hand_out(0)
    }
}

impl cli::stdout::Host for Wasi {
    fn get_stdout(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        self.hand_out(io::output_number(Stream::Stdout))
    }
}

impl cli::stderr::Host for Wasi {
    fn get_stderr(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        self.hand_out(io::output_number(Stream::Stderr))
    }
}
