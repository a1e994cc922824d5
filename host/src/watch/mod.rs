//! Shared watches: one cache per kind and selector, for as long as somebody holds it.

mod raw;
mod store;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use kube::core::ApiResource;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::watch;
use windlass_core::ids::Gvk;
use windlass_core::object::Object;

use raw::Raw;
pub use store::{Change, Store};

/// What to watch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WatchId {
    /// The kind.
    pub kind: Arc<Gvk>,
    /// Label selector in kubectl's syntax; none for all objects of the kind.
    pub labels: Option<String>,
}

/// How a watch is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// The first list is not complete.
    Starting,
    /// The cache follows the API server.
    Synced,
    /// The API server refuses: the host lacks the right, or the kind is gone.
    Refused {
        /// HTTP status.
        code: u16,
        /// What it said.
        message: String,
    },
}

/// Called by a watch's task for each change, in the order of the watch; must not block.
pub type Listener = Arc<dyn Fn(&Gvk, &Change) + Send + Sync>;

/// All watches of the host.
pub struct Watches {
    client: Client,
    listener: Listener,
    running: Mutex<HashMap<WatchId, Weak<Watch>>>,
}

/// One running watch; it ends when the last holder lets go.
pub struct Watch {
    /// What it watches.
    pub id: WatchId,
    /// The kind as discovery describes it.
    pub resource: ApiResource,
    /// What it has seen.
    pub store: Arc<Store>,
    health: watch::Receiver<Health>,
    task: tokio::task::AbortHandle,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watches {
    /// Watches that tell `listener` of every change.
    pub fn new(client: Client, listener: Listener) -> Self {
        Self { client, listener, running: Mutex::default() }
    }

    /// The watch of that kind and selector: the running one, or a new one.
    pub fn lease(&self, kind: &Arc<Gvk>, resource: &ApiResource, labels: Option<&str>) -> Arc<Watch> {
        let id = WatchId { kind: kind.clone(), labels: labels.map(str::to_owned) };
        let mut running = self.running.lock();
        running.retain(|_, watch| watch.strong_count() > 0);
        if let Some(watch) = running.get(&id).and_then(Weak::upgrade) {
            return watch;
        }
        let store = Arc::new(Store::default());
        let (report, health) = watch::channel(Health::Starting);
        let task = tokio::spawn(follow(
            Api::all_with(self.client.clone(), resource),
            id.clone(),
            store.clone(),
            self.listener.clone(),
            report,
        ))
        .abort_handle();
        let watch = Arc::new(Watch { id: id.clone(), resource: resource.clone(), store, health, task });
        running.insert(id, Arc::downgrade(&watch));
        watch
    }
}

impl Watch {
    /// Waits until the cache is filled.
    ///
    /// # Errors
    /// The API server's refusal, or [`Health::Starting`] when the time is over.
    pub async fn synced(&self, timeout: Duration) -> Result<(), Health> {
        let mut health = self.health.clone();
        let settled = health.wait_for(|health| *health != Health::Starting);
        match tokio::time::timeout(timeout, settled).await {
            Ok(Ok(health)) if *health == Health::Synced => Ok(()),
            Ok(Ok(health)) => Err(health.clone()),
            Ok(Err(_)) | Err(_) => Err(Health::Starting),
        }
    }
}

async fn follow(api: Api<Raw>, id: WatchId, store: Arc<Store>, listener: Listener, health: watch::Sender<Health>) {
    let config = watcher::Config { label_selector: id.labels.clone(), ..watcher::Config::default() };
    // A backoff of its own: a kind that fails delays no other.
    let mut events = std::pin::pin!(watcher::watcher(api, config).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => store.list_begins(),
            Ok(Event::InitApply(raw)) => {
                if let Some(object) = decode(&id.kind, &raw) {
                    store.listed(object);
                }
            }
            Ok(Event::InitDone) => {
                let changes = store.list_ends();
                tracing::debug!(kind = %id.kind, changes = changes.len(), "cache filled");
                for change in changes {
                    listener(&id.kind, &change);
                }
                health.send_replace(Health::Synced);
            }
            Ok(Event::Apply(raw)) => {
                if let Some(object) = decode(&id.kind, &raw) {
                    listener(&id.kind, &store.applied(object));
                }
            }
            Ok(Event::Delete(raw)) => {
                let change = decode(&id.kind, &raw).and_then(|object| store.deleted(&object));
                if let Some(change) = change {
                    listener(&id.kind, &change);
                }
            }
            Err(error) => report_failure(&id.kind, &error, &health),
        }
    }
}

/// One object that cannot be read is left out and said in the log; the watch goes on.
fn decode(kind: &Arc<Gvk>, raw: &Raw) -> Option<Object> {
    Object::from_api(kind, raw.text.get())
        .inspect_err(|error| tracing::warn!(%kind, %error, "an object was skipped"))
        .ok()
}

fn report_failure(kind: &Gvk, error: &watcher::Error, health: &watch::Sender<Health>) {
    let source = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Some(error),
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => None,
    };
    if let Some(kube::Error::Api(status)) = source
        && matches!(status.code, 401 | 403 | 404 | 405)
    {
        tracing::warn!(%kind, code = status.code, message = status.message, "the watch is refused");
        let refused = Health::Refused { code: status.code, message: status.message.clone() };
        health.send_replace(refused);
    } else {
        // Watches end all the time; the watcher takes them up again.
        tracing::debug!(%kind, %error, "the watch was interrupted");
    }
}
