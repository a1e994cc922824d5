//! `windlass record`: saves the calls of a plugin in a file, without values of Secrets, so that they can be repeated anywhere.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::StreamExt as _;
use serde_json::Value;
use windlass_api::ConfiguredSource;
use windlass_core::object::child::ChildId;
use windlass_core::reconcile::recording::RecordedCall;
use windlass_core::value::ids::PluginName;
use windlass_engine::cluster::requests::parse_timeout;
use windlass_sandbox::Component;

use super::component::{ComponentArgs, ComponentRef, LoadArgs};
use super::connect::NamespaceArgs;
use super::host_calls::{HostArgs, path_of};
use super::parse_name;
use super::recording_file::{Header, Recorder};
use super::repeat::{for_repetition, repeat};

/// Exit code: there was no call to record.
const NOTHING: u8 = 1;
/// Longest recording: the host ends the connection after an hour.
const LONGEST: Duration = Duration::from_mins(59);

/// Flags of `windlass record`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("namespace", |arg| arg.requires("parent")))]
#[command(after_help = "Examples:
  windlass record echo
  windlass record echo --for 5m --output-file incident.jsonl
  windlass record echo --parent web -n shop
  windlass record echo --for 0 --calls 10
  windlass record echo --debug-addr http://127.0.0.1:8081 --component target/guests/echo.wasm

The recording begins with the calls that the host still has (`windlass run --recent-calls-memory`), and goes on with new \
ones. It has no value of a Secret: the host replaces each by a placeholder of the same length and alphabet, also where the \
value occurs elsewhere. It has the specs of parents and children; do not put secrets there. Random numbers come from another \
seed than the host's; this command calls the component itself, and saves the response that `windlass replay` must get.

Exit codes:
  0  the calls were recorded
  1  there was no call to record
  2  wrong usage
  3  the command failed; the message says why")]
pub struct Args {
    /// Name of the Plugin
    #[arg(value_name = "PLUGIN")]
    plugin: PluginName,
    /// Record only the calls for the parent of this name; default: for all parents, in all namespaces
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    parent: Option<String>,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// How long to record, as in 60s or 5m, at most 59m; 0 saves only the calls that the host still has
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = parse_timeout)]
    duration: Duration,
    /// Stop after this number of calls
    #[arg(long, value_name = "N")]
    calls: Option<u64>,
    /// File to write; - for standard output; default: PLUGIN.calls.jsonl
    #[arg(long = "output-file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Component of the calls: a file, `oci://REFERENCE`, or `configmap/NAMESPACE/NAME`; default: the Plugin's source
    #[arg(long, value_name = "COMPONENT")]
    component: Option<ComponentRef>,
    /// Leave the component out of the file; `windlass replay` then needs --with
    #[arg(long)]
    without_component: bool,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    options: LoadArgs,
}

/// What was recorded.
#[derive(Default)]
struct Summary {
    calls: u64,
    parents: HashSet<ChildId>,
    /// Calls with other results than the host got.
    other_results: u64,
    /// Calls of other components.
    other_components: BTreeSet<String>,
    /// Calls that the host did not keep.
    omitted: u64,
}

