//! Follows the sources of all Plugins. One metadata watch per namespace with sources shows the Plugins that a changed
//! ConfigMap affects, and the current version of each source. [`Remotes`] follows artifacts in registries.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use windlass_api::{ConfigMapSource, ConfiguredSource, Verify};
use windlass_core::object::reason::PluginReason;
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::PluginName;

use super::facts::{Facts, Version};
use super::folder::Folder;
use super::oci::Http;
use super::remotes::{Lookup, Places, Remotes};
use super::secrets::Secrets;
use super::trust::Trust;
use super::{Changed, DeliveryError};

/// A signal of the watch on a namespace's ConfigMaps.
#[derive(Debug)]
pub enum Signal {
    /// The watch starts, and will send a list.
    Begun,
    /// An event of the watch.
    Event(Box<Event<PartialObjectMeta<ConfigMap>>>),
    /// The watch was interrupted: it shows no changes until it starts again. It must start with a new list; otherwise
    /// no version would be known until a ConfigMap changes.
    Interrupted,
}

/// Starts a watch on the metadata of a namespace's ConfigMaps, which passes its signals to the callback until the
/// returned task is aborted.
pub type FollowConfigMaps = Arc<dyn Fn(&str, Box<dyn Fn(Signal) + Send + Sync>) -> AbortHandle + Send + Sync>;

/// How long a reconcile of a Plugin waits for the watch's first list. After that the source is fetched instead.
const PATIENCE: Duration = Duration::from_secs(2);

/// The sources of all Plugins, and the watches on them. Only metadata is watched: a component is fetched when it is
/// needed, and not cached.
pub struct Sources {
    follow: FollowConfigMaps,
    changed: Changed,
    state: Arc<Mutex<State>>,
    /// What is known of components that were fetched or verified before.
    pub facts: Facts,
    /// The artifacts in registries. Each is followed from the first call of `take_resolution`.
    pub remotes: Remotes,
    secrets: Secrets,
    require_signatures: bool,
    folder: Option<Folder>,
}

/// Dependencies of [`Sources`].
pub struct Needs<'a> {
    /// Folder of `facts.json` and of downloads; no other user may have write access to it.
    pub cache_dir: &'a Path,
    /// The host's namespace, whose Secrets contain registry credentials and public keys.
    pub namespace: &'a str,
    /// Registries that are reached without TLS.
    pub plain_http: Vec<String>,
    /// Whether Plugins without `spec.verify` are rejected.
    pub require_signatures: bool,
    /// Folder of components that take precedence over all sources; `None` if there is none.
    pub plugins: Option<PathBuf>,
    /// Starts a watch on the ConfigMaps of a namespace.
    pub follow: FollowConfigMaps,
}

#[derive(Default)]
struct State {
    of_plugin: HashMap<PluginName, ConfigMapSource>,
    namespaces: HashMap<String, Namespace>,
}

/// The ConfigMaps of a namespace as the watch shows them.
struct Namespace {
    task: AbortHandle,
    /// Uid and resourceVersion of each ConfigMap, by name.
    maps: Maps,
    /// The ConfigMaps of a list that is not complete yet.
    listing: Option<Maps>,
    /// Whether `maps` is current: a list was complete, and the watch runs. `None` until the first list is complete or
    /// the watch fails.
    follows: watch::Sender<Option<bool>>,
    /// Whether all callers of [`Sources::version`] still wait for the first list; then its ConfigMaps are not reported
    /// as changes.
    awaited: bool,
}

type Maps = BTreeMap<String, Box<str>>;

impl Drop for Namespace {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Sources {
    /// Creates the follower. It calls `changed` for each Plugin whose source may have changed.
    ///
    /// # Errors
    /// If the folder of components cannot be read.
    pub fn new(client: Client, needs: Needs<'_>, changed: Changed) -> io::Result<Self> {
        let Needs { cache_dir, namespace, plain_http, require_signatures, plugins, follow } = needs;
        let secrets = Secrets::new(client, namespace);
        let facts = Facts::open(cache_dir);
        let lookup = Lookup {
            secrets: secrets.clone(),
            http: Http::default(),
            plain_http,
            facts: facts.clone(),
            folder: cache_dir.to_owned(),
            places: Places::default(),
        };
        Ok(Self {
            follow,
            state: Arc::default(),
            facts,
            remotes: Remotes::new(lookup, changed.clone()),
            folder: plugins.map(|folder| Folder::open(folder, changed.clone())).transpose()?,
            changed,
            secrets,
            require_signatures,
        })
    }

