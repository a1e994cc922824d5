//! One run of `windlass dev`: builds the plugin, runs it and applies the samples, again after each change, and cleans up.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use kube::Client;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_build::Project;
use windlass_core::hosts::lease::{Timing, WhileHeld};
use windlass_core::value::ids::PluginName;
use windlass_engine::cluster::lease::{Election, NotHolder, WriteGate};
use windlass_engine::output::WithCauses;
use windlass_engine::plugins::caps::Caps;
use windlass_engine::recent::Recent;
use windlass_engine::run::{Settings, run};
use windlass_sandbox::CompilerCommand;

use super::cleanup::Cleanup;
use super::decisions::Teller;
use super::plugin::{Delivered, build, deliver};
use super::sources::{Changes, Sources};
use super::terminal::{Terminal, Tone};
use super::{Args, READY_TIMEOUT, cluster, samples};
use crate::component::Candidate;
use crate::push::{Progress, Push, wait};

/// Number of parents that are reconciled at once, as for `windlass run`.
const WORKERS: usize = 32;

/// Memory for the requirements of the plugin's parents, in bytes, as for `windlass run`.
const REQUIREMENTS_MEMORY: usize = 32 << 20;

/// How the host takes part in the leader election: two hosts must not develop in one namespace.
pub fn election() -> Election {
    Election { while_held: WhileHeld::Exit, timing: Timing::default(), shards: 1 }
}

/// The clients of one cluster.
pub struct Clients {
    /// The client of the user.
    pub user: Client,
    /// The client of the host.
    pub host: Client,
    /// The gate through which the host's client writes.
    pub gate: WriteGate,
}

/// A host in this process.
struct Host {
    stop: CancellationToken,
    running: JoinHandle<anyhow::Result<()>>,
}

/// The steps that are left to do.
#[derive(Debug, Clone, Copy)]
struct Steps {
    /// Build and deliver the component.
    must_build: bool,
    /// Wait until the delivered component is live.
    must_follow: bool,
    /// Apply the samples.
    must_apply: bool,
}

/// One run of the command.
pub struct Session<'a> {
    args: &'a Args,
    project: Project,
    samples: Vec<PathBuf>,
    sample_namespace: String,
    clients: Clients,
    terminal: Terminal,
    teller: Arc<Teller>,
    /// Folder from which the host takes the component.
    components: TempDir,
    host: Option<Host>,
    /// The newest component, as long as it is not delivered.
    undelivered: Option<Candidate>,
    /// The last component that was delivered.
    delivered: Option<Delivered>,
    /// The plugin for which objects were written.
    begun: Option<PluginName>,
    /// The notes about its permissions.
    notes: Vec<String>,
}

impl<'a> Session<'a> {
    /// Develops a project on a cluster. Samples without a namespace get this one.
    ///
    /// # Errors
    /// If there can be no folder for components.
    pub fn new(
        args: &'a Args,
        project: Project,
        (clients, sample_namespace): (Clients, String),
        (terminal, teller): (Terminal, Arc<Teller>),
    ) -> anyhow::Result<Self> {
        Ok(Self {
            args,
            samples: samples::files(&args.samples, &project.folder),
            sample_namespace,
            project,
            clients,
            terminal,
            teller,
            components: tempfile::tempdir().context("no folder for components")?,
            host: None,
            undelivered: None,
            delivered: None,
            begun: None,
            notes: Vec::new(),
        })
    }

    /// Builds and delivers, again after each change of a source. Errors of the user's project are reported, and a change of the
    /// project is expected to mend them.
    ///
    /// # Errors
    /// If the host ends, or another host uses the namespace.
    pub async fn work(&mut self) -> anyhow::Result<()> {
        let mut sources = Sources::new(&self.project.folder, &self.samples)?;
        let mut steps = Steps { must_build: true, must_follow: false, must_apply: true };
        loop {
            let changes = match self.catch_up(&mut steps, &mut sources).await {
                Ok(changes) => changes,
                Err(error) if error.is::<NotHolder>() || self.delivered.is_some() && self.host.is_none() => {
                    return Err(error);
                }
                Err(error) => {
                    let live = if self.host.is_some() { "; the last good component stays live" } else { "" };
                    self.terminal.print(Tone::Bad, &format!("error: {}{live}", WithCauses(&error)));
                    None
                }
            };
            let changes = if let Some(changes) = changes {
                changes
            } else {
                self.terminal.print(Tone::Plain, "waiting for changes (Ctrl-C stops)");
                tokio::select! {
                    changes = sources.changed() => changes?,
                    ended = ended(&mut self.host) => ended?,
                }
            };
            steps.must_build |= changes.has_sources;
            steps.must_apply |= changes.has_samples;
            self.terminal.print(Tone::Plain, &format!("changed: {}", changes.names.join(", ")));
        }
    }

