//! Makes a Plugin's component live, or returns the first problem. Meanwhile the component that was live stays live,
//! unless the kind gets another storage version.

use std::sync::Arc;

use windlass_api::Plugin;
use windlass_core::contract::declared_parent::DeclaredParent;
use windlass_core::object::Object;
use windlass_core::object::reason::PluginReason;
use windlass_core::value::ids::{Gvk, PluginName};
use windlass_sandbox::Component;

use super::component::Selected;
use super::findings::Findings;
use super::load::{self, Loading};
use super::permissions::{self, Lacking};
use super::problem::{Problem, Step};
use super::publish::Wave;
use super::shared::Plugins;
use super::{caches, claim, deletion, resource, status};
use crate::live::Live;
use crate::queue::Trigger;

impl Plugins {
    /// Loads the component of the Plugin's source, and makes it live.
    pub(super) async fn load(&self, name: &PluginName, object: &Object, plugin: &Plugin) -> Result<Findings, Problem> {
        let Selected { component, rollback, rolled_back } = self.component(name, object, plugin).await?;
        let earlier = rolled_back.then(|| without_crd_install(plugin));
        let findings = self.activate(name, object, earlier.as_ref().unwrap_or(plugin), component).await?;
        let rolled_back_from = rollback.map(|rollback| rollback.from);
        Ok(Findings { rolled_back_from, rolled_back, file: self.sources.file(name), ..findings })
    }

    /// Handles a problem with the newer component: keeps the live component, or restores the last one. If the Plugin grants
    /// less than the live component has, it goes on with what the Plugin grants now, or not at all. Another ServiceAccount
    /// counts as well, if it is valid.
    pub(super) async fn keep_or_restore(
        &self,
        name: &PluginName,
        object: &Object,
        plugin: &Plugin,
        problem: &Problem,
    ) -> Result<(), Problem> {
        let live = self.registry.get(name);
        let failed = live.as_ref().filter(|_| !problem.is_pending());
        let exceeds = failed.is_some_and(|live| live.terms.exceed(&plugin.spec.grants.spec_grants()));
        let account = plugin.spec.service_account_name.as_deref();
        let outdated = failed.filter(|live| exceeds || !live.account.is_of(name, account));
        let is_wanting = match &live {
            None => true,
            Some(_) if outdated.is_some() => true,
            // A pinned component that is neither live nor the one that just failed may have been live before.
            Some(live) => {
                let pinned = resource::pinned(plugin).ok().flatten();
                pinned.is_some_and(|pinned| pinned != live.digest() && problem.candidate != Some(pinned))
            }
        };
        if is_wanting && problem.stored_as.is_none() {
            let spec = outdated.map(|live| with_config_of(live, plugin));
            match self.restore(name, object, spec.as_ref().unwrap_or(plugin)).await {
                Ok(()) => return Ok(()),
                // Other hosts still reconcile with the component that is live.
                Err(Some(waits)) if waits.is_pending() => return Err(waits),
                Err(_) if exceeds => {
                    tracing::warn!(plugin = %name, "no longer live: the Plugin grants less now, and the component cannot go on with that");
                    self.retract(name);
                }
                Err(_) => {}
            }
        }
        // The deletion policy may have changed with this generation.
        let was_live = plugin.status.as_ref().is_some_and(|status| status.parent_kind.is_some());
        match live {
            Some(live) => self.ensure_finalizer(object, plugin, live.terms.sets_finalizer()).await,
            None if was_live => self.ensure_finalizer(object, plugin, false).await,
            None => Ok(()),
        }
    }

    /// Restores a component that was live before: if no component is live because the newer one has a problem, or if
    /// the Plugin pins the earlier one, even if its source contains another one by now.
    ///
    /// # Errors
    /// Why the earlier component is not live again; none if there is none.
    async fn restore(&self, name: &PluginName, object: &Object, plugin: &Plugin) -> Result<(), Option<Problem>> {
        let component = self.last_live(name, plugin).await.ok_or(None)?;
        match self.activate(name, object, &without_crd_install(plugin), component).await {
            Ok(_) => {
                tracing::info!(plugin = %name, "previous component restored");
                Ok(())
            }
            Err(problem) => {
                tracing::debug!(plugin = %name, message = problem.message, "previous component not restored");
                Err(Some(problem))
            }
        }
    }

