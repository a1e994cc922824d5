//! The Plugin resource's own reconcile: delivered → compiled → granted → published → said in the status.
//!
//! The only writer of the registry. Whatever fails on the way leaves the live logic as it is.

mod crd;
mod grants;
mod load;
mod status;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use windlass_core::digest::Digest;
use windlass_core::ids::{Gvk, ObjectKey, PluginName};
use windlass_core::names::{ANNOTATION_ALLOW_DELETION, plugin_reason as reason};
use windlass_core::object::Object;
use windlass_core::outcome::Requeue;
use windlass_sandbox::Sandbox;
use windlass_sandbox::registry::{Publisher, Registry};

use crate::api::Plugin;
use crate::delivery::Sources;
use crate::live::{Live, ParentKey};
use crate::queue::{Queue, Trigger};
use crate::related::Interests;
use crate::watch::{Watch, Watches};

pub use load::{Problem, Step};

/// Key of the queue of Plugins: all of them take turns in one group.
pub type PluginQueue = Queue<(), PluginName>;

/// New logic reaches the parents of a Plugin within this time, spread evenly.
const SPREAD: Duration = Duration::from_secs(2);
/// Time between fetches that nothing caused: a missed event is made good.
const RESYNC: Duration = Duration::from_mins(10);

/// What the Plugin resources' reconcile needs.
pub struct Plugins {
    client: Client,
    own: Arc<Watch>,
    sandbox: Sandbox,
    watches: Arc<Watches>,
    sources: Sources,
    registry: Registry<Live>,
    publisher: Mutex<Publisher<Live>>,
    queue: PluginQueue,
    parents: Queue<PluginName, ParentKey>,
    interests: Interests,
    known: Mutex<HashMap<PluginName, Known>>,
}

/// Where a Plugin's reconcile puts its results.
pub struct Outlets {
    /// The live logic.
    pub publisher: Publisher<Live>,
    /// Plugins to look at again.
    pub queue: PluginQueue,
    /// Parents to reconcile with new logic.
    pub parents: Queue<PluginName, ParentKey>,
    /// What parents require.
    pub interests: Interests,
}

/// What the host remembers of a Plugin beside its live logic.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Generation and digest that are live: the same again needs no work.
    live: Option<(Option<i64>, Digest)>,
    /// Whether it was tried since the host started.
    tried: bool,
}

impl Plugins {
    /// With the watch of the Plugins and everything that loading one takes.
    pub fn new(
        client: Client,
        own: Arc<Watch>,
        sandbox: Sandbox,
        watches: Arc<Watches>,
        sources: Sources,
        outlets: Outlets,
    ) -> Self {
        let Outlets { publisher, queue, parents, interests } = outlets;
        Self {
            client,
            own,
            sandbox,
            watches,
            sources,
            registry: publisher.registry(),
            publisher: Mutex::new(publisher),
            queue,
            parents,
            interests,
            known: Mutex::default(),
        }
    }

    /// The kind of the Plugins.
    pub fn kind() -> Gvk {
        Gvk::from_api_version("windlass.dev/v1alpha1", "Plugin")
    }

    /// Whether every Plugin that exists was tried at least once since the start.
    pub fn all_tried(&self) -> bool {
        let known = self.known.lock();
        self.own.store.keys().iter().all(|key| {
            key.name.parse::<PluginName>().is_ok_and(|name| known.get(&name).is_some_and(|known| known.tried))
        })
    }

    /// Brings one Plugin to what its resource says.
    pub async fn reconcile(&self, name: &PluginName) -> (Requeue, Duration) {
        let key = ObjectKey::new(None, name.as_str());
        let requeue = match self.own.store.get(&key) {
            Some(object) if !object.deleting => self.bring_up(name, &object).await,
            _ => {
                self.take_down(name);
                Requeue::WhenChanged
            }
        };
        (requeue, RESYNC)
    }

