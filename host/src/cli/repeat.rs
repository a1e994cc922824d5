//! Repeats a recorded call with a component, for `windlass record` and `windlass replay`.

use std::time::{Duration, SystemTime};

use windlass_core::contract::CallReport;
use windlass_core::recording::{Exchange, RecordedResult, digest, export_result};
use windlass_sandbox::{Ambient, Component, run_here};

/// Minimum deadline of a repeated call: this machine may be slower than that of the host.
const DEADLINE: Duration = Duration::from_secs(10);

/// The result of a repeated call.
pub struct Repeated {
    pub result: RecordedResult,
    /// Hash of the result's bytes.
    pub digest: String,
    pub report: CallReport,
}

/// Calls a component with a recorded request, clock and seed.
///
/// # Errors
/// If the recorded request is not valid.
pub fn repeat(component: &Component, exchange: &Exchange) -> anyhow::Result<Repeated> {
    let ambient = Ambient { seed: exchange.seed()?, now: SystemTime::from(exchange.now) };
    let (request, limits) = (exchange.request.request()?, exchange.limits.limits(DEADLINE));
    let (result, report) = run_here(component.reconcile(&request, &limits, ambient));
    Ok(Repeated { result: export_result(&result), digest: digest(&result).to_string(), report })
}