    /// Prepares a component and makes it live, unless the live one would decide in the same way.
    async fn activate(
        &self,
        name: &PluginName,
        object: &Object,
        plugin: &Plugin,
        component: Arc<Component>,
    ) -> Result<Findings, Problem> {
        let digest = component.digest();
        let activation = async {
            // Checked before the component's CRD is installed, because that could end the live component.
            let loading = Loading::of(self, name, plugin, component)?;
            self.check_parent(name, object, plugin, &loading.declared)?;
            let (prepared, capped) = loading.prepare().await?;
            let concern = load::concern_of(&prepared);
            let lacking = self.make_live(object, plugin, prepared.clone()).await?;
            self.kinds.follow(name, concern);
            Ok(Findings { stalled: self.stalled_related(name), ..Findings::of(&prepared, plugin, capped, lacking) })
        };
        let findings = activation.await.map_err(|problem: Problem| problem.of(digest))?;
        self.let_candidate_go(name);
        Ok(findings)
    }

    /// Makes a prepared component live, unless the live one would decide in the same way. Returns the permissions that
    /// its ServiceAccount lacks, if any.
    async fn make_live(&self, object: &Object, plugin: &Plugin, prepared: Live) -> Result<Option<Lacking>, Problem> {
        if let Some(live) = self.registry.get(&prepared.terms.name).filter(|live| live.decides_like(&prepared)) {
            self.ensure_finalizer(object, plugin, live.terms.sets_finalizer()).await?;
            let lacking = permissions::review(&self.ask, &live).await?;
            self.retry_failing(&live, lacking.is_some());
            return Ok(lacking);
        }
        if let Some(live) = self.registry.get(&prepared.terms.name)
            && Arc::ptr_eq(&live.shared.state, &prepared.shared.state)
        {
            return self.take_up_optional_kinds(object, plugin, prepared).await;
        }
        let status = plugin.status.as_ref();
        let was_live = status.and_then(|status| status.active_digest.as_deref());
        if was_live == Some(prepared.digest().to_string().as_str()) {
            // This component was live before the host started, and its parents are waiting.
            self.record_and_publish(object, plugin, prepared.clone(), Wave::Resumed).await?;
            return permissions::review(&self.ask, &prepared).await;
        }
        let lacking = permissions::review(&self.ask, &prepared).await?;
        if let Some(problem) = lacking.as_ref().and_then(Lacking::vital) {
            return Err(problem);
        }
        self.record_and_publish(object, plugin, prepared, Wave::Changed).await?;
        Ok(lacking)
    }

    /// Goes on with the live component after optional kinds came or went: every parent is reconciled, and nothing is rolled out. Returns
    /// the permissions that the ServiceAccount lacks.
    async fn take_up_optional_kinds(
        &self,
        object: &Object,
        plugin: &Plugin,
        prepared: Live,
    ) -> Result<Option<Lacking>, Problem> {
        self.ensure_finalizer(object, plugin, prepared.terms.sets_finalizer()).await?;
        let lacking = permissions::review(&self.ask, &prepared).await?;
        tracing::info!(plugin = %prepared.terms.name, kinds = ?prepared.terms.offer.kinds, "the cluster serves other optional kinds");
        self.publish(object, prepared, Wave::Changed)?;
        Ok(lacking)
    }

    /// Writes what must be in the cluster before a component is live, and publishes the component.
    async fn record_and_publish(
        &self,
        object: &Object,
        plugin: &Plugin,
        prepared: Live,
        wave: Wave,
    ) -> Result<(), Problem> {
        self.exclude_members_before(object, &prepared).await?;
        self.ensure_finalizer(object, plugin, prepared.terms.sets_finalizer()).await?;
        let record = prepared.shared.state.record_of_rollout();
        status::record_rollout(&self.client, &self.own.resource, object, &record).await?;
        self.publish(object, prepared, wave)
    }

