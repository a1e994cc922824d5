//! Divides by a number that may be 0.

use hostile_guests::faulty::{Spec, Status, config_map, descriptor, good};
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response, json};

struct TrapOnZero;

impl Reconciler for TrapOnZero {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        descriptor::<Self>("TrapOnZero")
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let share = 100 / request.spec.replicas;
        Ok(good(&request)
            .child(config_map(&format!("{}-share", request.name()), &json!({ "share": share.to_string() }))))
    }
}

windlass_plugin::export!(TrapOnZero);
