//! `windlass dev`: builds a plugin when its sources change, runs it on a cluster by a host in this process, and prints what the
//! host decides.

mod cleanup;
mod cluster;
mod decisions;
mod plugin;
mod samples;
mod session;
mod sources;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use windlass_build::Project;
use windlass_engine::cluster::lease::{GateFilter, NotHolder, WriteGate};
use windlass_engine::command::cluster::{ClusterArgs, Destination};
use windlass_engine::command::{LINGER, runtime};
use windlass_engine::telemetry::{LogFormat, Options, Telemetry};

use self::decisions::Teller;
use self::session::{Clients, Session, election};
use self::terminal::{Terminal, Tone};
use super::NOT_HOLDER;
use super::component::CacheArgs;
use super::connect::NamespaceArgs;
use super::push::GrantArgs;

/// Field manager of the objects that only this command writes: samples, the namespace, the CRD of Plugins.
const FIELD_MANAGER: &str = "windlass-dev";
/// Time for the host to handle something that usually takes moments.
const READY_TIMEOUT: Duration = Duration::from_mins(2);
/// Folder of compiled components in the cache folder, because each host removes those that it does not need.
const CACHE: &str = "dev";

/// Flags of `windlass dev`.
#[derive(Debug, clap::Args)]
// The client of a host rejects impersonation.
#[command(mut_arg("as-user", |arg| arg.hide(true)), mut_arg("as-groups", |arg| arg.hide(true)))]
#[command(after_help = "Examples:
  windlass dev
  windlass dev greeting --context kind-kind -n shop
  windlass dev --apply samples/small.yaml --apply samples/large.yaml
  windlass dev --cleanup

The command runs until Ctrl-C. It builds the project as `windlass build` does, and builds it again when a source changes. \
Build outputs, node_modules, .venv and what .gitignore names are no sources. If a build fails, the last good component stays \
live.

A host in this process runs the plugin. It prints one line for each reconcile: what changed, the plugin's call, what the host \
wrote. The CRD of Plugins and the namespace are created if they are missing. The command refuses a cluster on which Windlass is \
installed, another host runs, or Plugins of others exist.

Unless --context or WINDLASS_CONTEXT names a context, the cluster must be local: the API server has a loopback address, or the \
current context has a name that kind, k3d, minikube, Docker Desktop, Rancher Desktop, Colima, OrbStack or MicroK8s give it. A \
tunnel to another cluster has a loopback address as well.

The CRD that the component carries replaces the installed one even if it has fewer fields; a note names what is lost.

Exit codes:
  0  stopped by SIGTERM or SIGINT (with --cleanup: what the command created is deleted; a line `left` names what is kept, and why)
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
    /// namespace. An object of the sample files that existed before is kept
    #[arg(long)]
    cleanup: bool,
    /// Also print the host's log, on standard error
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Namespace of the host and of the plugin's ServiceAccount
    #[arg(long, default_value = "windlass-dev", value_name = "NAMESPACE")]
    host_namespace: String,
    #[command(flatten)]
    grants: GrantArgs,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Works until SIGTERM or SIGINT.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let terminal = Terminal::new();
    let result = runtime.block_on(args.run(&terminal));
    // A build may still run.
    runtime.shutdown_timeout(LINGER);
    terminal.flush();
    let Err(error) = result else { return Ok(ExitCode::SUCCESS) };
    let Some(conflict) = error.downcast_ref::<NotHolder>() else { return Err(error) };
    err!("error: {}", text_of(conflict));
    Ok(ExitCode::from(NOT_HOLDER))
}

/// Why another host ends the command, and what the user can do.
fn text_of(conflict: &NotHolder) -> String {
    match conflict {
        NotHolder::Refused { namespace, holder, expires_in } => format!(
            "another `windlass dev` uses namespace {namespace} of this cluster, as {holder}. Stop it, or use another cluster; if it \
             no longer runs, start this command again in {} s",
            expires_in.as_secs().saturating_add(1)
        ),
        NotHolder::Lost { namespace, name, holder } => format!(
            "another host, {holder}, holds Lease {namespace}/{name} now, because this one did not renew it in time, or another client \
             changed it. Stop that host, and start this command again"
        ),
    }
}

/// Tokens that signals cancel: the first signal one that ends the work, the second one that ends the cleanup as well.
fn signals() -> anyhow::Result<[CancellationToken; 2]> {
    let tokens = [CancellationToken::new(), CancellationToken::new()];
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be handled")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be handled")?;
    let cancelled = tokens.clone();
    tokio::spawn(async move {
        for token in cancelled {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            token.cancel();
        }
    });
    Ok(tokens)
}

impl Args {
    async fn run(&self, terminal: &Terminal) -> anyhow::Result<()> {
        let project = Project::find(&self.folder)?;
        let destination = self.cluster.destination().await?;
        cluster::check_chosen(&destination, self.cluster.context.is_some())?;
        let Destination { context, server } = destination;
        // All clients are made here, for the context that was checked: the kubeconfig's current context may change later.
        let chosen = ClusterArgs { context, ..self.cluster.clone() };
        let namespace = self.namespace.find(&chosen).await?;
        let gate = WriteGate::default();
        let filter = GateFilter::new(gate.clone(), &self.host_namespace, election().timing.margin());
        let clients = Clients { user: chosen.client().await?, host: chosen.client_of_host(filter).await?, gate };
        cluster::check_free(&clients.user, &self.host_namespace, &self.cache_dir()?).await?;
        let context = chosen.context.map_or_else(String::new, |context| format!("context {context}, "));
        terminal.print(Tone::Plain, &format!("cluster: {context}{server}"));
        let teller = Arc::new(Teller::default());
        let telemetry = self.telemetry(terminal.clone(), teller.clone())?;
        let [stop, skip_cleanup] = signals()?;
        let mut session = Session::new(self, project, (clients, namespace), (terminal.clone(), teller))?;
        let worked = tokio::select! {
            () = stop.cancelled() => Ok(()),
            worked = session.work() => worked,
        };
        let ended = Box::pin(session.end(worked, &skip_cleanup)).await;
        telemetry.close();
        ended
    }

    /// Prints what the host in this process logs.
    fn telemetry(&self, terminal: Terminal, teller: Arc<Teller>) -> anyhow::Result<Telemetry> {
        let log = if self.verbose { "info" } else { "off" };
        let options = Options { log_format: LogFormat::Text, log: log.to_owned(), log_traces: false };
        let listener = move |line| {
            if let Some((tone, text)) = teller.text_of_line(&line) {
                terminal.print(tone, &text);
            }
        };
        Telemetry::start(&options, false, Some(Box::new(listener)))
    }

    /// The cache folder of the host.
    fn cache_dir(&self) -> anyhow::Result<PathBuf> {
        Ok(self.cache.folder()?.join(CACHE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflict_with_another_host_has_advice_that_the_command_can_follow() {
        let (namespace, holder) = ("windlass-dev".to_owned(), "laptop_1".to_owned());
        let refused = NotHolder::Refused {
            namespace: namespace.clone(),
            holder: holder.clone(),
            expires_in: Duration::from_secs(9),
        };
        let lost = NotHolder::Lost { namespace, name: "windlass".to_owned(), holder };
        for (conflict, advice) in [(refused, "again in 10 s"), (lost, "start this command again")] {
            let text = text_of(&conflict);
            assert!(text.contains("laptop_1") && text.contains(advice), "{text}");
            assert!(!text.contains("--leader-elect"), "not a flag of this command: {text}");
        }
    }
}
