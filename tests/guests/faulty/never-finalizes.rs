//! Waits in clean-up for a child that it returns again itself.

use hostile_guests::faulty::{Spec, Status, config_maps, descriptor, good};
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response, kinds::ConfigMap};

struct NeverFinalizes;

impl Reconciler for NeverFinalizes {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        descriptor::<Self>("NeverFinalizes").finalizes()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        if !request.is_finalizing() {
            return Ok(good(&request));
        }
        let children = config_maps(&request);
        let is_gone = request.children_of::<ConfigMap>().next().is_none();
        let response = Response::new().children(children);
        Ok(if is_gone && request.spec.replicas == 0 { response.finalized() } else { response })
    }
}

windlass_plugin::export!(NeverFinalizes);
