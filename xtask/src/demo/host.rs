//! The host as a child process: ended by its id, however the demo ends.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use windlass_testbed::until;

/// The grace period of the Pod in manifests/kustomize/base.
const GRACE: Duration = Duration::from_secs(45);

/// A running `windlass run`.
pub(super) struct Host {
    child: Child,
    watchdog: Child,
    health: SocketAddr,
    log: PathBuf,
}

impl Host {
    /// Starts it with its own files in `folder`.
    pub(super) fn start(windlass: &Path, kubeconfig: &Path, folder: &Path) -> anyhow::Result<Self> {
        let health = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let log = folder.join("windlass.log");
        let file = File::create(&log).with_context(|| format!("{} cannot be written", log.display()))?;
        let child = Command::new(windlass)
            .args([
                "run",
                "--log-traces",
                "--health-addr",
                &health.to_string(),
                "--metrics-addr",
                "127.0.0.1:0",
                "--debug-addr",
                "127.0.0.1:0",
                "--kubeconfig",
            ])
            .arg(kubeconfig)
            .arg("--cache-dir")
            .arg(folder.join("components"))
            // A Ctrl-C in the terminal must not reach the host: the demo ends it after everything that depends on it.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("{} does not start", windlass.display()))?;
        let watchdog = watchdog(child.id())?;
        Ok(Self { child, watchdog, health, log })
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    pub(super) fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Its log so far.
    pub(super) fn log(&self) -> String {
        fs::read(&self.log).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    /// Whether `/readyz` returns 200.
    pub(super) fn ready(&self) -> anyhow::Result<bool> {
        const WAIT: Duration = Duration::from_secs(2);
        let mut stream = TcpStream::connect_timeout(&self.health, WAIT)?;
        stream.set_read_timeout(Some(WAIT))?;
        stream.write_all(b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.split(' ').nth(1) == Some("200"))
    }

    /// Ends it as Kubernetes ends a Pod.
    ///
    /// # Errors
    /// If it does not end in time or ends with a failure.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        if self.ended()?.is_none() {
            let id =
                i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("the host has no process id")?;
            kill_process(id, Signal::TERM)?;
        }
        let status = until("the host to end after SIGTERM", GRACE, || self.ended())?;
        if !status.success() {
            bail!("the host ended with {status} after SIGTERM");
        }
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Before the host: the watchdog must not kill another process that gets the host's id.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // Nothing more can be done about a process that cannot be killed.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Kills the host when this process ends without having stopped it: the watchdog's standard input ends then.
fn watchdog(id: u32) -> anyhow::Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", "read -r _; kill -9 \"$1\"", "sh", &id.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command.spawn().context("sh does not start")
}
