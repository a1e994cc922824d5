//! Turns delivered bytes into a plugin that may go live, or returns the first failed step.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::core::{ApiResource, GroupVersionKind};
use parking_lot::Mutex;
use windlass_api::{Plugin, PluginRollout, PluginStatus};
use windlass_core::contract::declared_parent::DeclaredParent;
use windlass_core::contract::offer::Offer;
use windlass_core::contract::snapshot;
use windlass_core::contract::{Json, Limits, LoadFailure, Parent};
use windlass_core::guard::budget::Budget;
use windlass_core::guard::deletions::RolloutRecord;
use windlass_core::object::mark::MarkKey;
use windlass_core::object::names::LABEL_PLUGIN;
use windlass_core::object::observed_status::StatusShape;
use windlass_core::object::reason::PluginReason;
use windlass_core::plugin::config;
use windlass_core::reconcile::next_step::CleanUp;
use windlass_core::reconcile::outcome::Requeue;
use windlass_core::reconcile::shared::Shared;
use windlass_core::reconcile::shared::component_state::{ComponentState, Decisions};
use windlass_core::reconcile::terms::{Settings, StatusWriter, Terms};
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::{Gvk, PluginName};
use windlass_delivery::blocking;
use windlass_sandbox::Component;

use super::caches::synced;
use super::caps::Capped;
use super::crd::ParentKind;
use super::grants::Granted;
use super::kinds::Concern;
use super::problem::{Problem, RESYNC, Step, invalid_descriptor};
use super::resource::config_of;
use super::settings::settings_of;
use super::shared::Plugins;
use super::{grants, parent, permissions};
use crate::clock::{self, CLOCK};
use crate::cluster::account::Account;
use crate::cluster::watch::Watch;
use crate::live::namespace_filter::NamespaceFilter;
use crate::live::unselected::Unselected;
use crate::live::{Caches, Calls, CrdOwner, GrantedReads, Live, Peers};
use crate::telemetry::{self, Controller, Measures};

/// Compiles and maps a component. Runs outside the runtime's threads: compiling waits for a child process, mapping
/// reads a file, and `describe` runs the guest.
pub(super) async fn map(plugins: &Plugins, digest: Digest, bytes: Vec<u8>) -> Result<Arc<Component>, Problem> {
    let (sandbox, began) = (plugins.sandbox.clone(), clock::now());
    let mapped = blocking(move || sandbox.load(&bytes))
        .await
        .map_err(|error| Problem::new(Step::Compiled, PluginReason::CompileInterrupted, error.to_string()))
        .and_then(|mapped| mapped.map_err(|failure| unloadable(&failure, clock::since(began))));
    telemetry::loaded(clock::since(began));
    mapped.map_err(|problem| problem.of(digest))
}

/// The problem of a component that could not be loaded. `took` is the time until the failure.
fn unloadable(failure: &LoadFailure, took: Duration) -> Problem {
    let (reason, message) = (load_reason(failure), failure.to_string());
    let requeue = match failure {
        _ if failure.is_of_component() => Requeue::Settled(None),
        LoadFailure::Interrupted { wait, .. } => Requeue::Backoff(*wait),
        // A component that fails after minutes must leave most of the compiler's time to others.
        _ => Requeue::Backoff(took.saturating_mul(4).min(RESYNC)),
    };
    Problem { requeue, ..Problem::new(Step::Compiled, reason, message) }
}

/// A component that was compiled before, if its compiled file is still usable.
pub(super) async fn find(plugins: &Plugins, digest: Digest) -> Option<Arc<Component>> {
    let sandbox = plugins.sandbox.clone();
    blocking(move || sandbox.find(digest)).await.ok().flatten()
}

/// The parts of a Plugin's spec for one component, validated without looking up kinds.
struct Checked {
    limits: Limits,
    capped: Vec<Capped>,
    settings: Settings,
    config: Option<Arc<[u8]>>,
    account: Account,
}

/// The kinds of a component as the cluster serves them, and the plugin's grants.
struct Resolved {
    parent: ParentKind,
    granted: Granted,
    reads: GrantedReads,
}

/// The watches of a component's kinds, with filled caches.
struct Filled {
    parents: Arc<Watch>,
    children: Vec<Arc<Watch>>,
    namespaces: Option<NamespaceFilter>,
}

