//! The export of spans by OTLP, as the `OTEL_*` variables say (OpenTelemetry specification, "OTLP Exporter
//! Configuration").

use std::sync::Arc;
use std::time::Duration;

use opentelemetry_otlp::SpanExporter as OtlpExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tokio::runtime::Handle;

/// The first of these variables that is set and not empty.
fn variable(names: &[&str]) -> Option<String> {
    names.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty())
}

/// An exporter, if the variables name an endpoint. To be called inside the runtime that is to do the sending.
///
/// # Errors
/// Variables that make no sense.
pub(super) fn provider() -> anyhow::Result<Option<SdkTracerProvider>> {
    let endpoint = variable(&["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]);
    let Some(endpoint) = endpoint.filter(|_| !disabled()) else { return Ok(None) };
    let builder = OtlpExporter::builder();
    let built = match variable(&["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]).as_deref() {
        Some("grpc") => builder.with_tonic().build(),
        Some("http/protobuf") => builder.with_http().build(),
        Some(other) => anyhow::bail!("OTEL_EXPORTER_OTLP_PROTOCOL is {other:?}; it must be grpc or http/protobuf"),
        // Nothing else can be meant by HTTP's own port; everything else is taken for a collector's first one.
        None if has_http_port(&endpoint) => builder.with_http().build(),
        None => builder.with_tonic().build(),
    };
    let exporter = built.map_err(|error| anyhow::anyhow!("no OTLP export as the OTEL_* variables want it: {error}"))?;
    // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over this.
    let mut resource = Resource::builder();
    if variable(&["OTEL_SERVICE_NAME"]).is_none() {
        resource = resource.with_service_name("windlass");
    }
    let exporter = InRuntime { exporter: Arc::new(exporter), runtime: Handle::current() };
    Ok(Some(SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter).build()))
}

fn disabled() -> bool {
    variable(&["OTEL_SDK_DISABLED"]).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn has_http_port(endpoint: &str) -> bool {
    let authority = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest).split('/').next().unwrap_or_default();
    authority.ends_with(":4318")
}

/// Sends from the runtime: batches come from a thread of the SDK's own, where the HTTP client finds no reactor and would
/// panic.
#[derive(Debug)]
struct InRuntime<E> {
    exporter: Arc<E>,
    runtime: Handle,
}

impl<E: SpanExporter + 'static> SpanExporter for InRuntime<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exporter = self.exporter.clone();
        let sending = self.runtime.spawn(async move { exporter.export(batch).await });
        sending.await.map_err(|error| OTelSdkError::InternalFailure(format!("the export ended: {error}")))?
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        // Called once, before anything is exported, when nobody else has the exporter yet.
        if let Some(exporter) = Arc::get_mut(&mut self.exporter) {
            exporter.set_resource(resource);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_port_of_otlp_over_http_means_http() {
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
