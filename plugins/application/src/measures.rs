//! Metrics. The host measures the duration of a reconcile: a plugin's clock does not advance.

use windlass_plugin::{Metric, Quantity, Request, StatusPhase, measure};

use crate::{Application, ApplicationStatus, Phase, spec::Resources};

const SEEN: &str = "applications_total";
const RECONCILES: &str = "reconciles_total";
const ERRORS: &str = "errors_total";
const CPU: &str = "requested_cpu_cores";
const MEMORY: &str = "requested_memory_bytes";

pub(crate) fn declared() -> [Metric; 5] {
    [
        Metric::counter(SEEN, "Applications that were reconciled for the first time", &[]),
        Metric::counter(
            RECONCILES,
            "Reconciles by the phase that they found, or Refused for an invalid spec",
            &["phase"],
        ),
        Metric::counter(ERRORS, "Reconciles that found an invalid spec or a failed application", &["reason"]),
        Metric::gauge(CPU, "", "CPUs that the Pods of an application request", &["namespace", "name"]),
        Metric::gauge(MEMORY, "By", "Memory that the Pods of an application request", &["namespace", "name"]),
    ]
}

pub(crate) fn first_seen() {
    measure(SEEN, 1.0, &[]);
}

pub(crate) fn refused() {
    measure(RECONCILES, 1.0, &[("phase", "Refused")]);
    measure(ERRORS, 1.0, &[("reason", "InvalidSpec")]);
}

pub(crate) fn reconciled(request: &Request<Application>, status: &ApplicationStatus) {
    measure(RECONCILES, 1.0, &[("phase", status.phase.as_str())]);
    if status.phase == Phase::Failed {
        measure(ERRORS, 1.0, &[("reason", "Failed")]);
    }
    let labels = [("namespace", request.namespace()), ("name", request.name())];
    for (metric, resource) in [(CPU, "cpu"), (MEMORY, "memory")] {
        let requested = requested(&request.spec.resources, resource) * f64::from(status.replicas);
        measure(metric, requested, &labels);
    }
}

/// The request of one Pod. The API server makes a limit without a request the request.
fn requested(resources: &Resources, resource: &str) -> f64 {
    let amount = resources.requests.get(resource).or_else(|| resources.limits.get(resource));
    amount.map_or(0.0, Quantity::as_f64)
}
