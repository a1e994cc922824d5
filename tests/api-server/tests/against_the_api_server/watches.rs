//! Watches of all namespaces on the API server, while histories run.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use http::{Method, Request};
use kube::Client;
use kube::core::WatchEvent;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::compare::{bare, equal};
use crate::connection::{Send, response};
use crate::kinds::{Kind, LISTED};
use crate::run::{call, model};

/// What the filtered watches show.
const SELECTORS: [&str; 2] = ["", "labelSelector=a%3D1"];

/// A watch, with the events that it has shown once it ends.
pub struct Watch {
    pub kind: Kind,
    pub selector: &'static str,
    events: JoinHandle<Vec<Value>>,
}

impl Watch {
    /// The type, kind and content of the events, in order. The watch ends at the object with the name of [`end`].
    pub async fn events(self) -> Vec<Value> {
        self.events.await.expect("events")
    }
}

/// Begins a watch of each kind without a selector and with one, from now on.
pub async fn begin(client: &Client, last: &str) -> Vec<Watch> {
    let mut watches = Vec::new();
    for kind in LISTED {
        let collection = kind.collection(None);
        let first = Send::json(Method::GET, &format!("{collection}?limit=1"), Value::Null);
        let (_, page) = response(client.clone(), first).await;
        let version = page["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
        for selector in SELECTORS {
            let url = format!("{collection}?watch=true&timeoutSeconds=3600&resourceVersion={version}&{selector}");
            let events = tokio::spawn(read(client.clone(), url, last.to_owned()));
            watches.push(Watch { kind, selector, events });
        }
    }
    watches
}

async fn read(client: Client, url: String, last: String) -> Vec<Value> {
    let request = Request::get(url).body(Vec::new()).expect("a request");
    let stream = client.request_events::<Value>(request).await.expect("a watch");
    let mut stream = pin!(stream);
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        let event = shown(event.expect("an event"));
        if event["object"]["metadata"]["name"] == last.as_str() {
            break;
        }
        events.push(event);
    }
    events
}

/// The first events of a watch; fewer if they do not come.
pub async fn first(client: &Client, url: String, metadata_only: bool, count: usize) -> Vec<Value> {
    let request = Request::get(url);
    let request = if metadata_only { request.header("accept", METADATA) } else { request };
    let request = request.body(Vec::new()).expect("a request");
    let mut stream = pin!(client.request_events::<Value>(request).await.expect("a watch"));
    let mut events = Vec::new();
    while events.len() < count
        && let Ok(Some(event)) = tokio::time::timeout(COMES, stream.next()).await
    {
        events.push(shown(event.expect("an event")));
    }
    events
}

/// Metadata alone.
pub const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// How long an event may take.
const COMES: Duration = Duration::from_secs(20);

fn shown(event: WatchEvent<Value>) -> Value {
    match event {
        WatchEvent::Added(object) => json!({"type": "ADDED", "object": object}),
        WatchEvent::Modified(object) => json!({"type": "MODIFIED", "object": object}),
        WatchEvent::Deleted(object) => json!({"type": "DELETED", "object": object}),
        WatchEvent::Bookmark(bookmark) => json!({"type": "BOOKMARK", "object": bookmark}),
        WatchEvent::Error(status) => json!({"type": "ERROR", "object": *status}),
    }
}

/// Compares the event that a version is too old: for custom kinds, which are younger than the cluster.
pub async fn compare_outdated(client: &Client) {
    for kind in [Kind::Part, Kind::Whole] {
        let (collection, query) = (kind.collection(None), "watch=true&resourceVersion=1");
        let (mut model, _) = model();
        model.compact();
        let mut watch = model.watch(&call("GET", &collection, query, None)).expect("a watch");
        let ours: Vec<_> = std::iter::from_fn(|| model.next_event(&mut watch)).collect();
        let theirs = first(client, format!("{collection}?{query}"), false, 1).await;
        let shown = |event: &Value| json!([event["type"], event["object"]["code"], event["object"]["reason"]]);
        let [ours, theirs]: [Vec<_>; 2] = [ours, theirs].map(|events| events.iter().map(shown).collect());
        equal("outdated watch", &ours.into(), &theirs.into()).unwrap_or_else(|text| panic!("{kind:?}: {text}"));
    }
}

/// Creates the objects at which the watches end.
pub async fn end(client: &Client, last: &str) {
    let metadata = json!({"name": last, "labels": {"a": "1"}});
    for kind in [Kind::Namespace, Kind::ConfigMap, Kind::Secret, Kind::Part] {
        let body = json!({"apiVersion": kind.api_version(), "kind": kind.name(), "metadata": metadata});
        let send = Send::json(Method::POST, &kind.collection(Some(last)), body);
        let (code, body) = response(client.clone(), send).await;
        assert_eq!(code, 201, "{body}");
    }
}

/// An event without what each side chooses by itself.
pub fn bare_event(event: &Value) -> Value {
    json!({"type": event["type"], "object": bare(&event["object"])})
}
