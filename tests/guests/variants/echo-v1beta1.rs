//! Echo before its kind was stable: the same parents and Pods, and a CRD that has only `v1beta1`.

use echo::Echo;
use serde_json::Value;
use windlass_plugin::{
    Adapter, Failure,
    raw::{CustomParent, Descriptor, Parent, Request, Response, exports::windlass::plugin::reconciler::Guest},
};

struct EchoV1beta1;

impl Guest for EchoV1beta1 {
    fn describe() -> Descriptor {
        let mut descriptor = Adapter::<Echo>::describe();
        if let Parent::Custom(CustomParent { definition, .. }) = &mut descriptor.parent {
            let mut beta: Value = serde_json::from_slice(definition).unwrap_or_default();
            beta["spec"]["versions"][0]["name"] = "v1beta1".into();
            *definition = beta.to_string().into_bytes();
        }
        Descriptor { version: "0.1.0".to_owned(), ..descriptor }
    }

    fn reconcile(request: Request) -> Result<Response, Failure> {
        Adapter::<Echo>::reconcile(request)
    }
}

#[cfg(target_family = "wasm")]
windlass_plugin::raw::export_component!(EchoV1beta1 with_types_in windlass_plugin::raw);
#[cfg(not(target_family = "wasm"))]
const _: fn() -> Descriptor = EchoV1beta1::describe;
