//! Delivered bytes → a plugin that may go live, or the first step that it fails.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use kube::core::{ApiResource, GroupVersionKind};
use parking_lot::Mutex;
use windlass_core::budget::Budget;
use windlass_core::contract::LoadFailure;
use windlass_core::digest::Digest;
use windlass_core::guard::Record;
use windlass_core::ids::{Gvk, PluginName};
use windlass_core::names::{LABEL_PLUGIN, plugin_reason as reason};
use windlass_core::object::Object;
use windlass_core::outcome::{BACKOFF, Requeue, UNAVAILABLE, bounded};
use windlass_core::snapshot;
use windlass_core::stance::finalizer_of;
use windlass_core::status::StatusShape;
use windlass_sandbox::Component;

use super::crd::Install;
use super::kinds::Concern;
use super::parent::{NOT_OURS, ParentKind};
use super::rights::Lacking;
use super::settings::Settings;
use super::{Plugins, RESYNC, foresight, grants, parent, rights};
use crate::caps::Capped;
use crate::conduct::Conduct;
use crate::delivery::DeliveryError;
use crate::homes::Homes;
use crate::live::{Definition, Live, Peers, StatusWriter, calls_of_one};
use crate::rights::{Account, AccountError};
use crate::strays::Strays;
use crate::telemetry::{Measures, one_line};
use crate::watch::{Health, Stalled, Watch, WatchId};
use windlass_api::{Place, Plugin, PluginRollout};

/// How long a look at a Plugin waits for the caches of its kinds. A larger cache is heard of when it is filled.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// The steps, as the Plugin's conditions name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The right bytes are here.
    Fetched,
    /// Whoever signed them is trusted.
    Verified,
    /// They compiled and say what they are.
    Compiled,
    /// The kinds exist and may be used.
    Granted,
    /// The host's caches of the kinds follow the API server.
    Synced,
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
    /// The version in which the parent kind is stored, if the component is written for another: logic of that other
    /// version must not go on either.
    pub stored_as: Option<Box<Gvk>>,
    /// When to try again.
    pub requeue: Requeue,
}

impl Problem {
    /// A problem that may pass by itself.
    pub fn new(step: Step, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            step,
            reason,
            // Components choose parts of some messages.
            message: bounded(one_line(&message.into()).into_owned()),
            candidate: None,
            stored_as: None,
            requeue: if reason == reason::API_ERROR { UNAVAILABLE } else { BACKOFF },
        }
    }

    /// A problem that only a change of the Plugin, its source or the cluster can end: looked at again with the resync.
    pub fn lasting(step: Step, reason: &'static str, message: impl Into<String>) -> Self {
        Self { requeue: Requeue::Settled(None), ..Self::new(step, reason, message) }
    }

    /// No problem but that something has yet to come, which will be told.
    pub(super) fn pending(message: String) -> Self {
        Self { requeue: Requeue::WhenChanged, ..Self::new(Step::Fetched, reason::PROGRESSING, message) }
    }

    /// Whether it is none, so far.
    pub(super) fn is_pending(&self) -> bool {
        self.reason == reason::PROGRESSING
    }

    pub(super) fn of(self, candidate: Digest) -> Self {
        Self { candidate: Some(candidate), ..self }
    }
}

/// Nothing was delivered, or nothing that may be taken.
impl From<DeliveryError> for Problem {
    fn from(error: DeliveryError) -> Self {
        let step = if error.is_distrust() { Step::Verified } else { Step::Fetched };
        Self { candidate: error.candidate(), ..Self::new(step, error.reason(), error.to_string()) }
    }
}

impl From<AccountError> for Problem {
    fn from(error: AccountError) -> Self {
        let message = error.to_string();
        match error {
            AccountError::Invalid(_) => Self::lasting(Step::Granted, reason::INVALID_SPEC, message),
            AccountError::Unknown(_) => Self::new(Step::Granted, reason::API_ERROR, message),
        }
    }
}