    /// Does the steps that are left, until one fails or files change; returns these changes.
    async fn catch_up(&mut self, steps: &mut Steps, sources: &mut Sources) -> anyhow::Result<Option<Changes>> {
        // If the build fails, it would fail again with the same sources, but a changed sample is still applied.
        if std::mem::take(&mut steps.must_build) {
            self.undelivered = Some(self.build(sources).await?);
        }
        // A delivery that failed may succeed after any change.
        if let Some(built) = self.undelivered.take() {
            match self.deliver(&built).await {
                Ok(at) => self.delivered = Some(Delivered { built, at }),
                Err(error) => {
                    self.undelivered = Some(built);
                    return Err(error);
                }
            }
            steps.must_follow = true;
        }
        if steps.must_follow {
            // A component that the host does not accept need not be waited for once the sources change again.
            let followed = self.follow(sources).await;
            steps.must_follow = matches!(followed, Ok(Some(_)));
            if let Some(changes) = followed? {
                return Ok(Some(changes));
            }
        }
        if steps.must_apply && self.delivered.is_none() && !self.samples.is_empty() {
            self.terminal.print(Tone::Plain, "the samples are applied once the component is live");
        } else if steps.must_apply {
            match self.apply_samples().await {
                Ok(()) => steps.must_apply = false,
                Err(error) => self.terminal.print(Tone::Bad, &format!("error: {}", WithCauses(&error))),
            }
        }
        Ok(None)
    }

    async fn build(&self, sources: &mut Sources) -> anyhow::Result<Candidate> {
        let (project, terminal) = (self.project.clone(), self.terminal.clone());
        let (cache, folder) = (self.args.cache.clone(), self.args.cache_dir()?);
        let built = tokio::task::spawn_blocking(move || build(&project, (&cache, folder), &terminal)).await?;
        sources.accept_lock_files().await?;
        let built = built.with_context(|| format!("project {} was not built", self.project.folder.display()))?;
        if let Some(before) = self.delivered.as_ref().filter(|before| before.built.name != built.name) {
            let (before, now) = (&before.built.name, &built.name);
            bail!("the plugin's name has changed from {before} to {now}; start the command again");
        }
        Ok(built)
    }

    /// Delivers a component, and returns the value of the annotation `windlass.dev/pushed-at`. With the first component, the
    /// cluster is prepared and the host is started.
    async fn deliver(&mut self, built: &Candidate) -> anyhow::Result<String> {
        if self.host.is_none() {
            // Another host may have started meanwhile.
            cluster::check_free(&self.clients.user, &self.args.host_namespace, &self.args.cache_dir()?).await?;
            cluster::prepare(&self.clients.user, &self.args.host_namespace, &self.terminal).await?;
        }
        self.begun = Some(built.name.clone());
        let place = (&*self.args.host_namespace, self.components.path());
        let (at, notes) = deliver(built, &self.clients.user, place, &self.args.grants).await?;
        if notes != self.notes {
            for note in &notes {
                self.terminal.print(Tone::Plain, note);
            }
            self.notes = notes;
        }
        if self.host.is_none() {
            self.host = Some(self.start_host()?);
        }
        Ok(at)
    }

