//! Exports spans and metrics by OTLP, as configured by the `OTEL_*` variables (OpenTelemetry specification, "OTLP
//! Exporter Configuration").

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter as OtlpExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tokio::runtime::Handle;

/// The value of the first of these environment variables that is set and not empty.
fn variable(names: &[&str]) -> Option<String> {
    names.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty())
}

enum Protocol {
    Grpc,
    Http,
}

/// The protocol for a signal (`TRACES`, `METRICS`). None if the variables set no endpoint for it, or turn it off.
fn wanted(signal: &str) -> anyhow::Result<Option<Protocol>> {
    let of =
        |what: &str| variable(&[&format!("OTEL_EXPORTER_OTLP_{signal}_{what}"), &format!("OTEL_EXPORTER_OTLP_{what}")]);
    let is_off = variable(&["OTEL_SDK_DISABLED"]).is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || variable(&[&format!("OTEL_{signal}_EXPORTER")]).is_some_and(|exporter| exporter == "none");
    let Some(endpoint) = of("ENDPOINT").filter(|_| !is_off) else { return Ok(None) };
    Ok(Some(match of("PROTOCOL").as_deref() {
        Some("grpc") => Protocol::Grpc,
        Some("http/protobuf") => Protocol::Http,
        Some(other) => anyhow::bail!("OTEL_EXPORTER_OTLP_PROTOCOL is {other:?}; it must be grpc or http/protobuf"),
        // Port 4318 is the HTTP port of OTLP; any other endpoint is assumed to speak gRPC.
        None if has_http_port(&endpoint) => Protocol::Http,
        None => Protocol::Grpc,
    }))
}

/// An exporter of spans. None if the variables set no endpoint. Must be called in the runtime that sends the spans.
///
/// # Errors
/// If the variables are invalid.
pub(super) fn traces() -> anyhow::Result<Option<SdkTracerProvider>> {
    let Some(protocol) = wanted("TRACES")? else { return Ok(None) };
    let builder = OtlpExporter::builder();
    let exporter = match protocol {
        Protocol::Grpc => builder.with_tonic().build(),
        Protocol::Http => builder.with_http().build(),
    };
    let exporter = InRuntime { exporter: exporter.map_err(|error| unusable(&error))?, runtime: Handle::current() };
    Ok(Some(SdkTracerProvider::builder().with_resource(resource()).with_batch_exporter(exporter).build()))
}

/// An exporter of metrics, which must send [in a runtime's context](in_context). None if the variables set no endpoint. Must be
/// called in the runtime that sends the metrics.
///
/// # Errors
/// If the variables are invalid.
pub(super) fn metrics() -> anyhow::Result<Option<MetricExporter>> {
    let Some(protocol) = wanted("METRICS")? else { return Ok(None) };
    let builder = MetricExporter::builder();
    let exporter = match protocol {
        Protocol::Grpc => builder.with_tonic().build(),
        Protocol::Http => builder.with_http().build(),
    };
    exporter.map(Some).map_err(|error| unusable(&error))
}

/// The resource that spans and metrics name as their source. Its service is `windlass`, unless `OTEL_SERVICE_NAME` or
/// `OTEL_RESOURCE_ATTRIBUTES` names another.
pub(super) fn resource() -> Resource {
    let resource = Resource::builder();
    let attributes = variable(&["OTEL_RESOURCE_ATTRIBUTES"]).unwrap_or_default();
    if variable(&["OTEL_SERVICE_NAME"]).is_some() || has_service_name(&attributes) {
        resource.build()
    } else {
        resource.with_service_name("windlass").build()
    }
}

fn has_service_name(attributes: &str) -> bool {
    attributes.split(',').filter_map(|pair| pair.split_once('=')).any(|(name, _)| name.trim() == "service.name")
}

fn has_http_port(endpoint: &str) -> bool {
    let authority = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest).split('/').next().unwrap_or_default();
    authority.ends_with(":4318")
}

fn unusable(error: &ExporterBuildError) -> anyhow::Error {
    anyhow::anyhow!("no OTLP export as the OTEL_* variables want it: {error}")
}

/// Polls a future in the runtime's context. The SDK exports from threads of its own, where the HTTP client would find no
/// reactor and panic.
pub(super) async fn in_context<F: Future>(runtime: &Handle, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _inside = runtime.enter();
        future.as_mut().poll(context)
    })
    .await
}

/// An exporter of spans that sends in the runtime's context.
#[derive(Debug)]
struct InRuntime {
    exporter: OtlpExporter,
    runtime: Handle,
}

impl SpanExporter for InRuntime {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        in_context(&self.runtime, self.exporter.export(batch)).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_name_may_be_one_of_the_resource_attributes() {
        for (attributes, names) in [
            ("service.name=team", true),
            ("zone=a, service.name =team", true),
            ("service.name.other=a", false),
            ("", false),
        ] {
            assert_eq!(has_service_name(attributes), names, "{attributes}");
        }
    }

    #[test]
    fn only_port_4318_selects_otlp_over_http() {
        for (endpoint, http) in [
            ("http://collector:4318", true),
            ("http://collector:4318/v1/traces", true),
            ("http://collector:4317", false),
            ("http://collector/4318", false),
            ("http://collector:14318", false),
        ] {
            assert_eq!(has_http_port(endpoint), http, "{endpoint}");
        }
    }
}
