//! Prepares Plugins on a host that stands by: fetches and compiles their components, and fills the caches of their
//! kinds. It writes nothing to the cluster, and publishes nothing.

use std::sync::Arc;
use std::time::Duration;

use windlass_api::Plugin;
use windlass_core::declared_parent::DeclaredParent;
use windlass_core::ids::{ObjectKey, PluginName};
use windlass_core::object::Object;
use windlass_core::outcome::Requeue;
use windlass_core::reason::PluginReason;
use windlass_sandbox::Component;

use super::load;
use super::problem::{Problem, RESYNC, Step, invalid_descriptor};
use super::resource::parse;
use super::shared::{Known, Plugins};
use crate::live::had_no_parents;
use crate::queue::{Job, Trigger};

impl Plugins {
    /// Prepares one Plugin.
    pub async fn prepare_standby(&self, job: &Job<(), PluginName>) -> (Requeue, Duration) {
        let name = &job.key;
        let requeue = match self.own.store.get(&ObjectKey::new(None, name.as_str())) {
            // The end of a Plugin is the leader's work.
            Some(object) if object.deleting => Requeue::WhenChanged,
            Some(object) => match self.warm(name, &object).await {
                Ok(()) => Requeue::Settled(None),
                Err(problem) => {
                    // The leader reports the problem.
                    tracing::debug!(plugin = %name, message = problem.message, "plugin not prepared");
                    problem.requeue
                }
            },
            None => {
                self.take_down(name);
                return (Requeue::WhenChanged, RESYNC);
            }
        };
        self.known.lock().entry(name.clone()).or_default().prepared = true;
        (requeue, RESYNC)
    }

    /// Whether this host, while it stands by, tried to prepare every existing Plugin.
    pub fn all_prepared(&self) -> bool {
        self.all_known(|known| known.prepared)
    }

    /// Queues all Plugins: this host leads now. Those that had parents come first.
    pub fn begin_to_lead(&self) {
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
        let known = self.known.lock();
        let names = self.own.store.pick(|plugin| (!plugin.deleting).then(|| plugin.key.name.clone()));
        names.iter().all(|name| name.parse::<PluginName>().is_ok_and(|name| known.get(&name).is_some_and(&holds)))
    }

    async fn warm(&self, name: &PluginName, object: &Arc<Object>) -> Result<(), Problem> {
        let plugin =
            parse(object).map_err(|message| Problem::new(Step::Fetched, PluginReason::InvalidSpec, message))?;
        let component = match self.component_to_warm(name, object, &plugin).await {
            Ok(component) => component,
            // The leader runs the component of before as well, if the source gives no usable one.
            Err(problem) => self.last_live(name, &plugin).await.ok_or(problem)?,
        };
        let declared = DeclaredParent::of(component.descriptor()).map_err(invalid_descriptor)?;
        load::warm(self, name, &super::activate::without_crd_install(&plugin), (&declared, &component)).await
    }

    async fn component_to_warm(
        &self,
        name: &PluginName,
        object: &Arc<Object>,
        plugin: &Plugin,
    ) -> Result<Arc<Component>, Problem> {
        let terms = self.follow(name, object, plugin).inspect_err(|_| self.sources.forget_artifact(name))?;
        Ok(self.component(name, object, plugin, terms).await?.0)
    }
}
