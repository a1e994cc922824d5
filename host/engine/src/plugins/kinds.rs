//! Determines which Plugins a change of a kind affects, from one metadata watch on the cluster's CRDs and the health of
//! the Plugins' watches.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use windlass_core::value::ids::{Gvk, PluginName};

use crate::clock;
use crate::cluster::watch::{AllProgress, WatchId, WatchProgress, events};
use crate::queue::{PluginQueue, Trigger};

/// The kinds that a Plugin depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Concern {
    /// Names of CRDs (`<plural>.<group>`).
    pub definitions: HashSet<String>,
    /// Groups of kinds whose plurals are unknown, because the kinds are missing or were never looked up: any CRD of the
    /// group may define them.
    pub groups: HashSet<Arc<str>>,
    /// Whether a kind is missing. Then any change of a CRD counts: only the status of a CRD shows that its kind is
    /// served, and a status does not change the generation.
    pub waits: bool,
    /// The watches that the Plugin uses, or will use.
    pub watches: Vec<WatchId>,
}

/// The kinds that Plugins depend on; queues these Plugins when a kind changes. Clones share the state.
#[derive(Clone)]
pub struct Kinds {
    queue: PluginQueue,
    state: Arc<Mutex<State>>,
}

impl Kinds {
    /// Queues affected Plugins in `queue`. No Plugin depends on a kind yet.
    pub fn new(queue: PluginQueue) -> Self {
        Self { queue, state: Arc::default() }
    }

    /// Replaces the dependencies of a Plugin.
    pub(super) fn follow(&self, plugin: &PluginName, concern: Concern) {
        self.state.lock().concerns.insert(plugin.clone(), concern);
    }

    /// How long ago a CRD changed that the Plugin depends on; none if none has changed.
    pub(super) fn since_change(&self, plugin: &PluginName) -> Option<Duration> {
        self.state.lock().changed.get(plugin).map(|at| clock::since(*at))
    }

    /// Removes a deleted Plugin.
    pub(super) fn forget(&self, plugin: &PluginName) {
        let mut state = self.state.lock();
        state.concerns.remove(plugin);
        state.changed.remove(plugin);
    }

    /// Queues the Plugins that use a watch whose health changed.
    pub fn health_changed(&self, watch: &WatchId) {
        let plugins = self.state.lock().holders(watch);
        for plugin in plugins {
            self.queue.add(&(), &plugin, Trigger::Changed);
        }
    }

    /// Watches the CRDs for as long as the host runs.
    pub async fn watch_definitions(self, client: Client, all: AllProgress) {
        let kind = Gvk::from_api_version("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        let progress = all.track(&kind);
        // Metadata only: a whole CRD has up to a megabyte, and a cluster has hundreds.
        let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(progress.of_client(client));
        progress.supervise(|| self.clone().follow_definitions(api.clone(), progress.clone())).await;
    }

    async fn follow_definitions(
        self,
        api: Api<PartialObjectMeta<CustomResourceDefinition>>,
        progress: Arc<WatchProgress>,
    ) {
        let mut events = std::pin::pin!(events(api, None, progress));
        while let Some(event) = events.next().await {
            let concerned = match event {
                Ok(event) => self.state.lock().on_event(event),
                Err(error) => {
                    // Until the watch is resumed, changes do not queue Plugins; their reconciles still look up the
                    // kinds.
                    tracing::debug!(%error, "the watch of CustomResourceDefinitions was interrupted");
                    continue;
                }
            };
            let now = clock::now();
            self.state.lock().changed.extend(concerned.iter().map(|(plugin, _)| (plugin.clone(), now)));
            for (plugin, trigger) in concerned {
                tracing::debug!(%plugin, "plugin queued: a CustomResourceDefinition that it depends on changed");
                self.queue.add(&(), &plugin, trigger);
            }
        }
    }
}

/// The recorded state of a CRD: hashes only, because all CRDs of the cluster are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// Hash of uid, generation and deletion.
    shape: u64,
    /// Hash of the resourceVersion.
    version: u64,
}

