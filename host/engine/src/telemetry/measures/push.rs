//! Exports the metrics of plugins by OTLP. Each component has a provider of its own, with which its series end: the SDK keeps the series of
//! a provider for as long as the provider exists.

use std::sync::{Arc, Weak};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Temporality};
use tokio::runtime::Handle;
use windlass_core::contract::MetricType;

use super::super::otlp::{in_context, resource};
use super::PluginMetrics;
use super::table::Table;

/// The provider of one component.
#[derive(Debug)]
pub(super) struct Push {
    provider: SdkMeterProvider,
    pub reader: Reader,
}

impl Push {
    pub fn new(temporality: Temporality) -> Self {
        let reader = Reader(Arc::new(ManualReader::builder().with_temporality(temporality).build()));
        let provider = SdkMeterProvider::builder().with_resource(resource()).with_reader(reader.clone()).build();
        Self { provider, reader }
    }

    /// Exports this metric.
    pub fn add(&self, mut table: Table) -> Arc<Table> {
        let meter = self.provider.meter("windlass");
        let (name, metric) = (table.name.clone(), table.metric.clone());
        if metric.metric_type == MetricType::Histogram {
            let histogram = meter.f64_histogram(name).with_unit(metric.unit).with_description(metric.description);
            table.export(Some(histogram.build()));
            return Arc::new(table);
        }
        table.export(None);
        let table = Arc::new(table);
        let observed = Arc::downgrade(&table);
        let each = move |observe: &dyn Fn(f64, &[KeyValue])| {
            if let Some(table) = observed.upgrade() {
                table.each(observe);
            }
        };
        // The provider keeps the instruments. The SDK exports a gauge's series for ever, and of an observable up-down counter only those
        // that the last observation had.
        if metric.metric_type == MetricType::Counter {
            let counter =
                meter.f64_observable_counter(name).with_unit(metric.unit).with_description(metric.description);
            let _ = counter.with_callback(move |to| each(&|value, labels| to.observe(value, labels))).build();
        } else {
            let gauge = meter.f64_observable_up_down_counter(name).with_unit(metric.unit);
            let gauge = gauge.with_description(metric.description);
            let _ = gauge.with_callback(move |to| each(&|value, labels| to.observe(value, labels))).build();
        }
        table
    }
}

/// A reader that the provider and the exporter share.
#[derive(Debug, Clone)]
pub(super) struct Reader(Arc<ManualReader>);

impl MetricReader for Reader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        self.0.temporality(kind)
    }
}

/// Exports the metrics of plugins together with those of the host, in the context of a runtime.
pub(in super::super) struct WithPlugins<E> {
    pub exporter: E,
    pub plugins: Arc<PluginMetrics>,
    pub runtime: Handle,
}

impl<E: PushMetricExporter> PushMetricExporter for WithPlugins<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        in_context(&self.runtime, async {
            self.exporter.export(metrics).await?;
            for reader in self.plugins.readers() {
                let mut metrics = ResourceMetrics::default();
                // The component may have gone.
                if reader.collect(&mut metrics).is_ok() && metrics.scope_metrics().next().is_some() {
                    self.exporter.export(&metrics).await?;
                }
            }
            Ok(())
        })
        .await
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}