    /// The file that replaces the Plugin's source; `None` if there is no such file.
    pub fn file(&self, plugin: &PluginName) -> Option<PathBuf> {
        self.folder.as_ref()?.file(plugin)
    }

    /// Follows the source that the Plugin names now, instead of its earlier source.
    pub fn follow(&self, plugin: &PluginName, source: ConfiguredSource<'_>) {
        match source {
            ConfiguredSource::ConfigMap(source) => {
                self.remotes.forget(plugin);
                self.follow_config_map(plugin, source);
            }
            // An artifact is followed from the first call of `take_resolution`.
            ConfiguredSource::Oci(_) => self.forget_config_map(plugin),
        }
    }

    fn follow_config_map(&self, plugin: &PluginName, source: &ConfigMapSource) {
        let mut state = self.state.lock();
        if state.of_plugin.get(plugin) == Some(source) {
            return;
        }
        state.of_plugin.insert(plugin.clone(), source.clone());
        if !state.namespaces.contains_key(&source.namespace) {
            let (namespace, of_all, changed) = (source.namespace.clone(), self.state.clone(), self.changed.clone());
            let on_signal = move |signal| {
                let concerned = of_all.lock().on_signal(&namespace, signal);
                concerned.iter().for_each(&*changed);
            };
            let task = (self.follow)(&source.namespace, Box::new(on_signal));
            state.namespaces.insert(source.namespace.clone(), Namespace::new(task));
        }
        state.end_unused();
    }

    /// Stops following the sources of a deleted Plugin.
    pub fn forget(&self, plugin: &PluginName) {
        self.remotes.forget(plugin);
        self.forget_config_map(plugin);
    }

    /// The keys, one of which must have signed a Plugin's component; `None` if signatures are not checked.
    ///
    /// # Errors
    /// If the keys cannot be read, or the host requires signatures and the Plugin names no keys.
    pub async fn trust(&self, verify: Option<&Verify>) -> Result<Option<Trust>, DeliveryError> {
        self.check_wanted(verify)?;
        self.secrets.trust(verify).await
    }

    /// Checks that a Plugin without `spec.verify` is allowed.
    ///
    /// # Errors
    /// If the host requires signatures and the Plugin has no `spec.verify`.
    pub fn check_wanted(&self, verify: Option<&Verify>) -> Result<(), DeliveryError> {
        if self.require_signatures && verify.is_none() {
            let message = "the host requires signed components (--require-signatures); set spec.verify.publicKeys";
            return Err(DeliveryError::distrust(PluginReason::NotSigned, message));
        }
        Ok(())
    }

    fn forget_config_map(&self, plugin: &PluginName) {
        let mut state = self.state.lock();
        state.of_plugin.remove(plugin);
        state.end_unused();
    }

    /// The version of a followed source; `None` if the source does not exist, or its watch does not run. Waits up to
    /// two seconds for the watch's first list.
    pub async fn version(&self, source: &ConfigMapSource) -> Option<Version> {
        let mut follows = self.state.lock().namespaces.get(&source.namespace)?.follows.subscribe();
        // The result locks the channel. The watch's task takes this lock while it has locked the state, so the result
        // is dropped at once.
        let _ = tokio::time::timeout(PATIENCE, follows.wait_for(Option::is_some)).await.map(drop);
        self.state.lock().version(source)
    }

    /// Removes the records of sources that no Plugin names, and of components that are not in `used`. Call this method
    /// only after [`Self::follow()`] was called for all Plugins.
    pub async fn tidy(&self, used: &HashSet<Digest>) {
        let named = self.state.lock().of_plugin.values().map(ToString::to_string).collect();
        self.facts.retain(named, used).await;
    }
}

impl Namespace {
    fn new(task: AbortHandle) -> Self {
        let follows = watch::Sender::new(None);
        Self { task, maps: Maps::new(), listing: None, follows, awaited: true }
    }

