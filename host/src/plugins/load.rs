//! Delivered bytes → a plugin that may go live, or the first step that it fails.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use windlass_core::contract::{Descriptor, LoadFailure, Parent, UpdateStrategy};
use windlass_core::desired::asked_wait;
use windlass_core::digest::Digest;
use windlass_core::guard::DeletionGuard;
use windlass_core::ids::PluginName;
use windlass_core::names::{LABEL_PLUGIN, plugin_reason as reason};
use windlass_core::outcome::Requeue;

use super::{Plugins, crd, grants};
use crate::api::{Plugin, positive};
use crate::conduct::Conduct;
use crate::delivery::{self, Delivered};
use crate::live::{Live, call_slots_of_one_plugin};
use crate::watch::{Health, Watch};

/// How long filling the caches of a plugin's kinds may take before the Plugin says so.
const SYNC_TIMEOUT: Duration = Duration::from_mins(1);
/// Resync of a plugin that names none.
const DEFAULT_RESYNC: Duration = Duration::from_mins(10);

/// The steps, as the Plugin's conditions name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The right bytes are here.
    Fetched,
    /// They compiled and say what they are.
    Compiled,
    /// The kinds exist and may be used.
    Granted,
}

/// Why a step failed.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The step.
    pub step: Step,
    /// Reason for the condition.
    pub reason: &'static str,
    /// Message for the condition.
    pub message: String,
    /// Digest of what was delivered, if that is known.
    pub candidate: Option<Digest>,
    /// When to try again.
    pub requeue: Requeue,
}

impl Problem {
    /// A problem that may pass by itself.
    pub fn new(step: Step, reason: &'static str, message: impl Into<String>) -> Self {
        Self { step, reason, message: message.into(), candidate: None, requeue: Requeue::Backoff(Duration::ZERO) }
    }

    /// A problem that only a change of the Plugin, its source or the cluster can end: looked at again with the resync.
    pub fn lasting(step: Step, reason: &'static str, message: impl Into<String>) -> Self {
        Self { requeue: Requeue::Settled(None), ..Self::new(step, reason, message) }
    }

    fn of(self, candidate: Digest) -> Self {
        Self { candidate: Some(candidate), ..self }
    }
}

/// What is worth saying of a plugin that is live.
#[derive(Debug, Clone)]
pub struct Findings {
    /// Kinds that it asks for and was not granted.
    pub not_granted: Vec<String>,
    /// Kinds that it asks to read and was not granted.
    pub not_readable: Vec<String>,
    /// Whether the parent kind keeps the host's conditions.
    pub conditions_kept: bool,
}

impl Findings {
    pub(super) fn of(live: &Live, plugin: &Plugin) -> Self {
        let descriptor = live.component.descriptor();
        let not_readable = descriptor.related.iter().filter(|kind| !live.reads.grants.holds(kind));
        Self {
            not_granted: grants::withheld(descriptor, plugin).iter().map(ToString::to_string).collect(),
            not_readable: not_readable.map(ToString::to_string).collect(),
            conditions_kept: live.shape.conditions && live.shape.observed_generation,
        }
    }
}

/// Fetches what the Plugin names.
pub(super) async fn deliver(client: &Client, plugin: &Plugin) -> Result<Delivered, Problem> {
    let invalid = |message: String| Problem::lasting(Step::Fetched, reason::INVALID_SPEC, message);
    let pinned: Option<Digest> = match &plugin.spec.digest {
        Some(text) => Some(text.parse().map_err(|error| invalid(format!("spec.digest: {error}")))?),
        None => None,
    };
    delivery::fetch(client, &plugin.spec.source.config_map, pinned).await.map_err(|error| Problem {
        candidate: error.candidate(),
        ..Problem::new(Step::Fetched, error.reason(), error.to_string())
    })
}

/// Compiles, grants and watches.
pub(super) async fn load(
    plugins: &Plugins,
    name: &PluginName,
    plugin: &Plugin,
    delivered: Delivered,
) -> Result<Live, Problem> {
    let digest = delivered.digest;
    prepare(plugins, name, plugin, delivered).await.map_err(|problem| problem.of(digest))
}

