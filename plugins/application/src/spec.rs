//! The spec of an application.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{
    Quantity,
    checks::{DNS_SUBDOMAIN, positive_rule},
    spec::{EnvVar, ResourceList},
};

/// An application with all that it needs to run.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSpec {
    /// How many Pods; with `scaling`, how many to begin with.
    #[serde(default = "one")]
    #[schemars(range(max = 1000))]
    pub replicas: u32,
    /// The image that it runs.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^\S+$"))]
    pub image: String,
    /// The port on which it listens, and its Service.
    #[serde(default = "port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u32,
    /// Environment variables.
    #[serde(default)]
    #[schemars(
        length(max = 500),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub environment: Vec<EnvVar>,
    /// What each Pod asks of its node, and what it gets at most.
    #[serde(default)]
    pub resources: Resources,
    /// How to find out whether it is well.
    #[serde(default)]
    pub health_check: HealthCheck,
    /// Let an autoscaler say how many Pods there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// Volumes.
    #[serde(default)]
    pub storage: Storage,
    /// How it is reached.
    #[serde(default)]
    pub network: Network,
    /// As whom it runs, and what may reach it.
    #[serde(default)]
    pub security: Security,
}

/// What each Pod asks of its node, and what it gets at most.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Resources {
    /// What it is sure to get.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub requests: ResourceList,
    /// What it gets at most.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub limits: ResourceList,
}

/// How to find out whether it is well.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct HealthCheck {
    /// A container that fails it is restarted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!has(self.successThreshold) || self.successThreshold == 1",
        "message": "must be 1 for liveness",
        "fieldPath": ".successThreshold",
    }]))]
    pub liveness_probe: Option<Probe>,
    /// A Pod that fails it gets no requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
}

/// A question by HTTP, asked again and again.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// What is asked.
    pub http_get: HttpGet,
    /// Seconds from a container's start to the first question.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub initial_delay_seconds: Option<u32>,
    /// Seconds between questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub period_seconds: Option<u32>,
    /// Seconds that an answer may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<u32>,
    /// How many answers in a row make it well; for liveness, one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub success_threshold: Option<u32>,
    /// How many failures in a row make it unwell.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub failure_threshold: Option<u32>,
}

/// What is asked by HTTP.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct HttpGet {
    /// The path, like `/healthz`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^/"))]
    pub path: String,
    /// The port, where it is another one than the application's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u32>,
}

/// Bounds and goals of an autoscaler.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.minReplicas <= self.maxReplicas", "message": "minReplicas must not be more than maxReplicas", "fieldPath": ".minReplicas" },
    {
        "rule": "has(self.targetCPUUtilizationPercentage) || has(self.targetMemoryUtilizationPercentage)",
        "message": "one of targetCPUUtilizationPercentage and targetMemoryUtilizationPercentage must be given",
    },
]))]
pub struct Scaling {
    /// Never fewer Pods.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub min_replicas: u32,
    /// Never more Pods.
    #[schemars(range(min = 1, max = 1000))]
    pub max_replicas: u32,
    /// How much of the processors that they ask for Pods should use on average.
    #[serde(rename = "targetCPUUtilizationPercentage", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub target_cpu: Option<u32>,
    /// How much of the memory that they ask for Pods should use on average.
    #[serde(rename = "targetMemoryUtilizationPercentage", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub target_memory: Option<u32>,
}

/// Volumes.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Storage {
    /// All Pods share each of them.
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub persistent_volume_claims: Vec<Claim>,
}

/// A volume that all Pods share.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    positive_rule("size"),
    {
        "rule": "!has(oldSelf.storageClassName) || has(self.storageClassName)",
        "message": "storageClassName cannot be taken back; give another claim another name",
        "fieldPath": ".storageClassName",
    },
]))]
pub struct Claim {
    /// Its name: the claim is `<application>-<name>`.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Its size. It may grow, where the storage class can do it, and never shrinks.
    pub size: Quantity,
    /// Who may mount it how.
    #[serde(default = "read_write_once")]
    #[schemars(length(min = 1, max = 4))]
    pub access_modes: Vec<AccessMode>,
    /// The class of storage; without it, the cluster's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,
    /// Where containers find it; without it, `/data/<name>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^/[^:]*$"))]
    pub mount_path: Option<String>,
}

impl Claim {
    /// The mount path in containers.
    pub(crate) fn path(&self) -> String {
        self.mount_path.clone().unwrap_or_else(|| format!("/data/{}", self.name))
    }

    /// Whether Pods on several nodes can mount it at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        self.access_modes.iter().any(|mode| matches!(mode, AccessMode::ReadOnlyMany | AccessMode::ReadWriteMany))
    }
}

/// Who may mount a volume how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[allow(clippy::enum_variant_names, reason = "the names of Kubernetes")]
pub enum AccessMode {
    /// One node reads and writes.
    ReadWriteOnce,
    /// Many nodes read.
    ReadOnlyMany,
    /// Many nodes read and write.
    ReadWriteMany,
    /// One Pod reads and writes.
    ReadWriteOncePod,
}

impl AccessMode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadOnlyMany => "ReadOnlyMany",
            Self::ReadWriteMany => "ReadWriteMany",
            Self::ReadWriteOncePod => "ReadWriteOncePod",
        }
    }
}

/// How it is reached.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.serviceType == 'LoadBalancer' || !has(self.loadBalancer) || self.loadBalancer.sourceRanges.size() == 0",
    "message": "loadBalancer.sourceRanges belong to serviceType LoadBalancer",
}]))]
pub struct Network {
    /// The type of its Service.
    pub service_type: ServiceType,
    /// For serviceType LoadBalancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancer>,
}

/// The type of a Service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ServiceType {
    /// Inside the cluster.
    #[default]
    ClusterIP,
    /// On a port of every node, too.
    NodePort,
    /// Through a load balancer, too.
    LoadBalancer,
}

/// Who may use the load balancer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancer {
    /// Networks, like 10.0.0.0/8. None given: everybody.
    #[schemars(
        length(max = 100),
        extend("x-kubernetes-validations" = [{
            "rule": "self.all(range, isCIDR(range))",
            "message": "must be networks in CIDR notation, like 10.0.0.0/8",
        }])
    )]
    #[schemars(inner(length(max = 64)))]
    pub source_ranges: Vec<String>,
}

/// As whom it runs, and what may reach it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Security {
    /// The ServiceAccount of its Pods, in its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub service_account: Option<String>,
    /// As whom its processes run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[allow(clippy::struct_field_names, reason = "the name of Kubernetes")]
    pub security_context: Option<SecurityContext>,
    /// The Secrets with which its image is pulled.
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub image_pull_secrets: Vec<SecretRef>,
    /// Let nothing reach its Pods but on its port.
    pub network_policy: bool,
}

/// A Secret in the application's namespace.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct SecretRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
}

/// As whom processes run: the fields of a container's `securityContext`, and `fsGroup` of its Pod's.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SecurityContext {
    /// The user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub run_as_user: Option<i64>,
    /// The group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub run_as_group: Option<i64>,
    /// Refuse to run as root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_non_root: Option<bool>,
    /// The group that owns the volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub fs_group: Option<i64>,
    /// Let nothing be written but to volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_root_filesystem: Option<bool>,
    /// Let processes gain more rights than their parents have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_privilege_escalation: Option<bool>,
}

fn one() -> u32 {
    1
}

fn port() -> u32 {
    8080
}

fn read_write_once() -> Vec<AccessMode> {
    vec![AccessMode::ReadWriteOnce]
}
