//! Gives each Namespace with the label `puppets.example/hold=true` four `ConfigMaps`, and finalizes the Namespaces.

use hostile_guests::hold;
use serde::Deserialize;
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response};

pub struct DecoratorFinalizes;

#[derive(Deserialize)]
pub struct Nothing {}

impl Reconciler for DecoratorFinalizes {
    type Spec = Nothing;
    type Status = serde_json::Value;

    fn descriptor() -> Descriptor {
        hold::descriptor("decorator-finalizes", "puppets.example/hold=true").finalizes()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let response = Response::new().children(hold::config_maps(request.name()));
        Ok(if request.is_finalizing() { response.finalized() } else { response })
    }
}

hostile_guests::export_older!(DecoratorFinalizes);
