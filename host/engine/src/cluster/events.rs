//! Writes events of `events.k8s.io/v1` on parents. One task writes them beside the reconciles: no reconcile waits for
//! it, and events beyond its capacity are dropped (rule R20).

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_core::object::names::EVENT_REPORTER;
use windlass_core::object::parent::ParentRef;
use windlass_core::reconcile::events::{Before, EventWrite, Ledger, Note, Occasion};
use windlass_core::reconcile::outcome::Outcome;
use windlass_core::value::ids::{Gvk, ObjectKey, PluginName, Uid, is_dns_subdomain};

use crate::clock;

/// Number of events that wait to be written: the bursts of 20 plugins, 1.5 MB at most.
const QUEUE: usize = 1024;
/// Timeout of one write; short, because the events behind it get outdated.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time to write the queued events when the host stops.
const FLUSH: Duration = Duration::from_secs(1);
/// Longest name of the reporting host (`ValidateEventCreate` of Kubernetes' API server).
const INSTANCE_MAX: usize = 128;
/// Length of the parent's name in an event's name, which may have 253 characters: a dot and 16 hexadecimal digits
/// follow.
const PARENT_NAME_MAX: usize = 236;
/// Namespace of events on cluster-scoped parents, where Kubernetes expects them.
const CLUSTER_SCOPED: &str = "default";

/// Records notes about parents as events. Clones share the queue and the ledger.
#[derive(Clone)]
pub struct Recorder {
    ledger: Arc<Mutex<Ledger>>,
    queue: mpsc::Sender<Entry>,
}

/// The task that writes the events.
pub struct EventWriter {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// An event to write.
struct Entry {
    parent: ParentRef,
    note: Note,
    write: EventWrite,
    time: Timestamp,
}

impl Recorder {
    /// Starts the task that writes with this client; it runs until [`EventWriter::close`].
    pub fn start(client: Client) -> (Self, EventWriter) {
        let (queue, entries) = mpsc::channel(QUEUE);
        let stop = CancellationToken::new();
        let task = tokio::spawn(write_all(client, instance(), entries, stop.clone()));
        (Self { ledger: Arc::default(), queue }, EventWriter { stop, task })
    }

    /// Queues notes as events. Repetitions are counted; floods and overflow are dropped. Never waits.
    pub fn record(&self, plugin: &PluginName, parent: &ParentRef, notes: Vec<Note>, occasion: Occasion) {
        if notes.is_empty() {
            return;
        }
        let time = clock::date();
        let mut ledger = self.ledger.lock();
        for note in notes {
            let Some(write) = ledger.emit(plugin, &parent.uid, &note, occasion, time) else { continue };
            let entry = Entry { parent: parent.clone(), note, write, time };
            if self.queue.try_send(entry).is_err() {
                ledger.lost(plugin, time);
            }
        }
        let dropped = ledger.take_dropped(plugin, time);
        drop(ledger);
        if let Some(dropped) = dropped {
            tracing::info!(%plugin, dropped, "events dropped: the plugin exceeds its rate of events");
        }
    }

    /// The outcome before this one, or what `unknown` returns if nothing is remembered of the parent.
    pub fn before(
        &self,
        plugin: &PluginName,
        parent: &Uid,
        outcome: &Outcome,
        unknown: impl FnOnce() -> Before,
    ) -> Before {
        self.ledger.lock().before(plugin, parent, outcome, clock::date(), unknown)
    }

