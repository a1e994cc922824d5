//! The metrics in Prometheus' text format, from the same instruments that OTLP exports.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use opentelemetry_prometheus::PrometheusExporter;
use prometheus::process_collector::ProcessCollector;
use prometheus::{Registry, TextEncoder};
use tokio::sync::Mutex;

/// Media type of the text format.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;
/// Time for which a text is served again. Every client that can connect may scrape, and a scrape costs CPU.
const FRESH: Duration = Duration::from_millis(500);
/// Names of OTLP's conventions: the same facts have other names for Prometheus.
const OTLP_ONLY: &str = "operator_";

/// Collects the metrics when Prometheus scrapes them. Clones share the last text.
#[derive(Clone)]
pub struct Scrape {
    registry: Registry,
    last: Arc<Mutex<Option<Text>>>,
}

/// The text of a scrape.
struct Text {
    at: Instant,
    text: Arc<str>,
}

impl Scrape {
    /// A scrape of the instruments that report to the returned reader, and of the process (memory, CPU, files).
    ///
    /// # Errors
    /// If the reader cannot be set up.
    pub(super) fn new() -> anyhow::Result<(Self, PrometheusExporter)> {
        let registry = Registry::new();
        registry.register(Box::new(ProcessCollector::for_self())).context("the process cannot be observed")?;
        let reader = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            // The instruments have complete names, with units and `_total`.
            .without_units()
            .without_counter_suffixes()
            .scope_info_enabled(false)
            .build()
            .context("no metrics for Prometheus")?;
        Ok((Self { registry, last: Arc::default() }, reader))
    }

    /// The metrics as text, at most half a second old.
    ///
    /// # Errors
    /// If a metric has an invalid name or no series.
    pub async fn text(&self) -> Result<Arc<str>, prometheus::Error> {
        let mut last = self.last.lock().await;
        if let Some(Text { at, text }) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(text.clone());
        }
        let mut families = self.registry.gather();
        families.retain(|family| !family.name().starts_with(OTLP_ONLY));
        let text: Arc<str> = TextEncoder::new().encode_to_string(&families)?.into();
        *last = Some(Text { at: Instant::now(), text: text.clone() });
        Ok(text)
    }
}
