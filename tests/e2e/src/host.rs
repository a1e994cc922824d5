//! The host as a child process.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{TIMEOUT, wait, windlass_host};

/// The number of log lines that are shown when a test fails, and of characters of each, so the reason stays visible.
const SHOWN: (usize, usize) = (40, 300);
/// Kubernetes kills a Pod this long after SIGTERM (manifests/kustomize/base).
const GRACE_PERIOD: Duration = Duration::from_secs(45);

/// The excerpt of a log that is shown when a test fails: the last lines, truncated.
pub(crate) fn excerpt<'a>(lines: impl DoubleEndedIterator<Item = &'a str>) -> String {
    let mut last: Vec<String> = lines.rev().take(SHOWN.0).map(|line| line.chars().take(SHOWN.1).collect()).collect();
    last.reverse();
    last.join("\n")
}

/// How a host is started.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// More flags of the host.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// Folder of compiled components; default: one for all hosts of the environment.
    pub cache_dir: Option<PathBuf>,
}

/// A running host. Dropping it kills it; so does any end of this process.
pub struct Host {
    child: Mutex<Child>,
    id: u32,
    log: PathBuf,
    watchdog: Child,
}

impl Host {
    pub(crate) fn spawn(kubeconfig: &Path, log: PathBuf, options: &HostOptions) -> Self {
        let mut command = windlass_host();
        // The system chooses the port and the log names it, so no other process can take it in between.
        command
            .args(["--health-addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0"])
            .args(["--debug-addr", "127.0.0.1:0"])
            .arg("--kubeconfig")
            .arg(kubeconfig);
        if let Some(cache_dir) = &options.cache_dir {
            command.arg("--cache-dir").arg(cache_dir);
        }
        command.args(&options.args).envs(options.env.iter().map(|(name, value)| (name, value)));
        let file = File::create(&log).expect("a log file for the host");
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("a second handle")).stderr(file).process_group(0);
        let child = command.spawn().expect("the host starts");
        let id = child.id();
        Self { child: Mutex::new(child), id, log, watchdog: watchdog(id) }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// A line of its `/proc/<id>/status`, such as `VmRSS`, in MiB.
    ///
    /// # Panics
    /// When there is no such line.
    #[track_caller]
    pub fn memory(&self, line: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id)).expect("the host runs");
        let mut values = status.lines().filter_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
        let kibibytes = values.next().and_then(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let mebibytes = kibibytes.unwrap_or_else(|| panic!("no {line} in {status}")) / 1024;
        assert!(mebibytes > 0, "{line} is 0");
        mebibytes
    }

    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        self.exit_status().is_none()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The address of its `/healthz` and `/readyz`, once it serves them.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.address_of("/readyz")
    }

    /// The address of its `/metrics`, once it serves them.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.address_of("serving /metrics")
    }

    /// The address of its recent calls, once it serves them.
    pub fn debug_address(&self) -> Option<SocketAddr> {
        self.address_of("serving recent calls")
    }

    fn address_of(&self, served: &str) -> Option<SocketAddr> {
        let log = self.log();
        let line = log.lines().find(|line| line.contains(served) && line.contains("address"))?;
        // Text and JSON logs: what follows "address", up to the end of the address.
        let after = line.split_once("address")?.1.trim_start_matches(['=', '"', ':', ' ']);
        let end =
            after.find(|char: char| !(char.is_ascii_digit() || char == '.' || char == ':')).unwrap_or(after.len());
        after.get(..end)?.parse().ok()
    }

    /// The HTTP status of a GET at the health address; `None` without a response.
    pub fn http_status(&self, path: &str) -> Option<u16> {
        Some(self.http(path)?.0)
    }

    /// The HTTP status and the body of a GET at the health address; `None` without a response.
    pub fn http(&self, path: &str) -> Option<(u16, String)> {
        http_get(self.health_address()?, path)
    }

    /// The metrics in Prometheus' text format; `None` without a response.
    pub fn metrics(&self) -> Option<String> {
        let (status, text) = http_get(self.metrics_address()?, "/metrics")?;
        (status == 200).then_some(text)
    }

    /// Waits until `/readyz` returns 200.
    ///
    /// # Panics
    /// When it does not within [`TIMEOUT`], or the host exits.
    #[track_caller]
    pub fn wait_ready(&self) {
        wait("the host to be ready", TIMEOUT, || {
            if let Some(status) = self.exit_status() {
                panic!("the host ended: {status}\n{}", self.log());
            }
            (self.http_status("/readyz") == Some(200)).then_some(())
        });
    }

    /// Sends SIGKILL, as at a crash or the loss of a node.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // An error means that the host has exited.
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Sends SIGSTOP: the host does nothing until it [goes on](Self::resume).
    #[track_caller]
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Sends SIGCONT.
    #[track_caller]
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits until the host has exited.
    #[track_caller]
    pub fn wait_exit(&self) -> ExitStatus {
        wait("the host to end", TIMEOUT, || self.exit_status())
    }

    #[track_caller]
    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.id).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(id, signal).expect("the signal reaches the host");
    }

    /// Sends SIGTERM, and waits until the host has exited.
    ///
    /// # Panics
    /// When it does not exit within the grace period of the Pod.
    #[track_caller]
    pub fn terminate(&self) -> ExitStatus {
        if self.is_running() {
            self.signal(Signal::TERM);
        }
        wait("the host to end after SIGTERM", GRACE_PERIOD, || self.exit_status())
    }

    /// Whether it runs, is alive, and what its queues do, for the message of a test that fails.
    fn state(&self) -> String {
        if let Some(status) = self.exit_status() {
            return format!("the host has ended: {status}");
        }
        let (live, ready) = (self.http("/healthz"), self.http("/readyz"));
        let metrics = self.metrics().unwrap_or_default();
        let is_of_queues = |line: &&str| line.starts_with("workqueue_") && !line.contains("_bucket{");
        let queues: Vec<_> = metrics.lines().filter(is_of_queues).collect();
        format!("the host runs; /healthz: {live:?}; /readyz: {ready:?}\n{}", queues.join("\n"))
    }

    fn exit_status(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.try_wait().expect("the host's state")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Before the host: the watchdog must not kill another process that gets the host's id.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        let state = std::thread::panicking().then(|| self.state());
        self.kill();
        if let Some(state) = state {
            eprintln!("{state}\nthe host's log ends with:\n{}", excerpt(self.log().lines()));
        }
    }
}

/// The HTTP status and the body of a GET; `None` without a response.
pub fn http_get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Kills the host when this process is gone: its standard input ends then. A static, which is never dropped, holds the
/// host that tests share.
fn watchdog(id: u32) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "read -r _; kill -9 \"$1\"", "sh", &id.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn().expect("sh starts")
}
