//! A later version of `decorator-finalizes`: the same parents and children, but it no longer finalizes.

use hostile_guests::hold;
use serde::Deserialize;
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response};

pub struct DecoratorLetsGo;

#[derive(Deserialize)]
pub struct Nothing {}

impl Reconciler for DecoratorLetsGo {
    type Spec = Nothing;
    type Status = serde_json::Value;

    fn descriptor() -> Descriptor {
        hold::descriptor("decorator-lets-go", "puppets.example/hold=true")
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        Ok(Response::new().children(hold::config_maps(request.name())))
    }
}

hostile_guests::export_older!(DecoratorLetsGo);
