//! A group of processes under `supervise` (the Go program in this folder), which ends them however this process ends.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;

use crate::credentials::private_file;
use crate::poll::until;

/// The processes to run; supervise/main.go and supervise/ready.go explain the fields.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Plan {
    pub dir: PathBuf,
    pub remove_dir: bool,
    pub detached: bool,
    /// If it is not empty, all processes run in Linux namespaces of their own, and this command prepares those.
    pub set_up: Vec<String>,
    pub processes: Vec<Process>,
    pub ready: Ready,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Process {
    pub name: &'static str,
    pub argv: Vec<String>,
    pub after_server: bool,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ready {
    pub tcp: Vec<String>,
    pub server: String,
    pub token: String,
    pub ca_file: PathBuf,
    pub nodes: u32,
    pub timeout_seconds: u32,
}

/// The supervisor holds a lock on this file in the plan's folder, which contains its process id: so the id of an ended process is
/// never taken for that of a running one.
pub(crate) const LOCK: &str = "supervise.lock";
/// The supervisor's own log, in the plan's folder.
const LOG: &str = "supervise.log";

/// A running supervisor. Dropping it ends its processes.
pub(crate) struct Supervised {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    dir: PathBuf,
}

impl Supervised {
    /// Starts the plan's processes, and returns when they are ready.
    pub fn start(program: &Path, plan: &Plan) -> Result<Self> {
        let path = plan.dir.join("plan.json");
        private_file(&path, &serde_json::to_vec_pretty(plan)?)?;
        let log = fs::File::create(plan.dir.join(LOG)).context("cannot write the supervisor's log")?;
        let mut command = Command::new(if plan.set_up.is_empty() { program.as_os_str() } else { "unshare".as_ref() });
        if !plan.set_up.is_empty() {
            command.args(["--mount", "--net", "--pid", "--fork", "--kill-child"]).arg(program);
        }
        // A process group of its own, so that a Ctrl-C in the terminal reaches only the process that decides about the
        // end.
        command.arg(&path).process_group(0).stdout(Stdio::piped()).stderr(log);
        command.stdin(if plan.detached { Stdio::null() } else { Stdio::piped() });
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let commands = child.stdin.take();
        let answers = child.stdout.take().context("the supervisor has no standard output")?;
        let mut supervised = Self { child, commands, answers: BufReader::new(answers), dir: plan.dir.clone() };
        if let Err(error) = supervised.answer("ready") {
            supervised.end(true);
            return Err(error);
        }
        Ok(supervised)
    }

    /// Sends a command (see supervise/main.go) and waits until it is done.
    pub fn command(&mut self, command: &str) -> Result<()> {
        self.say(command).with_context(|| format!("cannot ask the supervisor to {command}"))?;
        self.answer(&format!("done {command}"))
    }

    /// Ends all processes. `keep` keeps the folder, even if the plan removes it.
    pub fn end(&mut self, keep: bool) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            // Another process may have its id by now.
            return;
        }
        if keep {
            // Fails if the supervisor has ended; then nothing else would remove the folder.
            let _ = self.say("keep");
        }
        if self.commands.take().is_none() {
            self.signal(Signal::TERM);
        }
        let ended = until("the supervisor to end", Duration::from_secs(10), || Ok(self.child.try_wait()?));
        if ended.is_err() {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }

    /// Lets the processes of a detached plan continue to run.
    pub fn detach(self) -> u32 {
        let id = self.child.id();
        // Dropping a `Child` ends nothing, but dropping `Supervised` does.
        std::mem::forget(self);
        id
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // An error means that the group has ended already.
            let _ = kill_process_group(pid, signal);
        }
    }

    fn say(&mut self, command: &str) -> Result<()> {
        let commands =
            self.commands.as_mut().context("these processes take no commands: they were started detached")?;
        Ok(writeln!(commands, "{command}")?)
    }

    /// Reads the supervisor's output until it contains `wanted`, or a failure.
    fn answer(&mut self, wanted: &str) -> Result<()> {
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line)? == 0 {
                bail!("the supervisor ended; its last lines:\n{}", last_lines(&self.dir.join(LOG), 20));
            }
            let line = line.trim();
            if line == wanted {
                return Ok(());
            }
            if let Some(failure) = line.strip_prefix("failed ") {
                return Err(self.failure(failure));
            }
        }
    }

    fn failure(&self, failure: &str) -> anyhow::Error {
        let (name, why) = failure.split_once(": ").unwrap_or((failure, "no reason given"));
        let log = self.dir.join(format!("{name}.log"));
        if log.exists() {
            return anyhow!("{name} failed ({why}); the last lines of {}:\n{}", log.display(), last_lines(&log, 20));
        }
        anyhow!("not {name}: {why}; logs are in {}", self.dir.display())
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// The end of a log, for an error message.
pub(crate) fn last_lines(path: &Path, count: usize) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().join("\n")
}
