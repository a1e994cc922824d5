//! Shared watches: one cache per kind and selector, which exists as long as it is referenced.

mod config_maps;
mod follower;
mod metadata;
mod progress;
mod raw;
mod store;
mod stream;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kube::core::{ApiResource, Status};
use kube::runtime::watcher;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::watch;
use windlass_core::object::Object;
use windlass_core::object::names::LABEL_PLUGIN;
use windlass_core::object::selector::Selector;
use windlass_core::reconcile::next_step::has_finalizer;
use windlass_core::value::ids::{Gvk, ObjectKey, PluginName};

use self::follower::Follower;
use self::raw::Raw;
use super::in_time;
use super::writer::response::refused;
use crate::clock;
pub use config_maps::follow_config_maps;
pub use progress::{AllProgress, Stalled, WatchProgress};
pub use store::{Change, Index, Store};
pub use stream::events;
#[cfg(test)]
pub use stream::settings;

/// Identifies a watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WatchId {
    /// The kind.
    pub kind: Arc<Gvk>,
    /// Label selector in kubectl's syntax; none for all objects of the kind.
    pub labels: Option<String>,
    /// Objects with a finalizer of this plugin, if set, are shown as well, even if the label selector does not match.
    pub finalizer: Option<PluginName>,
    /// Whether the objects have nothing but their metadata, and a change of anything else is none.
    pub metadata_only: bool,
}

impl WatchId {
    /// The watch of all objects of a kind.
    pub fn of_kind(kind: Arc<Gvk>) -> Self {
        Self { kind, labels: None, finalizer: None, metadata_only: false }
    }
}

/// Selects the objects that a watch keeps: those that match the label selector, and those with a finalizer of the plugin. The API
/// server cannot select by finalizers, and reports an object that no longer matches the selector as deleted.
#[derive(Debug, Clone)]
struct Filter {
    selector: Selector,
    finalizer: PluginName,
}

impl Filter {
    fn of(id: &WatchId) -> Option<Self> {
        // An invalid selector is left to the API server, which rejects it.
        Some(Self { selector: id.labels.as_ref()?.parse().ok()?, finalizer: id.finalizer.clone()? })
    }

    fn selects(&self, object: &Object) -> bool {
        object.with_labels(|labels| self.selector.matches(labels))
    }

    fn keeps(&self, object: &Object) -> bool {
        has_finalizer(object, &self.finalizer) || self.selects(object)
    }
}

/// State of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// The first list is not complete.
    Starting,
    /// The cache follows the API server.
    Synced,
    /// The API server rejects the watch: the host lacks the permission, the kind is gone, or the label selector is
    /// invalid.
    Refused {
        /// HTTP status.
        code: u16,
        /// Message of the API server.
        message: String,
    },
}

/// Called by a watch's task for each change, in the order of the watch; must not block. Two watches of one kind with
/// different selectors each report their own changes, so the listener gets the id of the watch.
pub type Listener = Arc<dyn Fn(&WatchId, &Change) + Send + Sync>;

/// Called when the API server starts or stops rejecting a watch, when a watch stalls or recovers, or when it fills its
/// cache after a caller gave up waiting; must not block.
pub type HealthListener = Arc<dyn Fn(&WatchId) + Send + Sync>;

/// All watches of the host.
pub struct Watches {
    client: Client,
    listener: Listener,
    health_changed: HealthListener,
    progress: AllProgress,
    running: Mutex<HashMap<WatchId, Weak<Watch>>>,
}

