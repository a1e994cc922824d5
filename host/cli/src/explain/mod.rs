//! `windlass explain`: tells what the host did with a parent, and why: the last calls, what changed between them, what the plugin
//! returned, and what was written or not.

mod resource;
mod text;

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::CommandFactory as _;
use clap::error::ErrorKind;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_core::reconcile::recording::{Change, RecordedCall, changes};
use windlass_engine::command::cluster::ClusterArgs;

use super::connect::NamespaceArgs;
use super::host_calls::{HostArgs, path_of};
use super::output::{Report, print_report};
use super::parse_name;

pub use text::lines_of;

/// Exit code: the host knows no recent call of the parent.
const UNKNOWN: u8 = 1;

/// Flags of `windlass explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass explain echo/web
  windlass explain echo web -n shop
  windlass explain echoes.my-operator.dev/web -n shop -o json
  windlass explain echo/web --debug-addr http://127.0.0.1:8081

The newest reconcile comes first. The host keeps five of each parent in memory, those that changed something longer than those \
that did not, as far as `windlass run --recent-calls-memory` allows. A reconcile that had no new inputs makes no call, and is not \
kept. Inputs are compared with those of the call below it. Values of \
Secrets are replaced by markers, as in ‹secret 3fa91c›: two markers differ if the values differ.

Exit codes:
  0  the reconciles were printed
  1  the host has no recent reconcile of the parent; the message says what to do
  2  wrong usage
  3  the command failed; the message says why")]
pub struct Args {
    /// Type of the parent, as kubectl accepts it: kind, singular, plural or short name, with or without the API group; or type and
    /// name
    #[arg(value_name = "TYPE[/NAME]")]
    object: String,
    /// Name of the parent, after a type without a name
    #[arg(value_name = "NAME", value_parser = parse_name)]
    name: Option<String>,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Report,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// The response of a host.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Calls {
    is_on: bool,
    calls: Vec<RecordedCall>,
}

/// A reconcile, and what changed since the call before it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explained {
    /// The inputs that changed since the call before; none if the host has no call before.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<Change>>,
    /// The reconcile.
    reconcile: RecordedCall,
}

/// Prints what the host did with a parent.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let (kind, name) = type_and_name(&args.object, args.name.as_deref())
        .unwrap_or_else(|problem| super::Cli::command().error(ErrorKind::ValueValidation, problem).exit());
    let (mut calls, is_on, namespace) = super::block_on(async {
        // Without a namespace if there is no kubeconfig: with --debug-addr, the command needs none.
        let namespace = args.namespace.find(&args.cluster).await.ok();
        let parent = (namespace.as_deref(), name);
        let (mut calls, is_on) = ask(args, kind, parent).await?;
        if calls.is_empty()
            && let Some(kind) = resource::find(&args.cluster, kind).await?
        {
            (calls, _) = ask(args, &kind, parent).await?;
        }
        Ok((calls, is_on, namespace))
    })?;
    if calls.is_empty() {
        err!("error: {}", unknown(is_on, (kind, name), namespace.as_deref()));
        return Ok(ExitCode::from(UNKNOWN));
    }
    check_one(&calls, &format!("{kind}/{name}"))?;
    // Of several hosts, each had the parent for some time.
    calls.sort_by_key(|call| std::cmp::Reverse((call.at, call.number)));
    let explained = explain(calls);
    print_report(args.output, || text::text(&explained), || json!(explained))?;
    Ok(ExitCode::SUCCESS)
}

/// The calls of all hosts for the parents of a name, and whether any host keeps calls.
async fn ask(
    args: &Args,
    kind: &str,
    (namespace, name): (Option<&str>, &str),
) -> anyhow::Result<(Vec<RecordedCall>, bool)> {
    let path = path_of("/calls", &[("kind", Some(kind)), ("namespace", namespace), ("name", Some(name))]);
    let (mut calls, mut is_on) = (Vec::new(), false);
    for response in args.host.get(&args.cluster, &path).await? {
        let found: Calls =
            serde_json::from_slice(&response).context("the host sent no calls: is it of another version?")?;
        calls.extend(found.calls);
        is_on |= found.is_on;
    }
    Ok((calls, is_on))
}

/// The type and the name of the parent.
fn type_and_name<'a>(object: &'a str, name: Option<&'a str>) -> Result<(&'a str, &'a str), String> {
    match (object.split_once('/'), name) {
        (Some((kind, name)), None) => parse_name(name).map(|_| (kind, name)),
        (None, Some(name)) => Ok((object, name)),
        _ => Err("name one parent, as TYPE NAME or TYPE/NAME".to_owned()),
    }
}

/// Checks that the calls are about one parent, which may be a parent of several Plugins.
fn check_one(calls: &[RecordedCall], parent: &str) -> anyhow::Result<()> {
    let parents = calls.iter().map(|call| &call.parent);
    let of: std::collections::BTreeSet<_> = parents.map(|of| (of.kind.api_version(), &of.kind.kind, &of.key)).collect();
    if of.len() > 1 {
        let names: Vec<_> = of.iter().map(|(version, kind, key)| format!("{version} {kind} {key}")).collect();
        bail!("{parent} is ambiguous: there are {}; name the namespace, or the kind with its group", names.join(", "));
    }
    Ok(())
}

/// Compares each reconcile with the call before it.
fn explain(calls: Vec<RecordedCall>) -> Vec<Explained> {
    let mut explained = Vec::<Explained>::new();
    for reconcile in calls.into_iter().rev() {
        let before = explained.iter().rev().find_map(|earlier| {
            let is_same_plugin = earlier.reconcile.plugin == reconcile.plugin;
            earlier.reconcile.call.as_ref().filter(|_| is_same_plugin)
        });
        let changes = before.zip(reconcile.call.as_ref()).map(|(before, after)| changes(before, after));
        explained.push(Explained { changes, reconcile });
    }
    explained.reverse();
    explained
}

/// What to do if the host has no call of a parent.
fn unknown(is_on: bool, (kind, name): (&str, &str), namespace: Option<&str>) -> String {
    if !is_on {
        return "the host keeps no recent calls; start it with --recent-calls-memory other than 0".to_owned();
    }
    let place = namespace.map_or_else(String::new, |namespace| format!(" in namespace {namespace} (if it has one)"));
    let in_namespace = namespace.map_or_else(String::new, |namespace| format!(" -n {namespace}"));
    format!(
        "the host has no recent reconcile of {kind}/{name}{place}; compare kind and name with `kubectl get {kind} {name}{in_namespace}`. If the \
         object exists, its Plugin has no live component, does not select it, or is suspended (`kubectl get plugins`), or its last \
         calls were dropped from the host's memory, or it is no parent of a plugin: the next change of the object makes a new one, for example `kubectl annotate \
         {kind} {name}{in_namespace} explained-at=\"$(date +%s)\" --overwrite`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_is_named_as_kubectl_accepts_it() {
        for (object, name) in [("echo/web", None), ("echo", Some("web"))] {
            assert_eq!(type_and_name(object, name), Ok(("echo", "web")));
        }
        for (object, name) in [("echo", None), ("echo/web", Some("web")), ("echo/shop/web", None), ("echo/", None)] {
            assert!(type_and_name(object, name).is_err(), "{object} {name:?}");
        }
        assert_eq!(parse_name("shop/web"), Err("write the name alone, and its namespace as -n shop".to_owned()));
    }
}
