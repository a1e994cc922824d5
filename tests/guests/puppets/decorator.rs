//! Decorates an existing kind: each Namespace with the label `puppets.example/decorate=true` gets a `NetworkPolicy`
//! that denies what the annotation `puppets.example/deny` names. It also returns a status, which it may not write.

use serde::Deserialize;
use windlass_plugin::{
    Descriptor, Failure, Parent, Reconciler, Request, Response, json,
    kinds::{Namespace, NetworkPolicy},
};

pub struct Decorator;

#[derive(Deserialize)]
pub struct Nothing {}

impl Reconciler for Decorator {
    type Spec = Nothing;
    type Status = serde_json::Value;

    fn descriptor() -> Descriptor {
        let parent = Parent::existing::<Namespace>().labelled("puppets.example/decorate=true");
        Descriptor::new("decorator", env!("CARGO_PKG_VERSION"), parent).child::<NetworkPolicy>()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let deny = request.metadata.annotations.get("puppets.example/deny").map_or("Ingress", String::as_str);
        if deny == "everything" {
            return Err(Failure::invalid("everything is too much"));
        }
        Ok(Response::new()
            .child(json!({
                "apiVersion": "networking.k8s.io/v1",
                "kind": "NetworkPolicy",
                "metadata": { "name": "decoration", "namespace": request.name() },
                "spec": { "podSelector": {}, "policyTypes": [deny] },
            }))
            .status(json!({ "decorated": true })))
    }
}

hostile_guests::export_older!(Decorator);
