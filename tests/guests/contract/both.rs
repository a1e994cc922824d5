//! Echo by both contracts: a component that older hosts run as well. By 0.2 its version is 0.2.0, and its responses are those of 0.1.

use windlass_plugin::{
    Adapter, Failure,
    raw::{Descriptor, Request, Response, exports::windlass::plugin::reconciler::Guest},
};

struct Both;

impl Guest for Both {
    fn describe() -> Descriptor {
        Descriptor { version: "0.2.0".to_owned(), ..Adapter::<echo::Echo>::describe() }
    }

    fn reconcile(request: Request) -> Result<Response, Failure> {
        Adapter::<echo::Echo>::reconcile(request)
    }
}

#[cfg(target_family = "wasm")]
windlass_plugin::raw::export_component!(Both with_types_in windlass_plugin::raw);
#[cfg(not(target_family = "wasm"))]
const _: fn() -> Descriptor = Both::describe;
hostile_guests::export_older!(echo::Echo);
