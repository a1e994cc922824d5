//! Kinds of Kubernetes objects, to name them in types: `request.children_of::<Pod>()`.
//!
//! These are only names. [`Object::get`](crate::Object::get) reads single fields. To read a whole object, use a type of
//! k8s-openapi (feature `k8s-openapi`), or implement [`Kind`] for a struct of your own with the fields that you need.

/// A type that names one kind of object.
///
/// ```
/// use serde::Deserialize;
/// use windlass_plugin::Kind;
///
/// #[derive(Deserialize)]
/// struct Pod {
///     status: PodStatus,
/// }
/// #[derive(Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct PodStatus {
///     pod_ip: Option<String>,
/// }
/// impl Kind for Pod {
///     const API_VERSION: &str = "v1";
///     const KIND: &str = "Pod";
/// }
/// ```
pub trait Kind {
    /// The `apiVersion` of objects: `apps/v1`.
    const API_VERSION: &str;
    /// The `kind` of objects: `Deployment`.
    const KIND: &str;
}

#[cfg(feature = "k8s-openapi")]
impl<K: k8s_openapi::Resource> Kind for K {
    const API_VERSION: &str = K::API_VERSION;
    const KIND: &str = K::KIND;
}

/// A type that names the same kind as another: `Is<Pod>` is [`Pod`], or the Pod of k8s-openapi.
pub trait Is<K: Kind>: Kind {}

macro_rules! is {
    ($($name:ident = $($typed:ident)::+;)+) => {$(
        impl Is<$name> for $name {}

        #[cfg(feature = "k8s-openapi")]
        impl Is<$name> for k8s_openapi::api::$($typed)::+ {}
    )+};
}

is! {
    PersistentVolumeClaim = core::v1::PersistentVolumeClaim;
    Pod = core::v1::Pod;
}

/// A kind whose objects roll out Pods, here or in k8s-openapi: Deployment, StatefulSet or DaemonSet.
pub trait Workload: Kind {}

macro_rules! workloads {
    ($($name:ident)+) => {$(
        impl Workload for $name {}
        #[cfg(feature = "k8s-openapi")]
        impl Workload for k8s_openapi::api::apps::v1::$name {}
    )+};
}

workloads! { DaemonSet Deployment StatefulSet }

pub(crate) fn raw<K: Kind>() -> crate::raw::Kind {
    crate::raw::Kind { api_version: K::API_VERSION.to_owned(), name: K::KIND.to_owned() }
}

macro_rules! kinds {
    ($($api_version:literal: $($name:ident)+;)+) => {$($(
        #[doc = concat!("`", $api_version, "` ", stringify!($name), ".")]
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl Kind for $name {
            const API_VERSION: &str = $api_version;
            const KIND: &str = stringify!($name);
        }
    )+)+};
}

kinds! {
    "v1": ConfigMap LimitRange Namespace PersistentVolumeClaim Pod ResourceQuota Secret Service ServiceAccount;
    "apps/v1": DaemonSet Deployment StatefulSet;
    "autoscaling/v2": HorizontalPodAutoscaler;
    "batch/v1": CronJob Job;
    "networking.k8s.io/v1": Ingress NetworkPolicy;
    "policy/v1": PodDisruptionBudget;
    "rbac.authorization.k8s.io/v1": ClusterRole ClusterRoleBinding Role RoleBinding;
    "scheduling.k8s.io/v1": PriorityClass;
}
