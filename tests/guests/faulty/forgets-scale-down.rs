//! Returns every live child again, so that a smaller number of replicas deletes none.

use hostile_guests::faulty::{Spec, Status, config_map, config_maps, descriptor, status};
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response, kinds::ConfigMap};

struct ForgetsScaleDown;

impl Reconciler for ForgetsScaleDown {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        descriptor::<Self>("ForgetsScaleDown")
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let desired = config_maps(&request);
        let is_desired = |name: &str| desired.iter().any(|child| child["metadata"]["name"] == name);
        let live = request.children_of::<ConfigMap>().filter(|live| !is_desired(live.name()));
        let kept: Vec<_> = live.map(|live| config_map(live.name(), &live.at("/data"))).collect();
        Ok(Response::new().children(desired).children(kept).status(status(&request)))
    }
}

windlass_plugin::export!(ForgetsScaleDown);