    fn version_of(&self, head: &str) -> Option<Version> {
        self.maps.contains_key(head).then(|| {
            let from_head = self.maps.range::<str, _>((Bound::Included(head), Bound::Unbounded));
            let named_so = from_head.take_while(|(name, _)| name.starts_with(head));
            let of_source = named_so.filter(|(name, _)| is_of(name, head));
            Version::of(of_source.map(|(name, state)| (name.as_str(), &**state)))
        })
    }

    /// Applies an event; returns the names of the changed ConfigMaps.
    fn on_event(&mut self, event: Event<PartialObjectMeta<ConfigMap>>) -> Vec<String> {
        match event {
            Event::Init => {
                self.listing = Some(Maps::new());
                Vec::new()
            }
            Event::InitApply(map) => {
                let (name, state) = name_and_state(map);
                self.listing.get_or_insert_default().insert(name, state);
                Vec::new()
            }
            Event::InitDone => self.list_ends(),
            Event::Apply(map) => {
                let (name, state) = name_and_state(map);
                self.maps.insert(name.clone(), state);
                vec![name]
            }
            Event::Delete(map) => {
                let (name, _) = name_and_state(map);
                self.maps.remove(&name);
                vec![name]
            }
        }
    }

    fn list_ends(&mut self) -> Vec<String> {
        let listed = self.listing.take().unwrap_or_default();
        let before = std::mem::replace(&mut self.maps, listed);
        self.follows.send_replace(Some(true));
        if std::mem::take(&mut self.awaited) {
            return Vec::new();
        }
        let names: BTreeSet<_> = before.keys().chain(self.maps.keys()).collect();
        names.into_iter().filter(|&name| before.get(name) != self.maps.get(name)).cloned().collect()
    }
}

impl State {
    fn end_unused(&mut self) {
        let Self { of_plugin, namespaces } = self;
        namespaces.retain(|namespace, _| of_plugin.values().any(|source| source.namespace == *namespace));
    }

    fn version(&mut self, source: &ConfigMapSource) -> Option<Version> {
        let namespace = self.namespaces.get_mut(&source.namespace)?;
        if *namespace.follows.borrow() != Some(true) {
            namespace.awaited = false;
            return None;
        }
        namespace.version_of(&source.name)
    }

