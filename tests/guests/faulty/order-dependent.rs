//! Writes the first live child of the request into another child.

use hostile_guests::faulty::{Spec, Status, config_map, descriptor, good};
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response, json, kinds::ConfigMap};

struct OrderDependent;

impl Reconciler for OrderDependent {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        descriptor::<Self>("OrderDependent")
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let first = request
            .children_of::<ConfigMap>()
            .map(|live| live.name().to_owned())
            .find(|name| !name.ends_with("-leader"));
        let leader = first.map(|name| config_map(&format!("{}-leader", request.name()), &json!({ "leader": name })));
        Ok(good(&request).children(leader))
    }
}

windlass_plugin::export!(OrderDependent);
