//! Processes of the bench: started with a log file, measured through `/proc`, and ended by their id however the bench
//! ends.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use windlass_testbed::until;

/// The time that a contestant may take to end by itself.
const GRACE: Duration = Duration::from_secs(25);

/// A running process of the bench.
pub struct Process {
    child: Child,
    watchdog: Child,
    log: PathBuf,
    /// The time right before it was started.
    pub begun: Instant,
}

/// The memory of a process, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// All resident pages.
    pub rss: u64,
    /// Resident pages; a shared page counts by its share.
    pub pss: u64,
    /// Resident pages that no file backs.
    pub anonymous: u64,
    /// The largest number of resident pages so far.
    pub peak: u64,
}

/// Ticks of `/proc` in a second, on every Linux.
const USER_HZ: f64 = 100.0;

/// The CPU time in a process' stat file, in seconds.
fn cpu_of(stat: &Path) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(stat)?;
    // The name in parentheses may contain anything.
    let fields: Vec<_> = stat.rsplit_once(')').context("an odd stat file")?.1.split_whitespace().collect();
    let ticks: u64 = (11..15).filter_map(|at| fields.get(at)?.parse::<u64>().ok()).sum();
    Ok(as_float(ticks) / USER_HZ)
}

/// The largest number of resident pages of a process so far, in bytes; none if it has ended.
pub fn peak_of(process: u32) -> Option<u64> {
    bytes_of(&fs::read_to_string(format!("/proc/{process}/status")).ok()?, "VmHWM:")
}

/// A value in a file of `/proc`, in bytes.
fn bytes_of(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// A process of the control plane, which the testbed started.
pub struct Component(PathBuf);

impl Component {
    /// Finds it by its name and the cluster's folder, which are among its arguments.
    pub fn find(name: &str, folder: &Path) -> anyhow::Result<Self> {
        // With the slash, because another cluster's folder may begin with the same name.
        let folder = format!("{}/", folder.display());
        for entry in fs::read_dir("/proc")? {
            let process = entry?.path();
            // Other processes end meanwhile.
            let Ok(arguments) = fs::read(process.join("cmdline")) else { continue };
            let arguments = String::from_utf8_lossy(&arguments);
            if arguments.split('\0').nth(1) == Some(name) && arguments.contains(&folder) {
                return Ok(Self(process.join("stat")));
            }
        }
        bail!("no process {name} of the cluster in {folder}")
    }

    /// CPU time of the process so far, in seconds, to a hundredth.
    pub fn cpu(&self) -> anyhow::Result<f64> {
        cpu_of(&self.0)
    }
}

impl Process {
    /// Starts it with standard output and standard error in a file.
    pub fn start(command: &mut Command, log: &Path) -> anyhow::Result<Self> {
        let file = File::create(log).with_context(|| format!("{} cannot be written", log.display()))?;
        for (name, _) in std::env::vars_os() {
            if ["WINDLASS_", "OTEL_", "KOPF_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
        let begun = Instant::now();
        let child = command.spawn().with_context(|| format!("{command:?} does not start"))?;
        let watchdog = watchdog(child.id())?;
        Ok(Self { child, watchdog, log: log.to_owned(), begun })
    }

    /// Whether it still runs.
    pub fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The end of its log, for an error message.
    pub fn said(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        lines.get(lines.len().saturating_sub(5)..).unwrap_or_default().join(" / ")
    }

    /// The size of its log, in bytes.
    pub fn log_size(&self) -> anyhow::Result<u64> {
        Ok(fs::metadata(&self.log)?.len())
    }

    /// Its log from this byte on.
    pub fn log_from(&self, byte: u64) -> anyhow::Result<String> {
        let (mut file, mut text) = (File::open(&self.log)?, Vec::new());
        file.seek(SeekFrom::Start(byte))?;
        file.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Waits until its log has a line with this text.
    pub fn wait_log(&mut self, text: &str, patience: Duration) -> anyhow::Result<()> {
        until(format_args!("{text:?} in the log of a contestant"), patience, || {
            if !self.lives() {
                bail!("a contestant ended by itself: {}", self.said());
            }
            Ok(String::from_utf8_lossy(&fs::read(&self.log)?).contains(text).then_some(()))
        })
    }

    /// CPU time of the process and of its ended children so far, in seconds, to a hundredth.
    pub fn cpu(&self) -> anyhow::Result<f64> {
        cpu_of(self.proc("stat").as_ref())
    }

    /// CPU time of everything on the machine except this process and the bench itself, in seconds since some time.
    pub fn cpu_beside(&self) -> anyhow::Result<f64> {
        let stat = fs::read_to_string("/proc/stat")?;
        let fields: Vec<_> = stat.lines().next().context("an odd stat file")?.split_whitespace().collect();
        // user, nice and system count; idle and iowait do not; irq and softirq do.
        let ticks: u64 = [1, 2, 3, 6, 7].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum();
        Ok(as_float(ticks) / USER_HZ - self.cpu()? - cpu_of(Path::new("/proc/self/stat"))?)
    }

    /// CPU time of the running threads, in seconds, to a nanosecond: for processes that are almost idle.
    pub fn fine_cpu(&self) -> anyhow::Result<f64> {
        let mut nanoseconds = 0;
        for thread in fs::read_dir(self.proc("task"))? {
            let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
            nanoseconds += text.split(' ').next().and_then(|first| first.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(as_float(nanoseconds) / 1e9)
    }

    /// Its current memory.
    pub fn memory(&self) -> anyhow::Result<Memory> {
        let rollup = fs::read_to_string(self.proc("smaps_rollup"))?;
        let value = |key: &str| bytes_of(&rollup, key).unwrap_or(0);
        Ok(Memory {
            rss: value("Rss:"),
            pss: value("Pss:"),
            anonymous: value("Anonymous:"),
            peak: peak_of(self.child.id()).unwrap_or(0),
        })
    }

    /// Ends it as Kubernetes ends a Pod.
    pub fn stop(mut self) -> anyhow::Result<()> {
        if !self.lives() {
            bail!("a contestant ended by itself: {}", self.said());
        }
        kill_process(self.pid()?, Signal::TERM)?;
        until("a contestant to end after SIGTERM", GRACE, || Ok(self.child.try_wait()?)).map(drop)
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("a process without id")
    }

    fn proc(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.child.id())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Before the process: the watchdog must not kill another process that gets the id.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        if self.lives() {
            // Nothing more can be done about a process that cannot be killed.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Kills a process when this one has ended without ending it: the watchdog's standard input ends then.
fn watchdog(id: u32) -> anyhow::Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", "read -r _; kill -9 \"$1\"", "sh", &id.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn().context("sh does not start")
}

/// A count as a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "counts of a bench lie far below 2^52")]
pub fn as_float(count: u64) -> f64 {
    count as f64
}
