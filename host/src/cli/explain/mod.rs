//! `windlass explain`: tells what the host did with a parent, and why: the last calls, what changed between them, what the plugin
//! returned, and what was written or not.

mod resource;
mod text;

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_core::recording::{Change, RecordedCall, changes};

use super::connect::ClusterArgs;
use super::host_calls::{HostArgs, path_of};
use super::output::{Format, print, write};

pub use text::lines_of;

/// Exit code: the host knows no recent call of the parent.
const UNKNOWN: u8 = 1;

/// Flags of `windlass explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass explain echo shop/web
  windlass explain echo web -n shop
  windlass explain echoes.my-operator.dev shop/web -o json
  windlass explain echo shop/web --debug-addr http://127.0.0.1:8081

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
    /// Kind of the parent, as kubectl accepts it: kind, singular, plural or short name, with or without the API group
    #[arg(value_name = "KIND")]
    kind: String,
    /// Name of the parent
    #[arg(value_name = "[NAMESPACE/]NAME")]
    name: String,
    /// Namespace of the parent
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// Text for people
    Text,
    /// JSON
    Json,
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
    let (namespace, name) = namespace_and_name(&args.name, args.namespace.as_deref())?;
    let parent =
        format!("{} {}{name}", args.kind, namespace.map_or_else(String::new, |namespace| format!("{namespace}/")));
    let (mut calls, is_on) = super::block_on(ask(args, &args.kind, (namespace, name)))?;
    if calls.is_empty()
        && let Some(kind) = super::block_on(resource::find(&args.cluster, &args.kind))?
    {
        (calls, _) = super::block_on(ask(args, &kind, (namespace, name)))?;
    }
    if calls.is_empty() {
        err!("error: {}", unknown(&parent, is_on, args, (namespace, name)));
        return Ok(ExitCode::from(UNKNOWN));
    }
    check_one(&calls, &parent)?;
    // Of several hosts, each had the parent for some time.
    calls.sort_by_key(|call| std::cmp::Reverse((call.at, call.number)));
    let explained = explain(calls);
    match args.output {
        Output::Text => write(&text::text(&explained))?,
        Output::Json => print(&json!(explained), Format::Json)?,
    }
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

/// The namespace and the name of the parent.
fn namespace_and_name<'a>(name: &'a str, namespace: Option<&'a str>) -> anyhow::Result<(Option<&'a str>, &'a str)> {
    match (name.split_once('/'), namespace) {
        (Some((of_name, _)), Some(other)) if of_name != other => {
            bail!("{name} is in namespace {of_name}, but --namespace is {other}; leave out one of the two")
        }
        (Some((namespace, name)), _) => Ok((Some(namespace), name)),
        (None, namespace) => Ok((namespace, name)),
    }
}

/// Checks that the calls are about one parent, which may be a parent of several Plugins.
fn check_one(calls: &[RecordedCall], parent: &str) -> anyhow::Result<()> {
    let of: std::collections::BTreeSet<_> = calls.iter().map(|call| &call.parent).collect();
    if of.len() > 1 {
        let names: Vec<_> = of.iter().map(|parent| format!("{} {parent}", parent.api_version)).collect();
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
fn unknown(parent: &str, is_on: bool, args: &Args, (namespace, name): (Option<&str>, &str)) -> String {
    if !is_on {
        return "the host keeps no recent calls; start it with --recent-calls-memory other than 0".to_owned();
    }
    let in_namespace = namespace.map_or_else(String::new, |namespace| format!(" -n {namespace}"));
    let kind = &args.kind;
    format!(
        "the host has no recent reconcile of {parent}; compare kind and name with `kubectl get {kind} {name}{in_namespace}`. If the \
         object exists, its Plugin has no live component, does not select it, or is suspended (`kubectl get plugins`), or its last \
         calls were dropped from the host's memory: the next change of the object makes a new one, for example `kubectl annotate \
         {kind} {name}{in_namespace} explained-at=\"$(date +%s)\" --overwrite`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_is_given_with_the_name_or_by_its_flag() {
        let found = |name, namespace| namespace_and_name(name, namespace).ok();
        assert_eq!(found("shop/web", None), Some((Some("shop"), "web")));
        assert_eq!(found("web", Some("shop")), Some((Some("shop"), "web")));
        assert_eq!(found("web", None), Some((None, "web")));
        assert_eq!(found("shop/web", Some("shop")), Some((Some("shop"), "web")));
        assert_eq!(found("shop/web", Some("other")), None, "the flag is not ignored");
    }
}
