//! Decorates Namespaces labelled `puppets.example/hold=true` with four `ConfigMaps` each, and wants to hear of their end.

use serde::Deserialize;
use windlass_plugin::{
    Descriptor, Existing, Failure, Phase, Reconciler, Request, Response, json,
    kinds::{ConfigMap, Namespace},
};

pub struct DecoratorFinalizes;

#[derive(Deserialize)]
pub struct Nothing {}

impl Reconciler for DecoratorFinalizes {
    type Spec = Nothing;
    type Status = serde_json::Value;

    fn descriptor() -> Descriptor {
        let parent = Existing::<Namespace>::selected("puppets.example/hold=true");
        Descriptor::new("decorator-finalizes", env!("CARGO_PKG_VERSION"), parent).child::<ConfigMap>().finalizes()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let mut response = Response::new();
        for name in ["a", "b", "c", "d"] {
            response = response.child(json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": { "name": name, "namespace": request.name() },
            }));
        }
        Ok(if request.phase == Phase::Finalize { response.finalized() } else { response })
    }
}

windlass_plugin::export!(DecoratorFinalizes);
