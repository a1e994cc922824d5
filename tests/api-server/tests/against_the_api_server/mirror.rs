//! What the API server has at the moment, by watches.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use http::{Method, Request};
use kube::Client;
use kube::core::WatchEvent;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use crate::connection::{Send, response};
use crate::kinds::Kind;

/// The objects of all histories.
#[derive(Clone)]
pub struct Mirror {
    seen: Arc<Mutex<Seen>>,
    changed: Arc<watch::Sender<()>>,
}

#[derive(Default)]
struct Seen {
    /// By path.
    objects: BTreeMap<String, Value>,
    /// The uids of removed objects.
    gone: BTreeSet<String>,
}

impl Mirror {
    /// Begins to watch these kinds.
    pub async fn begin(client: &Client, kinds: &[Kind]) -> Self {
        let mirror = Self { seen: Arc::default(), changed: Arc::new(watch::Sender::new(())) };
        for kind in kinds {
            let collection = kind.collection(None);
            let (_, list) =
                response(client.clone(), Send::json(Method::GET, &format!("{collection}?limit=1"), Value::Null)).await;
            let version = list["metadata"]["resourceVersion"].as_str().expect("a version");
            let url = format!("{collection}?watch=true&timeoutSeconds=36000&resourceVersion={version}");
            tokio::spawn(mirror.clone().follow(client.clone(), *kind, url));
        }
        mirror
    }

    async fn follow(self, client: Client, kind: Kind, url: String) {
        let request = Request::get(url).body(Vec::new()).expect("a request");
        let mut events = pin!(client.request_events::<Value>(request).await.expect("a watch"));
        while let Some(event) = events.next().await {
            let text = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            let path = |object: &Value| kind.path(&text(object, "namespace"), &text(object, "name"));
            match event.expect("an event") {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.seen.lock().objects.insert(path(&object), object);
                }
                WatchEvent::Deleted(object) => {
                    let mut seen = self.seen.lock();
                    seen.objects.remove(&path(&object));
                    seen.gone.insert(text(&object, "uid"));
                }
                other => panic!("{other:?}"),
            }
            self.changed.send_replace(());
        }
    }

    /// The object at a path.
    pub fn object(&self, path: &str) -> Option<Value> {
        self.seen.lock().objects.get(path).cloned()
    }

    /// Whether the object of this uid has been removed.
    pub fn is_gone(&self, uid: &str) -> bool {
        self.seen.lock().gone.contains(uid)
    }

    /// Waits until this is true, or for so long. Returns whether it is.
    pub async fn until(&self, limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
        let mut changes = self.changed.subscribe();
        let wait = async {
            while !is_so() {
                changes.changed().await.expect("watches");
            }
        };
        tokio::time::timeout(limit, wait).await.is_ok()
    }
}