/// A component that a Plugin may get.
pub(super) struct Loading<'a> {
    pub plugins: &'a Plugins,
    pub name: &'a PluginName,
    pub plugin: &'a Plugin,
    pub component: Arc<Component>,
    pub declared: DeclaredParent,
}

impl<'a> Loading<'a> {
    pub fn of(
        plugins: &'a Plugins,
        name: &'a PluginName,
        plugin: &'a Plugin,
        component: Arc<Component>,
    ) -> Result<Self, Problem> {
        let declared = DeclaredParent::of(component.descriptor()).map_err(invalid_descriptor)?;
        Ok(Self { plugins, name, plugin, component, declared })
    }

    /// Prepares the component to go live: validates the spec, resolves the kinds, fills their caches. Watches that the live
    /// component uses as well are shared with it. Also returns the limits that were lowered to caps.
    pub async fn prepare(self) -> Result<(Live, Vec<Capped>), Problem> {
        let Self { plugins, name, plugin, .. } = self;
        let checked = self.check().await?;
        let live = plugins.registry.get(name);
        // Set before any lookup: a change from here on queues the Plugin again.
        let watches = live.iter().flat_map(|live| live.caches.watches()).map(|watch| watch.id.clone()).collect();
        let mut waiting = Concern { watches, ..self.waiting() };
        plugins.kinds.follow(name, waiting.clone());
        if let Some(live) = live.as_ref().filter(|live| live.digest() != self.component.digest()) {
            self.preflight(live, &checked.account, &mut waiting).await?;
        }
        let resolved = self.resolve(&checked.account).await?;
        let mark_key = if resolved.parent.namespaced { None } else { Some(plugins.mark_keys.get().await?.clone()) };
        let filled = self.fill(&resolved, live.as_deref(), waiting).await?;
        let caches = self.caches(&resolved, filled, mark_key.clone());
        let status = self.status_writer(&checked.account, &resolved.parent, &caches).await?;
        let capped = checked.capped.clone();
        let mut prepared = self.assemble(live.as_deref(), checked, resolved, caches, status, mark_key);
        if let Some(state) = next_state(plugin, live.as_deref(), &prepared) {
            prepared.shared.state = Arc::new(state);
        }
        Ok((prepared, capped))
    }

    /// Fills the caches of the component's kinds on a host that stands by: it changes nothing in the cluster.
    pub async fn warm(&self) -> Result<(), Problem> {
        let checked = self.check().await?;
        let waiting = self.waiting();
        self.plugins.kinds.follow(self.name, waiting.clone());
        let resolved = self.resolve(&checked.account).await?;
        self.fill(&resolved, None, waiting).await.map(drop)
    }

    async fn check(&self) -> Result<Checked, Problem> {
        let Self { plugins, plugin, component, .. } = self;
        let (spec, descriptor) = (&plugin.spec, component.descriptor());
        let (limits, capped) = plugins.caps.clamp(&spec.limits.resolve().map_err(invalid)?);
        let config = config_of(plugin).map_err(|error| invalid(format!("spec.config: {error}")))?;
        check_config(descriptor.config_schema.clone(), config.clone()).await?;
        let settings = settings_of(plugin, descriptor).map_err(invalid)?;
        let account = plugins.accounts.of(self.name, spec.service_account_name.as_deref()).await?;
        Ok(Checked { limits, capped, settings, config, account })
    }

    /// What the Plugin depends on before its kinds are resolved.
    fn waiting(&self) -> Concern {
        let groups = parent::groups_of(&self.declared, self.component.descriptor());
        Concern { groups, waits: true, ..Concern::default() }
    }

    /// Resolves the kinds, after installing the component's CRD if `spec.installCRD` is set.
    async fn resolve(&self, account: &Account) -> Result<Resolved, Problem> {
        let Self { plugins, plugin, component, .. } = self;
        let parent = parent::resolve(self).await?;
        // The CRD may have been installed just now: a component for an older storage version must not stay live, even if
        // this component fails.
        plugins.withdraw(self.name, &parent.kind);
        let (discovery, spec_grants) = (&plugins.discovery, plugin.spec.grants.spec_grants());
        let (descriptor, host_namespace) = (component.descriptor(), account.host_namespace());
        Ok(Resolved {
            granted: grants::resolve(discovery, descriptor, &spec_grants, parent.namespaced, &host_namespace).await?,
            reads: grants::resolve_reads(discovery, descriptor, &spec_grants, &host_namespace).await?,
            parent,
        })
    }