    async fn bring_up(&self, name: &PluginName, object: &Arc<Object>) -> Requeue {
        let result = match parse(object) {
            Ok(plugin) => self.load(name, object, &plugin).await,
            Err(message) => Err(Problem::new(Step::Fetched, reason::INVALID_SPEC, message)),
        };
        self.known.lock().entry(name.clone()).or_default().tried = true;
        let requeue = match &result {
            Ok(_) => Requeue::Settled(None),
            Err(problem) => problem.requeue,
        };
        if let Err(problem) = &result {
            tracing::warn!(plugin = %name, reason = problem.reason, message = problem.message, "plugin not brought up to date");
        }
        let live = self.registry.get(name);
        if let Some(live) = &live {
            let allowed = object.marks.get(ANNOTATION_ALLOW_DELETION);
            for parent in live.conduct.allow(allowed).parents {
                self.parents.add(name, parent, Trigger::Event);
            }
        }
        match status::write(&self.client, &self.own.resource, object, live.as_deref(), &result).await {
            Ok(()) => requeue,
            Err(error) => {
                tracing::warn!(plugin = %name, %error, "the Plugin's status was not written");
                Requeue::Backoff(Duration::ZERO)
            }
        }
    }

    /// Loads what the resource names, unless it is live already.
    async fn load(&self, name: &PluginName, object: &Object, plugin: &Plugin) -> Result<load::Findings, Problem> {
        self.sources.follow(name, &plugin.spec.source.config_map);
        let delivered = load::deliver(&self.client, plugin).await?;
        let wanted = (object.generation, delivered.digest);
        let known = self.known.lock().get(name).and_then(|known| known.live);
        if known == Some(wanted)
            && let Some(live) = self.registry.get(name)
            && live.is_followed()
        {
            return Ok(load::Findings::of(&live, plugin));
        }
        let loaded = load::load(self, name, plugin, delivered).await?;
        let findings = load::Findings::of(&loaded, plugin);
        self.publish(object, loaded)?;
        self.known.lock().entry(name.clone()).or_default().live = Some(wanted);
        Ok(findings)
    }

    /// Makes it live and has every parent reconciled by it.
    fn publish(&self, object: &Object, live: Live) -> Result<(), Problem> {
        let live = Arc::new(live);
        let name = live.name.clone();
        let mut publisher = self.publisher.lock();
        for younger in grants::claim(self, &name, object, &live.parents.id.kind)? {
            tracing::warn!(plugin = %name, %younger, "takes the parent kind over from a younger Plugin");
            publisher.retract(&younger);
            self.parents.forget_group(&younger);
            self.interests.forget_plugin(&younger);
            self.known.lock().remove(&younger);
            self.queue.add(&(), younger, Trigger::Fresh);
        }
        self.parents.set_concurrency(&name, live.concurrency);
        publisher.publish(name.clone(), live.clone());
        drop(publisher);
        // Read now that it is live: a parent that comes later finds it in the registry.
        let parents = live.parents.store.keys();
        tracing::info!(plugin = %name, digest = %live.digest(), version = live.version, parents = parents.len(), "live");
        let spread = SPREAD.min(Duration::from_millis(parents.len() as u64));
        for parent in parents {
            self.parents.add_after(&name, &parent, Trigger::Sweep, spread.mul_f64(fastrand::f64()));
        }
        Ok(())
    }

    /// A Plugin is gone: its parents are left alone, and so is all that exists because of them.
    fn take_down(&self, name: &PluginName) {
        if self.publisher.lock().retract(name).is_some() {
            tracing::info!(plugin = %name, "no longer live; its parents and their children are left as they are");
        }
        self.sources.forget(name);
        self.parents.forget_group(name);
        self.interests.forget_plugin(name);
        self.known.lock().remove(name);
        // One of them may have waited for this one's kind.
        self.look_again();
    }

    /// Has every Plugin looked at again.
    fn look_again(&self) {
        for key in self.own.store.keys() {
            if let Ok(name) = key.name.parse::<PluginName>() {
                self.queue.add(&(), name, Trigger::Fresh);
            }
        }
    }
}

fn parse(object: &Object) -> Result<Plugin, String> {
    serde_json::from_slice(&object.json).map_err(|error| format!("the Plugin cannot be read: {error}"))
}
