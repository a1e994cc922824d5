//! As many Pods as asked for: the smallest useful operator.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{CustomResource, Descriptor, Failure, Reconciler, Request, Response, json, kinds::Pod};

/// As many Pods as asked for.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EchoSpec {
    /// How many Pods.
    #[schemars(range(max = 1000))]
    pub replicas: u32,
    /// The image that they run.
    #[schemars(length(min = 1))]
    pub image: String,
}

/// What became of it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EchoStatus {
    /// Pods that exist.
    pub current_replicas: usize,
    /// As many as asked for, and all Ready.
    pub is_ready: bool,
}

/// The operator.
#[derive(Debug)]
pub struct Echo;

impl Reconciler for Echo {
    type Spec = EchoSpec;
    type Status = EchoStatus;

    fn descriptor() -> Descriptor {
        let kind = CustomResource::namespaced::<Self>("my-operator.dev", "v1", "Echo")
            .column("Wanted", "integer", ".spec.replicas")
            .column("Current", "integer", ".status.currentReplicas")
            // The name is a label of the Pods, and `-999` follows it in theirs.
            .rule("size(self.metadata.name) <= 59", "name over 59 characters");
        Descriptor::new("echo", env!("CARGO_PKG_VERSION"), kind)
            .description("Runs as many Pods of an image as asked for")
            .child::<Pod>()
            .resync(Duration::from_mins(5))
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let EchoSpec { replicas, image } = &request.spec;
        if *replicas > 1000 {
            return Err(Failure::invalid("spec.replicas is more than 1000"));
        }
        let pods = (0..*replicas).map(|index| {
            json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": format!("{}-{index}", request.name()),
                    "labels": { "app": request.name(), "owner": request.uid() },
                },
                "spec": { "containers": [{ "name": "nginx", "image": image }] },
            })
        });
        let current: Vec<_> = request.children_of::<Pod>().collect();
        let ready = current.iter().filter(|pod| pod.is_true("Ready")).count();
        let status = EchoStatus {
            current_replicas: current.len(),
            is_ready: ready == current.len() && ready == *replicas as usize,
        };
        Ok(Response::new().children(pods).status(status))
    }
}

#[cfg(not(feature = "library"))]
windlass_plugin::export!(Echo);
