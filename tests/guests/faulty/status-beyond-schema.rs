//! Writes a number into the status that the schema does not accept.

use hostile_guests::faulty::{Spec, Status, descriptor, good};
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response};

struct StatusBeyondSchema;

impl Reconciler for StatusBeyondSchema {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        descriptor::<Self>("StatusBeyondSchema")
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let replicas = request.spec.replicas as usize * 100;
        Ok(good(&request).status(Status { replicas, history: Vec::new() }))
    }
}

windlass_plugin::export!(StatusBeyondSchema);
