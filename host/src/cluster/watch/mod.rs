//! Shared watches: one cache per kind and selector, which exists as long as it is referenced.

mod config_maps;
mod progress;
mod raw;
mod store;
mod stream;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::watch;
use windlass_core::ids::{Gvk, ObjectKey};
use windlass_core::names::LABEL_PLUGIN;
use windlass_core::object::Object;
use windlass_core::selector::Selector;

use self::raw::Raw;
use super::in_time;
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
    /// Objects with this finalizer, if set, are shown as well, even if the label selector does not match.
    pub finalizer: Option<String>,
}

/// Selects the objects that a watch keeps: those that match the label selector, and those with the finalizer. The API
/// server cannot select by finalizers, and reports an object that no longer matches the selector as deleted.
#[derive(Debug, Clone)]
struct Filter {
    selector: Selector,
    finalizer: String,
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
        object.finalizers.iter().any(|finalizer| **finalizer == *self.finalizer) || self.selects(object)
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
            let now = Instant::now();
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
        self.lease_id(WatchId { kind: kind.clone(), labels: labels.map(str::to_owned), finalizer: None }, resource)
    }

    /// The watch of parents. With a label selector and a finalizer, it reads all objects of the kind, and shows those
    /// that the selector matches or that have the finalizer.
    pub fn lease_parents(
        &self,
        kind: &Arc<Gvk>,
        resource: &ApiResource,
        labels: Option<&str>,
        finalizer: Option<String>,
    ) -> Arc<Watch> {
        let finalizer = labels.and(finalizer);
        self.lease_id(WatchId { kind: kind.clone(), labels: labels.map(str::to_owned), finalizer }, resource)
    }

    fn lease_id(&self, id: WatchId, resource: &ApiResource) -> Arc<Watch> {
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
        let api = Api::all_with(progress.of_client(self.client.clone()), resource);
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
        let Some(raw) = in_time(api.get_opt(&key.name)).await? else { return Ok(None) };
        // An object that cannot be parsed still exists.
        let unreadable = || kube::Error::SerdeError(serde::de::Error::custom("the object cannot be read"));
        decode(&self.id.kind, &raw).map(Some).ok_or_else(unreadable)
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

/// Time until a rejected watch is retried. Permissions and CRDs are changed by hand.
const REST: Duration = Duration::from_secs(5);

/// Number of listed objects that are handled before other tasks, such as the connections, run on this thread.
const AT_ONCE: usize = 32;

/// Number of listed objects that may wait to be handled: one page.
const AHEAD: usize = 500;

/// The task of a watch.
struct Follower {
    id: WatchId,
    filter: Option<Filter>,
    store: Arc<Store>,
    listener: Listener,
    health: watch::Sender<Health>,
    progress: Arc<WatchProgress>,
    given_up: Arc<AtomicBool>,
    health_changed: HealthListener,
}

impl Follower {
    async fn follow(self: Arc<Self>, api: Api<Raw>) {
        let labels = if self.filter.is_some() { None } else { self.id.labels.clone() };
        loop {
            // Each kind has its own backoff: a kind that fails does not delay another.
            let events = events(api.clone(), labels.clone(), self.progress.clone());
            self.follow_until_refused(std::pin::pin!(events)).await;
            // Start with a list: only a complete list shows that the API server accepts the watch again.
            tokio::time::sleep(REST).await;
        }
    }

    /// Handles events in order. The objects of one page of a list are parsed while the next page is requested.
    async fn follow_until_refused(&self, mut events: impl Stream<Item = watcher::Result<Event<Raw>>> + Unpin) {
        let mut waiting = VecDeque::new();
        loop {
            let next = if waiting.is_empty() {
                events.next().await
            } else if let Poll::Ready(next) = futures::poll!(events.next()) {
                next
            } else {
                self.on_some(&mut waiting).await;
                continue;
            };
            // Parsed objects take less memory. Objects of a list are handled before any event of another type.
            let most = if matches!(next, Some(Ok(Event::InitApply(_)))) { AHEAD } else { 0 };
            while waiting.len() > most {
                self.on_some(&mut waiting).await;
            }
            match next {
                Some(Ok(event @ Event::InitApply(_))) => waiting.push_back(event),
                Some(Ok(event)) => self.on_event(event),
                Some(Err(error)) => {
                    if let Some(refused) = refusal(&error) {
                        return self.set_health(refused);
                    }
                    tracing::debug!(kind = %self.id.kind, %error, "the watch was interrupted");
                }
                None => return,
            }
        }
    }

    /// Handles the next few listed objects.
    async fn on_some(&self, waiting: &mut VecDeque<Event<Raw>>) {
        waiting.drain(..waiting.len().min(AT_ONCE)).for_each(|event| self.on_event(event));
        if waiting.is_empty() {
            waiting.shrink_to(AT_ONCE);
        } else {
            tokio::task::yield_now().await;
        }
    }

    fn on_event(&self, event: Event<Raw>) {
        let Self { id, store, listener, .. } = self;
        match event {
            Event::Init => store.begin_list(),
            Event::InitApply(raw) => {
                if let Some(object) = decode(&id.kind, &raw).filter(|object| self.keeps(object)) {
                    store.add_listed(object);
                }
            }
            Event::InitDone => {
                let changes = store.finish_list();
                tracing::debug!(kind = %id.kind, changes = changes.len(), "cache filled");
                for change in changes {
                    listener(id, &change);
                }
                self.set_health(Health::Synced);
            }
            Event::Apply(raw) => {
                let change = decode(&id.kind, &raw).and_then(|object| {
                    if self.keeps(&object) { Some(store.upsert(object)) } else { store.remove(&object) }
                });
                if let Some(change) = change {
                    listener(id, &change);
                }
            }
            Event::Delete(raw) => {
                let change = decode(&id.kind, &raw).and_then(|object| store.remove(&object));
                if let Some(change) = change {
                    listener(id, &change);
                }
            }
        }
    }

    fn keeps(&self, object: &Object) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.keeps(object))
    }

    /// Sets the health and reports a change; the first list is not reported while a caller waits for it.
    fn set_health(&self, health: Health) {
        let before = self.health.send_replace(health);
        let now = self.health.borrow().clone();
        if before == now {
            return;
        }
        if let Health::Refused { code, message } = &now {
            tracing::warn!(kind = %self.id.kind, code, message, "the API server rejected the watch; retrying");
        }
        if before != Health::Starting || self.given_up.swap(false, Ordering::Relaxed) {
            (self.health_changed)(&self.id);
        }
    }
}

