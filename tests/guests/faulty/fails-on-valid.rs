//! Fails for a text that the schema accepts: it has more than ten characters.

use hostile_guests::faulty::{Spec, Status, descriptor, good};
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response};

struct FailsOnValid;

impl Reconciler for FailsOnValid {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        descriptor::<Self>("FailsOnValid")
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        if request.spec.text.chars().count() > 10 {
            return Err(Failure::failed("the text is too long"));
        }
        Ok(good(&request))
    }
}

windlass_plugin::export!(FailsOnValid);
