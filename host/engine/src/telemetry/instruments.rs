//! The host's own instruments. They exist once per process, and only if an outlet exports them.
//!
//! States (how many, how long) are observable up-down counters, not gauges: the SDK exports a gauge's series for ever,
//! and of an observable up-down counter only those that the last observation had. To Prometheus both are gauges.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider};
use opentelemetry_sdk::metrics::SdkMeterProvider;

/// Label with the kind that a watch shows.
const KIND_LABEL: &str = "windlass.kind";

/// Boundaries for times of reconciles and calls, in seconds: from a call of a small component to the longest deadline.
const SECONDS: [f64; 16] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// Boundaries for sizes, in bytes.
const BYTES: [f64; 9] =
    [1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0, 67_108_864.0];

/// Set if metrics are exported.
static INSTRUMENTS: OnceLock<Instruments> = OnceLock::new();

/// The instruments. Those of Prometheus have the names that dashboards for controller-runtime use; those with dots have
/// the names of operators' guides for OpenTelemetry, and are exported by OTLP only.
pub(super) struct Instruments {
    pub meter: Meter,
    pub reconcile_total: Counter<u64>,
    pub reconcile_errors: Counter<u64>,
    pub reconcile_time: Histogram<f64>,
    pub queue_duration: Histogram<f64>,
    pub work_duration: Histogram<f64>,
    pub requests: Counter<u64>,
    pub call_time: Histogram<f64>,
    pub call_memory: Histogram<f64>,
    pub response_size: Histogram<f64>,
    pub traps: Counter<u64>,
    pub skipped_calls: Counter<u64>,
    pub dropped_measurements: Counter<u64>,
    pub compile_time: Histogram<f64>,
    pub blocked_deletions: Counter<u64>,
    pub watch_restarts: Counter<u64>,
    pub operator_reconciles: Counter<u64>,
    pub operator_duration: Histogram<f64>,
    pub operator_errors: Counter<u64>,
    pub operator_created: Counter<u64>,
    pub operator_deleted: Counter<u64>,
}

/// The instruments; none if no outlet exports them.
pub(super) fn instruments() -> Option<&'static Instruments> {
    INSTRUMENTS.get()
}

/// Sends measurements of the host to this provider from now on.
pub(super) fn open(provider: &SdkMeterProvider) {
    // Telemetry starts once per process.
    let _ = INSTRUMENTS.set(with(provider.meter("windlass")));
}

fn with(meter: Meter) -> Instruments {
    let counter = |name, description| meter.u64_counter(name).with_description(description).build();
    let histogram = |name, boundaries: &[f64], description| {
        meter.f64_histogram(name).with_boundaries(boundaries.to_vec()).with_description(description).build()
    };
    let operator_duration = meter.f64_histogram("operator.reconcile_duration").with_unit("ms");
    Instruments {
        reconcile_total: counter("controller_runtime_reconcile_total", "Reconciles of a controller, by result"),
        reconcile_errors: counter("controller_runtime_reconcile_errors_total", "Reconciles that ended with an error"),
        reconcile_time: histogram("controller_runtime_reconcile_time_seconds", &SECONDS, "Duration of reconciles"),
        queue_duration: histogram(
            "workqueue_queue_duration_seconds",
            &SECONDS,
            "Time for which a key was ready before its reconcile began",
        ),
        work_duration: histogram(
            "workqueue_work_duration_seconds",
            &SECONDS,
            "Time for which a worker was occupied with a key",
        ),
        requests: counter("rest_client_requests_total", "Requests to the API server, by code, method and host"),
        call_time: histogram("windlass_plugin_call_seconds", &SECONDS, "Duration of calls of a plugin, by outcome"),
        call_memory: histogram("windlass_plugin_memory_bytes", &BYTES, "Largest linear memory of a call"),
        response_size: histogram("windlass_plugin_response_bytes", &BYTES, "Size of a call's response"),
        traps: counter("windlass_plugin_traps_total", "Calls that were ended before they returned, by reason"),
        skipped_calls: counter(
            "windlass_memo_hits_total",
            "Reconciles without a call, because nothing had changed since the last one (rule R17)",
        ),
        dropped_measurements: counter(
            "windlass_plugin_dropped_measurements_total",
            "Measurements of a plugin that were dropped, because they are invalid or there is no room for another series",
        ),
        compile_time: histogram(
            "windlass_compile_seconds",
            &SECONDS,
            "Time to compile and load a component that was not compiled before",
        ),
        blocked_deletions: counter(
            "windlass_blocked_deletions_total",
            "Reconciles in which deletions were blocked (rule R9)",
        ),
        watch_restarts: counter(
            "windlass_watch_restarts_total",
            "Watch tasks of the host that panicked and were started again",
        ),
        operator_reconciles: counter("operator.reconcile_count", "Reconciles"),
        operator_duration: operator_duration
            .with_description("Time from the beginning of a reconcile to its end, calls and writes included")
            .build(),
        operator_errors: counter("operator.reconcile_errors", "Reconciles that failed, by the reason of the failure"),
        operator_created: counter("operator.resource_created", "Children that were created"),
        operator_deleted: counter("operator.resource_deleted", "Children that were deleted"),
        meter,
    }
}

