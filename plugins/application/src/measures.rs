//! What is counted and measured. How long a reconcile takes is the host's to measure: a plugin has no clock that runs.

use windlass_plugin::{Metric, Request, StatusPhase, measure};

use crate::{Application, ApplicationStatus, Phase, spec::Resources};

const SEEN: &str = "applications_total";
const RECONCILES: &str = "reconciles_total";
const ERRORS: &str = "errors_total";
const CPU: &str = "requested_cpu_cores";
const MEMORY: &str = "requested_memory_bytes";

pub(crate) fn declared() -> [Metric; 5] {
    [
        Metric::counter(SEEN, "Applications that were seen for the first time", &[]),
        Metric::counter(RECONCILES, "Answers, by the phase that they found, or Refused", &["phase"]),
        Metric::counter(ERRORS, "Those that found something wrong: with the spec, or with the Pods", &["reason"]),
        Metric::gauge(CPU, "", "Processors that the Pods of a namespace's application ask for", &["namespace", "name"]),
        Metric::gauge(
            MEMORY,
            "By",
            "Memory that the Pods of a namespace's application ask for",
            &["namespace", "name"],
        ),
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

/// What one Pod asks for. Where only a limit is given, it is the request, too.
fn requested(resources: &Resources, resource: &str) -> f64 {
    let amount = resources.requests.get(resource).or_else(|| resources.limits.get(resource));
    amount.map_or(0.0, windlass_plugin::Quantity::as_f64)
}
