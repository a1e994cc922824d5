//! The task of a watch: fills and follows the cache, and reports changes and the watch's health.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::Api;
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;
use windlass_core::object::Object;

use super::progress::WatchProgress;
use super::raw::Raw;
use super::store::{Change, Store};
use super::stream::events;
use super::{Filter, Health, HealthListener, Listener, WatchId, decode, refusal};

/// Time until a rejected watch is retried. Permissions and CRDs are changed by hand.
const REST: Duration = Duration::from_secs(5);

/// Number of listed objects that are handled before other tasks, such as the connections, run on this thread.
const AT_ONCE: usize = 32;

/// Number of listed objects that may wait to be handled: one page.
const AHEAD: usize = 500;

/// The task of a watch.
pub(super) struct Follower {
    pub(super) id: WatchId,
    pub(super) filter: Option<Filter>,
    pub(super) store: Arc<Store>,
    pub(super) listener: Listener,
    pub(super) health: watch::Sender<Health>,
    pub(super) progress: Arc<WatchProgress>,
    pub(super) given_up: Arc<AtomicBool>,
    pub(super) health_changed: HealthListener,
}

impl Follower {
    /// Follows the API server for ever.
    pub(super) async fn follow(self: Arc<Self>, api: Api<Raw>) {
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
        let tell = |change: Change| {
            if !id.metadata_only
                || change.before.as_ref().map(|object| object.content)
                    != change.after.as_ref().map(|object| object.content)
            {
                listener(id, &change);
            }
        };
        match event {
            Event::Init => store.begin_list(),
            Event::InitApply(raw) => {
                if let Some(object) = decode(id, &raw).filter(|object| self.keeps(object)) {
                    store.add_listed(object);
                }
            }
            Event::InitDone => {
                let changes = store.finish_list();
                tracing::debug!(kind = %id.kind, changes = changes.len(), "cache filled");
                changes.into_iter().for_each(tell);
                self.set_health(Health::Synced);
            }
            Event::Apply(raw) => {
                let change = decode(id, &raw).and_then(|object| {
                    if self.keeps(&object) { Some(store.upsert(object)) } else { store.remove(&object) }
                });
                change.into_iter().for_each(tell);
            }
            Event::Delete(raw) => {
                let change = decode(id, &raw).and_then(|object| store.remove(&object));
                change.into_iter().for_each(tell);
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

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};
    use parking_lot::Mutex;
    use windlass_core::value::ids::{Gvk, ObjectKey};

    use super::super::{AllProgress, Index};
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
                labels: Some("app".to_owned()),
                ..WatchId::of_kind(Arc::new(Gvk::from_api_version("v1", "Pod")))
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
    fn watch_of_metadata_reports_no_change_of_anything_else() {
        let Fixture { mut follower, reported, .. } = fixture();
        follower.id = WatchId { metadata_only: true, ..WatchId::of_kind(follower.id.kind.clone()) };
        let pod = |version: u32, label: &str| {
            raw(&format!(
                r#"{{"metadata":{{"name":"a","uid":"a","resourceVersion":"{version}","generation":{version},"labels":{{"app":"{label}"}}}}}}"#
            ))
        };
        follower.on_event(Event::Init);
        follower.on_event(Event::InitApply(pod(1, "x")));
        follower.on_event(Event::InitDone);
        for (event, reports) in [
            (Event::Apply(pod(2, "x")), 0),
            (Event::Apply(pod(3, "y")), 1),
            (Event::Delete(pod(4, "y")), 1),
            (Event::Apply(pod(5, "y")), 1),
        ] {
            reported.lock().clear();
            follower.on_event(event);
            assert_eq!(reported.lock().len(), reports, "{:?}", follower.store.get(&ObjectKey::new(None, "a")));
        }
    }

    #[test]
    fn r14_parent_that_leaves_the_selector_is_shown_until_it_loses_the_finalizer() {
        let Fixture { mut follower, reported, .. } = fixture();
        follower.id.finalizer = Some("echo".parse().expect("a name"));
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
