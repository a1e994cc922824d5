//! `windlass dev`: builds a plugin when its sources change, runs it on a cluster by a host in this process, and says what the
//! host decides.

mod cleanup;
mod cluster;
mod decisions;
mod plugin;
mod samples;
mod sources;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use kube::Client;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_build::Project;
use windlass_core::ids::PluginName;
use windlass_core::lease::{Timing, WhileHeld};

use self::cleanup::Cleanup;
use self::plugin::{Built, Delivered, Place};
use self::sources::Sources;
use self::terminal::{Terminal, Tone};
use super::NOT_HOLDER;
use super::component::CacheArgs;
use super::connect::{ClusterArgs, Destination};
use super::push::{Progress, Push, wait};
use super::run::LINGER;
use crate::cluster::lease::{Election, GateLayer, NotHolder, WriteGate};
use crate::plugins::caps::Caps;
use crate::run::{Settings, run};
use crate::telemetry::{LogFormat, Options, Telemetry};

/// Field manager of the objects that only this command writes: samples, the namespace, the CRD of Plugins.
const FIELD_MANAGER: &str = "windlass-dev";
/// Time for the host to handle something that usually takes moments.
const READY_TIMEOUT: Duration = Duration::from_mins(2);
/// Folder of compiled components in the cache folder, because each host removes those that it does not need.
const CACHE: &str = "dev";
/// Number of parents that are reconciled at once, as for `windlass run`.
const WORKERS: usize = 32;

/// Flags of `windlass dev`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass dev
  windlass dev greeting --context kind-kind
  windlass dev --apply samples/small.yaml --apply samples/large.yaml
  windlass dev --cleanup

The command runs until Ctrl-C. It builds the project as `windlass build` does, and builds it again when a source changes. \
Build outputs, node_modules, .venv and what .gitignore names are no sources. If a build fails, the last good component stays \
live.

A host in this process runs the plugin. It prints one line for each reconcile: what changed, the plugin's call, what the host \
wrote. The CRD of Plugins and the namespace are created if they are missing. The command refuses a cluster on which Windlass is \
installed, another host runs, or Plugins of others exist.

Without --context, the cluster must be local: the API server has a loopback address, or the current context has a name that \
kind, k3d, minikube, Docker Desktop, Rancher Desktop, Colima, OrbStack or MicroK8s give it. A tunnel to another cluster has a \
loopback address as well.

The CRD that the component carries replaces the installed one even if it has fewer fields; a note names what is lost.

Exit codes:
  0  stopped by SIGTERM or SIGINT (with --cleanup: and everything was deleted)
  2  wrong usage
  3  the command failed; the message says why
  7  another `windlass dev` uses the cluster and namespace, or took over")]
pub struct Args {
    /// Folder of the project, as `windlass new` makes it
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Objects to apply when the plugin is live, and again when the file changes; default: sample.yaml in the project, if it exists
    #[arg(long = "apply", value_name = "FILE")]
    samples: Vec<PathBuf>,
    /// At the end, delete what the command has created, also in earlier runs: samples, Plugin, permissions, CRDs without objects,
    /// namespace
    #[arg(long)]
    cleanup: bool,
    /// Also print the host's log, on standard error
    #[arg(short, long)]
    verbose: bool,
    /// Namespace of the host and of the plugin's ServiceAccount
    #[arg(short, long, default_value = "windlass-dev")]
    namespace: String,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Works until SIGTERM or SIGINT.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = super::run::runtime()?;
    let result = runtime.block_on(args.run());
    // A build may still run.
    runtime.shutdown_timeout(LINGER);
    match result {
        Err(error) if error.is::<NotHolder>() => {
            let namespace = &args.namespace;
            eprintln!(
                "error: another `windlass dev` uses namespace {namespace} of this cluster; stop it first ({error:#})"
            );
            Ok(ExitCode::from(NOT_HOLDER))
        }
        result => result.map(|()| ExitCode::SUCCESS),
    }
}

/// Cancelled by signals: the first ends the work, the second ends the cleanup as well.
struct Signals {
    stop: CancellationToken,
    hurry: CancellationToken,
}

impl Signals {
    fn handle() -> anyhow::Result<Self> {
        let signals = Self { stop: CancellationToken::new(), hurry: CancellationToken::new() };
        let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be handled")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be handled")?;
        let tokens = [signals.stop.clone(), signals.hurry.clone()];
        tokio::spawn(async move {
            for token in tokens {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                token.cancel();
            }
        });
        Ok(signals)
    }
}

