//! Echo with an additional field in its CRD, `spec.note`, which is optional and which it does not use: compared with
//! it, plain Echo is a component that drops a field.

use echo::Echo;
use serde_json::{Value, json};
use windlass_plugin::{
    Adapter, Failure,
    raw::{CustomParent, Descriptor, Parent, Request, Response, exports::windlass::plugin::reconciler::Guest},
};

struct EchoWide;

impl Guest for EchoWide {
    fn describe() -> Descriptor {
        let mut descriptor = Adapter::<Echo>::describe();
        if let Parent::Custom(CustomParent { definition, .. }) = &mut descriptor.parent {
            let mut wide: Value = serde_json::from_slice(definition).unwrap_or_default();
            wide["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["note"] =
                json!({ "type": "string" });
            *definition = wide.to_string().into_bytes();
        }
        descriptor
    }

    fn reconcile(request: Request) -> Result<Response, Failure> {
        Adapter::<Echo>::reconcile(request)
    }
}

#[cfg(target_family = "wasm")]
windlass_plugin::raw::export_component!(EchoWide with_types_in windlass_plugin::raw);
#[cfg(not(target_family = "wasm"))]
const _: fn() -> Descriptor = EchoWide::describe;