/// Adds to the restarts of a watch's task after a panic; 0 makes the series appear.
pub fn watch_restarted(kind: &str, times: u64) {
    let Some(instruments) = instruments() else { return };
    instruments.watch_restarts.add(times, &[KeyValue::new(KIND_LABEL, kind.to_owned())]);
}

/// Records how long it took to compile and load a component, successfully or not.
pub fn loaded(took: Duration) {
    let Some(instruments) = instruments() else { return };
    instruments.compile_time.record(took.as_secs_f64(), &[]);
}

/// Counts a request to the API server, by the status code of its response (`<error>` without one).
pub fn requested(host: &str, method: &http::Method, code: Option<u16>) {
    let Some(instruments) = instruments() else { return };
    let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
    let labels = [("code", code), ("host", host.to_owned()), ("method", method.to_string())];
    instruments.requests.add(1, &labels.map(|(name, value)| KeyValue::new(name, value)));
}

/// Exports, for each kind, the time since the last progress of its watch, as `ages` returns it.
pub fn observe_watches(ages: impl Fn() -> BTreeMap<String, Duration> + Send + Sync + 'static) {
    let Some(instruments) = instruments() else { return };
    observe_ages(&instruments.meter, ages);
}

fn observe_ages(meter: &Meter, ages: impl Fn() -> BTreeMap<String, Duration> + Send + Sync + 'static) {
    let age = meter.f64_observable_up_down_counter("windlass_watch_progress_age_seconds").with_unit("s");
    let age = age.with_description(
        "Time since a watch of the kind last delivered an event or a bookmark, or ended without an error",
    );
    // The meter keeps the instrument.
    let _ = age
        .with_callback(move |observer| {
            for (kind, age) in ages() {
                observer.observe(age.as_secs_f64(), &[KeyValue::new(KIND_LABEL, kind)]);
            }
        })
        .build();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::exported::Last;
    use super::*;

    #[test]
    fn time_since_progress_is_exported_for_the_kinds_that_are_watched_now() {
        let (last, provider) = Last::provider();
        let watched = Arc::new(parking_lot::Mutex::new(BTreeMap::from(
            [("Pod.v1", 61), ("Secret.v1", 0)].map(|(kind, age)| (kind.to_owned(), Duration::from_secs(age))),
        )));
        let ages = watched.clone();
        observe_ages(&provider.meter("test"), move || ages.lock().clone());
        let pod = "windlass_watch_progress_age_seconds{windlass.kind=Pod.v1}=61";
        let secret = "windlass_watch_progress_age_seconds{windlass.kind=Secret.v1}=0";
        assert_eq!(last.of(&provider), [pod, secret]);
        watched.lock().remove("Secret.v1");
        assert_eq!(last.of(&provider), [pod], "the kind is no longer watched");
    }
}
