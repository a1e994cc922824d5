//! The spec of an application.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{
    Quantity,
    checks::{DNS_SUBDOMAIN, positive_rule},
    spec::{EnvVar, ResourceList},
};

/// Desired state of an Application.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSpec {
    /// Desired number of Pods, 0 to 1000; with `spec.scaling`, only the initial number. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(max = 1000))]
    pub replicas: u32,
    /// Container image of the Pods.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^\S+$"))]
    pub image: String,
    /// Port of the container and of the Service, 1 to 65535. Default: 8080.
    #[serde(default = "port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u32,
    /// Environment variables of the container, at most 500. Their names must be unique.
    #[serde(default)]
    #[schemars(
        length(max = 500),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub environment: Vec<EnvVar>,
    /// Compute resources of the container: requests and limits.
    #[serde(default)]
    pub resources: Resources,
    /// Health checks of the container: a liveness probe and a readiness probe. Default: none.
    #[serde(default)]
    pub health_check: HealthCheck,
    /// Autoscaling by a HorizontalPodAutoscaler, with a target for CPU, memory or both. If unset, there is no autoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// Persistent storage of the Pods.
    #[serde(default)]
    pub storage: Storage,
    /// Type and settings of the Service through which clients reach the application.
    #[serde(default)]
    pub network: Network,
    /// Security settings of the Pods: ServiceAccount, security context, image pull Secrets and network policy.
    #[serde(default)]
    pub security: Security,
}

/// Compute resources of the container: requests and limits.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Resources {
    /// Amounts of resources reserved for the container, by resource name, as in `cpu: 100m`. Default: the limits.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub requests: ResourceList,
    /// Maximum amounts of resources that the container may use, by resource name, as in `memory: 256Mi`. Default: no limits.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub limits: ResourceList,
}

/// Health checks of the container: a liveness probe and a readiness probe.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct HealthCheck {
    /// Periodic probe of the container's liveness. The container is restarted if the probe fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "!has(self.successThreshold) || self.successThreshold == 1",
        "message": "must be 1 for liveness",
        "fieldPath": ".successThreshold",
    }]))]
    pub liveness_probe: Option<Probe>,
    /// Periodic probe of the container's readiness. The Service sends no traffic to the Pod while the probe fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
}

/// Periodic HTTP probe of a container.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// HTTP GET request of the probe. A status code from 200 to 399 is a success.
    pub http_get: HttpGet,
    /// Seconds from the start of the container to the first probe, 0 to 3600. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub initial_delay_seconds: Option<u32>,
    /// Seconds between two probes, 1 to 3600. Default: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub period_seconds: Option<u32>,
    /// Seconds after which a probe times out, 1 to 3600. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<u32>,
    /// Consecutive successes after which a failed probe counts as successful, 1 to 100. Default: 1; must be 1 for liveness.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub success_threshold: Option<u32>,
    /// Consecutive failures after which the probe counts as failed, 1 to 100. Default: 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub failure_threshold: Option<u32>,
}

/// HTTP GET request of a probe.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct HttpGet {
    /// Path of the HTTP request, as in `/healthz`. It must begin with `/`.
    #[schemars(length(min = 1, max = 1024), regex(pattern = "^/"))]
    pub path: String,
    /// Port of the HTTP request, 1 to 65535. Default: `spec.port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u32>,
}

/// Bounds and targets of a HorizontalPodAutoscaler.
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
    /// Minimum number of Pods that the autoscaler keeps, 1 to 1000 and at most `maxReplicas`. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub min_replicas: u32,
    /// Maximum number of Pods to which the autoscaler scales up, 1 to 1000.
    #[schemars(range(min = 1, max = 1000))]
    pub max_replicas: u32,
    /// Target average CPU utilization of the Pods, in percent of their CPU requests, 1 to 1000. Default: no target.
    #[serde(rename = "targetCPUUtilizationPercentage", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub target_cpu: Option<u32>,
    /// Target average memory utilization of the Pods, in percent of their memory requests, 1 to 1000. Default: no target.
    #[serde(rename = "targetMemoryUtilizationPercentage", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub target_memory: Option<u32>,
}

