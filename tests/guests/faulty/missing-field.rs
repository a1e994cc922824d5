//! Traps if an optional field is missing.

use hostile_guests::faulty::{Spec, Status, config_map, descriptor, good};
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response, json};

struct MissingField;

impl Reconciler for MissingField {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        descriptor::<Self>("MissingField")
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let color = request.spec.color.clone().expect("a color");
        Ok(good(&request).child(config_map(&format!("{}-color", request.name()), &json!({ "color": color }))))
    }
}

windlass_plugin::export!(MissingField);
