//! A later version of `decorator-lets-go`: its Namespaces have the label `puppets.example/moved=true`.

use hostile_guests::hold;
use serde::Deserialize;
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response};

pub struct DecoratorMoves;

#[derive(Deserialize)]
pub struct Nothing {}

impl Reconciler for DecoratorMoves {
    type Spec = Nothing;
    type Status = serde_json::Value;

    fn descriptor() -> Descriptor {
        hold::descriptor("decorator-moves", "puppets.example/moved=true")
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        Ok(Response::new().children(hold::config_maps(request.name())))
    }
}

hostile_guests::export_older!(DecoratorMoves);