/// Persistent storage of the Pods.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Storage {
    /// PersistentVolumeClaims that are mounted into every Pod, at most 15. They are deleted with the Application.
    // With more, Kubernetes 1.30 refuses the CRD for the cost of the claims' rules.
    #[schemars(
        length(max = 15),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub persistent_volume_claims: Vec<Claim>,
}

/// PersistentVolumeClaim that all Pods share.
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
    /// Name of the volume. The PersistentVolumeClaim is named `<application>-<name>`.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Requested capacity of the volume, as in `10Gi`. It can grow if the storage class allows it, but not shrink.
    pub size: Quantity,
    /// Access modes of the volume, which cannot be changed. Default: ReadWriteOnce.
    #[serde(default = "read_write_once")]
    #[schemars(length(min = 1, max = 4))]
    pub access_modes: Vec<AccessMode>,
    /// Name of the volume's StorageClass, which cannot be changed. Default: the cluster's default StorageClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,
    /// Path in the container at which the volume is mounted. Default: `/data/<name>`.
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

/// Access mode of a volume: ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[allow(clippy::enum_variant_names, reason = "the names of Kubernetes")]
pub enum AccessMode {
    /// Read-write by the Pods of one node.
    ReadWriteOnce,
    /// Read-only by many nodes.
    ReadOnlyMany,
    /// Read-write by many nodes.
    ReadWriteMany,
    /// Read-write by one Pod.
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

/// Type and settings of the Service through which clients reach the application.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.serviceType == 'LoadBalancer' || !has(self.loadBalancer) || self.loadBalancer.sourceRanges.size() == 0",
    "message": "loadBalancer.sourceRanges belong to serviceType LoadBalancer",
}]))]
pub struct Network {
    /// Type of the Service: ClusterIP, NodePort or LoadBalancer. Default: ClusterIP.
    pub service_type: ServiceType,
    /// Settings of the load balancer, for a Service of type LoadBalancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancer>,
}

/// Type of a Service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ServiceType {
    /// Reachable inside the cluster.
    #[default]
    ClusterIP,
    /// Also reachable on a port of every node.
    NodePort,
    /// Also reachable through a load balancer.
    LoadBalancer,
}

/// Settings of a load balancer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadBalancer {
    /// Client networks that may use the load balancer, in CIDR notation, as in `10.0.0.0/8`. Default: all networks.
    #[schemars(length(max = 100), extend("items" = { "type": "string", "format": "cidr", "maxLength": 64 }))]
    pub source_ranges: Vec<String>,
}

/// Security settings of the Pods: ServiceAccount, security context, image pull Secrets and network policy.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Security {
    /// Name of the ServiceAccount with which the Pods run. Default: `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub service_account: Option<String>,
    /// Security options of the container, and the group of the Pod's volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[allow(clippy::struct_field_names, reason = "the name of Kubernetes")]
    pub security_context: Option<SecurityContext>,
    /// Secrets with credentials for pulling the image, at most 32. Default: none.
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub image_pull_secrets: Vec<SecretRef>,
    /// Whether to create a NetworkPolicy that allows ingress to the Pods only on `spec.port`. Default: false.
    pub network_policy: bool,
}

/// Reference to a Secret in the namespace of the Application.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
}

/// Security options: the fields of a container's `securityContext`, and `fsGroup` of its Pod's.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SecurityContext {
    /// User ID (UID) of the processes in the container. Default: the user of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub run_as_user: Option<i64>,
    /// Group ID (GID) of the processes in the container. Default: that of the container runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub run_as_group: Option<i64>,
    /// Whether to refuse to run the container as root. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_non_root: Option<bool>,
    /// Group ID (GID) that owns the volumes of the Pod, for volume types that support it. If unset, ownership is unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub fs_group: Option<i64>,
    /// Whether the root filesystem of the container is read-only. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_root_filesystem: Option<bool>,
    /// Whether a process may gain more privileges than its parent process. If unset, it may.
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