impl Args {
    async fn run(&self) -> anyhow::Result<()> {
        let project = Project::find(&self.folder)?;
        let destination = self.cluster.destination().await?;
        cluster::check_chosen(&destination, self.cluster.context.is_some())?;
        let client = self.cluster.client().await?;
        cluster::check_free(&client, &self.namespace).await?;
        let terminal = Terminal::new();
        let Destination { context, server, namespace } = destination;
        let context = context.map_or_else(String::new, |context| format!("context {context}, "));
        terminal.say(Tone::Plain, &format!("cluster: {context}{server}"));
        let log = if self.verbose { "info" } else { "off" };
        let options = Options { log_format: LogFormat::Text, log: log.to_owned(), log_traces: false };
        let listener = move |happening| {
            if let Some((tone, text)) = decisions::text_of(&happening) {
                terminal.say(tone, &text);
            }
        };
        let telemetry = Telemetry::start_with_listener(&options, Box::new(listener))?;
        let signals = Signals::handle()?;
        let mut session = Session {
            args: self,
            samples: samples::files(&self.samples, &project.folder),
            sample_namespace: namespace,
            project,
            client,
            terminal,
            components: tempfile::tempdir().context("no folder for components")?,
            host: None,
            delivered: None,
            notes: Vec::new(),
            are_samples_applied: false,
        };
        let worked = tokio::select! {
            () = signals.stop.cancelled() => Ok(()),
            worked = session.work() => worked,
        };
        let ended = Box::pin(session.end(&signals.hurry)).await;
        telemetry.close();
        worked.and(ended)
    }
}

/// A host in this process.
struct Host {
    stop: CancellationToken,
    running: JoinHandle<anyhow::Result<()>>,
}

/// One run of the command.
struct Session<'a> {
    args: &'a Args,
    project: Project,
    samples: Vec<PathBuf>,
    sample_namespace: String,
    client: Client,
    terminal: Terminal,
    /// Folder from which the host takes the component.
    components: TempDir,
    host: Option<Host>,
    /// The last component that was delivered.
    delivered: Option<Delivered>,
    /// The notes about its permissions.
    notes: Vec<String>,
    are_samples_applied: bool,
}

