//! Compiles components in a short-lived child process with limits: `windlass-compile`, or the same binary with a hidden subcommand.
//! The serving process never runs the compiler, because the compiler's memory would stay allocated, and because a
//! hostile component may exploit the compiler: see `confine`. Only the child needs the feature `compiler`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use windlass_core::contract::LoadFailure;

use crate::{engine, failure};

#[cfg(feature = "compiler")]
mod child;
#[cfg(feature = "compiler")]
mod confine;
mod memory;

#[cfg(feature = "compiler")]
pub use self::child::child_main;
#[cfg(feature = "compiler")]
pub use self::confine::confine;

/// The hidden subcommand that makes a binary with the compiler call `child_main`.
pub const SUBCOMMAND: &str = "compile-child";

/// Environment variables with the child's bounds: bytes, and seconds.
const MEMORY_VARIABLE: &str = "WINDLASS_COMPILE_MEMORY";
const CPU_VARIABLE: &str = "WINDLASS_COMPILE_CPU_SECONDS";
/// Environment variable with the key of the host's engines, which must be the child's.
const KEY_VARIABLE: &str = "WINDLASS_COMPILE_KEY";

/// How many times longer than its CPU time the child may run: on a busy machine, it gets little of the CPU.
const WALL_TIME: f64 = 7.5;

/// What a process prints before it aborts because an allocation failed.
const OUT_OF_MEMORY: &str = "memory allocation of ";

/// Number of bytes that the host reads of the child's standard error.
const COMPLAINT: u64 = 16 * 1024;

/// Interval at which the host checks whether it is stopping while it waits for the child.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Resources that one compilation may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Memory, in bytes.
    pub memory: u64,
    /// CPU time, in whole seconds.
    pub cpu: Duration,
}

impl Bounds {
    /// The CPU time that suffices for a component of every language on a slow machine.
    pub const CPU: Duration = Duration::from_mins(2);

    /// The wall time that a compilation with this CPU time may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.cpu.mul_f64(WALL_TIME)
    }
}

impl Default for Bounds {
    /// [`Bounds::CPU`], and 2 GiB or, if that is less, three quarters of the memory of this process's control group.
    fn default() -> Self {
        Self { memory: memory::default_bound(), cpu: Self::CPU }
    }
}

/// How to start the compiling child.
#[derive(Debug, Clone)]
pub struct CompilerCommand {
    /// The binary.
    pub exe: PathBuf,
    /// Arguments that make the binary compile.
    pub args: Vec<OsString>,
    /// The opened binary, if `exe` may be replaced while the host runs.
    opened: Option<Arc<File>>,
}

impl CompilerCommand {
    /// A binary, with arguments that make it compile.
    pub fn new(exe: impl Into<PathBuf>, args: impl IntoIterator<Item = OsString>) -> Self {
        Self { exe: exe.into(), args: args.into_iter().collect(), opened: None }
    }

    /// The running binary, with [`SUBCOMMAND`].
    pub fn own() -> Self {
        // This link leads to the running binary even after an upgrade has replaced the file.
        let running = Path::new("/proc/self/exe");
        let exe = if running.exists() { Some(running.to_owned()) } else { std::env::current_exe().ok() };
        Self::new(exe.unwrap_or_default(), [SUBCOMMAND.into()])
    }

    /// Another binary in the folder of the running one. It is opened now, so that an upgrade that replaces the file does not mix versions.
    ///
    /// # Errors
    /// If the file cannot be opened; the error names it.
    pub fn beside(name: &str) -> io::Result<Self> {
        let exe = std::env::current_exe()?.with_file_name(name);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", exe.display()));
        let opened = Some(Arc::new(File::open(&exe).map_err(named)?));
        Ok(Self { opened, ..Self::new(exe, []) })
    }

    /// The path that starts the binary.
    fn path(&self) -> PathBuf {
        match &self.opened {
            Some(opened) if cfg!(target_os = "linux") => format!("/proc/self/fd/{}", opened.as_raw_fd()).into(),
            _ => self.exe.clone(),
        }
    }
}

/// Warns once per process that the child is unconfined: the cause is the machine, not a component.
static UNCONFINED: Once = Once::new();

/// Starts compiling children.
pub(crate) struct Compiler {
    pub(crate) command: CompilerCommand,
    pub(crate) timeout: Duration,
    pub(crate) bounds: Bounds,
}

/// The child's messages on its standard error, one per line.
#[derive(Debug, Serialize, Deserialize)]
enum ChildMessage {
    /// The child continues, but less confined than intended.
    Unconfined(String),
    /// The child does not compile this component.
    Refused(Refusal),
}

#[derive(Debug, Serialize, Deserialize)]
enum Refusal {
    NotAComponent(String),
    UnsupportedContract(String),
    Compile(String),
    /// The child cannot compile anything.
    Unable(String),
}

impl From<Refusal> for LoadFailure {
    /// Truncates the messages, because the component chooses parts of them.
    fn from(refusal: Refusal) -> Self {
        let cut = |text: String| failure::cut(&text);
        match refusal {
            Refusal::NotAComponent(message) => Self::NotAComponent(cut(message)),
            Refusal::UnsupportedContract(found) => Self::UnsupportedContract(cut(found)),
            Refusal::Compile(message) => Self::Compile(cut(message)),
            Refusal::Unable(message) => Self::Compiler(cut(message)),
        }
    }
}

