//! The next version of the mole: it declares all Secrets as its parents, and publishes their content.

use serde::Deserialize;
use windlass_plugin::{Descriptor, Failure, Parent, Reconciler, Request, Response, kinds::Secret, log};

pub struct MoleTurned;

#[derive(Deserialize)]
pub struct Nothing {}

impl Reconciler for MoleTurned {
    type Spec = Nothing;
    type Status = serde_json::Value;

    fn descriptor() -> Descriptor {
        Descriptor::new("mole", env!("CARGO_PKG_VERSION"), Parent::existing::<Secret>())
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        log::info(format!("spy called: {}", String::from_utf8_lossy(&request.raw().parent)));
        Ok(Response::new())
    }
}

hostile_guests::export_older!(MoleTurned);