impl Seen {
    fn of(definition: &ObjectMeta) -> Self {
        Self {
            shape: hash(&(&definition.uid, definition.generation, definition.deletion_timestamp.is_some())),
            version: hash(&definition.resource_version),
        }
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[derive(Default)]
struct State {
    concerns: HashMap<PluginName, Concern>,
    definitions: HashMap<String, Seen>,
    /// When a CRD that a Plugin depends on changed last.
    changed: HashMap<PluginName, Instant>,
    /// The CRDs of a list that is not complete yet.
    listing: Option<HashMap<String, Seen>>,
    /// Whether at least one list was completed.
    listed: bool,
}

impl State {
    /// Applies an event; returns the affected Plugins.
    fn on_event(&mut self, event: Event<PartialObjectMeta<CustomResourceDefinition>>) -> Vec<(PluginName, Trigger)> {
        match event {
            Event::Init => self.listing = Some(HashMap::new()),
            Event::InitApply(definition) => {
                if let Some(listing) = &mut self.listing {
                    listing.insert(definition.name_any(), Seen::of(&definition.metadata));
                }
            }
            Event::InitDone => return self.list_ends(),
            Event::Apply(definition) => {
                let (name, seen) = (definition.name_any(), Seen::of(&definition.metadata));
                let before = self.definitions.insert(name.clone(), seen);
                return self.concerned(&name, before, Some(seen));
            }
            Event::Delete(definition) => {
                let name = definition.name_any();
                let before = self.definitions.remove(&name);
                return self.concerned(&name, before, None);
            }
        }
        Vec::new()
    }

    fn list_ends(&mut self) -> Vec<(PluginName, Trigger)> {
        let listed = self.listing.take().unwrap_or_default();
        let before = std::mem::replace(&mut self.definitions, listed);
        if !std::mem::replace(&mut self.listed, true) {
            // A Plugin that was reconciled before the first list may have seen an older state.
            return self.concerns.keys().map(|plugin| (plugin.clone(), Trigger::Changed)).collect();
        }
        let names: HashSet<&String> = before.keys().chain(self.definitions.keys()).collect();
        let changes = names
            .into_iter()
            .flat_map(|name| self.concerned(name, before.get(name).copied(), self.definitions.get(name).copied()));
        changes.collect()
    }

    /// The Plugins that depend on a CRD that changed from `before` to `after`.
    ///
    /// A change of the status alone waits for the end of a backoff, because failing steps of the Plugin itself may have
    /// caused it.
    fn concerned(&self, name: &str, before: Option<Seen>, after: Option<Seen>) -> Vec<(PluginName, Trigger)> {
        if before == after {
            return Vec::new();
        }
        let same_shape = before.map(|seen| seen.shape) == after.map(|seen| seen.shape);
        let trigger = if same_shape { Trigger::Event } else { Trigger::Changed };
        let group = name.split_once('.').map_or("", |(_, group)| group);
        let concerned = self.concerns.iter().filter(|(_, concern)| {
            (concern.waits || !same_shape) && (concern.definitions.contains(name) || concern.groups.contains(group))
        });
        concerned.map(|(plugin, _)| (plugin.clone(), trigger)).collect()
    }

    fn holders(&self, watch: &WatchId) -> Vec<PluginName> {
        let holders = self.concerns.iter().filter(|(_, concern)| concern.watches.contains(watch));
        holders.map(|(plugin, _)| plugin.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHOES: &str = "echoes.my-operator.dev";

    /// A CRD of this generation and version.
    fn crd(name: &str, generation: i64, version: u64) -> PartialObjectMeta<CustomResourceDefinition> {
        let version = version.to_string();
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            generation: Some(generation),
            resource_version: Some(version),
            ..ObjectMeta::default()
        };
        PartialObjectMeta { metadata, ..PartialObjectMeta::default() }
    }

    fn concern(definitions: &[&str], groups: &[&str], waits: bool) -> Concern {
        Concern {
            definitions: definitions.iter().map(|&name| name.to_owned()).collect(),
            groups: groups.iter().map(|&group| group.into()).collect(),
            waits,
            watches: Vec::new(),
        }
    }

    /// A cluster with the kind Echo: `settled` depends on it, `waiting` on a missing kind of its group, and `other` on
    /// something else.
    fn state() -> State {
        let mut state = State::default();
        for event in [Event::Init, Event::InitApply(crd(ECHOES, 1, 1)), Event::InitDone] {
            assert!(state.on_event(event).is_empty(), "no Plugin is known yet");
        }
        let concerns = [
            ("settled", concern(&[ECHOES], &[], false)),
            ("waiting", concern(&[], &["my-operator.dev"], true)),
            ("other", concern(&["things.other.dev"], &["more.my-operator.dev"], true)),
        ];
        for (name, concern) in concerns {
            state.concerns.insert(name.parse().expect("a name"), concern);
        }
        state
    }

    fn affected(
        state: &mut State,
        event: Event<PartialObjectMeta<CustomResourceDefinition>>,
    ) -> Vec<(String, Trigger)> {
        let mut affected: Vec<_> =
            state.on_event(event).into_iter().map(|(plugin, trigger)| (plugin.to_string(), trigger)).collect();
        affected.sort();
        affected
    }

    fn all(trigger: Trigger) -> Vec<(String, Trigger)> {
        vec![("settled".to_owned(), trigger), ("waiting".to_owned(), trigger)]
    }

    #[test]
    fn dynamic_changed_crd_affects_exactly_the_plugins_that_depend_on_it() {
        let mut state = state();
        let is = |name, generation, version| Event::Apply(crd(name, generation, version));
        assert_eq!(affected(&mut state, is(ECHOES, 2, 2)), all(Trigger::Changed));
        assert_eq!(affected(&mut state, is(ECHOES, 2, 2)), [], "the same again is no change");
        assert_eq!(affected(&mut state, Event::Delete(crd(ECHOES, 2, 2))), all(Trigger::Changed));
        assert_eq!(affected(&mut state, is(ECHOES, 3, 3)), all(Trigger::Changed), "the CRD is back");
        assert_eq!(affected(&mut state, is("things.other.dev", 9, 9)), [("other".to_owned(), Trigger::Changed)]);
        assert_eq!(affected(&mut state, is("widgets.nobodys.dev", 9, 9)), []);
    }

    #[test]
    fn dynamic_changed_crd_status_affects_only_plugins_that_wait_for_the_crd() {
        let mut state = state();
        let established = Event::Apply(crd(ECHOES, 1, 2));
        assert_eq!(affected(&mut state, established), [("waiting".to_owned(), Trigger::Event)]);
    }

    #[test]
    fn dynamic_new_list_of_crds_reports_changes_since_the_last_list() {
        let mut state = state();
        assert_eq!(affected(&mut state, Event::Init), []);
        assert_eq!(affected(&mut state, Event::InitApply(crd(ECHOES, 1, 1))), []);
        assert_eq!(affected(&mut state, Event::InitDone), [], "the same list again is no change");
        affected(&mut state, Event::Init);
        assert_eq!(affected(&mut state, Event::InitDone), all(Trigger::Changed), "the CRD is no longer listed");
    }

    #[test]
    fn dynamic_plugin_reconciled_before_the_first_list_is_reconciled_again() {
        let mut state = State::default();
        state.concerns.insert("early".parse().expect("a name"), Concern::default());
        assert_eq!(affected(&mut state, Event::Init), []);
        assert_eq!(affected(&mut state, Event::InitDone), [("early".to_owned(), Trigger::Changed)]);
    }

    #[test]
    fn dynamic_rejected_watch_affects_only_the_plugins_that_use_it() {
        let watch = |labels: Option<&str>| WatchId {
            labels: labels.map(str::to_owned),
            ..WatchId::of_kind(Arc::new(Gvk::from_api_version("v1", "Pod")))
        };
        let mut state = state();
        let uses = Concern { watches: vec![watch(Some("app"))], ..Concern::default() };
        state.concerns.insert("holder".parse().expect("a name"), uses);
        assert_eq!(state.holders(&watch(Some("app"))), ["holder".parse().expect("a name")]);
        assert_eq!(state.holders(&watch(None)), []);
    }
}