impl Session<'_> {
    /// Builds and delivers, again after each change of a source. Errors of the user's project are reported, and a change of the
    /// project is expected to mend them.
    ///
    /// # Errors
    /// If the host ends.
    async fn work(&mut self) -> anyhow::Result<()> {
        let mut sources = Sources::new(self.project.folder.clone(), self.samples.clone());
        let mut is_source_changed = true;
        loop {
            let work = async {
                if is_source_changed {
                    self.build(&mut sources).await?;
                    // A component that the host does not accept need not be waited for once the sources change again.
                    if let Some(changed) = self.follow(&mut sources).await? {
                        return Ok(Some(changed));
                    }
                }
                self.apply_samples(is_source_changed).await?;
                anyhow::Ok(None)
            };
            let changed = match work.await {
                Ok(changed) => changed,
                Err(error) if self.delivered.is_some() && self.host.is_none() => return Err(error),
                Err(error) => {
                    self.report(&error);
                    None
                }
            };
            let changed = if let Some(changed) = changed {
                changed
            } else {
                self.terminal.say(Tone::Plain, "waiting for changes (Ctrl-C stops)");
                tokio::select! {
                    changed = sources.changed() => changed?,
                    ended = ended(&mut self.host) => ended?,
                }
            };
            is_source_changed = changed.iter().any(|file| !self.samples.contains(file));
            let names = changed.iter().map(|file| file.strip_prefix(&self.project.folder).unwrap_or(file).display());
            let names: Vec<_> = names.map(|name| name.to_string()).collect();
            self.terminal.say(Tone::Plain, &format!("changed: {}", names.join(", ")));
        }
    }

    /// Reports what prevents the newest sources from being live.
    fn report(&self, error: &anyhow::Error) {
        let live = if self.host.is_some() { "; the last good component stays live" } else { "" };
        self.terminal.say(Tone::Bad, &format!("error: {error:#}{live}"));
    }

    /// Builds the component and delivers it. With the first one, the cluster is prepared and the host is started.
    async fn build(&mut self, sources: &mut Sources) -> anyhow::Result<()> {
        let (project, terminal, cache_dir) = (self.project.clone(), self.terminal, self.cache_dir()?);
        let built = tokio::task::spawn_blocking(move || Built::of(&project, cache_dir, terminal)).await?;
        sources.accept_lock_files().await?;
        let built = built.with_context(|| format!("project {} was not built", self.project.folder.display()))?;
        if let Some(before) = self.delivered.as_ref().filter(|before| before.built.name != built.name) {
            let (before, now) = (&before.built.name, &built.name);
            bail!("the plugin's name has changed from {before} to {now}; start the command again");
        }
        if self.host.is_none() {
            cluster::prepare(&self.client, &self.args.namespace, self.terminal).await?;
        }
        let place = Place { client: &self.client, namespace: &self.args.namespace, folder: self.components.path() };
        let (at, notes) = place.deliver(&built).await?;
        if notes != self.notes {
            for note in &notes {
                self.terminal.say(Tone::Plain, note);
            }
            self.notes = notes;
        }
        if self.host.is_none() {
            self.host = Some(self.start_host().await?);
        }
        self.delivered = Some(Delivered { built, at });
        Ok(())
    }

    /// Waits until the delivered component is live and every parent was reconciled with it. Returns the files that change
    /// before.
    async fn follow(&mut self, sources: &mut Sources) -> anyhow::Result<Option<Vec<PathBuf>>> {
        let Some(Delivered { built, at }) = &self.delivered else { return Ok(None) };
        let (name, digest) = (&built.name, built.component.digest().to_string());
        let push = Push { name, digest: &digest, at };
        let progress = tokio::select! {
            progress = wait(&self.client, push, READY_TIMEOUT) => progress?,
            changed = sources.changed() => return changed.map(Some),
            ended = ended(&mut self.host) => return ended,
        };
        match progress {
            Progress::Ready => Ok(None),
            Progress::Rejected(message) | Progress::BlockedBySetting(message) => {
                bail!("Plugin {name} is not Ready with this component: {message}")
            }
            Progress::Gone => bail!("Plugin {name} was deleted; save a source file to create it again"),
            Progress::Waiting(missing) => {
                bail!("Plugin {name} is not Ready after {} s: {}", READY_TIMEOUT.as_secs(), missing.join("; "))
            }
        }
    }

    /// Applies the samples once, and again when they change.
    async fn apply_samples(&mut self, is_source_changed: bool) -> anyhow::Result<()> {
        if self.delivered.is_none() || is_source_changed && self.are_samples_applied {
            return Ok(());
        }
        for file in &self.samples {
            let applied = samples::apply_file(&self.client, file, &self.sample_namespace).await;
            let applied = applied.with_context(|| format!("the objects of {} were not applied", file.display()))?;
            self.terminal.say(Tone::Plain, &format!("applied {}", applied.join(", ")));
        }
        self.are_samples_applied = true;
        Ok(())
    }

    fn cache_dir(&self) -> anyhow::Result<PathBuf> {
        Ok(self.args.cache.folder()?.join(CACHE))
    }

    async fn start_host(&self) -> anyhow::Result<Host> {
        let gate = WriteGate::default();
        let election = Election { while_held: WhileHeld::Exit, timing: Timing::default() };
        let layer = GateLayer::new(gate.clone(), &self.args.namespace, election.timing.margin());
        let client = self.args.cluster.client_of_host(layer).await?;
        let settings = Settings {
            cache_dir: self.cache_dir()?,
            // Any free port: nothing reads it, and several projects may be developed at once.
            health_addr: ([127, 0, 0, 1], 0).into(),
            metrics: None,
            // The command prints what `windlass explain` would.
            debug_addr: None,
            recent_calls_memory: 0,
            workers: WORKERS,
            caps: Caps::without_flags()?,
            namespace: self.args.namespace.clone(),
            election,
            shards: 1,
            plain_http: Vec::new(),
            require_signatures: false,
            plugins: Some(self.components.path().to_owned()),
            compile_memory: None,
        };
        let stop = CancellationToken::new();
        Ok(Host { stop: stop.clone(), running: tokio::spawn(run(client, gate, settings, stop)) })
    }

    /// Cleans up if the user wants it, and stops the host.
    async fn end(self, hurry: &CancellationToken) -> anyhow::Result<()> {
        let Self { args, samples, sample_namespace, client, terminal, components, host, delivered, .. } = self;
        let Some(Host { stop, running }) = host else { return Ok(()) };
        let cleanup = Cleanup { client: &client, cluster: &args.cluster, namespace: &args.namespace, terminal };
        let cleaned = match &delivered {
            Some(Delivered { built: Built { name, declared, .. }, .. }) if args.cleanup && !running.is_finished() => {
                terminal.say(Tone::Plain, "deleting what the command created");
                let work = Box::pin(cleanup.of_plugin(name, declared, (&samples, &sample_namespace)));
                hurry.run_until_cancelled(work).await.unwrap_or_else(|| Err(anyhow!("the cleanup was interrupted")))
            }
            _ => Ok(()),
        };
        stop.cancel();
        running.await??;
        drop(components);
        cleaned?;
        if args.cleanup {
            return cleanup.of_host().await;
        }
        if let Some(Delivered { built, .. }) = &delivered {
            terminal.say(Tone::Plain, &left(&built.name, args));
        }
        Ok(())
    }
}

/// Waits until the host ends by itself, and removes it; without a host, waits for ever.
async fn ended<T>(host: &mut Option<Host>) -> anyhow::Result<T> {
    let Some(Host { running, .. }) = host else { return std::future::pending().await };
    let ended = running.await;
    *host = None;
    ended??;
    bail!("the host ended by itself")
}

/// What stays in the cluster, and how to remove it.
fn left(name: &PluginName, args: &Args) -> String {
    format!(
        "stopped. Plugin {name}, its objects, CRDs and namespace {} stay as they are; nothing reconciles them. To delete them, run \
         `windlass dev --cleanup` with the same flags, and stop it",
        args.namespace
    )
}
