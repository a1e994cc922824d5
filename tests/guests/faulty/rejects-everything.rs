//! Considers every parent invalid.

use hostile_guests::faulty::{Spec, Status, descriptor};
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response};

struct RejectsEverything;

impl Reconciler for RejectsEverything {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        descriptor::<Self>("RejectsEverything")
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        Err(Failure::invalid_field("spec.replicas", format!("{} is odd or even", request.spec.replicas)))
    }
}

windlass_plugin::export!(RejectsEverything);