    /// Waits until the delivered component is live and every parent was reconciled with it. Returns the changes before
    /// that.
    async fn follow(&mut self, sources: &mut Sources) -> anyhow::Result<Option<Changes>> {
        let Some(Delivered { built, at }) = &self.delivered else { return Ok(None) };
        let (name, digest) = (&built.name, built.component.digest().to_string());
        let push = Push { name, digest: &digest, at, namespace: &self.args.host_namespace };
        let progress = tokio::select! {
            progress = wait(&self.clients.user, push, READY_TIMEOUT) => progress?,
            changes = sources.changed() => return changes.map(Some),
            ended = ended(&mut self.host) => return ended,
        };
        match progress {
            Progress::Ready => Ok(None),
            Progress::Rejected(message) | Progress::BlockedBySetting(message) => {
                bail!("Plugin {name} is not Ready with this component: {message}")
            }
            Progress::Gone => bail!("Plugin {name} was deleted; save a source file to create it again"),
            Progress::Unseen => {
                let why = push.unseen(&self.clients.user).await;
                bail!("Plugin {name} is not Ready after {} s: {why}", READY_TIMEOUT.as_secs())
            }
            Progress::Waiting(missing) => {
                bail!("Plugin {name} is not Ready after {} s: {}", READY_TIMEOUT.as_secs(), missing.join("; "))
            }
        }
    }

    async fn apply_samples(&self) -> anyhow::Result<()> {
        for file in &self.samples {
            let applied = samples::apply_file(&self.clients.user, file, &self.sample_namespace).await;
            let applied = applied.with_context(|| format!("the objects of {} were not applied", file.display()))?;
            self.terminal.print(Tone::Plain, &format!("applied {}", applied.join(", ")));
        }
        Ok(())
    }

    /// Prints each reconcile.
    fn recent(&self) -> Recent {
        let (terminal, teller) = (self.terminal.clone(), self.teller.clone());
        Recent::told(Box::new(move |reconciled| {
            if let Some((tone, text)) = teller.text_of(reconciled) {
                terminal.print(tone, &text);
            }
        }))
    }

    fn start_host(&self) -> anyhow::Result<Host> {
        let settings = Settings {
            cache_dir: self.args.cache_dir()?,
            // Any free port: nothing reads it, and several projects may be developed at once.
            health_addr: None,
            metrics: None,
            debug_addr: None,
            recent: self.recent(),
            requirements_memory: REQUIREMENTS_MEMORY,
            workers: WORKERS,
            caps: Caps::without_flags()?,
            namespace: self.args.host_namespace.clone(),
            election: election(),
            plain_http: Vec::new(),
            require_signatures: false,
            plugins: Some(self.components.path().to_owned()),
            compiler: CompilerCommand::own(),
            compile: self.args.cache.compile.bounds(),
        };
        let stop = CancellationToken::new();
        let (client, gate) = (self.clients.host.clone(), self.clients.gate.clone());
        Ok(Host { stop: stop.clone(), running: tokio::spawn(run(client, gate, settings, stop)) })
    }

    /// Stops the host, and cleans up if the user wants that. `worked` is the result of [`work`](Self::work).
    ///
    /// # Errors
    /// That of the work, or if the host or the cleanup failed.
    pub async fn end(self, worked: anyhow::Result<()>, skip_cleanup: &CancellationToken) -> anyhow::Result<()> {
        let Self { args, samples, sample_namespace, clients, terminal, components, host, delivered, begun, .. } = self;
        let cleanup = Cleanup { client: &clients.user, namespace: &args.host_namespace, terminal: &terminal };
        let to_go_on = "the cleanup is not complete; to go on, run `windlass dev --cleanup` with the same flags, and stop it when \
                        the plugin is live";
        let Some(Host { stop, running }) = host else {
            // After a failure, the namespace may be that of another host.
            worked?;
            return if args.cleanup { cleanup.without_host(begun.as_ref()).await.context(to_go_on) } else { Ok(()) };
        };
        let cleaned = match &delivered {
            Some(Delivered { built: Candidate { name, declared, .. }, .. })
                if args.cleanup && !running.is_finished() =>
            {
                terminal.print(Tone::Plain, "deleting what the command created");
                let work = Box::pin(cleanup.of_plugin(name, declared, (&samples, &sample_namespace)));
                let cleaned = skip_cleanup.run_until_cancelled(work).await;
                cleaned.unwrap_or_else(|| Err(anyhow!("it was interrupted"))).context(to_go_on)
            }
            _ => Ok(()),
        };
        stop.cancel();
        let ended = running.await?;
        drop(components);
        worked.and(ended).and(cleaned)?;
        if args.cleanup {
            return cleanup.of_host().await.context(to_go_on);
        }
        if let Some(Delivered { built, .. }) = &delivered {
            terminal.print(Tone::Plain, &left(&built.name, args));
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
        args.host_namespace
    )
}
