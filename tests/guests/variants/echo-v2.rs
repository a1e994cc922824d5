//! The next version of Echo, for hot swaps: the same parents and Pods, but each Pod has the label `logic=v2`.

use echo::Echo;
use windlass_plugin::{
    Adapter, Failure, json,
    raw::{Descriptor, Request, Response, exports::windlass::plugin::reconciler::Guest},
};

struct EchoV2;

impl Guest for EchoV2 {
    fn describe() -> Descriptor {
        Descriptor { version: "2.0.0".to_owned(), ..Adapter::<Echo>::describe() }
    }

    fn reconcile(request: Request) -> Result<Response, Failure> {
        let mut response = Adapter::<Echo>::reconcile(request)?;
        for child in &mut response.children {
            child.object =
                labelled(&child.object).ok_or_else(|| Failure::failed("a Pod of Echo's is no object with labels"))?;
        }
        Ok(response)
    }
}

fn labelled(pod: &[u8]) -> Option<Vec<u8>> {
    let mut pod: serde_json::Value = serde_json::from_slice(pod).ok()?;
    pod.pointer_mut("/metadata/labels")?.as_object_mut()?.insert("logic".to_owned(), json!("v2"));
    Some(pod.to_string().into_bytes())
}

#[cfg(target_family = "wasm")]
windlass_plugin::raw::export_component!(EchoV2 with_types_in windlass_plugin::raw);
#[cfg(not(target_family = "wasm"))]
const _: fn() -> Descriptor = EchoV2::describe;
