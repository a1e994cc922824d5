//! A number of Pods of one image: the smallest useful operator.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{
    CustomResource, Descriptor, Failure, ReadyMeans, Reconciler, Request, Response, crd, json, kinds::Pod,
};

/// Desired state of an Echo.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EchoSpec {
    /// Desired number of Pods, 0 to 1000.
    #[schemars(range(max = 1000))]
    pub replicas: u32,
    /// Container image of the Pods.
    #[schemars(length(min = 1), regex(pattern = r"^\S+$"))]
    pub image: String,
}

/// Observed state of an Echo.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EchoStatus {
    /// Number of Pods that exist.
    pub current_replicas: usize,
    /// Whether the desired number of Pods exists and all of them are Ready.
    pub is_ready: bool,
}

/// The operator.
#[derive(Debug)]
pub struct Echo;

/// The source of `crd.json` (`UPDATE_EXPECT=1 cargo test` writes it).
fn kind() -> CustomResource {
    CustomResource::namespaced::<Echo>("my-operator.dev", "v1", "Echo")
        .short_name("ec")
        .column("Desired", "integer", ".spec.replicas")
        .column("Current", "integer", ".status.currentReplicas")
        // The name is the value of a label, and the Pods' names append up to `-999` to it.
        .rule("size(self.metadata.name) <= 59", "name over 59 characters")
}

impl Reconciler for Echo {
    type Spec = EchoSpec;
    type Status = EchoStatus;

    fn descriptor() -> Descriptor {
        Descriptor::new("echo", env!("CARGO_PKG_VERSION"), crd!("../crd.json", kind()))
            .description("Runs the desired number of Pods of an image")
            .child::<Pod>()
            // `status.isReady` says whether the Pods are ready.
            .ready_means(ReadyMeans::Applied)
            .resync(Duration::from_mins(5))
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let EchoSpec { replicas, image } = &request.spec;
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
        let ready = current.iter().filter(|pod| pod.is_condition_true("Ready")).count();
        let status = EchoStatus {
            current_replicas: current.len(),
            is_ready: ready == current.len() && ready == *replicas as usize,
        };
        Ok(Response::new().children(pods).status(status))
    }
}

#[cfg(not(feature = "library"))]
windlass_plugin::export!(Echo);