async fn prepare(plugins: &Plugins, name: &PluginName, plugin: &Plugin, delivered: Delivered) -> Result<Live, Problem> {
    let invalid = |message: String| Problem::lasting(Step::Granted, reason::INVALID_SPEC, message);
    let sandbox = plugins.sandbox.clone();
    // Compiling waits for a child process; mapping and describing run the guest.
    let loading = tokio::task::spawn_blocking(move || sandbox.load(&delivered.bytes));
    let component = loading
        .await
        .map_err(|error| Problem::new(Step::Compiled, reason::COMPILE_FAILED, error.to_string()))?
        .map_err(|failure| Problem::lasting(Step::Compiled, load_reason(&failure), failure.to_string()))?;
    let descriptor = component.descriptor();
    served(descriptor)?;
    let limits = plugin.spec.limits.resolve().map_err(|message| invalid(format!("spec.limits: {message}")))?;
    let resync = match &plugin.spec.resync {
        Some(resync) => positive(resync, "resync").map_err(invalid)?,
        None => descriptor.resync.map_or(DEFAULT_RESYNC, asked_wait),
    };
    let config = match &plugin.spec.config {
        Some(config) => {
            Some(serde_json::to_vec(config).map_err(|error| invalid(format!("spec.config: {error}")))?.into())
        }
        None => None,
    };
    let parent = crd::resolve(&plugins.client, name, descriptor, plugin.spec.install_crd).await?;
    let granted = grants::resolve(&plugins.client, descriptor, plugin, parent.namespaced).await?;
    let reads = grants::resolve_reads(&plugins.client, descriptor, plugin).await?;
    let parents = plugins.watches.lease(&parent.kind, &parent.resource, None);
    let children: HashMap<_, _> = granted
        .resources
        .iter()
        .map(|(kind, resource)| (kind.group_kind(), plugins.watches.lease(kind, resource, Some(LABEL_PLUGIN))))
        .collect();
    for watch in std::iter::once(&parents).chain(children.values()) {
        synced(watch).await?;
    }
    let guard = DeletionGuard::default();
    let logic = (component.digest(), config.as_deref());
    let conduct = Conduct::begin(name, logic, guard, &parents, children.values(), was_held(plugin));
    Ok(Live {
        name: name.clone(),
        version: descriptor.version.clone(),
        parents,
        shape: parent.shape,
        children,
        grants: granted.grants,
        finalizes: descriptor.finalizes,
        suspended: false,
        reads,
        config,
        limits,
        resync,
        concurrency: usize::try_from(plugin.spec.concurrency).unwrap_or(1).max(1),
        call_slots: call_slots_of_one_plugin(),
        guard,
        conduct: Arc::new(conduct),
        component,
    })
}

/// Whether the Plugin's status says that deletions are held: what an earlier process knew.
fn was_held(plugin: &Plugin) -> bool {
    let conditions = plugin.status.iter().flat_map(|status| &status.conditions).flatten();
    conditions.map(|condition| &condition.reason).any(|said| said == reason::DELETION_HELD)
}

fn load_reason(failure: &LoadFailure) -> &'static str {
    match failure {
        LoadFailure::NotAComponent { .. } => reason::NOT_A_COMPONENT,
        LoadFailure::WrongContract { .. } => reason::WRONG_CONTRACT,
        LoadFailure::TooLarge { .. } | LoadFailure::Compile { .. } | LoadFailure::Cache { .. } => {
            reason::COMPILE_FAILED
        }
        LoadFailure::Describe(_) => reason::INVALID_DESCRIPTOR,
    }
}

/// Refuses what this host does not serve yet: half of a plugin's wishes would be worse than none.
fn served(descriptor: &Descriptor) -> Result<(), Problem> {
    let rolling = descriptor.children.iter().any(|rule| matches!(rule.update, UpdateStrategy::Rolling { .. }));
    let wish = match descriptor {
        Descriptor { parent: Parent::Existing { .. }, .. } => "parents of an existing kind",
        _ if rolling => "the update strategy `rolling`",
        _ => return Ok(()),
    };
    let message = format!("the component asks for {wish}, which this version of Windlass does not serve");
    Err(Problem::lasting(Step::Granted, reason::UNSUPPORTED, message))
}

/// Waits for a cache: before it is filled, existing children would look as if they were missing.
async fn synced(watch: &Watch) -> Result<(), Problem> {
    watch.synced(SYNC_TIMEOUT).await.map_err(|health| match health {
        Health::Refused { code: 404, message } => Problem::new(
            Step::Granted,
            reason::CHILD_KIND_MISSING,
            format!("{} cannot be watched: {message}", watch.id.kind),
        ),
        Health::Refused { message, .. } => Problem::new(
            Step::Granted,
            reason::FORBIDDEN,
            format!(
                "the host may not watch {}: {message}. Grant it with an aggregated ClusterRole, as `windlass push \
                 --create-rbac` writes it",
                watch.id.kind
            ),
        ),
        Health::Starting | Health::Synced => Problem::new(
            Step::Granted,
            reason::API_ERROR,
            format!("the cache of {} was not filled within {} s", watch.id.kind, SYNC_TIMEOUT.as_secs()),
        ),
    })
}

/// Kinds of a plugin and how the API server names them.
pub(super) type Resources = Vec<(Arc<windlass_core::ids::Gvk>, kube::core::ApiResource)>;
