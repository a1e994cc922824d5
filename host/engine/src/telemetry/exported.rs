//! For tests: an exporter that keeps the last export as text.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{SdkMeterProvider, Temporality};
use parking_lot::Mutex;

/// Keeps the last export, as sorted lines `name{label=value}=number`. The number of a histogram is its count.
#[derive(Clone, Default)]
pub struct Last(Arc<Mutex<Vec<String>>>);

impl Last {
    /// The exporter, and a provider that exports to it.
    pub fn provider() -> (Self, SdkMeterProvider) {
        let last = Self::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(last.clone()).build();
        (last, provider)
    }

    /// Exports now, and returns the lines.
    pub fn of(&self, provider: &SdkMeterProvider) -> Vec<String> {
        // An export without a series does not happen, and one with the metrics of plugins has several parts.
        self.0.lock().clear();
        provider.force_flush().expect("flushed");
        self.0.lock().clone()
    }
}

impl PushMetricExporter for Last {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let mut exported = self.0.lock();
        for metric in metrics.scope_metrics().flat_map(ScopeMetrics::metrics) {
            let mut point = |attributes: &mut dyn Iterator<Item = &KeyValue>, value: f64| {
                let mut labels: Vec<_> = attributes.map(|pair| format!("{}={}", pair.key, pair.value)).collect();
                labels.sort();
                exported.push(format!("{}{{{}}}={value}", metric.name(), labels.join(",")));
            };
            match metric.data() {
                AggregatedMetrics::F64(MetricData::Sum(sum)) => {
                    sum.data_points().for_each(|data| point(&mut data.attributes(), data.value()));
                }
                AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
                    gauge.data_points().for_each(|data| point(&mut data.attributes(), data.value()));
                }
                AggregatedMetrics::F64(MetricData::Histogram(histogram)) => histogram.data_points().for_each(|data| {
                    point(&mut data.attributes(), f64::from(u32::try_from(data.count()).expect("few")));
                }),
                other => panic!("{other:?}"),
            }
        }
        exported.sort();
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}