/// What is worth saying of a plugin that is live.
#[derive(Debug, Clone)]
pub struct Findings {
    /// Kinds that it asks for and was not granted.
    pub not_granted: Vec<String>,
    /// Kinds that it asks to read and was not granted.
    pub not_readable: Vec<String>,
    /// What its ServiceAccount may not do with its children.
    pub lacking: Option<Lacking>,
    /// Which of the kinds that its parents require have a watch that has stalled.
    pub stalled: Option<String>,
    /// What a person went back from.
    pub rolled_back_from: Option<Digest>,
    /// Whether nothing newer has come since.
    pub rolled_back: bool,
    /// Limits that it does not get as its Plugin wants them.
    pub capped: Vec<Capped>,
    /// What it imports and is not served.
    pub unserved: Vec<String>,
    /// The file that it is from, in place of its source.
    pub file: Option<PathBuf>,
    /// Whether the parent kind keeps the host's conditions, or its status is not the host's at all.
    pub conditions_kept: bool,
}

impl Findings {
    pub(super) fn of(live: &Live, plugin: &Plugin, capped: Vec<Capped>, lacking: Option<Lacking>) -> Self {
        let descriptor = live.component.descriptor();
        let not_readable = descriptor.related.iter().filter(|kind| !live.reads.grants.holds(kind));
        Self {
            not_granted: grants::withheld(descriptor, plugin).iter().map(ToString::to_string).collect(),
            not_readable: not_readable.map(ToString::to_string).collect(),
            lacking,
            stalled: None,
            capped,
            rolled_back_from: None,
            rolled_back: false,
            file: None,
            unserved: live.component.surface().unknown_imports.clone(),
            conditions_kept: live.status_writer == StatusWriter::Denied
                || !live.owns_kind()
                || live.shape.conditions && live.shape.observed_generation,
        }
    }
}

/// The one component that the Plugin takes, if it says so.
pub(super) fn pinned(plugin: &Plugin) -> Result<Option<Digest>, Problem> {
    let invalid = |error| Problem::lasting(Step::Fetched, reason::INVALID_SPEC, format!("spec.digest: {error}"));
    plugin.spec.digest.as_ref().map(|text| text.parse::<Digest>().map_err(invalid)).transpose()
}

/// The one place that the Plugin's component comes from.
pub(super) fn place(plugin: &Plugin) -> Result<Place<'_>, Problem> {
    let invalid = |error| Problem::lasting(Step::Fetched, reason::INVALID_SPEC, error);
    plugin.spec.source.place().map_err(invalid)
}

/// Delivered bytes → logic that can be called. Blocks no runtime thread: compiling waits for a child process, mapping
/// and describing run the guest.
pub(super) async fn map(plugins: &Plugins, digest: Digest, bytes: Vec<u8>) -> Result<Arc<Component>, Problem> {
    let (sandbox, began) = (plugins.sandbox.clone(), Instant::now());
    let mapped = tokio::task::spawn_blocking(move || sandbox.load(&bytes))
        .await
        .map_err(|error| Problem::new(Step::Compiled, reason::COMPILE_INTERRUPTED, error.to_string()))
        .and_then(|mapped| mapped.map_err(|failure| unloadable(&failure, began.elapsed())));
    mapped.map_err(|problem| problem.of(digest))
}

/// What a component that could not be loaded is to its Plugin, after the time that it took to find that out.
fn unloadable(failure: &LoadFailure, took: Duration) -> Problem {
    let (reason, message) = (load_reason(failure), failure.to_string());
    if failure.is_of_component() {
        return Problem::lasting(Step::Compiled, reason, message);
    }
    if let LoadFailure::Interrupted { wait, .. } = failure {
        return Problem { requeue: Requeue::Backoff(*wait), ..Problem::new(Step::Compiled, reason, message) };
    }
    // One that takes minutes to fail must leave most of the compiler's time to others.
    let rest = took.saturating_mul(4).min(RESYNC);
    Problem { requeue: Requeue::Backoff(rest), ..Problem::new(Step::Compiled, reason, message) }
}

