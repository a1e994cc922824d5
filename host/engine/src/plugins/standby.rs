//! Prepares Plugins on a host that stands by: fetches and compiles their components, and fills the caches of their
//! kinds. It writes nothing to the cluster, and publishes nothing.

use std::time::Duration;

use windlass_api::Plugin;
use windlass_core::object::Object;
use windlass_core::reconcile::outcome::{Requeue, UNAVAILABLE};
use windlass_core::value::ids::{ObjectKey, PluginName};
use windlass_sandbox::Component;

use super::activate::without_crd_install;
use super::load::Loading;
use super::problem::{Problem, RESYNC, Step};
use super::resource::parse;
use super::shared::{Known, Plugins};
use crate::live::had_no_parents;
use crate::queue::{Job, Trigger};

/// Time until a Plugin is tried again whose cache is behind the API server.
const CATCH_UP: Duration = Duration::from_millis(100);

impl Plugins {
    /// Prepares one Plugin.
    pub async fn prepare_standby(&self, job: &Job<(), PluginName>) -> (Requeue, Duration) {
        let name = &job.key;
        let mut is_prepared = true;
        // Also if the preparation of a newer component fails below.
        if let Some(live) = self.registry.get(name) {
            self.work_on_share(&live);
        }
        let requeue = match self.own.store.get(&ObjectKey::new(None, name.as_str())) {
            // The end of a Plugin is the leader's work.
            Some(object) if object.deleting => Requeue::WhenChanged,
            Some(object) => match self.warm(name, &object).await {
                Ok(()) => self.follow_if_shared(name, &object).await,
                Err(problem) => {
                    // The leader reports the problem.
                    tracing::debug!(plugin = %name, message = problem.message, "plugin not prepared");
                    // Its source is still being fetched, or a cache filled; any other problem is the leader's as well.
                    is_prepared = !problem.is_pending() && problem.step != Step::Synced;
                    problem.requeue
                }
            },
            None => {
                self.unpublish(name);
                if self.shards.are_used() {
                    self.inherit();
                }
                return (Requeue::WhenChanged, RESYNC);
            }
        };
        self.state.known.lock().entry(name.clone()).or_default().prepared |= is_prepared;
        (requeue, RESYNC)
    }

    /// Makes live what the leader has rolled out, if hosts share the parents.
    async fn follow_if_shared(&self, name: &PluginName, object: &Object) -> Requeue {
        if !self.shards.are_used() {
            return Requeue::Settled(None);
        }
        match self.follow_leader(name, object).await {
            Ok(()) => self.until_served(name).map_or(Requeue::Settled(None), Requeue::Pause),
            Err(problem) => {
                tracing::info!(plugin = %name, message = problem.message, "the leader must reconcile this host's share yet");
                problem.requeue
            }
        }
    }

    /// Whether this host, while it stood by, prepared every existing Plugin, or found a problem of it.
    pub fn all_prepared(&self) -> bool {
        self.all_known(|known| known.prepared)
    }

    /// Queues all Plugins: this host leads now. Those that had parents come first.
    pub fn begin_to_lead(&self) {
        self.shards.set_leading();
        self.state.startup_order.begin();
        for key in self.own.store.keys() {
            let Some(object) = self.own.store.get(&key) else { continue };
            if let Ok(name) = key.name.parse::<PluginName>() {
                let trigger = if had_no_parents(&object) { Trigger::Sweep } else { Trigger::Changed };
                self.queue.add(&(), &name, trigger);
            }
        }
    }

    /// Whether this holds for every existing Plugin that is not being deleted.
    pub(super) fn all_known(&self, holds: impl Fn(&Known) -> bool) -> bool {
        let known = self.state.known.lock();
        let names = self.own.store.pick(|plugin| (!plugin.deleting).then(|| plugin.key.name.clone()));
        names.iter().all(|name| name.parse::<PluginName>().is_ok_and(|name| known.get(&name).is_some_and(&holds)))
    }

    async fn warm(&self, name: &PluginName, object: &Object) -> Result<(), Problem> {
        let plugin = parse(object)?;
        let component = match self.component(name, object, &plugin).await {
            Ok(selected) => Ok(selected.component),
            // The leader runs the component of before as well, if the source gives no usable one.
            Err(problem) => self.last_live(name, &plugin).await.ok_or(problem),
        };
        self.warn_if_live_component_is_missing(name, &plugin, component.as_deref().ok()).await;
        Loading::of(self, name, &without_crd_install(&plugin), component?)?.warm().await
    }

    /// Warns if the leader runs another component than the source delivers (after a rollback, or a rejected update),
    /// and this host never had it: as the leader, it could not go on with it.
    async fn warn_if_live_component_is_missing(
        &self,
        name: &PluginName,
        plugin: &Plugin,
        component: Option<&Component>,
    ) {
        let active = plugin.status.as_ref().and_then(|status| status.active_digest.as_deref());
        let prepared = component.map(|component| component.digest().to_string());
        let Some(active) = active.filter(|active| Some(*active) != prepared.as_deref()) else { return };
        if self.last_live(name, plugin).await.is_none() {
            tracing::warn!(plugin = %name, digest = active, "this standby does not have the live component, and could not go on with it");
        }
    }

    /// When to try a Plugin again that the cache of a host that stood by does not show as the API server does; none if it
    /// does. The watch may be minutes behind without a sign, and a status by an older Plugin would overwrite what the
    /// previous leader recorded.
    pub(super) async fn catch_up(&self, object: &Object) -> Option<Requeue> {
        match self.own.read(&object.key).await {
            Ok(Some(now)) if now.uid == object.uid && now.resource_version <= object.resource_version => None,
            // The watch delivers the newer version, or the deletion.
            Ok(_) => Some(Requeue::After(CATCH_UP)),
            Err(error) => {
                tracing::warn!(plugin = %object.key.name, %error, "the Plugin cannot be read, and is not reconciled yet");
                Some(UNAVAILABLE)
            }
        }
    }
}