/// Records the calls of a plugin.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let Args { plugin, parent, namespace, duration, calls, file, component, without_component, host, options } = args;
    let component = match component {
        Some(component) => component,
        None => super::block_on(source_of(&plugin, &options))?,
    };
    let cluster = options.cluster.clone();
    let component = ComponentArgs { component, options };
    let bytes = component.bytes()?;
    let loaded = component.load_of(&bytes)?;
    let file = file.unwrap_or_else(|| format!("{plugin}.calls.jsonl").into());
    let digest = loaded.digest().to_string();
    let wasm = Some(&*bytes).filter(|_| !without_component);
    let header = Header::new(plugin.as_str(), (&digest, &loaded.surface().contract), wasm)?;
    let mut recorder = Recorder::new(file, header);
    let summary = super::block_on(async {
        let follows = !duration.is_zero();
        let follow = (!follows).then_some("false");
        let name = parent.as_deref();
        // As for `windlass explain`, the command needs no kubeconfig with --debug-addr.
        let namespace = if name.is_some() { namespace.find(&cluster).await.ok() } else { None };
        let namespace = namespace.as_deref();
        let wanted = [("plugin", Some(plugin.as_str())), ("namespace", namespace), ("name", name), ("follow", follow)];
        let path = path_of("/calls/stream", &wanted);
        let mut lines = host.lines(&cluster, &path, follows).await?;
        let mut summary = Summary::default();
        let longest = if follows { duration.min(LONGEST) } else { LONGEST };
        if follows {
            err!("recording {plugin} for {} s; --for sets another time", longest.as_secs());
        }
        let end = tokio::time::Instant::now() + longest;
        while calls.is_none_or(|calls| summary.calls < calls) {
            let Ok(Some(line)) = tokio::time::timeout_at(end, lines.next()).await else { break };
            record(&line?, &loaded, &mut recorder, &mut summary)?;
        }
        Ok(summary)
    })?;
    summary.print(&digest, &recorder.file);
    Ok(if summary.calls == 0 { ExitCode::from(NOTHING) } else { ExitCode::SUCCESS })
}

/// The source of a Plugin's component.
async fn source_of(plugin: &PluginName, options: &LoadArgs) -> anyhow::Result<ComponentRef> {
    let client = options.cluster.client().await?;
    let missing = || format!("there is no Plugin {plugin}; `kubectl get plugins` lists them");
    let found = super::applied::plugin(&client, plugin).await?.with_context(missing)?;
    match found.spec.source.configured().map_err(anyhow::Error::msg)? {
        ConfiguredSource::ConfigMap(source) => Ok(ComponentRef::ConfigMap(source.clone())),
        ConfiguredSource::Oci(source) => Ok(ComponentRef::Oci(source.reference.parse().map_err(anyhow::Error::msg)?)),
    }
}

/// Repeats a call of the host with its masked request, and writes it.
fn record(line: &[u8], component: &Component, recorder: &mut Recorder, summary: &mut Summary) -> anyhow::Result<()> {
    let Ok(mut entry) = serde_json::from_slice::<RecordedCall>(line) else {
        let error: Value = serde_json::from_slice(line).context("the host sent a line that is not JSON")?;
        match error.get("error").and_then(Value::as_str) {
            Some(message) => bail!("the host ended the recording: {message}"),
            None => bail!("the host sent a line that is not a call: is it of another version?"),
        }
    };
    summary.omitted += u64::from(entry.is_call_omitted);
    let Some(call) = &mut entry.call else { return Ok(()) };
    if call.component != component.digest().to_string() {
        summary.other_components.insert(call.component.clone());
        return Ok(());
    }
    let repeated = repeat(component, call, &for_repetition(&call.limits))?;
    let of_host = std::mem::replace(&mut call.result, repeated.result);
    call.result_digest = Some(repeated.digest);
    if !of_host.differences(&call.result).is_empty() {
        call.host_result = Some(of_host);
        summary.other_results += 1;
    }
    recorder.add(&entry)?;
    summary.calls += 1;
    summary.parents.insert(entry.parent);
    Ok(())
}

impl Summary {
    fn print(&self, digest: &str, file: &Path) {
        let Self { calls, parents, other_results, other_components, omitted } = self;
        if *calls > 0 {
            err!("{calls} calls of {} parents with component {digest} in {}", parents.len(), file.display());
        }
        if *other_results > 0 {
            err!(
                "note: the host got other results in {other_results} calls (hostResult in the file): they depend on random \
                 numbers, whose seed is not recorded, or on the value of a Secret, or they hit a limit of the host that was \
                 not hit here, such as the deadline"
            );
        }
        for other in other_components {
            err!("note: calls of component {other} were left out: to record them, name it with --component");
        }
        if *omitted > 0 {
            err!(
                "note: {omitted} calls were left out, because they were too large for the host's --recent-calls-memory"
            );
        }
        if *calls == 0 {
            err!(
                "error: no call was recorded; change a parent while the command runs, or let it run for longer (--for)"
            );
        }
    }
}
