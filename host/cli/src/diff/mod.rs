//! `windlass diff`: shows what a component would change in a cluster, by dry runs with the user's own permissions.
//! Nothing is written.

mod cluster;
mod external;
mod parents;
mod preview;
mod report;
mod seen;
mod text;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use futures::StreamExt as _;
use windlass_core::value::ids::PluginName;

use self::cluster::Scope;
use self::external::External;
use self::preview::Previewer;
use self::report::Report;
use super::component::ComponentArgs;
use super::connect::{HostNamespaceArgs, NamespaceArgs};

/// Exit code: there are differences. The same as of `kubectl diff`.
const DIFFERENCES: u8 = 1;

/// Number of parents that are previewed at once: enough to hide the round trips, few enough that the API server's fair
/// queues hardly notice.
const PARALLEL_PARENTS: usize = 4;

/// Flags of `windlass diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass diff echo.wasm -n shop
  windlass diff echo.wasm demo -n shop --status
  windlass diff oci://registry.example/team/echo:1.3 -A
  windlass diff echo.wasm -A -l team=blue --config new-config.yaml
  KUBECTL_EXTERNAL_DIFF='diff -u -N -w' windlass diff echo.wasm -A

The component is called for each live parent, as the host calls it: with the live children, the objects that the plugin \
requires, and the config, grants and limits of the installed Plugin of its name; and again with the children as they would \
then be, until nothing changes. Each write that would follow is sent as a dry run, so the API server applies defaults, admission and field ownership, and stores nothing. Your own user \
reads and sends all of this, and needs the permissions for it: get and list of parents, children, related objects and \
Plugins; create and patch of children; mark of Plugins, which the admission policies ask for. Some plugins and flags need more: patch of parents, if their finalizer changes; \
patch of the parents' status, with --status; get of Namespaces, if the Plugin has a namespaceSelector; and for \
cluster-scoped parents, get of the Secret windlass-mark-key in the host's namespace.

Standard output has a unified diff for each object: from the live one, or /dev/null for a new one, to the one after \
the change, or /dev/null for a deleted one. Not shown: managedFields, generation, resourceVersion, creationTimestamp, \
the status of children, and the annotation with the hash of the desired state. Blocked deletions are marked; they wait \
until a user allows them, and are judged over all parents of the command. A parent that is suspended, being deleted or in a namespace that the Plugin does not select is \
left out, with a note; so is the parent NAME if its labels do not match a selector. Random values of the plugin differ \
from those of the host. The caps that the host's flags set (`windlass run --max-memory` and others) are not known here. If \
KUBECTL_EXTERNAL_DIFF is set, that program compares the objects, as for kubectl.

Exit codes:
  0  there is no difference
  1  there are differences
  2  wrong usage
  3  the command failed, or a parent or an object could not be previewed; the messages say why")]
pub struct Args {
    #[command(flatten)]
    component: ComponentArgs,
    /// Name of one parent; default: all parents
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Parents in all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Label selector of the parents
    #[arg(short = 'l', long)]
    selector: Option<String>,
    /// Plugin whose children, config, grants and limits are used; default: the name that the component declares
    #[arg(long, value_name = "NAME")]
    plugin: Option<PluginName>,
    /// The Plugin's new spec.config: a YAML or JSON file; default: that of the installed Plugin
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show the parents as well: their status after the next reconcile
    #[arg(long)]
    status: bool,
    /// Show the values of Secrets instead of masking them
    #[arg(long)]
    show_secrets: bool,
    /// When to use colours; auto: on a terminal, unless `NO_COLOR` is set
    #[arg(long, value_enum, default_value_t = clap::ColorChoice::Auto, value_name = "WHEN")]
    color: clap::ColorChoice,
    #[command(flatten)]
    host: HostNamespaceArgs,
}

/// Shows the differences of all parents.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let external = External::from_environment()?;
    let component = args.component.load()?;
    super::block_on(async {
        let scope = Scope::find(args, component).await?;
        if scope.installed.is_none() {
            let plugin = &scope.plugin;
            err!(
                "note: Plugin {plugin} does not exist: config, grants and limits are the defaults, and the children of other \
                 Plugins are not compared. If the component is for another Plugin, name it with --plugin"
            );
        }
        scope.ungranted.iter().for_each(|note| err!("note: {note}"));
        let parents = parents::list(args, &scope).await?;
        if let (Some(name), true) = (&args.name, parents.selected.is_empty() && parents.notes.is_empty()) {
            let place = scope.namespace.as_deref().map(|namespace| format!(" in namespace {namespace}"));
            bail!("{} {name} does not exist{}", scope.offline.described.kind.kind, place.unwrap_or_default());
        }
        let mut report = Report::new(args, external);
        parents.notes.iter().for_each(|note| err!("note: {note}"));
        let previewer = Previewer::new(args, Arc::new(scope), &parents.selected, parents.children);
        let mut put_off = Vec::new();
        // In the order of the parents, so that two runs can be compared.
        let mut previews =
            futures::stream::iter(parents.selected).map(|parent| previewer.preview(parent)).buffered(PARALLEL_PARENTS);
        while let Some(preview) = previews.next().await {
            if preview.seen.is_put_off() { put_off.push(preview) } else { report.add(preview)? }
        }
        drop(previews);
        let mut previews =
            futures::stream::iter(put_off).map(|preview| previewer.reconcile(preview)).buffered(PARALLEL_PARENTS);
        while let Some(preview) = previews.next().await {
            report.add(preview)?;
        }
        drop(previews);
        report.end(previewer.blocked_at_plugin())
    })
}
