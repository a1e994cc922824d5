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
use windlass_core::names::LABEL_PLUGIN;
use windlass_core::object::Object;

use raw::Raw;
use store::Index;
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

/// Called when a watch begins or ceases to be refused; must not block.
pub type HealthListener = Arc<dyn Fn() + Send + Sync>;

/// All watches of the host.
pub struct Watches {
    client: Client,
    listener: Listener,
    health_changed: HealthListener,
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
    /// Watches that tell `listener` of every change, and `health_changed` when one is refused or no longer so.
    pub fn new(client: Client, listener: Listener, health_changed: HealthListener) -> Self {
        Self { client, listener, health_changed, running: Mutex::default() }
    }

    /// The watch of that kind and selector: the running one, or a new one.
    pub fn lease(&self, kind: &Arc<Gvk>, resource: &ApiResource, labels: Option<&str>) -> Arc<Watch> {
        let id = WatchId { kind: kind.clone(), labels: labels.map(str::to_owned) };
        let mut running = self.running.lock();
        running.retain(|_, watch| watch.strong_count() > 0);
        if let Some(watch) = running.get(&id).and_then(Weak::upgrade) {
            return watch;
        }
        // Children are found by their owner, anything else by its identity.
        let index = if labels == Some(LABEL_PLUGIN) { Index::Owner } else { Index::Identity };
        let store = Arc::new(Store::new(index));
        let (report, health) = watch::channel(Health::Starting);
        let follower = Follower {
            id: id.clone(),
            store: store.clone(),
            listener: self.listener.clone(),
            health: report,
            health_changed: self.health_changed.clone(),
        };
        let task = tokio::spawn(follower.follow(Api::all_with(self.client.clone(), resource))).abort_handle();
        let watch = Arc::new(Watch { id: id.clone(), resource: resource.clone(), store, health, task });
        running.insert(id, Arc::downgrade(&watch));
        watch
    }
}

impl Watch {
    /// Whether the API server lets the host follow the kind.
    pub fn is_followed(&self) -> bool {
        !matches!(*self.health.borrow(), Health::Refused { .. })
    }

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

/// How long a watch rests before it starts anew. Rights and definitions change by a person's hand.
const REST: Duration = Duration::from_secs(5);

/// The task behind a watch.
struct Follower {
    id: WatchId,
    store: Arc<Store>,
    listener: Listener,
    health: watch::Sender<Health>,
    health_changed: HealthListener,
}

impl Follower {
    async fn follow(self, api: Api<Raw>) {
        loop {
            let config = watcher::Config { label_selector: self.id.labels.clone(), ..watcher::Config::default() };
            // A backoff of its own: a kind that fails delays no other.
            let mut events = std::pin::pin!(watcher::watcher(api.clone(), config).default_backoff());
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => self.on_event(event),
                    Err(error) => match verdict_on(&self.id.kind, &error) {
                        AfterError::GoOn => {}
                        AfterError::StartAnew => break,
                        AfterError::Refused(refused) => {
                            self.set_health(refused);
                            break;
                        }
                    },
                }
            }
            // From the first list again: only a complete one shows that the refusal is over.
            tokio::time::sleep(REST).await;
        }
    }

    fn on_event(&self, event: Event<Raw>) {
        let Self { id, store, listener, .. } = self;
        match event {
            Event::Init => store.list_begins(),
            Event::InitApply(raw) => {
                if let Some(object) = decode(&id.kind, &raw) {
                    store.listed(object);
                }
            }
            Event::InitDone => {
                let changes = store.list_ends();
                tracing::debug!(kind = %id.kind, changes = changes.len(), "cache filled");
                for change in changes {
                    listener(&id.kind, &change);
                }
                self.set_health(Health::Synced);
            }
            Event::Apply(raw) => {
                if let Some(object) = decode(&id.kind, &raw) {
                    listener(&id.kind, &store.applied(object));
                }
            }
            Event::Delete(raw) => {
                let change = decode(&id.kind, &raw).and_then(|object| store.deleted(&object));
                if let Some(change) = change {
                    listener(&id.kind, &change);
                }
            }
        }
    }

    /// The first list is no news: whoever leased the watch waits for it.
    fn set_health(&self, health: Health) {
        let news = *self.health.borrow() != Health::Starting && *self.health.borrow() != health;
        self.health.send_replace(health);
        if news {
            (self.health_changed)();
        }
    }
}

/// One object that cannot be read is left out and said in the log; the watch goes on.
fn decode(kind: &Arc<Gvk>, raw: &Raw) -> Option<Object> {
    Object::from_api(kind, raw.text.get())
        .inspect_err(|error| tracing::warn!(%kind, %error, "an object was skipped"))
        .ok()
}

enum AfterError {
    /// Watches end all the time, and the watcher takes them up again.
    GoOn,
    /// The watcher would ask for the same outdated version for ever.
    StartAnew,
    /// A person has to change something first.
    Refused(Health),
}

fn verdict_on(kind: &Gvk, error: &watcher::Error) -> AfterError {
    let source = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Some(error),
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => None,
    };
    match source {
        Some(kube::Error::Api(status)) if matches!(status.code, 401 | 403 | 404 | 405) => {
            tracing::warn!(%kind, code = status.code, message = status.message, "the watch is refused");
            AfterError::Refused(Health::Refused { code: status.code, message: status.message.clone() })
        }
        Some(kube::Error::Api(status)) if status.code == 410 => AfterError::StartAnew,
        _ => {
            tracing::debug!(%kind, %error, "the watch was interrupted");
            AfterError::GoOn
        }
    }
}