/// Parses an object. An object that cannot be parsed is logged and skipped; the watch continues.
fn decode(kind: &Arc<Gvk>, raw: &Raw) -> Option<Object> {
    Object::from_api(kind, raw.text.get())
        .inspect_err(|error| tracing::warn!(%kind, %error, "an object was skipped"))
        .ok()
}

/// The rejection, if the error needs a user to change something. Other errors are temporary: watches end all the time,
/// and the watcher resumes them.
fn refusal(error: &watcher::Error) -> Option<Health> {
    let source = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Some(error),
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => None,
    };
    match source {
        // 400: the API server cannot parse the label selector.
        Some(kube::Error::Api(status)) if matches!(status.code, 400 | 401 | 403 | 404 | 405) => {
            Some(Health::Refused { code: status.code, message: status.message.clone() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};

    use super::*;

    struct Fixture {
        follower: Follower,
        health: watch::Receiver<Health>,
        reported: Arc<Mutex<Vec<String>>>,
    }

    /// The task's side of a watch, without a connection.
    fn fixture() -> Fixture {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let (changes, healths) = (reported.clone(), reported.clone());
        let (report, health) = watch::channel(Health::Starting);
        let follower = Follower {
            id: WatchId {
                kind: Arc::new(Gvk::from_api_version("v1", "Pod")),
                labels: Some("app".to_owned()),
                finalizer: None,
            },
            filter: None,
            store: Arc::new(Store::new(Index::Uid)),
            listener: Arc::new(move |id, change| {
                let object = change.after.as_ref().or(change.before.as_ref()).expect("an object");
                changes.lock().push(format!("{}[{}] {}", id.kind, id.labels.as_deref().unwrap_or(""), object.key));
            }),
            health: report,
            progress: AllProgress::default().track(&Gvk::from_api_version("v1", "Pod")),
            given_up: Arc::default(),
            health_changed: Arc::new(move |id| healths.lock().push(format!("health of {}", id.kind))),
        };
        Fixture { follower, health, reported }
    }

    fn raw(text: &str) -> Raw {
        serde_json::from_str(text).expect("JSON")
    }

    fn pod(name: &str) -> String {
        format!(r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{name}","resourceVersion":"3"}}}}"#)
    }

    const ODD: [&str; 5] = ["null", "7", r#"["x"]"#, r#"{"metadata":5}"#, r#"{"metadata":{"name":{"a":1}}}"#];

    #[test]
    fn r01_object_that_cannot_be_decoded_never_stops_a_watch() {
        for odd in ODD {
            let listed = format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":[{odd},{}]}}"#, pod("a"));
            let list: ObjectList<Raw> = serde_json::from_str(&listed).expect("a list is parsed whatever its items are");
            let event = format!(r#"{{"type":"MODIFIED","object":{odd}}}"#);
            let event: WatchEvent<Raw> =
                serde_json::from_str(&event).expect("an event is parsed whatever its object is");
            let WatchEvent::Modified(changed) = event else { panic!("{event:?}") };

            let Fixture { follower, health, reported } = fixture();
            follower.on_event(Event::Init);
            list.items.into_iter().for_each(|item| follower.on_event(Event::InitApply(item)));
            follower.on_event(Event::InitDone);
            follower.on_event(Event::Apply(changed));
            follower.on_event(Event::Delete(raw(odd)));
            follower.on_event(Event::Apply(raw(&pod("b"))));
            assert_eq!(*health.borrow(), Health::Synced);
            assert_eq!(*reported.lock(), ["Pod.v1[app] n/a", "Pod.v1[app] n/b"], "{odd}");
        }
    }

    #[tokio::test]
    async fn queued_events_are_handled_in_order_and_before_an_error() {
        let names: Vec<_> = (0..2 * AHEAD).map(|at| format!("p{at:04}")).collect();
        let listed = names.iter().map(|name| Ok(Event::InitApply(raw(&pod(name)))));
        let later = [Ok(Event::InitDone), Ok(Event::Apply(raw(&pod("a")))), Ok(Event::Delete(raw(&pod("a"))))];
        let refused = kube::core::Status { code: 403, message: "no".to_owned(), ..kube::core::Status::default() };
        let refused = Err(watcher::Error::WatchFailed(kube::Error::Api(Box::new(refused))));
        let events = std::iter::once(Ok(Event::Init)).chain(listed).chain(later).chain([refused]);
        // The stream is pending now and then.
        let events = futures::stream::iter(events.enumerate()).then(async |(at, event)| {
            if at % 700 == 0 {
                tokio::task::yield_now().await;
            }
            event
        });

        let Fixture { follower, health, reported } = fixture();
        follower.follow_until_refused(std::pin::pin!(events)).await;
        assert_eq!(*health.borrow(), Health::Refused { code: 403, message: "no".to_owned() });
        let mut reported = reported.lock().clone();
        assert_eq!(reported.pop().as_deref(), Some("health of Pod.v1"));
        assert_eq!(reported.split_off(names.len()), ["Pod.v1[app] n/a", "Pod.v1[app] n/a"]);
        reported.sort();
        assert_eq!(reported, names.iter().map(|name| format!("Pod.v1[app] n/{name}")).collect::<Vec<_>>());
    }

    #[test]
    fn r14_parent_that_leaves_the_selector_is_shown_until_it_loses_the_finalizer() {
        let Fixture { mut follower, reported, .. } = fixture();
        follower.id.finalizer = Some("windlass.dev/echo".to_owned());
        follower.filter = Filter::of(&follower.id);
        let pod = |name: &str, rest: &str| {
            raw(&format!(r#"{{"metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"3",{rest}}}}}"#))
        };
        let (selected, left) = (r#""labels":{"app":"x"}"#, r#""finalizers":["windlass.dev/echo"]"#);
        let another = r#""finalizers":["windlass.dev/other"]"#;
        let key = |name: &str| ObjectKey::new(None, name);
        follower.on_event(Event::Init);
        for (name, rest) in [("a", selected), ("b", left), ("c", another)] {
            follower.on_event(Event::InitApply(pod(name, rest)));
        }
        follower.on_event(Event::InitDone);
        assert_eq!(follower.store.size(), 2, "a parent that left while no host ran is shown");
        follower.on_event(Event::Apply(pod("a", left)));
        let kept = follower.store.get(&key("a")).expect("the parent is still shown");
        assert!(!follower.filter.as_ref().is_some_and(|filter| filter.selects(&kept)));
        reported.lock().clear();
        for name in ["a", "b", "c"] {
            follower.on_event(Event::Apply(pod(name, another)));
        }
        assert_eq!(*reported.lock(), ["Pod.v1[app] a", "Pod.v1[app] b"], "other objects are not reported");
        assert_eq!(follower.store.size(), 0);
    }

    #[test]
    fn health_change_is_reported_once_and_the_first_list_only_after_a_caller_gave_up() {
        let refused = || Health::Refused { code: 403, message: "no".to_owned() };
        let Fixture { follower, reported, .. } = fixture();
        follower.set_health(refused());
        assert!(reported.lock().is_empty(), "the caller that leased the watch waits for this");
        follower.set_health(refused());
        follower.set_health(Health::Synced);
        assert_eq!(reported.lock().len(), 1);
        follower.set_health(Health::Synced);
        assert_eq!(reported.lock().len(), 1);

        let Fixture { follower, reported, .. } = fixture();
        follower.given_up.store(true, Ordering::Relaxed);
        follower.set_health(Health::Synced);
        assert_eq!(reported.lock().len(), 1);
    }

    #[test]
    fn only_errors_that_a_user_must_fix_count_as_a_rejected_watch() {
        let is_rejected = |code| {
            let status = kube::core::Status { code, ..kube::core::Status::default() };
            let error = watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)));
            refusal(&error).is_some()
        };
        assert!([400, 401, 403, 404, 405].into_iter().all(is_rejected));
        assert!(![410, 429, 500, 503, 504].into_iter().any(is_rejected));
        assert!(refusal(&watcher::Error::NoResourceVersion).is_none());
    }
}
