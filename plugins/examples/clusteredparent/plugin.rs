//! Binds each ClusterRole that asks for it by an annotation to the default ServiceAccount of the namespace `default`: a namespaced child
//! of a cluster-scoped parent.

use windlass_plugin::{
    Descriptor, Failure, Parent, Reconciler, Request, Response, Value, json,
    kinds::{ClusterRole, RoleBinding},
};

/// The operator.
#[derive(Debug)]
pub struct ClusteredParent;

impl Reconciler for ClusteredParent {
    // A ClusterRole has no spec.
    type Spec = Value;
    type Status = ();

    fn descriptor() -> Descriptor {
        let asks = Parent::existing::<ClusterRole>().annotated("porting.example.com/default-service-account-binding");
        Descriptor::new("clusteredparent", env!("CARGO_PKG_VERSION"), asks)
            .description("Binds ClusterRoles that ask for it to the default ServiceAccount")
            .child::<RoleBinding>()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        Ok(Response::new().child(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": { "name": request.name(), "namespace": "default" },
            "subjects": [{ "kind": "ServiceAccount", "name": "default", "namespace": "default" }],
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": request.name() },
        })))
    }
}

windlass_plugin::export!(ClusteredParent);