/// Logic that was compiled before, if it can still be called.
pub(super) async fn find(plugins: &Plugins, digest: Digest) -> Option<Arc<Component>> {
    let sandbox = plugins.sandbox.clone();
    tokio::task::spawn_blocking(move || sandbox.find(digest)).await.ok().flatten()
}

/// Grants and watches: what would be live, built on the cluster as it is now. Where nothing changed, its watches are the
/// very ones that are live. With it comes what of its limits is capped.
pub(super) async fn prepare(
    plugins: &Plugins,
    name: &PluginName,
    plugin: &Plugin,
    component: Arc<Component>,
) -> Result<(Live, Vec<Capped>), Problem> {
    let invalid = |message: String| Problem::lasting(Step::Granted, reason::INVALID_SPEC, message);
    let descriptor = component.descriptor();
    let (limits, capped) = plugins.caps.hold(&plugin.spec.limits.resolve().map_err(invalid)?);
    let settings = Settings::of(plugin, descriptor).map_err(invalid)?;
    let config = config_of(plugin).map_err(|error| invalid(format!("spec.config: {error}")))?;
    let account = plugins.accounts.of(name, plugin.spec.service_account_name.as_deref()).await?;
    let live = plugins.registry.get(name);
    // Before anything is looked up: what changes from here on has the Plugin looked at once more.
    let mut waiting = Concern {
        definitions: HashSet::new(),
        groups: parent::groups_of(descriptor),
        waits: true,
        watches: live.iter().flat_map(|live| live.watches()).map(|watch| watch.id.clone()).collect(),
    };
    plugins.kinds.follow(name, waiting.clone());
    if let Some(live) = live.as_ref().filter(|live| live.digest() != component.digest()) {
        foresight::check(plugins, plugin, descriptor, (live, &account), &mut waiting).await?;
    }
    let parent = parent::resolve(plugins, name, descriptor, Install::by(&plugin.spec, component.digest())).await?;
    // Its definition may have been installed just now: whatever becomes of this logic, older logic must not go on.
    plugins.withdraw(name, &parent.kind);
    let home = account.home();
    let mark_key = if parent.namespaced { None } else { Some(plugins.mark_keys.get().await?.clone()) };
    let granted = grants::resolve(&plugins.discovery, descriptor, plugin, parent.namespaced, &home).await?;
    let reads = grants::resolve_reads(&plugins.discovery, descriptor, plugin, &home).await?;
    // Logic that no longer finalizes takes it off what has left the selector, too.
    let may_be_set = descriptor.finalizes
        || live.as_ref().is_some_and(|live| live.finalizes || live.parents.id.finalizer.is_some())
        || plugin.status.as_ref().and_then(|status| status.set_finalizers) == Some(true);
    let finalizer = may_be_set.then(|| finalizer_of(name));
    let selector = parent.selector.as_deref();
    let parents = plugins.watches.lease_parents(&parent.kind, &parent.resource, selector, finalizer);
    let children: Vec<_> = granted
        .resources
        .iter()
        .map(|(kind, resource)| plugins.watches.lease(kind, resource, Some(LABEL_PLUGIN)))
        .collect();
    let homes = homes(plugins, plugin).map_err(invalid)?;
    let watches = std::iter::once(&parents).chain(homes.iter().map(|homes| &homes.watch)).chain(&children);
    let leased: Vec<_> = watches.cloned().collect();
    waiting.watches.extend(leased.iter().map(|watch| watch.id.clone()));
    plugins.kinds.follow(name, waiting);
    // Held beyond a failure: a refused watch goes on trying, and says when it is let in.
    plugins.hold(name, leased.clone());
    // Of several that fail always the same is told: another message would be another write of the status.
    for result in join_all(leased.iter().map(|watch| synced(watch, Arc::ptr_eq(watch, &parents)))).await {
        result?;
    }
    let (status_writer, shape) = status_writer(plugins, &account, &parent, (&parents, homes.as_ref())).await?;
    let strays = Arc::new(Strays::new(name, &parents.id, parent.namespaced, mark_key.clone()));
    strays.search(&parents.store, children.iter());
    let logic = {
        let surface = component.surface();
        snapshot::logic(&surface.contract, &surface.digest, config.as_deref(), &granted.grants.kinds())
    };
    let slots = || Arc::new(tokio::sync::Semaphore::new(calls_of_one()));
    let budget = || Arc::new(Mutex::new(Budget::new(jiff::Timestamp::now())));
    let mut prepared = Live {
        name: name.clone(),
        logic,
        rules: snapshot::rules(&granted.grants, &limits, shape),
        version: descriptor.version.clone(),
        parents,
        strays,
        shape,
        status_writer,
        definition: parent.definition,
        children: children.into_iter().map(|watch| (watch.id.kind.group_kind(), watch)).collect(),
        grants: granted.grants,
        finalizes: descriptor.finalizes,
        suspended: settings.suspended,
        account,
        homes,
        peers: Peers(plugins.own.clone()),
        adopts: settings.adopts,
        reads,
        config,
        limits,
        resync: settings.resync,
        concurrency: settings.concurrency,
        tally: plugins.tally(name),
        call_slots: live.as_ref().map_or_else(slots, |live| live.call_slots.clone()),
        budget: live.as_ref().map_or_else(budget, |live| live.budget.clone()),
        guard: settings.guard,
        held: plugins.held_parents(name),
        memo: plugins.memo(name),
        conduct: live.as_ref().map_or_else(|| Arc::new(Conduct::none()), |live| live.conduct.clone()),
        mark_key,
        measures: Arc::new(Measures::of(name, &descriptor.metrics)),
        component,
    };
    // What was learnt of what is live says nothing of other logic, or of other kinds.
    let conduct = match &live {
        Some(live) if live.decides_like(&prepared) => None,
        Some(live) => {
            let (before, was_held) = (live.conduct.record_of_rollout(), live.conduct.hold());
            Some(Conduct::begin(&prepared, Some(&before), was_held.as_deref()))
        }
        None => Some(Conduct::begin(&prepared, rollout_before(plugin).as_ref(), was_held(plugin))),
    };
    if let Some(conduct) = conduct {
        prepared.conduct = Arc::new(conduct);
    }
    Ok((prepared, capped))
}

