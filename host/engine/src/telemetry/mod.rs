//! Traces, metrics, logs and the audit line: one instrumentation with selectable outputs.
//!
//! Spans are created at DEBUG under the target [`TRACE`]. They are exported by OTLP if `OTEL_EXPORTER_OTLP_ENDPOINT`
//! (or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`) is set, written to the log as trees with `--log-traces`, and not created
//! otherwise. Metrics are exported by OTLP in the same way, and collected when Prometheus [scrapes](Scrape) them.

mod controller;
#[cfg(test)]
mod exported;
mod fields;
mod instruments;
mod lines;
mod measures;
mod otlp;
mod scrape;
mod trace_ids;
mod tree;

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing_subscriber::filter::{FilterFn, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use self::lines::LineLayer;
use self::measures::{PluginMetrics, WithPlugins};
use self::trace_ids::WithTraceIds;

pub use controller::{
    Controller, PluginCondition, PluginState, QueueState, observe_conditions, observe_leases, observe_plugins,
    observe_queues,
};
pub use instruments::{loaded, observe_watches, requested, watch_restarted};
pub use lines::{Listener, LogLine};
pub use measures::Measures;
pub use scrape::{CONTENT_TYPE, Scrape};
pub use windlass_core::reconcile::steps::TRACE;
pub use windlass_core::value::line::one_line;

/// Target of the audit lines: one for each write that the host sends.
pub const AUDIT: &str = "windlass::audit";
/// Target of the lines that say why a parent is queued.
pub const CAUSE: &str = "windlass::cause";
/// Target of the lines about a reconcile, or a write of a status, that failed.
pub const FAILURE: &str = "windlass::failure";
/// Target of the log lines of guests.
pub const GUEST: &str = "windlass::guest";

/// Time for the last export when the host ends.
const LAST_EXPORT: Duration = Duration::from_secs(1);

/// Format of log lines
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Text for people
    Text,
    /// One JSON object per line, for machines
    Json,
}

/// Settings of logs and traces.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logs and traces")]
pub struct Options {
    /// Format of the log on standard error
    #[arg(long, env = "WINDLASS_LOG_FORMAT", value_enum, default_value = "text")]
    pub log_format: LogFormat,
    /// What to log: a level, or directives as in `info,windlass=debug`
    #[arg(long, env = "WINDLASS_LOG", default_value = "info")]
    pub log: String,
    /// Write the trace of each reconcile to the log as a tree; works without an OTLP endpoint
    #[arg(long, env = "WINDLASS_LOG_TRACES")]
    pub log_traces: bool,
}

/// Keeps the exporters open. [`close`](Self::close) sends the buffered data.
#[must_use = "dropping it ends the export of traces"]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    /// Collects the metrics for Prometheus; none if they are not collected.
    pub scrape: Option<Scrape>,
}

impl Telemetry {
    /// Sets up logs, traces and metrics for the whole process. With `is_scraped`, metrics are collected for Prometheus. The
    /// listener receives the lines of the log. Must be called in the runtime that sends the traces and metrics.
    ///
    /// # Errors
    /// If the log directives or the `OTEL_*` variables are invalid.
    pub fn start(options: &Options, is_scraped: bool, listener: Option<Listener>) -> anyhow::Result<Self> {
        let filter = EnvFilter::try_new(&options.log)
            .map_err(|error| anyhow::anyhow!("--log {:?} makes no sense: {error}", options.log))?;
        let traces = otlp::traces()?;
        let (metrics, scrape) = meter_provider(is_scraped)?;
        // Each layer has its own filter: spans that no layer needs are not created.
        let otlp = traces.as_ref().map(|provider| {
            tracing_opentelemetry::layer()
                .with_tracer(provider.tracer("windlass"))
                .with_location(false)
                .with_threads(false)
                .with_target(false)
                .with_tracked_inactivity(false)
                .with_filter(traced())
        });
        let trees = options.log_traces.then(|| tree::TreeLayer(std::io::stderr).with_filter(traced()));
        let lines = listener.map(|listener| LineLayer(listener).with_filter(LineLayer::filter()));
        tracing_subscriber::registry()
            .with(log_layer(options.log_format).with_filter(filter))
            .with(otlp)
            .with(trees)
            .with(lines)
            .init();
        Ok(Self { traces, metrics, scrape })
    }