    /// Whether parents may have the plugin's finalizer. If the component does not finalize, the host removes the finalizer,
    /// also from parents that left the label selector.
    fn parents_may_have_finalizer(&self, live: Option<&Live>) -> bool {
        self.component.descriptor().sets_finalizer()
            || live.is_some_and(|live| live.terms.sets_finalizer() || live.caches.parents.id.finalizer.is_some())
            || self.plugin.status.as_ref().and_then(|status| status.set_finalizers) == Some(true)
    }

    /// Leases the watches of the kinds, and waits until their caches are filled.
    async fn fill(
        &self,
        Resolved { parent, granted, .. }: &Resolved,
        live: Option<&Live>,
        mut waiting: Concern,
    ) -> Result<Filled, Problem> {
        let watches = &self.plugins.watches;
        let finalizer = self.parents_may_have_finalizer(live).then(|| self.name.clone());
        let parents = watches.lease_parents(&parent.kind, &parent.resource, parent.selector.as_deref(), finalizer);
        let lease = |(kind, resource): &(Arc<Gvk>, ApiResource)| watches.lease(kind, resource, Some(LABEL_PLUGIN));
        let children: Vec<_> = granted.resources.iter().map(lease).collect();
        let namespaces = self.namespace_filter().map_err(invalid)?;
        let leased = std::iter::once(&parents).chain(namespaces.iter().map(|filter| &filter.watch)).chain(&children);
        self.keep_and_fill(leased.cloned().collect(), Some(&parents), &mut waiting).await?;
        Ok(Filled { parents, children, namespaces })
    }

    fn caches(&self, resolved: &Resolved, filled: Filled, mark_key: Option<MarkKey>) -> Caches {
        let Filled { parents, children, namespaces } = filled;
        Caches {
            unselected: Arc::new(Unselected::new(self.name, &parents.id, resolved.parent.namespaced, mark_key)),
            parents,
            children: children.into_iter().map(|watch| (watch.id.kind.group_kind(), watch)).collect(),
            namespaces,
            // It was checked when the component was loaded.
            annotations: self.component.descriptor().selector.annotations().and_then(|text| text.parse().ok()),
            peers: Peers(self.plugins.own.clone()),
            resources: resolved.reads.resources.clone(),
        }
    }

    /// Keeps leased watches, adds them to the dependencies of the Plugin, and waits until their caches are filled. One of them
    /// may be that of the parents.
    pub async fn keep_and_fill(
        &self,
        leased: Vec<Arc<Watch>>,
        parents: Option<&Arc<Watch>>,
        waiting: &mut Concern,
    ) -> Result<(), Problem> {
        waiting.watches.extend(leased.iter().map(|watch| watch.id.clone()));
        self.plugins.kinds.follow(self.name, waiting.clone());
        // Kept even if this fails: a rejected watch retries, and reports when the API server accepts it.
        self.plugins.keep_watches(self.name, leased.clone());
        let is_parent = |watch| parents.is_some_and(|parents| Arc::ptr_eq(watch, parents));
        // If several fail, the first in this order is reported: alternating messages would cause further writes of the
        // status.
        let results = join_all(leased.iter().map(|watch| synced(watch, is_parent(watch)))).await;
        results.into_iter().collect()
    }

