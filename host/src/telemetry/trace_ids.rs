//! Adds the ids of the current trace and span to the lines of the log, so that a line leads to its trace.

use std::borrow::Cow;
use std::io::{self, Write};

use opentelemetry::trace::{SpanContext, TraceContextExt};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::fmt::MakeWriter;

use super::LogFormat;

/// Writes the lines of a log of this format to standard error.
#[derive(Debug, Clone, Copy)]
pub(super) struct WithTraceIds(pub LogFormat);

impl MakeWriter<'_> for WithTraceIds {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}

impl Write for WithTraceIds {
    /// Writes one line. The log layer writes each line at once, while the event's span is current.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let span = tracing::Span::current().context().span().span_context().clone();
        io::stderr().write_all(&with_ids(line, self.0, &span))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The line with the ids at its end; the line itself if no trace is recorded or its sampler drops it.
fn with_ids<'a>(line: &'a [u8], format: LogFormat, span: &SpanContext) -> Cow<'a, [u8]> {
    let (end, ids) = match format {
        LogFormat::Text => ("\n", format!(" trace_id={} span_id={}", span.trace_id(), span.span_id())),
        LogFormat::Json => ("}\n", format!(r#","trace_id":"{}","span_id":"{}""#, span.trace_id(), span.span_id())),
    };
    match line.strip_suffix(end.as_bytes()) {
        Some(begin) if span.is_sampled() => [begin, ids.as_bytes(), end.as_bytes()].concat().into(),
        _ => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{SpanId, TraceFlags, TraceId, TraceState};

    use super::*;

    fn added(line: &str, format: LogFormat, span: &SpanContext) -> String {
        String::from_utf8_lossy(&with_ids(line.as_bytes(), format, span)).into_owned()
    }

    #[test]
    fn line_within_a_trace_ends_with_its_ids_and_stays_valid_json() {
        let span =
            SpanContext::new(TraceId::from(10), SpanId::from(11), TraceFlags::SAMPLED, false, TraceState::default());
        let (trace, id) = ("0000000000000000000000000000000a", "000000000000000b");
        assert_eq!(added("INFO a=1\n", LogFormat::Text, &span), format!("INFO a=1 trace_id={trace} span_id={id}\n"));
        let json: serde_json::Value =
            serde_json::from_str(&added("{\"a\":1}\n", LogFormat::Json, &span)).expect("valid JSON");
        assert_eq!(json, serde_json::json!({"a": 1, "trace_id": trace, "span_id": id}));
        for (line, format) in [("INFO a=1\n", LogFormat::Text), ("{\"a\":1}\n", LogFormat::Json)] {
            let dropped = SpanContext::new(
                TraceId::from(10),
                SpanId::from(11),
                TraceFlags::NOT_SAMPLED,
                false,
                TraceState::default(),
            );
            for span in [SpanContext::empty_context(), dropped] {
                assert_eq!(added(line, format, &span), line, "no trace is exported");
            }
        }
    }
}
