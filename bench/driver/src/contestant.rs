//! The contestants: the same operator in several frameworks, started as users would start it.

use std::process::Command;

use anyhow::Context;

use crate::process::Process;
use crate::settings::{Paths, WORKERS};
use crate::stage::{NAMESPACE, Stage};

/// An operator, or the raw client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contestant {
    /// The host with `bench/guest`.
    Windlass,
    /// The limit: a client that sends the same requests and decides nothing.
    Raw,
    /// `bench/peers/controller-runtime`.
    ControllerRuntime,
    /// `bench/peers/kopf`.
    Kopf,
}

/// A task of the raw client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Create all children of the existing parents.
    Create,
    /// Create one child of one parent.
    CreateOne,
    /// Update the children of each parent that changes.
    Follow,
}

impl Contestant {
    /// Its name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::Raw => "raw client",
            Self::ControllerRuntime => "controller-runtime",
            Self::Kopf => "kopf",
        }
    }

    /// The contestants that were built.
    pub fn all(paths: &Paths) -> Vec<Self> {
        let mut all = vec![Self::Windlass, Self::Raw];
        all.extend(paths.controller_runtime.is_some().then_some(Self::ControllerRuntime));
        all.extend(paths.kopf_python.is_some().then_some(Self::Kopf));
        all
    }

    /// Starts it on a stage. The task is only for the raw client: an operator always does the same.
    pub fn start(self, stage: &Stage, paths: &Paths, task: Task) -> anyhow::Result<Process> {
        let workers = WORKERS.to_string();
        let mut command;
        match self {
            Self::Windlass => {
                command = windlass(stage, paths);
            }
            Self::Raw => {
                command = Command::new(std::env::current_exe()?);
                let task = match task {
                    Task::Create => "create",
                    Task::CreateOne => "create-one",
                    Task::Follow => "follow",
                };
                command.args(["raw", task, "--workers", &workers, "--kubeconfig"]).arg(&stage.peer);
            }
            Self::ControllerRuntime => {
                command = Command::new(paths.controller_runtime.as_ref().context("not built")?);
                command.args(["--workers", &workers, "--operator-kubeconfig"]).arg(&stage.peer);
            }
            Self::Kopf => {
                command = Command::new(paths.kopf_python.as_ref().context("not installed")?);
                command.arg("-B").arg(paths.kopf_operator.as_ref().context("no operator for kopf")?);
                command.args(["--namespace", NAMESPACE, "--workers", &workers, "--operator-kubeconfig"]);
                command.arg(&stage.peer);
            }
        }
        self.start_command(&mut command, stage)
    }

    fn start_command(self, command: &mut Command, stage: &Stage) -> anyhow::Result<Process> {
        // Each start has its own log, so that a second start does not overwrite the first one's.
        let number = std::fs::read_dir(stage.dir())?.count();
        let log = stage.dir().join(format!("{}-{number}.log", self.name().replace(' ', "-")));
        Process::start(command, &log)
    }
}

/// Starts one of the hosts that share the parents.
pub fn start_member(stage: &Stage, paths: &Paths, shards: usize) -> anyhow::Result<Process> {
    let mut command = windlass(stage, paths);
    command.arg("--shards").arg(shards.to_string());
    Contestant::Windlass.start_command(&mut command, stage)
}

/// Starts a host that logs its traces.
pub fn start_traced(stage: &Stage, paths: &Paths) -> anyhow::Result<Process> {
    let mut command = windlass(stage, paths);
    command.arg("--log-traces");
    Contestant::Windlass.start_command(&mut command, stage)
}

fn windlass(stage: &Stage, paths: &Paths) -> Command {
    let mut command = Command::new(paths.host.as_ref().unwrap_or(&paths.windlass));
    if paths.host.is_none() {
        command.arg("run");
    }
    command.args(["--health-addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0"]);
    command.args(["--debug-addr", "127.0.0.1:0"]);
    command.args(["--workers", &WORKERS.to_string(), "--kubeconfig"]).arg(&stage.windlass);
    command.arg("--cache-dir").arg(&paths.cache);
    command
}