    /// Assembles all parts. State that outlives a component comes from the live one.
    fn assemble(
        self,
        live: Option<&Live>,
        checked: Checked,
        resolved: Resolved,
        caches: Caches,
        (status_writer, shape): (StatusWriter, StatusShape),
        mark_key: Option<MarkKey>,
    ) -> Live {
        let Self { plugins, name, component, .. } = self;
        let Checked { limits, settings, config, account, .. } = checked;
        let Resolved { parent, granted, reads } = resolved;
        let (descriptor, surface) = (component.descriptor(), component.surface());
        caches.unselected.search(&caches.parents.store, caches.children.values());
        let kinds = granted.grants.kinds();
        let budget = || Arc::new(Mutex::new(Budget::new(clock::date())));
        let terms = Terms {
            name: name.clone(),
            parents: caches.parents.id.kind.clone(),
            owns_kind: matches!(descriptor.parent, Parent::Custom(_)),
            status_writer,
            shape,
            call_inputs: snapshot::call_inputs(&surface.contract, &surface.digest, config.as_deref(), &kinds),
            rules: snapshot::rules(&granted.grants, &limits, shape, descriptor.ready_means),
            version: descriptor.version.clone(),
            clean_up: CleanUp::of(descriptor),
            clock: descriptor.clock,
            offer: Arc::new(Offer::of(&granted.grants, &reads.grants)),
            ready_means: descriptor.ready_means,
            grants: granted.grants,
            reads: reads.grants,
            config,
            limits,
            mark_key,
            settings,
        };
        let shared = Shared {
            clock: CLOCK,
            state: live.map_or_else(|| Arc::new(ComponentState::none(CLOCK)), |live| live.shared.state.clone()),
            records: plugins.records(name),
            budget: live.map_or_else(budget, |live| live.shared.budget.clone()),
            breaker: plugins.state.breaker.clone(),
        };
        let same = live.filter(|live| live.digest() == surface.digest);
        let calls = Calls {
            slots: live.map(|live| live.calls.slots.clone()).unwrap_or_default(),
            // A call that is skipped measures nothing, so the gauges of the same component stay.
            measures: same
                .map_or_else(|| Arc::new(Measures::of(name, &descriptor.metrics)), |live| live.calls.measures.clone()),
            controller: Arc::new(Controller::new(name.as_str())),
            log: same.map(|live| live.calls.log.clone()).unwrap_or_default(),
        };
        Live { terms, caches, shared, component, calls, account, crd_owner: parent.crd_owner }
    }

    /// The account that writes the status of parents, and the host's fields that this status then has.
    async fn status_writer(
        &self,
        account: &Account,
        parent: &ParentKind,
        caches: &Caches,
    ) -> Result<(StatusWriter, StatusShape), Problem> {
        if !parent.shape.subresource {
            return Ok((StatusWriter::Nobody, parent.shape));
        }
        if parent.crd_owner == CrdOwner::Plugin {
            return Ok((StatusWriter::Host, parent.shape));
        }
        let namespaces = || caches.parent_namespaces();
        Ok(if permissions::may_write_status(&self.plugins.ask, account, &namespaces, parent).await? {
            (StatusWriter::Account, parent.shape)
        } else {
            (StatusWriter::Denied, StatusShape::NONE)
        })
    }

    /// The filter of `spec.namespaceSelector`; none if it is not set.
    fn namespace_filter(&self) -> Result<Option<NamespaceFilter>, String> {
        let Some(wanted) = &self.plugin.spec.namespace_selector else { return Ok(None) };
        let invalid = |error: &dyn std::fmt::Display| format!("spec.namespaceSelector: {error}");
        let selector = kube::core::Selector::try_from(wanted.clone()).map_err(|error| invalid(&error))?;
        let selector = selector.to_string().parse().map_err(|error| invalid(&error))?;
        let kind = Gvk::from_api_version("v1", "Namespace");
        let named = GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&named, "namespaces");
        let watch = self.plugins.watches.lease(&Arc::new(kind), &resource, None);
        Ok(Some(NamespaceFilter { selector, watch }))
    }
}

/// Checks `spec.config` against the component's schema. Runs outside the runtime's threads: the component chose the schema,
/// and with it the time that the check takes.
async fn check_config(schema: Option<Json>, config: Option<Arc<[u8]>>) -> Result<(), Problem> {
    blocking(move || config::check(schema.as_deref(), config.as_deref()))
        .await
        .map_err(|error| Problem::new(Step::Granted, PluginReason::CompileInterrupted, error.to_string()))?
        .map_err(invalid)
}

fn invalid(message: String) -> Problem {
    Problem::lasting(Step::Granted, PluginReason::InvalidSpec, message)
}