    /// Checks that the Plugin may have the component's parent kind: no Plugin with an older claim has it, and if the
    /// Plugin has parents, they are of this kind. Parents of another kind would be left with their children and
    /// finalizers, without any record.
    fn check_parent(
        &self,
        name: &PluginName,
        object: &Object,
        plugin: &Plugin,
        declared: &DeclaredParent,
    ) -> Result<(), Problem> {
        let wanted = declared.kind();
        if declared.crd().is_some() {
            claim::claim(self, name, object, wanted)?;
        }
        let (live, status) = (self.registry.get(name), plugin.status.as_ref());
        let has_parents = match &live {
            Some(live) => live.caches.parent_count() > 0,
            None => status.and_then(|status| status.parents).is_some_and(|parents| parents > 0),
        };
        let in_status = || status.and_then(|status| status.parent_kind.as_ref()?.parse().ok());
        let before = live.map(|live| Gvk::clone(&live.terms.parents)).or_else(in_status);
        let another = before.filter(|before| has_parents && before.group_kind() != wanted.group_kind());
        let Some(before) = another else { return Ok(()) };
        let message = format!(
            "the component is for {wanted}, but there are parents of {before}, whose children and finalizers would be left behind. \
             Make another Plugin for it, or delete those parents, or this Plugin, first"
        );
        Err(Problem::new(Step::Granted, PluginReason::ParentKindChanged, message))
    }

    /// Sets the host's finalizer on the Plugin, if the host must act on the Plugin's deletion.
    async fn ensure_finalizer(&self, object: &Object, plugin: &Plugin, finalizes: bool) -> Result<(), Problem> {
        if deletion::is_wanted(plugin, finalizes) && !deletion::is_awaited(object) {
            deletion::set_awaited(&self.client, &self.own.resource, object, true).await?;
        }
        Ok(())
    }

    /// A message with the stalled watches of the kinds that the Plugin's parents require, if any.
    fn stalled_related(&self, name: &PluginName) -> Option<String> {
        let stalled = self.watches.stalled();
        let required = stalled
            .iter()
            .filter(|(watch, _)| watch.labels.is_none() && self.interests.plugins_of(watch).contains(name));
        let mut messages: Vec<_> =
            required.map(|(watch, stalled)| caches::message_about(&watch.kind, stalled)).collect();
        messages.sort();
        let messages = messages.join(". ");
        (!messages.is_empty())
            .then(|| format!("{messages}. Until it makes progress, parents that require the kind are not reconciled"))
    }

    /// Queues the failing parents if an obstacle of this Plugin has just gone: they may have failed only because of it,
    /// and would otherwise wait for their backoffs.
    fn retry_failing(&self, live: &Live, is_lacking: bool) {
        let known = self.state.known.lock();
        let last = known.get(&live.terms.name).and_then(|known| known.last.as_ref());
        let is_stalled = self.stalled_related(&live.terms.name).is_some();
        // Permissions that are still missing, and watches that are still stalled, are no change.
        let is_as_before = |findings: &Findings| {
            (findings.lacking.is_none() || is_lacking) && (findings.stalled.is_none() || is_stalled)
        };
        if last.is_some_and(|last| is_as_before(&last.findings)) {
            return;
        }
        drop(known);
        for parent in live.shared.records.failing() {
            self.parents.add(&live.terms.name, &parent, Trigger::Sweep);
        }
    }
}

/// The Plugin with the last valid config: a new one may be meant for the newer component.
fn with_config_of(live: &Live, plugin: &Plugin) -> Plugin {
    let mut plugin = plugin.clone();
    plugin.spec.config = live.terms.config.as_deref().and_then(|config| serde_json::from_slice(config).ok());
    plugin
}

/// The Plugin without `spec.installCRD`. The older CRD of an older component would drop fields that the newer component
/// wrote, and a host that stands by writes nothing.
pub(super) fn without_crd_install(plugin: &Plugin) -> Plugin {
    let mut plugin = plugin.clone();
    plugin.spec.install_crd = false;
    plugin
}
