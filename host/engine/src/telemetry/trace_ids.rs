//! Adds the ids of the current trace and span to the lines of the log, so that a line leads to its trace.

use std::borrow::Cow;
use std::io::{self, Write};

use opentelemetry::trace::{SpanContext, TraceContextExt};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::fmt::MakeWriter;
use windlass_core::value::line::{is_unprintable, json, one_line};

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
        io::stderr().write_all(&with_ids(&as_one_line(line, self.0), self.0, &span))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// The line without characters that add lines or control a terminal. The log layer has already escaped those of text that begin
/// a sequence of a terminal (ESC and C1): an ESC that is left begins a colour of its own.
fn as_one_line(line: &[u8], format: LogFormat) -> Cow<'_, [u8]> {
    let Ok(text) = str::from_utf8(line) else { return line.escape_ascii().to_string().into_bytes().into() };
    let Some(text) = text.strip_suffix('\n') else { return line.into() };
    if !text.contains(|c| is_unprintable(c) && c != '\u{1b}') {
        return line.into();
    }
    let escaped = match format {
        LogFormat::Text => text.split('\u{1b}').map(one_line).collect::<Vec<_>>().join("\u{1b}"),
        LogFormat::Json => json(text).into_owned(),
    };
    (escaped + "\n").into_bytes().into()
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
    fn text_of_others_adds_no_line_to_the_log_and_keeps_its_colours_and_its_json() {
        let of =
            |line: &str, format| String::from_utf8(as_one_line(line.as_bytes(), format).into_owned()).expect("UTF-8");
        let coloured = "\u{1b}[32m INFO\u{1b}[0m plain\n";
        assert_eq!(of(coloured, LogFormat::Text), coloured);
        assert_eq!(
            of("\u{1b}[32m INFO\u{1b}[0m a\n INFO forged\u{202e}\u{9b}\n", LogFormat::Text),
            "\u{1b}[32m INFO\u{1b}[0m a  INFO forged\\u{202e}\\u{9b}\n"
        );
        assert_eq!(of("{\"a\":\"\u{202e}\"}\n", LogFormat::Json), "{\"a\":\"\\u202e\"}\n");
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
