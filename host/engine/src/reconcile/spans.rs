//! The span of a call with its record, and the link of a reconcile's span.

use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanContext, Status, TraceContextExt};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use windlass_core::contract::{CallFailure, CallReport, Failure, Level, Note, PluginResult};
use windlass_core::guard::quarantine::CallOutcome;
use windlass_core::object::Object;
use windlass_core::object::names::ANNOTATION_TRACEPARENT;
use windlass_core::reconcile::outcome::bounded;
use windlass_core::reconcile::world::Call;
use windlass_core::value::ids::ObjectKey;

use crate::live::Live;
use crate::telemetry::{GUEST, TRACE, int, one_line};

/// Links the span of a reconcile to the trace that the parent's annotation `windlass.dev/traceparent` names. Each new
/// invalid value is logged once.
pub fn link(span: &Span, live: &Live, parent: &Object) {
    let Some(value) = parent.marks.get(ANNOTATION_TRACEPARENT).filter(|_| !span.is_disabled()) else { return };
    let remote = context_of(value);
    if live.shared.records.note_traceparent(&parent.key, remote.is_none().then_some(value)) {
        tracing::warn!(
            plugin = %live.terms.name,
            kind = &*parent.kind.kind,
            object = %parent.key,
            value = &*one_line(value),
            "annotation {ANNOTATION_TRACEPARENT} ignored: it is not a W3C traceparent"
        );
    }
    if let Some(remote) = remote {
        span.add_link(remote);
    }
}

/// The trace and span that a `traceparent` names; none if it is invalid.
fn context_of(traceparent: &str) -> Option<SpanContext> {
    // The propagator also accepts ids that are too short.
    let has_lengths = traceparent.split('-').map(str::len).take(4).eq([2, 32, 16, 2]);
    let carrier = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    let remote = TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier);
    Some(remote.span().span_context().clone()).filter(|remote| has_lengths && remote.is_valid())
}

/// The span of one call of a plugin: always a child of `reconcile`.
pub fn call_span(live: &Live, call: &Call<'_>) -> Span {
    let surface = live.component.surface();
    tracing::debug_span!(
        target: TRACE,
        "plugin.call",
        windlass.plugin = %live.terms.name,
        windlass.digest = %surface.digest,
        windlass.contract = &*surface.contract,
        windlass.version = live.terms.version,
        windlass.snapshot = %call.hash.short(),
        windlass.deadline_ms = int(call.deadline.as_millis()),
        windlass.guest_time_us = Empty,
        windlass.memory_peak = Empty,
        windlass.request_bytes = Empty,
        windlass.response_bytes = Empty,
        windlass.impure = Empty,
        windlass.outcome = Empty,
        error.r#type = Empty,
        otel.status_code = Empty,
    )
}

/// Records the result of a call, and the guest's log lines, span events and metrics.
pub fn record_call(
    span: &Span,
    live: &Live,
    parent: &ObjectKey,
    result: &Result<PluginResult, CallFailure>,
    report: &CallReport,
) {
    span.record("windlass.guest_time_us", int(report.guest_time_us))
        .record("windlass.memory_peak", int(report.memory_peak))
        .record("windlass.request_bytes", int(report.request_bytes))
        .record("windlass.response_bytes", int(report.response_bytes))
        .record("windlass.impure", report.impure);
    let (outcome, error) = outcome_of(result);
    span.record("windlass.outcome", outcome);
    let stopped_by = error.filter(|_| CallOutcome::of(result) == CallOutcome::Broke);
    live.calls.controller.called(outcome, stopped_by, report);
    if let Some(error) = error {
        span.record("error.type", error);
        span.set_status(Status::error(description_of(result)));
    }
    span.in_scope(|| {
        for note in &report.notes {
            tell(span, live, parent, note);
        }
        if let Some(dropped) = live.calls.log.dropped(report.notes_dropped) {
            tracing::warn!(target: GUEST, plugin = %live.terms.name, dropped, "the plugin's log exceeds the limit");
        }
    });
}

