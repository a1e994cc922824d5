//! Echo with log lines, a span attribute and a span event, for the tests of traces.

use echo::Echo;
use windlass_plugin::{
    Adapter, Failure, log,
    raw::{Descriptor, Request, Response, exports::windlass::plugin::reconciler::Guest},
    span,
};

struct EchoWithTelemetry;

impl Guest for EchoWithTelemetry {
    fn describe() -> Descriptor {
        Adapter::<Echo>::describe()
    }

    fn reconcile(request: Request) -> Result<Response, Failure> {
        log::info("counting Pods");
        let response = Adapter::<Echo>::reconcile(request)?;
        let pods = response.children.len().to_string();
        span::attribute("echo.pods", &pods);
        span::event("pods_counted", &[("pods", &pods)]);
        log::warn("a warning for the test");
        Ok(response)
    }
}

#[cfg(target_family = "wasm")]
windlass_plugin::raw::export_component!(EchoWithTelemetry with_types_in windlass_plugin::raw);
#[cfg(not(target_family = "wasm"))]
const _: fn() -> Descriptor = EchoWithTelemetry::describe;