/// As whom the status of parents is written, and which of the host's fields it has then.
async fn status_writer(
    plugins: &Plugins,
    account: &Account,
    parent: &ParentKind,
    (parents, homes): (&Watch, Option<&Homes>),
) -> Result<(StatusWriter, StatusShape), Problem> {
    if !parent.shape.subresource {
        return Ok((StatusWriter::Nobody, parent.shape));
    }
    if parent.definition == Definition::Own {
        return Ok((StatusWriter::Host, parent.shape));
    }
    let is_home = |parent: &Object| homes.is_none_or(|homes| homes.hold(parent) == Some(true));
    let home = |parent: &Object| parent.key.namespace.clone().filter(|_| is_home(parent));
    let homes = || parents.store.pick(home).into_iter().collect();
    let kind = (&parent.kind, &parent.resource, parent.namespaced);
    Ok(if rights::may_write_status(&plugins.ask, account, &homes, kind).await? {
        (StatusWriter::Account, parent.shape)
    } else {
        (StatusWriter::Denied, NOT_OURS)
    })
}

/// `spec.config`, as it is handed to the plugin.
fn config_of(plugin: &Plugin) -> serde_json::Result<Option<Arc<[u8]>>> {
    plugin.spec.config.as_ref().map(|config| serde_json::to_vec(config).map(Into::into)).transpose()
}

