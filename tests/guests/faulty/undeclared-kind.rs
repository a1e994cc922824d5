//! Returns a child of a kind that its descriptor does not declare.

use hostile_guests::faulty::{Spec, Status, descriptor, good};
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response, json};

struct UndeclaredKind;

impl Reconciler for UndeclaredKind {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        descriptor::<Self>("UndeclaredKind")
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": request.name() } });
        Ok(good(&request).child_if(request.spec.color.is_some(), secret))
    }
}

windlass_plugin::export!(UndeclaredKind);
