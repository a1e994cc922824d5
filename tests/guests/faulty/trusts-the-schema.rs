//! Relies on the schema: a number that the schema rejects becomes a number of children.

use hostile_guests::faulty::{Status, config_map, kind, status};
use schemars::JsonSchema;
use serde::Deserialize;
use windlass_plugin::{Descriptor, Failure, Reconciler, Request, Response, json, kinds::ConfigMap};

/// The spec.
#[derive(Debug, Deserialize, JsonSchema)]
struct Spec {
    /// Number of `ConfigMaps`.
    #[schemars(range(min = 0, max = 20))]
    replicas: i64,
}

struct TrustsTheSchema;

impl Reconciler for TrustsTheSchema {
    type Spec = Spec;
    type Status = Status;

    fn descriptor() -> Descriptor {
        let kind = kind::<Self>("TrustsTheSchema");
        Descriptor::new("truststheschema", env!("CARGO_PKG_VERSION"), kind).child::<ConfigMap>()
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let count = usize::try_from(request.spec.replicas).expect("the schema has a minimum");
        let children = (0..count).map(|index| config_map(&format!("{}-{index}", request.name()), &json!({})));
        Ok(Response::new().children(children).status(status(&request)))
    }
}

windlass_plugin::export!(TrustsTheSchema);
