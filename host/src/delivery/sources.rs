//! Which Plugins a changed ConfigMap concerns: one metadata watch for each namespace that holds sources.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use parking_lot::Mutex;
use windlass_core::ids::PluginName;

use crate::api::ConfigMapSource;

/// Called with each Plugin whose source may have changed; must not block.
pub type Changed = Arc<dyn Fn(&PluginName) + Send + Sync>;

/// The sources that Plugins name, and the watches on them. Only metadata is watched: components are fetched when they
/// are wanted, and never kept.
pub struct Sources {
    client: Client,
    changed: Changed,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    of_plugin: HashMap<PluginName, ConfigMapSource>,
    watches: HashMap<String, tokio::task::AbortHandle>,
}

impl Sources {
    /// Tells `changed` of every change of a followed source.
    pub fn new(client: Client, changed: Changed) -> Self {
        Self { client, changed, state: Arc::default() }
    }

    /// Follows the source that a Plugin names now, in place of the one it named before.
    pub fn follow(&self, plugin: &PluginName, source: &ConfigMapSource) {
        let mut state = self.state.lock();
        if state.of_plugin.get(plugin) == Some(source) {
            return;
        }
        state.of_plugin.insert(plugin.clone(), source.clone());
        if !state.watches.contains_key(&source.namespace) {
            let api: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(self.client.clone(), &source.namespace);
            let task = tokio::spawn(watch(api, source.namespace.clone(), self.state.clone(), self.changed.clone()));
            state.watches.insert(source.namespace.clone(), task.abort_handle());
        }
        state.end_unused();
    }

    /// A Plugin is gone.
    pub fn forget(&self, plugin: &PluginName) {
        let mut state = self.state.lock();
        state.of_plugin.remove(plugin);
        state.end_unused();
    }
}

impl State {
    fn end_unused(&mut self) {
        let Self { of_plugin, watches } = self;
        watches.retain(|namespace, task| {
            let used = of_plugin.values().any(|source| source.namespace == *namespace);
            if !used {
                task.abort();
            }
            used
        });
    }
}

async fn watch(api: Api<PartialObjectMeta<ConfigMap>>, namespace: String, state: Arc<Mutex<State>>, changed: Changed) {
    let mut events = std::pin::pin!(watcher::watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(map) | Event::InitApply(map) | Event::Delete(map)) => {
                for plugin in concerned(&state.lock(), &namespace, &map) {
                    changed(&plugin);
                }
            }
            Ok(Event::Init | Event::InitDone) => {}
            Err(error) => tracing::debug!(namespace, %error, "the watch of ConfigMaps was interrupted"),
        }
    }
}

/// Plugins whose head this is, or whose head it may be a part of.
fn concerned(state: &State, namespace: &str, map: &PartialObjectMeta<ConfigMap>) -> Vec<PluginName> {
    let Some(name) = &map.metadata.name else { return Vec::new() };
    let of_source = |source: &ConfigMapSource| {
        source.namespace == namespace
            && name.strip_prefix(&source.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    state.of_plugin.iter().filter(|(_, source)| of_source(source)).map(|(plugin, _)| plugin.clone()).collect()
}