/// Where its parents may be.
fn homes(plugins: &Plugins, plugin: &Plugin) -> Result<Option<Homes>, String> {
    let Some(wanted) = &plugin.spec.namespace_selector else { return Ok(None) };
    let invalid = |error: &dyn std::fmt::Display| format!("spec.namespaceSelector: {error}");
    let selector = kube::core::Selector::try_from(wanted.clone()).map_err(|error| invalid(&error))?;
    let selector = selector.to_string().parse().map_err(|error| invalid(&error))?;
    let kind = Gvk::from_api_version("v1", "Namespace");
    let named = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
    let resource = ApiResource::from_gvk_with_plural(&named, "namespaces");
    Ok(Some(Homes::new(selector, plugins.watches.lease(&Arc::new(kind), &resource, None))))
}

/// What a plugin rests on once it is live.
pub(super) fn concern_of(live: &Live) -> Concern {
    let read = live.reads.resources.values().map(|resource| &**resource);
    let resources = live.watches().map(|watch| &watch.resource).chain(read);
    Concern {
        definitions: resources
            .filter(|resource| !resource.group.is_empty())
            .map(|resource| format!("{}.{}", resource.plural, resource.group))
            .collect(),
        groups: HashSet::new(),
        waits: false,
        watches: live.watches().map(|watch| watch.id.clone()).collect(),
    }
}

/// What an earlier process said of held deletions, or logic that is live no longer.
pub(super) fn was_held(plugin: &Plugin) -> Option<&str> {
    plugin.status.as_ref()?.blocked_deletions_hash.as_deref()
}

/// What an earlier process wrote down of its rollout.
fn rollout_before(plugin: &Plugin) -> Option<Record> {
    plugin.status.as_ref()?.rollout.as_ref().map(PluginRollout::record)
}

fn load_reason(failure: &LoadFailure) -> &'static str {
    match failure {
        LoadFailure::NotAComponent { .. } => reason::NOT_A_COMPONENT,
        LoadFailure::UnsupportedContract { .. } => reason::UNSUPPORTED_CONTRACT,
        LoadFailure::TooLarge { .. } | LoadFailure::Compile { .. } => reason::COMPILE_FAILED,
        LoadFailure::Compiler { .. } | LoadFailure::Interrupted { .. } | LoadFailure::Cache { .. } => {
            reason::COMPILE_INTERRUPTED
        }
        LoadFailure::Describe(_) => reason::INVALID_DESCRIPTOR,
    }
}

/// Waits for a cache: before it is filled, existing children would look as if they were missing.
pub(super) async fn synced(watch: &Watch, is_parent: bool) -> Result<(), Problem> {
    let synced = watch.synced(SYNC_TIMEOUT).await;
    match (synced, watch.stalled()) {
        (Ok(()) | Err(Health::Starting | Health::Synced), Some(stalled)) => {
            let message = format!("{}. {WHILE_STALLED}", told_of(&watch.id.kind, &stalled));
            Err(Problem::new(Step::Synced, reason::WATCH_STALLED, message))
        }
        (Ok(()), None) => Ok(()),
        (Err(health), _) => Err(unsynced(&watch.id, &health, is_parent)),
    }
}

/// What a user does about a kind of the plugin's own that is not followed.
const WHILE_STALLED: &str = "Until it makes progress, no parent of this Plugin is reconciled: what the host knows of the \
                             kind may be out of date. Check the API server and the network between it and the host; for a \
                             custom kind also its conversion webhook";

/// What is wrong with the watch of a kind.
pub(super) fn told_of(kind: &Gvk, stalled: &Stalled) -> String {
    format!("the host's watch of {kind} has stalled: {stalled}")
}

