//! The collector returns the spans and metrics that it received.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use windlass_testbed::{Collector, Status};

fn post(endpoint: &str, path: &str, body: &Value) -> Result<()> {
    let address = endpoint.strip_prefix("http://").context("no http endpoint")?;
    let body = body.to_string();
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    ensure!(response.starts_with("HTTP/1.1 200"), "{response}");
    Ok(())
}

#[test]
fn collector_returns_a_span_that_it_received() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let collector = Collector::start(dir.path())?;
    assert_eq!(collector.spans()?, []);
    let string = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let span = json!({
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "parentSpanId": "00f067aa0ba902b7",
        "name": "plugin.call", "kind": 1, "startTimeUnixNano": "1000", "endTimeUnixNano": "3000",
        "attributes": [
            string("windlass.plugin", "shop"),
            {"key": "windlass.rounds", "value": {"intValue": "2"}},
            {"key": "names", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"boolValue": true}]}}},
        ],
        "events": [{"timeUnixNano": "2000", "name": "pvc_ensured", "attributes": [string("mysql.name", "db")]}],
        "status": {"code": 2, "message": "trapped"},
    });
    let batch = json!({"resourceSpans": [{
        "resource": {"attributes": [string("service.name", "windlass")]},
        "scopeSpans": [{"scope": {"name": "test"}, "spans": [span]}],
    }]});
    post(&collector.http_endpoint(), "/v1/traces", &batch)?;

    let spans = collector.wait_for_spans(Duration::from_secs(20), |spans| !spans.is_empty())?;
    assert_eq!(spans.len(), 1);
    let span = &spans[0];
    assert_eq!(span.name, "plugin.call");
    assert_eq!(span.trace_id, "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(span.span_id, "b7ad6b7169203331");
    assert_eq!(span.parent_span_id, "00f067aa0ba902b7");
    assert_eq!((span.start, span.end), (1000, 3000));
    assert_eq!(span.attributes["windlass.plugin"], "shop");
    assert_eq!(span.attributes["windlass.rounds"], 2);
    assert_eq!(span.attributes["names"], json!(["a", true]));
    assert_eq!(span.resource["service.name"], "windlass");
    assert_eq!(span.events[0].name, "pvc_ensured");
    assert_eq!(span.events[0].attributes["mysql.name"], "db");
    assert_eq!(span.status, Status::Error("trapped".into()));
    Ok(())
}

#[test]
fn collector_returns_a_metric_that_it_received() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let collector = Collector::start(dir.path())?;
    let point =
        json!({"attributes": [{"key": "plugin", "value": {"stringValue": "shop"}}], "timeUnixNano": "1", "asInt": "7"});
    let metric = json!({"name": "operator.reconcile_count", "unit": "1", "sum": {"dataPoints": [point], "aggregationTemporality": 2, "isMonotonic": true}});
    let batch = json!({"resourceMetrics": [{"resource": {}, "scopeMetrics": [{"metrics": [metric]}]}]});
    post(&collector.http_endpoint(), "/v1/metrics", &batch)?;

    let metrics = windlass_testbed::until("the metric", Duration::from_secs(20), || {
        Ok(collector.metrics()?.into_iter().find(|metric| metric.name == "operator.reconcile_count"))
    })?;
    assert_eq!(metrics.points[0].0["plugin"], "shop");
    assert_eq!(metrics.points[0].1["asInt"], "7");
    Ok(())
}
