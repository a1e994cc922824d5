//! The status of a cluster, from its Pods.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{Object, Phase, PhaseStatus, Request, Value, clock::TimeField, json, kinds::Pod};

use crate::{
    MySQLCluster, MySQLClusterSpec,
    children::{password_env, password_ref, pod_name},
};

/// Observed state of a MySQLCluster.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MySQLClusterStatus {
    /// Number of Ready servers.
    pub ready_replicas: u32,
    /// Phase of the cluster: Pending, Running or Failed.
    pub phase: Phase,
    /// Time of the last change of this status.
    #[schemars(extend("format" = "date-time"))]
    pub last_update: Option<String>,
}

impl PhaseStatus for MySQLClusterStatus {
    type Phase = Phase;
    const LAST_UPDATE: Option<TimeField<Self>> = Some(|status| &mut status.last_update);

    fn phase(&self) -> Phase {
        self.phase
    }
}

impl MySQLClusterStatus {
    /// The status without its time.
    pub(crate) fn of(request: &Request<MySQLCluster>) -> Self {
        let replicas = request.spec.replicas;
        let servers = (0..replicas).filter_map(|server| request.child::<Pod>(&pod_name(request.name(), server)));
        let servers: Vec<_> = servers.collect();
        let count = |holds: &dyn Fn(&Object<Pod>) -> bool| {
            u32::try_from(servers.iter().filter(|pod| holds(pod)).count()).unwrap_or(u32::MAX)
        };
        let ready = count(&|pod| pod.is_condition_true("Ready"));
        let container = container(request);
        let updated = count(&|pod| runs(pod, &request.spec, &container));
        // A Pod beyond the desired ones is still being deleted.
        let has_others = request.children_of::<Pod>().count() > servers.len();
        let phase = if failure(request).is_some() {
            Phase::Failed
        } else if ready == replicas && updated == replicas && !has_others {
            Phase::Running
        } else {
            Phase::Pending
        };
        Self { ready_replicas: ready, phase, last_update: None }
    }

    /// A message for users.
    pub(crate) fn message(&self, request: &Request<MySQLCluster>) -> String {
        let ready = format!("{}/{} servers ready", self.ready_replicas, request.spec.replicas);
        match failure(request) {
            Some(failure) => format!("{ready}: {failure}"),
            None => ready,
        }
    }
}

/// The first Pod that does not run, and why.
fn failure(request: &Request<MySQLCluster>) -> Option<String> {
    let mut pods = request.children_of::<Pod>().filter(|pod| !pod.is_being_deleted());
    pods.find_map(|pod| Some(format!("Pod {}: {}", pod.name(), pod.failure_message()?)))
}

/// The part of a Pod that has the desired resources and password.
fn container(request: &Request<MySQLCluster>) -> Value {
    let container = json!({
        "resources": { "limits": request.spec.resources },
        "env": password_env(&password_ref(request)),
    });
    json!({ "spec": { "containers": [container] } })
}

/// Whether a server runs the desired version with the desired resources and password.
fn runs(pod: &Object<Pod>, spec: &MySQLClusterSpec, container: &Value) -> bool {
    // Admission may put the cluster's own registry before the image.
    let image = pod.get::<String>("/spec/containers/0/image").unwrap_or_default();
    let version = image.rsplit('/').next().and_then(|image| image.strip_prefix("mysql:"));
    version == Some(&*spec.version) && pod.matches(container)
}