    /// Forgets the events of a Plugin that was deleted.
    pub fn forget(&self, plugin: &PluginName) {
        self.ledger.lock().forget(plugin);
    }
}

impl EventWriter {
    /// Writes the queued events for at most a second, and ends the task. Returns whether all were written, so that no
    /// request is in flight.
    pub async fn close(mut self) -> bool {
        self.stop.cancel();
        let is_done = tokio::time::timeout(FLUSH, &mut self.task).await.is_ok();
        if !is_done {
            self.task.abort();
            tracing::info!("the last events were not written in time");
        }
        is_done
    }
}

async fn write_all(client: Client, instance: String, mut entries: mpsc::Receiver<Entry>, stop: CancellationToken) {
    loop {
        let entry = tokio::select! {
            // Queued events are written before the task ends.
            biased;
            entry = entries.recv() => entry,
            () = stop.cancelled() => None,
        };
        let Some(entry) = entry else { return };
        write(&client, &instance, &entry).await;
    }
}

/// Writes one event. A failure is logged at debug level only: the namespace may be terminating, or the host may lack
/// the permission.
async fn write(client: &Client, instance: &str, entry: &Entry) {
    let mut result = send(client, instance, entry, entry.write).await;
    if let (EventWrite::Count { stamp, .. }, Err(kube::Error::Api(status))) = (entry.write, &result)
        && status.code == 404
    {
        // The event has expired on the API server (`--event-ttl`): create it again.
        result = send(client, instance, entry, EventWrite::Create { stamp }).await;
    }
    match result {
        Ok(()) => tracing::debug!(object = %entry.parent, reason = %entry.note.reason, "event"),
        Err(error) => {
            tracing::debug!(object = %entry.parent, reason = %entry.note.reason, %error, "an event was not written");
        }
    }
}

async fn send(client: &Client, instance: &str, entry: &Entry, write: EventWrite) -> kube::Result<()> {
    let request = request(entry, write, instance).map_err(kube::Error::BuildRequest)?;
    let response = tokio::time::timeout(TIMEOUT, client.request_text(request)).await;
    response.unwrap_or_else(|elapsed| Err(kube::Error::Service(Box::new(elapsed)))).map(drop)
}

fn request(entry: &Entry, write: EventWrite, instance: &str) -> Result<Request<Vec<u8>>, kube::core::request::Error> {
    let namespace = entry.parent.key.namespace.as_deref().unwrap_or(CLUSTER_SCOPED);
    let collection = kube::core::Request::new(format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"));
    match write {
        EventWrite::Create { stamp } => {
            let event = event(entry, namespace, &name(&entry.parent, stamp), instance);
            collection.create(&PostParams::default(), event.to_string().into_bytes())
        }
        EventWrite::Count { stamp, count } => {
            let series = json!({"series": {"count": count, "lastObservedTime": micro_time(entry.time)}});
            collection.patch(&name(&entry.parent, stamp), &PatchParams::default(), &Patch::Merge(series))
        }
    }
}

fn event(entry: &Entry, namespace: &str, name: &str, instance: &str) -> Value {
    let Entry { parent, note, time, .. } = entry;
    let mut event = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": micro_time(*time),
        "reportingController": EVENT_REPORTER,
        "reportingInstance": instance,
        "type": note.event_type,
        "reason": note.reason,
        "action": note.action,
        "note": note.message,
        "regarding": reference(&parent.kind, &parent.key),
    });
    if let Some(uid) = event.pointer_mut("/regarding").and_then(Value::as_object_mut) {
        uid.insert("uid".to_owned(), parent.uid.to_string().into());
    }
    if let (Some(child), Some(event)) = (&note.related, event.as_object_mut()) {
        event.insert("related".to_owned(), reference(&child.kind, &child.key));
    }
    event
}

fn reference(kind: &Gvk, key: &ObjectKey) -> Value {
    let mut reference = json!({"apiVersion": kind.api_version(), "kind": &*kind.kind, "name": &*key.name});
    if let (Some(namespace), Some(reference)) = (&key.namespace, reference.as_object_mut()) {
        reference.insert("namespace".to_owned(), (&**namespace).into());
    }
    reference
}

/// The name of an event, `web.17f3…`, as client-go names events. A parent whose name is invalid for events gets
/// `event`.
fn name(parent: &ParentRef, stamp: i64) -> String {
    let name = &parent.key.name;
    let head = name.get(..name.floor_char_boundary(PARENT_NAME_MAX)).unwrap_or_default();
    let head = head.trim_end_matches(['.', '-']);
    format!("{}.{stamp:016x}", if is_dns_subdomain(head) { head } else { "event" })
}

/// Formats a time as `metav1.MicroTime`.
fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

