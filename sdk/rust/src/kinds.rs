//! Kinds of Kubernetes objects, to name them in types: `request.children_of::<Pod>()`.
//!
//! These are only names. To read fields, let a small struct of your own be a [`Kind`] and take what you need (serde
//! skips the rest), or turn on feature `k8s-openapi` and use that crate's types.

/// A type that stands for one kind of object.
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
    /// As in an object's `apiVersion`: `apps/v1`.
    const API_VERSION: &str;
    /// As in an object's `kind`: `Deployment`.
    const KIND: &str;
}

#[cfg(feature = "k8s-openapi")]
impl<K: k8s_openapi::Resource> Kind for K {
    const API_VERSION: &str = K::API_VERSION;
    const KIND: &str = K::KIND;
}

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
}
