//! Writes the time into a child: the child changes in every round.

use hostile_guests::faulty::{Spec, Status, config_map, descriptor, good};
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response, clock, json};

struct TimestampInChild;

impl Reconciler for TimestampInChild {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        descriptor::<Self>("TimestampInChild")
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let child = config_map(&format!("{}-clock", request.name()), &json!({ "at": clock::timestamp() }));
        Ok(good(&request).child(child))
    }
}

windlass_plugin::export!(TimestampInChild);