    /// Sends the buffered data and closes the exporters. Takes at most [`LAST_EXPORT`], because a collector may accept
    /// data and never respond.
    pub fn close(self) {
        let (closed, all_closed) = mpsc::channel::<()>();
        let close = |what: &'static str, shutdown: Box<dyn FnOnce() -> OTelSdkResult + Send>| {
            let closed = closed.clone();
            // The SDK's own timeouts are longer, and some ignore what the caller sets. A thread that is left ends with
            // the process.
            std::thread::spawn(move || {
                if let Err(error) = shutdown() {
                    tracing::warn!(%error, "the last {what} were not exported");
                }
                drop(closed);
            });
        };
        if let Some(traces) = self.traces {
            close("traces", Box::new(move || traces.shutdown()));
        }
        if let Some(metrics) = self.metrics {
            close("measurements", Box::new(move || metrics.shutdown()));
        }
        drop(closed);
        // Nothing is sent: the channel ends when all threads have.
        let ended = all_closed.recv_timeout(LAST_EXPORT);
        if ended == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the last telemetry was not exported in time: the collector does not respond");
        }
    }
}

/// Exports measurements by OTLP from now on, if the `OTEL_*` variables set an endpoint, and collects them for Prometheus, if
/// `is_scraped`. None if neither is the case. Must be called in the runtime that sends the metrics.
fn meter_provider(is_scraped: bool) -> anyhow::Result<(Option<SdkMeterProvider>, Option<Scrape>)> {
    let exporter = otlp::metrics()?;
    let plugins = Arc::new(PluginMetrics::new(exporter.as_ref().map(PushMetricExporter::temporality)));
    let scrape = is_scraped.then(|| Scrape::new(plugins.clone())).transpose()?;
    if exporter.is_none() && scrape.is_none() {
        return Ok((None, None));
    }
    let mut builder = SdkMeterProvider::builder().with_resource(otlp::resource());
    if let Some(exporter) = exporter {
        builder = builder.with_periodic_exporter(WithPlugins {
            exporter,
            plugins: plugins.clone(),
            runtime: Handle::current(),
        });
    }
    let scrape = scrape.map(|(scrape, reader)| {
        builder = std::mem::take(&mut builder).with_reader(reader);
        scrape
    });
    let provider = builder.build();
    instruments::open(&provider);
    measures::open(plugins);
    Ok((Some(provider), scrape))
}

/// Selects the spans of reconciles, and the log lines of guests in these spans.
fn traced() -> Targets {
    Targets::new().with_target(TRACE, tracing::Level::DEBUG).with_target(GUEST, tracing::Level::TRACE)
}

fn log_layer<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    // Spans are for traces only; in the log, each line names its object, and its trace if one is recorded.
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method's lifetime is too particular")]
    let events_only = FilterFn::new(|metadata| metadata.is_event());
    match format {
        LogFormat::Text => {
            let color = std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
            fmt::layer().with_ansi(color).with_writer(WithTraceIds(format)).with_filter(events_only).boxed()
        }
        LogFormat::Json => fmt::layer()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(WithTraceIds(format))
            .with_filter(events_only)
            .boxed(),
    }
}

/// Converts a number for a span attribute or a Plugin's status, whose integers are signed. OpenTelemetry would convert an
/// unsigned one to text.
pub fn int(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use opentelemetry::metrics::MeterProvider as _;
    use opentelemetry_sdk::metrics::Temporality;
    use opentelemetry_sdk::metrics::data::ResourceMetrics;

    use super::*;

    /// Accepts everything and never responds.
    struct Silent;

    impl PushMetricExporter for Silent {
        async fn export(&self, _: &ResourceMetrics) -> OTelSdkResult {
            std::future::pending().await
        }

        fn force_flush(&self) -> OTelSdkResult {
            Ok(())
        }

        fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
            Ok(())
        }

        fn temporality(&self) -> Temporality {
            Temporality::Cumulative
        }
    }

    #[test]
    fn collector_that_never_responds_does_not_keep_the_host_from_ending() {
        let provider = SdkMeterProvider::builder().with_periodic_exporter(Silent).build();
        provider.meter("test").u64_counter("counted_total").build().add(1, &[]);
        // Without a limit, this would never return.
        Telemetry { traces: None, metrics: Some(provider), scrape: None }.close();
    }
}
