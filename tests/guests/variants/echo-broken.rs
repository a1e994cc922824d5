//! A version of Echo that traps in `describe`. The host keeps the old component live, and the Plugin's conditions
//! report the trap.

use windlass_plugin::{
    Adapter, Failure,
    raw::{Descriptor, Request, Response, exports::windlass::plugin::reconciler::Guest},
};

struct EchoBroken;

impl Guest for EchoBroken {
    fn describe() -> Descriptor {
        std::process::abort()
    }

    fn reconcile(request: Request) -> Result<Response, Failure> {
        Adapter::<echo::Echo>::reconcile(request)
    }
}

#[cfg(target_family = "wasm")]
windlass_plugin::raw::export_component!(EchoBroken with_types_in windlass_plugin::raw);
#[cfg(not(target_family = "wasm"))]
const _: fn() -> Descriptor = EchoBroken::describe;