fn unsynced(watch: &WatchId, health: &Health, is_parent: bool) -> Problem {
    let WatchId { kind, labels, .. } = watch;
    let (reason, message) = match health {
        Health::Refused { code: 404, message } => {
            let reason = if is_parent { reason::PARENT_KIND_MISSING } else { reason::CHILD_KIND_MISSING };
            (reason, format!("{kind} cannot be watched: {message}"))
        }
        Health::Refused { code: 400, message } => {
            let selector = labels.as_deref().unwrap_or_default();
            let message = format!("{kind} with the selector {selector:?} cannot be watched: {message}");
            (reason::INVALID_DESCRIPTOR, message)
        }
        Health::Refused { message, .. } => (
            reason::FORBIDDEN,
            format!(
                "the host may not watch {kind}: {message}. Grant it with an aggregated ClusterRole, as `windlass push \
                 --create-rbac` writes it"
            ),
        ),
        Health::Starting | Health::Synced => (
            reason::API_ERROR,
            format!("the cache of {kind} was not filled within {} s; it goes on", SYNC_TIMEOUT.as_secs()),
        ),
    };
    let step = if matches!(health, Health::Refused { .. }) { Step::Granted } else { Step::Synced };
    Problem::new(step, reason, message)
}

/// Kinds of a plugin and how the API server names them.
pub(super) type Resources = Vec<(Arc<Gvk>, ApiResource)>;

#[cfg(test)]
mod tests {
    use windlass_core::contract::CallFailure;

    use super::*;

    #[test]
    fn what_may_be_the_machines_fault_is_tried_again_and_the_more_seldom_the_more_it_costs() {
        let requeue = |failure, took| unloadable(&failure, Duration::from_secs(took)).requeue;
        let message = || "said".to_owned();
        for failure in [
            LoadFailure::NotAComponent { message: message() },
            LoadFailure::UnsupportedContract { found: message() },
            LoadFailure::TooLarge { size: 2, limit: 1 },
            LoadFailure::Compile { message: message() },
            LoadFailure::Describe(CallFailure::Trap { message: message() }),
        ] {
            assert_eq!(requeue(failure.clone(), 1), Requeue::Settled(None), "{failure}");
        }
        let deadline = CallFailure::Deadline { limit: Duration::from_secs(10) };
        for (failure, took, rest) in [
            (LoadFailure::Cache { message: message() }, 0, 0),
            (LoadFailure::Compiler { message: message() }, 120, 480),
            (LoadFailure::Compiler { message: message() }, 200, 600),
            (LoadFailure::Interrupted { attempts: 2, next: 0, wait: Duration::from_mins(1) }, 0, 60),
            (LoadFailure::Describe(deadline), 10, 40),
            (LoadFailure::Describe(CallFailure::Host { message: message() }), 0, 0),
        ] {
            let wanted = Requeue::Backoff(Duration::from_secs(rest));
            assert_eq!(requeue(failure.clone(), took), wanted, "{failure}");
        }
    }

    #[test]
    fn cache_that_is_not_filled_in_time_is_not_a_lack_of_permissions() {
        let watch = WatchId { kind: Arc::new(Gvk::from_api_version("v1", "Pod")), labels: None, finalizer: None };
        let problem = unsynced(&watch, &Health::Starting, false);
        assert_eq!((problem.step, problem.reason), (Step::Synced, reason::API_ERROR));
    }

    #[test]
    fn dynamic_a_refused_watch_says_what_a_person_has_to_change() {
        let watch = WatchId {
            kind: Arc::new(Gvk::from_api_version("v1", "Pod")),
            labels: Some("a==b==c".to_owned()),
            finalizer: None,
        };
        let said = |code, is_parent| {
            unsynced(&watch, &Health::Refused { code, message: "said the API server".to_owned() }, is_parent)
        };
        for (code, is_parent, reason, message) in [
            (404, true, "ParentKindMissing", "Pod.v1 cannot be watched"),
            (404, false, "ChildKindMissing", "Pod.v1 cannot be watched"),
            (403, true, "Forbidden", "--create-rbac"),
            (400, true, "InvalidDescriptor", "a==b==c"),
        ] {
            let problem = said(code, is_parent);
            assert_eq!((problem.reason, problem.step), (reason, Step::Granted));
            assert!(problem.message.contains(message) && problem.message.contains("said the API server"));
            assert_eq!(problem.requeue, Requeue::Backoff(Duration::ZERO), "it is tried again");
        }
    }
}