/// Rejects bytes that are clearly not a component, before a process is started for them.
pub(crate) fn check_header(bytes: &[u8]) -> Result<(), LoadFailure> {
    let what = match bytes {
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => return Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => {
            "this is a core module; make a component of it with `wasm-tools component new`"
        }
        [0, b'a', b's', b'm', ..] => "this is WebAssembly of an unknown version; build it with current tools",
        [] => "the file is empty",
        [0x7f, b'E', b'L', b'F', ..] => {
            "this is native code; precompiled components are not accepted, give the .wasm file"
        }
        [0x1f, 0x8b, ..] => "this is gzip data; the component must be unpacked first",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "this is zstd data; the component must be unpacked first",
        [b'(', ..] => "this is WebAssembly text; make a binary of it with `wasm-tools parse`",
        _ => "this is not WebAssembly; give the .wasm file of a component",
    };
    Err(LoadFailure::NotAComponent(what.to_owned()))
}

impl Compiler {
    /// Compiles the component into a file. Kills the child and fails if `stopped` is set meanwhile.
    pub(crate) fn compile(&self, bytes: &[u8], into: &File, stopped: &AtomicBool) -> Result<(), LoadFailure> {
        let failed = LoadFailure::Compiler;
        let cannot =
            |error: io::Error| failed(format!("the compiler {} does not start: {error}", self.command.exe.display()));
        let child = Command::new(self.command.path())
            .args(&self.command.args)
            // The child must not inherit the host's settings and secrets.
            .env_clear()
            .env(MEMORY_VARIABLE, self.bounds.memory.to_string())
            .env(CPU_VARIABLE, self.bounds.cpu.as_secs().to_string())
            .env(KEY_VARIABLE, engine::key())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(into.try_clone().map_err(cannot)?)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        let (status, complaint) = self.attend(child, bytes, stopped).map_err(cannot)?;
        let mut refused = None;
        for said in complaint.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            match said {
                ChildMessage::Unconfined(why) => UNCONFINED.call_once(|| {
                    tracing::warn!(
                        why,
                        "components are compiled in a process that is not barred from files and network"
                    );
                }),
                ChildMessage::Refused(refusal) => refused = Some(refusal),
            }
        }
        match status {
            None if stopped.load(Ordering::Relaxed) => Err(LoadFailure::stopping()),
            None => Err(failed(format!(
                "it took longer than {:?}, with a low priority on a busy machine; --compile-cpu-time raises this limit too",
                self.timeout
            ))),
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(refused.map_or_else(|| self.death(status, &complaint), LoadFailure::from)),
        }
    }

    /// Writes the component to the child's standard input and waits for the child's end. Returns the exit status, which
    /// is `None` if the child was killed after its timeout or because of `stopped`, and the child's standard error.
    fn attend(&self, mut child: Child, bytes: &[u8], stopped: &AtomicBool) -> io::Result<(Option<ExitStatus>, String)> {
        let deadline = Instant::now() + self.timeout;
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A child that does not read its whole input reports the reason on its standard error.
                let _ = stdin.map(|mut stdin| stdin.write_all(bytes));
            });
            let (tell, told) = channel();
            scope.spawn(move || {
                let mut complaint = Vec::new();
                let _ = stderr.map(|stderr| stderr.take(COMPLAINT).read_to_end(&mut complaint));
                let _ = tell.send(String::from_utf8_lossy(&complaint).into_owned());
            });
            // The child's standard error is closed when the child ends.
            let complaint = loop {
                let left = deadline.saturating_duration_since(Instant::now());
                match told.recv_timeout(left.min(CHECK_INTERVAL)) {
                    Ok(complaint) => break complaint,
                    Err(RecvTimeoutError::Timeout) if !left.is_zero() && !stopped.load(Ordering::Relaxed) => {}
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                        child.kill()?;
                        child.wait()?;
                        return Ok((None, String::new()));
                    }
                }
            };
            while Instant::now() < deadline {
                if let Some(status) = child.try_wait()? {
                    return Ok((Some(status), complaint));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            child.kill()?;
            child.wait()?;
            Ok((None, complaint))
        })
    }

    /// The failure of a child that ended without a message of its own.
    fn death(&self, status: ExitStatus, complaint: &str) -> LoadFailure {
        let Bounds { memory, cpu } = self.bounds;
        let mebibytes = memory / (1024 * 1024);
        let is = |signal: Signal| status.signal() == Some(signal.as_raw());
        let end = if is(Signal::XCPU) {
            format!("it used more than {cpu:?} of CPU time; raise --compile-cpu-time")
        } else if is(Signal::KILL) {
            format!(
                "the kernel killed the compiler (signal 9), most likely because the container or the machine has less free memory than \
                 the {mebibytes} MiB that --compile-memory allows"
            )
        } else if complaint.contains(OUT_OF_MEMORY) {
            format!("it needs more than {mebibytes} MiB of memory; raise --compile-memory")
        } else if let Some(signal) = status.signal() {
            format!("the compiler was ended by signal {signal}")
        } else {
            format!("the compiler ended with {status}")
        };
        // A dying compiler reports the reason in its last lines.
        let dying = complaint.lines().rev().filter(|line| serde_json::from_str::<ChildMessage>(line).is_err());
        let last: Vec<&str> = dying.take(3).collect();
        let last = last.into_iter().rev().collect::<Vec<_>>().join("; ");
        LoadFailure::Compiler(if last.is_empty() { end } else { format!("{end}: {last}") })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Bounds;

    #[test]
    fn compile_timeout_lets_a_child_with_a_fifth_of_a_core_use_its_cpu_limit() {
        for cpu in [Bounds::CPU, Duration::from_secs(1), Duration::from_hours(1)] {
            assert!(Bounds { cpu, ..Bounds::default() }.timeout() >= cpu * 5);
        }
        // docs/limits.md says so.
        assert_eq!(Bounds::default().timeout(), Duration::from_mins(15));
    }
}
