//! Adds a line to the status in every call.

use hostile_guests::faulty::{Spec, Status, descriptor, good, status};
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response};

struct GrowingStatus;

impl Reconciler for GrowingStatus {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        descriptor::<Self>("GrowingStatus")
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let mut history = request.status().unwrap_or_default().history;
        history.push(format!("{} replicas", request.spec.replicas));
        Ok(good(&request).status(Status { history, ..status(&request) }))
    }
}

windlass_plugin::export!(GrowingStatus);