    /// Applies a signal of a namespace's watch; returns the Plugins whose sources changed.
    fn on_signal(&mut self, namespace: &str, signal: Signal) -> Vec<PluginName> {
        let Some(followed) = self.namespaces.get_mut(namespace) else { return Vec::new() };
        let changed = match signal {
            Signal::Event(event) => followed.on_event(*event),
            // Before the first list there are no ConfigMaps, and callers continue to wait for that list.
            Signal::Begun if *followed.follows.borrow() != Some(true) => return Vec::new(),
            // The ConfigMaps may be outdated. If the watch's task panicked, it sent no interruption before its next start.
            Signal::Begun | Signal::Interrupted => {
                followed.follows.send_replace(Some(false));
                return Vec::new();
            }
        };
        let concerned = self.of_plugin.iter().filter(|(_, source)| {
            source.namespace == namespace && changed.iter().any(|changed| is_of(changed, &source.name))
        });
        concerned.map(|(plugin, _)| plugin.clone()).collect()
    }
}

fn name_and_state(map: PartialObjectMeta<ConfigMap>) -> (String, Box<str>) {
    let meta = map.metadata;
    let state = meta.uid.unwrap_or_default() + " " + &meta.resource_version.unwrap_or_default();
    (meta.name.unwrap_or_default(), state.into())
}

/// Whether a ConfigMap is a source's head, or may be a part of it.
fn is_of(name: &str, head: &str) -> bool {
    name.strip_prefix(head).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMESPACE: &str = "n";

    fn map(name: &str, version: &str) -> PartialObjectMeta<ConfigMap> {
        let metadata = serde_json::json!({"metadata": {"name": name, "uid": "u", "resourceVersion": version}});
        serde_json::from_value(metadata).expect("metadata")
    }

    /// A Plugin `echo` whose source is the ConfigMap `echo`, in a namespace whose first list is not there yet.
    fn state() -> State {
        let task = tokio::spawn(std::future::ready(())).abort_handle();
        let source = ConfigMapSource { namespace: NAMESPACE.to_owned(), name: "echo".to_owned() };
        State {
            of_plugin: HashMap::from([("echo".parse().expect("a name"), source)]),
            namespaces: HashMap::from([(NAMESPACE.to_owned(), Namespace::new(task))]),
        }
    }

    fn version(state: &mut State) -> Option<Version> {
        state.version(&ConfigMapSource { namespace: NAMESPACE.to_owned(), name: "echo".to_owned() })
    }

    fn on_event(state: &mut State, event: Event<PartialObjectMeta<ConfigMap>>) -> Vec<PluginName> {
        state.on_signal(NAMESPACE, Signal::Event(Box::new(event)))
    }

    /// Number of Plugins that a list of these ConfigMaps affects.
    fn listed(state: &mut State, maps: &[(&str, &str)]) -> usize {
        let items = maps.iter().map(|(name, version)| Event::InitApply(map(name, version)));
        let events = std::iter::once(Event::Init).chain(items).chain([Event::InitDone]);
        events.map(|event| on_event(state, event).len()).sum()
    }

    #[tokio::test]
    async fn source_version_changes_with_its_head_and_with_every_possible_part() {
        let mut state = state();
        on_event(&mut state, Event::Init);
        on_event(&mut state, Event::InitApply(map("echo", "1")));
        assert_eq!(version(&mut state), None, "the list is not complete");
        listed(&mut state, &[("echo", "1"), ("echo-0", "1"), ("echoes", "1"), ("other", "1")]);
        let first = version(&mut state).expect("a version");
        for (name, is_affected) in
            [("echo", true), ("echo-0", true), ("echo-1", true), ("echoes", false), ("other", false)]
        {
            let plugins = on_event(&mut state, Event::Apply(map(name, "2")));
            assert_eq!((plugins.len() == 1, version(&mut state) != Some(first)), (is_affected, is_affected), "{name}");
            let back = if name == "echo-1" { Event::Delete(map(name, "2")) } else { Event::Apply(map(name, "1")) };
            on_event(&mut state, back);
            assert_eq!(version(&mut state), Some(first), "the earlier version again");
        }
        on_event(&mut state, Event::Delete(map("echo", "1")));
        assert_eq!(version(&mut state), None, "parts without a head are no source");
    }

    #[tokio::test]
    async fn new_list_reports_plugins_whose_source_changed_since_the_last_list() {
        let mut state = state();
        assert_eq!(listed(&mut state, &[("echo", "1")]), 0, "callers wait for the first list");
        assert_eq!(listed(&mut state, &[("echo", "1"), ("other", "1")]), 0);
        assert_eq!(listed(&mut state, &[("echo", "2"), ("other", "1")]), 1);
        assert_eq!(listed(&mut state, &[("other", "1")]), 1, "the ConfigMap is no longer listed");

        let mut state = self::state();
        assert_eq!(listed(&mut state, &[]), 0);
        assert_eq!(listed(&mut state, &[("echo", "1")]), 1, "the ConfigMap was missing before");

        let mut state = self::state();
        assert_eq!(version(&mut state), None);
        assert_eq!(listed(&mut state, &[("echo", "1")]), 1, "a caller that did not wait may have an earlier version");
    }

    #[tokio::test]
    async fn source_has_no_known_version_while_its_watch_is_interrupted() {
        let mut state = state();
        listed(&mut state, &[("echo", "1")]);
        assert!(version(&mut state).is_some());
        state.on_signal(NAMESPACE, Signal::Interrupted);
        assert_eq!(version(&mut state), None);
        assert_eq!(listed(&mut state, &[("echo", "1")]), 0, "nothing changed");
        assert!(version(&mut state).is_some(), "a complete list ends the interruption");
    }
}
