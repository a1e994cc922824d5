//! Kubernetes' controllers: the garbage collector and the namespace controller, and one that makes children ready.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, sleep_until};
use windlass_api_model::Id;
use windlass_engine::clock;

use crate::expected;
use crate::network::Network;
use crate::objects::path_of;
use crate::setup::{DOLLS, MASKS, by_user};

/// Time between two steps of the collector.
const COLLECTS: Duration = Duration::from_millis(40);
/// Time between a change of a child and its readiness, if its kind has one.
const READY_AFTER: Duration = Duration::from_millis(1_500);

/// Collects garbage, and empties namespaces that are being deleted.
pub async fn collect(network: Network) {
    let mut seen = 0;
    loop {
        seen = network.changed_since(seen).await;
        loop {
            sleep(COLLECTS).await;
            if let Some(until) = network.collects_from() {
                sleep_until(until).await;
            }
            if !network.with_server(|server| server.collect(clock::date(), |_| 0)) {
                break;
            }
        }
    }
}

/// Makes each Doll and each Mask ready a while after its last change, as a kubelet does with Pods.
pub async fn make_ready(network: Network) {
    let mut seen = 0;
    loop {
        seen = network.changed_since(seen).await;
        sleep(READY_AFTER).await;
        let waits = |(id, object): (&Id, &Arc<Value>)| {
            let generation = object.pointer("/metadata/generation")?;
            (!expected::is_ready(object)).then(|| (id.clone(), generation.clone()))
        };
        let waiting: Vec<_> = network.with_server(|server| {
            [DOLLS, MASKS].iter().flat_map(|of| server.objects_of(of)).filter_map(waits).collect()
        });
        for (id, generation) in waiting {
            let ready = json!({ "type": "Ready", "status": "True", "observedGeneration": generation });
            let status = json!({ "status": { "observedGeneration": generation, "conditions": [ready] } });
            network.send(&by_user("PATCH", &format!("{}/status", path_of(&id)), Some(status), clock::date()));
        }
    }
}
