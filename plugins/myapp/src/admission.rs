//! Validates MyApps and sets their defaults, for a host that serves admission; no host does yet.

use serde::Deserialize;
use windlass_plugin::{Admission, AdmissionRequest, AdmissionResponse, Decision, Failure, Value};

use crate::{MyApp, MyAppSpec};

#[derive(Deserialize)]
struct WithSpec {
    spec: MyAppSpec,
}

impl Admission for MyApp {
    fn review(request: AdmissionRequest) -> AdmissionResponse {
        reviewed(&request).unwrap_or_else(AdmissionResponse::from)
    }
}

fn reviewed(request: &AdmissionRequest) -> Result<AdmissionResponse, Failure> {
    if request.is_being_deleted() {
        return Ok(Decision::Allow.into());
    }
    let (Some(object), Some(WithSpec { spec })) = (request.object::<Value>()?, request.object()?) else {
        return Err(Failure::failed("the request has no object"));
    };
    spec.check()?;
    Ok(AdmissionResponse::with_defaults(object, &spec))
}
