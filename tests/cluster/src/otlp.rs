//! Parses OTLP's JSON, as the collector writes it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Attributes by name.
pub type Attributes = BTreeMap<String, Value>;

/// A span as it was received.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// 32 hexadecimal digits.
    pub trace_id: String,
    /// 16 hexadecimal digits.
    pub span_id: String,
    /// Empty for the root of a trace.
    pub parent_span_id: String,
    /// Nanoseconds since 1970.
    pub start: u64,
    /// Nanoseconds since 1970.
    pub end: u64,
    /// The span's own attributes.
    pub attributes: Attributes,
    /// The attributes of the program that sent the span, such as `service.name`.
    pub resource: Attributes,
    /// In the order of their time.
    pub events: Vec<SpanEvent>,
    /// Trace and span ids of the spans that this one links to.
    pub links: Vec<(String, String)>,
    /// The span's status.
    pub status: Status,
}

/// An event within a span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpanEvent {
    /// Its name.
    pub name: String,
    /// Its attributes.
    pub attributes: Attributes,
}

/// The status of a span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Unset: the program reported no failure.
    #[default]
    Unset,
    /// Ok.
    Ok,
    /// Error, with a message.
    Error(String),
}

/// One export of one instrument.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metric {
    /// The instrument's name.
    pub name: String,
    /// The instrument's unit, such as `ms`.
    pub unit: String,
    /// The attributes of the program that sent it.
    pub resource: Attributes,
    /// Each point's attributes, and the point as OTLP JSON (`asInt`, `asDouble`, `count`, `sum`, `bucketCounts` …).
    pub points: Vec<(Attributes, Value)>,
}

/// The spans in one batch.
pub(crate) fn spans(batch: &Value) -> Vec<Span> {
    let mut spans = Vec::new();
    for (resource, span) in records(batch, ["resourceSpans", "scopeSpans", "spans"]) {
        let event = |event: &Value| SpanEvent { name: text(event, "name"), attributes: attributes(event) };
        let link = |link: &Value| (text(link, "traceId"), text(link, "spanId"));
        spans.push(Span {
            name: text(span, "name"),
            trace_id: text(span, "traceId"),
            span_id: text(span, "spanId"),
            parent_span_id: text(span, "parentSpanId"),
            start: nanoseconds(span, "startTimeUnixNano"),
            end: nanoseconds(span, "endTimeUnixNano"),
            attributes: attributes(span),
            resource,
            events: list(span, "events").iter().map(event).collect(),
            links: list(span, "links").iter().map(link).collect(),
            status: status(span.get("status").unwrap_or(&Value::Null)),
        });
    }
    spans
}

/// The metrics in one batch.
pub(crate) fn metrics(batch: &Value) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for (resource, metric) in records(batch, ["resourceMetrics", "scopeMetrics", "metrics"]) {
        let kinds = ["sum", "gauge", "histogram", "exponentialHistogram", "summary"];
        let points = kinds.iter().filter_map(|kind| metric.get(kind)).flat_map(|data| list(data, "dataPoints"));
        metrics.push(Metric {
            name: text(metric, "name"),
            unit: text(metric, "unit"),
            resource,
            points: points.map(|point| (attributes(point), point.clone())).collect(),
        });
    }
    metrics
}

/// The records of a batch, each with the attributes of its resource: all signals of OTLP are nested in the same three
/// lists.
fn records<'a>(batch: &'a Value, [resources, scopes, records]: [&str; 3]) -> Vec<(Attributes, &'a Value)> {
    let mut found = Vec::new();
    for part in list(batch, resources) {
        let resource = part.get("resource").map(attributes).unwrap_or_default();
        let all = list(part, scopes).iter().flat_map(|scope| list(scope, records));
        found.extend(all.map(|record| (resource.clone(), record)));
    }
    found
}

fn attributes(of: &Value) -> Attributes {
    let pair = |pair: &Value| (text(pair, "key"), pair.get("value").map_or(Value::Null, any_value));
    list(of, "attributes").iter().map(pair).collect()
}

/// OTLP wraps each value in an object that names its type, and writes integers as strings.
fn any_value(value: &Value) -> Value {
    let Some((kind, inner)) = value.as_object().and_then(|object| object.iter().next()) else {
        return Value::Null;
    };
    match kind.as_str() {
        "intValue" => {
            inner.as_str().and_then(|text| text.parse::<i64>().ok()).map_or_else(|| inner.clone(), Value::from)
        }
        "arrayValue" => list(inner, "values").iter().map(any_value).collect(),
        "kvlistValue" => {
            let pair = |pair: &Value| (text(pair, "key"), pair.get("value").map_or(Value::Null, any_value));
            Value::Object(list(inner, "values").iter().map(pair).collect::<Map<_, _>>())
        }
        _ => inner.clone(),
    }
}

fn status(status: &Value) -> Status {
    match status.get("code").and_then(Value::as_u64) {
        Some(1) => Status::Ok,
        Some(2) => Status::Error(text(status, "message")),
        _ => Status::Unset,
    }
}

fn text(of: &Value, field: &str) -> String {
    of.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn nanoseconds(of: &Value, field: &str) -> u64 {
    of.get(field).and_then(Value::as_str).and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn list<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