/// A new component state, if the component decides differently from the live one; none if the live state is kept.
fn next_state(plugin: &Plugin, live: Option<&Live>, prepared: &Live) -> Option<ComponentState> {
    // What this host had a share of may be older than what the last leader recorded in the status.
    match live.filter(|live| live.shared.state.share().is_none() || live.is_rolled_out_like(prepared)) {
        Some(live) if live.is_rolled_out_like(prepared) => None,
        Some(live) => {
            let Decisions { rollout, blocked_hash, .. } = live.shared.state.decisions();
            Some(ComponentState::begin(CLOCK, prepared.beginning(), Some(&rollout), blocked_hash.as_deref()))
        }
        None => Some(recorded_state(plugin.status.as_ref(), prepared)),
    }
}

/// The state of a component that goes on with what an earlier process, or an earlier leader, recorded in the Plugin's status.
pub(super) fn recorded_state(status: Option<&PluginStatus>, live: &Live) -> ComponentState {
    let (rollout, blocked_hash) = recorded(status);
    ComponentState::begin(CLOCK, live.beginning(), rollout.as_ref(), blocked_hash)
}

/// The rollout, and the hash of the blocked deletions, that a Plugin's status records.
pub(super) fn recorded(status: Option<&PluginStatus>) -> (Option<RolloutRecord>, Option<&str>) {
    let rollout = status.and_then(|status| status.rollout.as_ref()).map(PluginRollout::record);
    (rollout, status.and_then(|status| status.blocked_deletions_hash.as_deref()))
}

/// The kinds that a live plugin depends on.
pub(super) fn concern_of(live: &Live) -> Concern {
    let read = live.caches.resources.values().map(|resource| &**resource);
    let resources = live.caches.watches().map(|watch| &watch.resource).chain(read);
    let optional = &live.component.descriptor().optional;
    Concern {
        definitions: resources
            .filter(|resource| !resource.group.is_empty())
            .map(|resource| format!("{}.{}", resource.plural, resource.group))
            .collect(),
        // An optional kind may come with any CRD of its group, and has gone once its CRD is being deleted: the status shows both.
        groups: optional.iter().map(|kind| kind.group.clone()).collect(),
        waits: !optional.is_empty(),
        watches: live.caches.watches().map(|watch| watch.id.clone()).collect(),
    }
}

fn load_reason(failure: &LoadFailure) -> PluginReason {
    match failure {
        LoadFailure::NotAComponent(_) => PluginReason::NotAComponent,
        LoadFailure::UnsupportedContract(_) => PluginReason::UnsupportedContract,
        LoadFailure::TooLarge { .. } | LoadFailure::Compile(_) => PluginReason::CompileFailed,
        LoadFailure::Compiler(_) | LoadFailure::Interrupted { .. } | LoadFailure::Cache(_) => {
            PluginReason::CompileInterrupted
        }
        LoadFailure::Describe(_) => PluginReason::InvalidDescriptor,
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::contract::CallFailure;

    use super::*;

    #[test]
    fn load_failure_of_the_machine_is_retried_and_waits_longer_the_longer_it_took() {
        let requeue = |failure, took| unloadable(&failure, Duration::from_secs(took)).requeue;
        let message = || "reason".to_owned();
        for failure in [
            LoadFailure::NotAComponent(message()),
            LoadFailure::UnsupportedContract(message()),
            LoadFailure::TooLarge { size: 2, limit: 1 },
            LoadFailure::Compile(message()),
            LoadFailure::Describe(CallFailure::Trap(message())),
        ] {
            assert_eq!(requeue(failure.clone(), 1), Requeue::Settled(None), "{failure}");
        }
        let deadline = CallFailure::Deadline(Duration::from_secs(10));
        for (failure, took, rest) in [
            (LoadFailure::Cache(message()), 0, 0),
            (LoadFailure::Compiler(message()), 120, 480),
            (LoadFailure::Compiler(message()), 200, 600),
            (LoadFailure::Interrupted { attempts: 2, next: 0, wait: Duration::from_mins(1) }, 0, 60),
            (LoadFailure::Describe(deadline), 10, 40),
            (LoadFailure::Describe(CallFailure::Host(message())), 0, 0),
        ] {
            let expected = Requeue::Backoff(Duration::from_secs(rest));
            assert_eq!(requeue(failure.clone(), took), expected, "{failure}");
        }
    }
}
