//! A network policy, a quota and limits for Namespaces with the label `windlass.dev/guard: "true"`: a decorator of a built-in
//! kind. The sizes are the Plugin's `spec.config`.

mod config;

use windlass_plugin::{
    Descriptor, Failure, Parent, Reconciler, Request, Response, Value, json,
    kinds::{LimitRange, Namespace, NetworkPolicy, ResourceQuota},
};

pub use config::Config;

/// The operator.
#[derive(Debug)]
pub struct NamespaceGuard;

impl Reconciler for NamespaceGuard {
    // No field of a Namespace's spec is used.
    type Spec = Value;
    type Status = ();

    fn descriptor() -> Descriptor {
        let guarded = Parent::existing::<Namespace>().labelled("windlass.dev/guard=true");
        Descriptor::new("namespaceguard", env!("CARGO_PKG_VERSION"), guarded)
            .description("Gives guarded Namespaces a default-deny network policy, a quota and limits")
            .child::<NetworkPolicy>()
            .child::<ResourceQuota>()
            .child::<LimitRange>()
            .config::<Config>()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let config: Config = request.config()?;
        config.check()?;
        // The parent is cluster-scoped, so the children name their namespace.
        let metadata = |name: &str| json!({ "name": name, "namespace": request.name() });
        let policy = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata("default-deny"),
            // All Pods, with no ingress, and the egress of the configuration.
            "spec": {
                "podSelector": {},
                "policyTypes": ["Ingress", "Egress"],
                "egress": config.network.egress(),
            },
        });
        let quota = json!({
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata("guard"),
            "spec": { "hard": config.quota },
        });
        let limits = json!({
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": metadata("guard"),
            "spec": {
                "limits": [{
                    "type": "Container",
                    "default": config.container.limit,
                    "defaultRequest": config.container.request,
                }],
            },
        });
        Ok(Response::new().children([policy, quota, limits]))
    }
}

#[cfg(not(feature = "library"))]
windlass_plugin::export!(NamespaceGuard);