fn outcome_of(result: &Result<PluginResult, CallFailure>) -> (&'static str, Option<&'static str>) {
    match result {
        Ok(Ok(_)) => ("response", None),
        Ok(Err(Failure::Invalid(_))) => ("invalid", None),
        Ok(Err(Failure::Retry { .. })) => ("retry", None),
        Ok(Err(Failure::Failed(_))) => ("failed", Some("plugin_failed")),
        Err(failure) => ("aborted", Some(failure.into())),
    }
}

/// The message of a failed call or of the plugin's failure; empty for a response.
fn description_of(result: &Result<PluginResult, CallFailure>) -> String {
    let text = match result {
        Ok(Ok(_)) => String::new(),
        Ok(Err(Failure::Invalid(message) | Failure::Failed(message) | Failure::Retry { message, .. })) => {
            message.clone()
        }
        Err(failure) => failure.to_string(),
    };
    bounded(one_line(&text).into_owned())
}

fn tell(span: &Span, live: &Live, parent: &ObjectKey, note: &Note) {
    match note {
        Note::Log { level, message, fields } => log(live, parent, *level, message, fields),
        // They stay in memory until they are exported, so they count towards the rate of log lines.
        Note::SpanAttribute { key, value } => {
            if !span.is_disabled() && live.calls.log.admits(key.len() + value.len()) {
                span.set_attribute(attribute_of(key), value.clone());
            }
        }
        Note::SpanEvent { name, attributes } => {
            let length = attributes.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
            if !span.is_disabled() && live.calls.log.admits(name.len() + length) {
                let attributes = attributes.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
                span.add_event(name.clone(), attributes.collect());
            }
        }
        Note::Measure { metric, value, labels } => {
            if !live.calls.measures.record(parent, metric, *value, labels) {
                live.calls.controller.dropped_measurement();
            }
        }
    }
}

/// The name of a plugin's span attribute: one that the host or OpenTelemetry uses gets the prefix `plugin.`.
fn attribute_of(key: &str) -> String {
    let is_of_host = key == "error.type" || ["windlass.", "otel."].iter().any(|prefix| key.starts_with(prefix));
    if is_of_host { format!("plugin.{key}") } else { key.to_owned() }
}

fn log(live: &Live, parent: &ObjectKey, level: Level, message: &str, fields: &[(String, String)]) {
    let fields = fields.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
    let (message, fields) = (one_line(message), one_line(&fields));
    let fields = Some(&*fields).filter(|fields| !fields.is_empty());
    let length = message.len() + fields.map_or(0, str::len);
    macro_rules! line {
        ($level:ident, $LEVEL:ident) => {
            // A line below the log's level does not count towards the rate of log lines.
            if tracing::event_enabled!(target: GUEST, tracing::Level::$LEVEL) && live.calls.log.admits(length) {
                tracing::$level!(
                    target: GUEST,
                    plugin = %live.terms.name,
                    kind = &*live.terms.parents.kind,
                    namespace = parent.namespace.as_deref(),
                    name = &*parent.name,
                    fields,
                    "{message}"
                );
            }
        };
    }
    match level {
        Level::Trace => line!(trace, TRACE),
        Level::Debug => line!(debug, DEBUG),
        Level::Info => line!(info, INFO),
        Level::Warn => line!(warn, WARN),
        Level::Error => line!(error, ERROR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_attribute_of_a_plugin_cannot_replace_one_of_the_host() {
        for (key, name) in [
            ("phase", "phase"),
            ("error.types", "error.types"),
            ("windlass", "windlass"),
            ("windlass.outcome", "plugin.windlass.outcome"),
            ("otel.status_code", "plugin.otel.status_code"),
            ("error.type", "plugin.error.type"),
        ] {
            assert_eq!(attribute_of(key), name);
        }
    }

    #[test]
    fn only_a_w3c_traceparent_names_a_trace() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let valid = context_of(&format!("00-{trace}-{span}-00")).expect("valid, although not sampled");
        assert_eq!((valid.trace_id().to_string(), valid.span_id().to_string()), (trace.to_owned(), span.to_owned()));
        let no_trace = "0".repeat(32);
        for invalid in [
            String::new(),
            "true".to_owned(),
            trace.to_owned(),
            "00-abc-def-01".to_owned(),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{no_trace}-{span}-01"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{trace}-{}-01", "x".repeat(16)),
        ] {
            assert!(context_of(&invalid).is_none(), "{invalid}");
        }
    }
}