/// The host name; in a Pod it is the Pod's name.
fn instance() -> String {
    let name = hostname::get().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    let name = name.get(..name.floor_char_boundary(INSTANCE_MAX)).unwrap_or_default();
    if name.is_empty() { "windlass".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Method, Response};
    use kube::client::Body;
    use windlass_core::contract::EventType;
    use windlass_core::object::child::ChildId;

    use super::*;

    /// The requests that the API server received: method, path and body.
    type Received = mpsc::UnboundedReceiver<(Method, String, Value)>;

    /// A recorder, and an API server that responds to every request with this status.
    fn with_api_server(code: impl Fn(&Method) -> u16 + Clone + Send + 'static) -> (Recorder, EventWriter, Received) {
        let (sender, requests) = mpsc::unbounded_channel();
        let api_server = tower::service_fn(move |request: Request<Body>| {
            let (sender, code) = (sender.clone(), code(request.method()));
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.expect("a body");
                let body = serde_json::from_slice(&body).expect("JSON");
                let _ = sender.send((head.method, head.uri.path().to_owned(), body));
                let status = json!({"kind": "Status", "code": code}).to_string();
                let response = Response::builder().status(code).body(Body::from(status.into_bytes()));
                Ok::<_, Infallible>(response.expect("a response"))
            }
        });
        let (recorder, writer) = Recorder::start(Client::new(api_server, "default"));
        (recorder, writer, requests)
    }

    fn plugin() -> PluginName {
        "echo".parse().expect("a name")
    }

    fn parent(namespace: Option<&str>, name: &str) -> ParentRef {
        ParentRef {
            plugin: plugin(),
            kind: Arc::new(Gvk::from_api_version("my-operator.dev/v1", "Echo")),
            key: ObjectKey::new(namespace, name),
            uid: Uid::from("uid-of-parent"),
            mark_key: None,
        }
    }

    fn notes_with(message: &str) -> Vec<Note> {
        vec![Note::of_plugin(&windlass_core::contract::Event {
            event_type: EventType::Normal,
            reason: "Greeted".to_owned(),
            message: message.to_owned(),
        })]
    }

    #[tokio::test]
    async fn r20_event_is_written_to_its_parents_namespace_with_the_reporting_controller() {
        let (recorder, writer, mut received) = with_api_server(|_| 201);
        let pod =
            ChildId { kind: Arc::new(Gvk::from_api_version("v1", "Pod")), key: ObjectKey::new(Some("shop"), "web-0") };
        let note = Note { related: Some(pod), ..notes_with("hello").remove(0) };
        recorder.record(&plugin(), &parent(Some("shop"), "web"), vec![note], Occasion::Changed);
        let (method, path, event) = received.recv().await.expect("an event");
        assert_eq!((method, path.as_str()), (Method::POST, "/apis/events.k8s.io/v1/namespaces/shop/events"));
        assert_eq!(
            event["regarding"],
            json!({"apiVersion": "my-operator.dev/v1", "kind": "Echo", "namespace": "shop", "name": "web",
                "uid": "uid-of-parent"})
        );
        assert_eq!(event["related"], json!({"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "web-0"}));
        assert_eq!(
            [&event["type"], &event["reason"], &event["action"], &event["note"], &event["reportingController"]],
            ["Normal", "Greeted", "Reconcile", "hello", "windlass.dev/host"]
        );
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).expect(pointer);
        assert!(!text("/reportingInstance").is_empty());
        assert!(text("/metadata/name").starts_with("web."));
        let (_, fraction) = text("/eventTime").split_once('.').expect("a fraction");
        assert_eq!(fraction.len(), "000000Z".len(), "metav1.MicroTime has six digits");
        writer.close().await;
    }

    #[tokio::test]
    async fn r20_events_on_a_cluster_scoped_parent_go_to_default_and_have_valid_names() {
        let (recorder, writer, mut received) = with_api_server(|_| 201);
        for name in ["web", "system:odd", &"n".repeat(253)] {
            recorder.record(&plugin(), &parent(None, name), notes_with(name), Occasion::Changed);
            let (_, path, event) = received.recv().await.expect("an event");
            assert_eq!(path, "/apis/events.k8s.io/v1/namespaces/default/events");
            assert_eq!(event["regarding"].get("namespace"), None);
            let event_name = event["metadata"]["name"].as_str().expect("a name");
            assert!(is_dns_subdomain(event_name), "{event_name}");
        }
        writer.close().await;
    }

    #[tokio::test]
    async fn r20_event_that_fails_is_not_retried_and_later_events_are_written() {
        let (recorder, writer, mut received) = with_api_server(|_| 403);
        for message in ["a", "b"] {
            recorder.record(&plugin(), &parent(Some("shop"), "web"), notes_with(message), Occasion::Changed);
        }
        writer.close().await;
        let notes: Vec<_> =
            std::iter::from_fn(|| received.try_recv().ok()).map(|(_, _, event)| event["note"].clone()).collect();
        assert_eq!(notes, ["a", "b"]);
    }

    #[tokio::test]
    async fn r20_queued_events_are_written_before_the_writer_stops() {
        let (recorder, writer, mut received) = with_api_server(|_| 201);
        for at in 0..30 {
            recorder.record(&plugin(), &parent(Some("shop"), "web"), notes_with(&at.to_string()), Occasion::Changed);
        }
        writer.close().await;
        let written = std::iter::from_fn(|| received.try_recv().ok()).count();
        assert_eq!(written, 30);
        recorder.record(&plugin(), &parent(Some("shop"), "web"), notes_with("late"), Occasion::Changed);
        assert!(received.try_recv().is_err(), "no event is written after the end, and no caller waits");
    }

    #[tokio::test]
    async fn r20_count_is_a_patch_or_a_new_event_if_the_first_one_is_gone() {
        for (code, methods) in [(200, vec![Method::PATCH]), (404, vec![Method::PATCH, Method::POST])] {
            let (recorder, writer, mut received) =
                with_api_server(move |method| if *method == Method::PATCH { code } else { 201 });
            let write = EventWrite::Count { stamp: 1, count: 7 };
            let note = notes_with("hello").remove(0);
            let entry = Entry { parent: parent(Some("shop"), "web"), note, write, time: Timestamp::UNIX_EPOCH };
            assert!(recorder.queue.try_send(entry).is_ok(), "the queue has room");
            writer.close().await;
            let requests: Vec<_> = std::iter::from_fn(|| received.try_recv().ok()).collect();
            assert_eq!(requests.iter().map(|(method, _, _)| method.clone()).collect::<Vec<_>>(), methods);
            let (_, path, body) = &requests[0];
            assert_eq!(path, "/apis/events.k8s.io/v1/namespaces/shop/events/web.0000000000000001");
            let series = json!({"count": 7, "lastObservedTime": "1970-01-01T00:00:00.000000Z"});
            assert_eq!(*body, json!({"series": series}));
        }
    }
}
