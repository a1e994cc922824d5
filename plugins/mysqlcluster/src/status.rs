//! What became of it, as the Pods say it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{Event, Object, Request, Value, json, kinds::Pod};

use crate::{
    MySQLCluster, MySQLClusterSpec,
    children::{password_env, password_ref, pod_name},
};

/// What became of a cluster.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MySQLClusterStatus {
    /// Servers that take connections.
    pub ready_replicas: u32,
    /// Where it stands.
    pub phase: Phase,
    /// When anything in this status was last another.
    #[schemars(extend("format" = "date-time"))]
    pub last_update: Option<String>,
}

/// Where a cluster stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// Not all servers are there as wanted.
    Pending,
    /// All servers are there, as wanted, and take connections.
    Running,
    /// A server does not come up by itself.
    Failed,
}

impl Phase {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Failed => "Failed",
        }
    }

    pub(crate) fn is_running(self) -> bool {
        self == Self::Running
    }

    pub(crate) fn has_failed(self) -> bool {
        self == Self::Failed
    }
}

impl MySQLClusterStatus {
    /// Without its time.
    pub(crate) fn of(request: &Request<MySQLCluster>) -> Self {
        let MySQLClusterSpec { replicas, .. } = &request.spec;
        let servers: Vec<_> =
            (0..*replicas).filter_map(|server| request.child::<Pod>(&pod_name(request.name(), server))).collect();
        let ready = servers.iter().filter(|pod| pod.is_condition_true("Ready")).count();
        let is_all = |count: usize| u32::try_from(count) == Ok(*replicas);
        let container = container(request);
        let updated = servers.iter().filter(|pod| runs(pod, &request.spec, &container)).count();
        // One that is too many is still on its way out.
        let is_alone = request.children_of::<Pod>().count() == servers.len();
        let phase = if failure(request).is_some() {
            Phase::Failed
        } else if is_all(ready) && is_all(updated) && is_alone {
            Phase::Running
        } else {
            Phase::Pending
        };
        Self { ready_replicas: u32::try_from(ready).unwrap_or(u32::MAX), phase, last_update: None }
    }

    /// For people.
    pub(crate) fn message(&self, request: &Request<MySQLCluster>) -> String {
        let ready = format!("{}/{} servers ready", self.ready_replicas, request.spec.replicas);
        match failure(request) {
            Some(failure) => format!("{ready}: {failure}"),
            None => ready,
        }
    }

    /// For a phase that is another one than before.
    pub(crate) fn event(&self, request: &Request<MySQLCluster>) -> Event {
        let (reason, message) = (self.phase.as_str(), self.message(request));
        if self.phase.has_failed() { Event::warning(reason, message) } else { Event::normal(reason, message) }
    }
}

/// What keeps the first server that is in trouble from running.
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