/// A running watch; it ends when the last reference is dropped.
pub struct Watch {
    /// Identifies the watch.
    pub id: WatchId,
    /// The kind, as discovery describes it.
    pub resource: ApiResource,
    /// The cache.
    pub store: Arc<Store>,
    client: Client,
    filter: Option<Filter>,
    health: watch::Receiver<Health>,
    progress: Arc<WatchProgress>,
    /// Whether a caller timed out waiting for the first list, so that its end must be reported.
    given_up: Arc<AtomicBool>,
    task: tokio::task::AbortHandle,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watches {
    /// Watches that report each change to `listener`, and each change of their health to `health_changed`.
    pub fn new(client: Client, listener: Listener, health_changed: HealthListener, progress: AllProgress) -> Self {
        Self { client, listener, health_changed, progress, running: Mutex::default() }
    }

    /// Checks all watches for stalls and recovery, as long as the future is polled.
    pub async fn look_for_stalls(&self) {
        let mut ticks = tokio::time::interval(LOOK_FOR_STALLS);
        loop {
            ticks.tick().await;
            let now = clock::now();
            for watch in self.running() {
                if watch.progress.check(now) {
                    (self.health_changed)(&watch.id);
                }
            }
            // Also checks the watches that are not shared.
            self.progress.check(now);
        }
    }

    /// The watches that have stalled.
    pub fn stalled(&self) -> Vec<(WatchId, Stalled)> {
        self.running().iter().filter_map(|watch| Some((watch.id.clone(), watch.stalled()?))).collect()
    }

    fn running(&self) -> Vec<Arc<Watch>> {
        self.running.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// The watch of this kind and selector: the running one, or a new one.
    pub fn lease(&self, kind: &Arc<Gvk>, resource: &ApiResource, labels: Option<&str>) -> Arc<Watch> {
        self.lease_parents(kind, resource, labels, None)
    }

    /// The watch of the metadata of all objects of this kind.
    pub fn lease_metadata(&self, kind: &Arc<Gvk>, resource: &ApiResource) -> Arc<Watch> {
        self.lease_of(WatchId { metadata_only: true, ..WatchId::of_kind(kind.clone()) }, resource)
    }

    /// The watch of parents. With a label selector and a finalizer, it reads all objects of the kind, and shows those
    /// that the selector matches or that have the finalizer.
    pub fn lease_parents(
        &self,
        kind: &Arc<Gvk>,
        resource: &ApiResource,
        labels: Option<&str>,
        finalizer: Option<PluginName>,
    ) -> Arc<Watch> {
        let (labels, finalizer) = (labels.map(str::to_owned), labels.and(finalizer));
        self.lease_of(WatchId { labels, finalizer, ..WatchId::of_kind(kind.clone()) }, resource)
    }

    fn lease_of(&self, id: WatchId, resource: &ApiResource) -> Arc<Watch> {
        let mut running = self.running.lock();
        running.retain(|_, watch| watch.strong_count() > 0);
        // A CRD may be recreated with another plural; the API server would reject the old watch forever.
        if let Some(watch) = running.get(&id).and_then(Weak::upgrade).filter(|watch| watch.resource == *resource) {
            return watch;
        }
        // Children are looked up by owner, all other objects by uid.
        let index = if id.labels.as_deref() == Some(LABEL_PLUGIN) { Index::Owner } else { Index::Uid };
        let store = Arc::new(Store::new(index));
        let (report, health) = watch::channel(Health::Starting);
        let given_up = Arc::new(AtomicBool::new(false));
        let filter = Filter::of(&id);
        let progress = self.progress.track(&id.kind);
        let follower = Follower {
            id: id.clone(),
            filter: filter.clone(),
            store: store.clone(),
            listener: self.listener.clone(),
            health: report,
            progress: progress.clone(),
            given_up: given_up.clone(),
            health_changed: self.health_changed.clone(),
        };
        let client = progress.of_client(self.client.clone());
        let client = if id.metadata_only { metadata::of_client(client) } else { client };
        let api = Api::all_with(client, resource);
        let (follower, supervisor) = (Arc::new(follower), progress.clone());
        let task = tokio::spawn(async move { supervisor.supervise(|| follower.clone().follow(api.clone())).await });
        let watch = Arc::new(Watch {
            id: id.clone(),
            resource: resource.clone(),
            store,
            client: self.client.clone(),
            filter,
            health,
            progress,
            given_up,
            task: task.abort_handle(),
        });
        running.insert(id, Arc::downgrade(&watch));
        watch
    }
}

impl Watch {
    /// Whether the selector matches an object of this watch.
    pub fn selects(&self, object: &Object) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.selects(object))
    }

    /// Reads the object of this name from the API server, whether the selector matches or not.
    ///
    /// # Errors
    /// If the request fails.
    pub async fn read(&self, key: &ObjectKey) -> kube::Result<Option<Object>> {
        let api: Api<Raw> = match &key.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &self.resource),
            None => Api::all_with(self.client.clone(), &self.resource),
        };
        let raw = match in_time(api.get(&key.name)).await {
            Ok(raw) => raw,
            Err(error) => {
                let names = (&*self.resource.kind, &*self.resource.plural);
                return if refused(&error).is_gone(names, &key.name, None) { Ok(None) } else { Err(error) };
            }
        };
        // An object that cannot be parsed still exists.
        let unreadable = || kube::Error::SerdeError(serde::de::Error::custom("the object cannot be read"));
        decode(&self.id, &raw).map(Some).ok_or_else(unreadable)
    }

    /// Whether the watch runs: the API server accepts it, and it makes progress.
    pub fn is_followed(&self) -> bool {
        !self.progress.is_stalled() && !matches!(*self.health.borrow(), Health::Refused { .. })
    }

    /// Whether the cache is filled and the watch runs.
    pub fn is_synced(&self) -> bool {
        !self.progress.is_stalled() && *self.health.borrow() == Health::Synced
    }

    /// Why the watch makes no progress, if it has stalled.
    pub fn stalled(&self) -> Option<Stalled> {
        self.progress.stalled()
    }

    /// Waits until the cache is filled.
    ///
    /// # Errors
    /// The API server's rejection, or [`Health::Starting`] after the timeout.
    pub async fn synced(&self, timeout: Duration) -> Result<(), Health> {
        let mut health = self.health.clone();
        let settled = health.wait_for(|health| *health != Health::Starting);
        match tokio::time::timeout(timeout, settled).await {
            Ok(Ok(health)) if *health == Health::Synced => Ok(()),
            Ok(Ok(health)) => Err(health.clone()),
            Ok(Err(_)) | Err(_) => {
                self.given_up.store(true, Ordering::Relaxed);
                Err(Health::Starting)
            }
        }
    }
}

/// Time between two checks for stalled watches. Callers that wait for such a watch wait up to this much longer.
const LOOK_FOR_STALLS: Duration = Duration::from_secs(1);

/// Parses an object. An object that cannot be parsed is logged and skipped; the watch continues.
fn decode(WatchId { kind, metadata_only, .. }: &WatchId, raw: &Raw) -> Option<Object> {
    Object::from_api(kind, raw.text.get())
        .and_then(|object| if *metadata_only { object.metadata_alone() } else { Ok(object) })
        .inspect_err(|error| tracing::warn!(%kind, %error, "an object was skipped"))
        .ok()
}

/// The rejection, if the error needs a user to change something. Other errors are temporary: watches end all the time,
/// and the watcher resumes them.
fn refusal(error: &watcher::Error) -> Option<Health> {
    // 400: the API server cannot parse the label selector.
    let status = response_of(error).filter(|status| matches!(status.code, 400 | 401 | 403 | 404 | 405))?;
    Some(Health::Refused { code: status.code, message: status.message.clone() })
}

/// The API server's response to a list, or to the beginning of a watch, if it is the error.
fn response_of(error: &watcher::Error) -> Option<&Status> {
    let error = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => error,
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => return None,
    };
    if let kube::Error::Api(status) = error { Some(status) } else { None }
}
