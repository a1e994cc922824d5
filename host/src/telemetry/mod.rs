//! Traces, measurements, logs and the audit line: one instrumentation, chosen outlets.
//!
//! Spans are made at DEBUG under the target [`TRACE`]. They go out by OTLP when `OTEL_EXPORTER_OTLP_ENDPOINT` (or
//! `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`) is set, into the log as trees with `--log-traces`, and are not built at all
//! otherwise. Measurements go out by OTLP in the same way.

mod line;
mod measures;
mod otlp;
mod tree;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::filter::{FilterFn, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

pub use line::one_line;
pub use measures::{Measures, observe_watches, reconciled, watch_restarted};

/// Target of the spans of reconciles.
pub const TRACE: &str = "windlass::trace";
/// Target of the audit line: one for each write that was tried.
pub const AUDIT: &str = "windlass::audit";
/// Target of what guests log.
pub const GUEST: &str = "windlass::guest";

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// What to log and trace.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logs and traces")]
pub struct Options {
    /// Format of the log on standard error
    #[arg(long, env = "WINDLASS_LOG_FORMAT", value_enum, default_value = "text")]
    pub log_format: LogFormat,
    /// What to log: a level, or directives as in `info,windlass=debug`
    #[arg(long, env = "WINDLASS_LOG", default_value = "info")]
    pub log: String,
    /// Write each reconcile's trace into the log as a tree (also without an OTLP endpoint)
    #[arg(long, env = "WINDLASS_LOG_TRACES")]
    pub log_traces: bool,
}

/// Keeps the outlets open; what is still buffered goes out when it is closed.
#[must_use = "dropping it ends the export of traces"]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
}

impl Telemetry {
    /// Opens the outlets for the whole process.
    ///
    /// # Errors
    /// Log directives that make no sense, or OTLP variables that do not.
    pub fn start(options: &Options) -> anyhow::Result<Self> {
        let filter = EnvFilter::try_new(&options.log)
            .map_err(|error| anyhow::anyhow!("--log {:?} makes no sense: {error}", options.log))?;
        let (traces, metrics) = (otlp::traces()?, otlp::metrics()?);
        if let Some(metrics) = &metrics {
            measures::open(metrics);
        }
        // Each outlet filters for itself: spans nobody wants are not built.
        let otlp = traces.as_ref().map(|provider| {
            tracing_opentelemetry::layer()
                .with_tracer(provider.tracer("windlass"))
                .with_location(false)
                .with_threads(false)
                .with_target(false)
                .with_tracked_inactivity(false)
                .with_filter(traced())
        });
        let trees = options.log_traces.then(|| tree::TreeLayer::new(std::io::stderr).with_filter(traced()));
        tracing_subscriber::registry()
            .with(log_layer(options.log_format).with_filter(filter))
            .with(otlp)
            .with(trees)
            .init();
        Ok(Self { traces, metrics })
    }

    /// Sends what is buffered and closes the outlets.
    pub fn close(self) {
        if let Some(provider) = self.traces
            && let Err(error) = provider.shutdown()
        {
            tracing::warn!(%error, "the last traces were not exported");
        }
        if let Some(provider) = self.metrics
            && let Err(error) = provider.shutdown()
        {
            tracing::warn!(%error, "the last measurements were not exported");
        }
    }
}

/// Spans of reconciles, and what guests say inside them.
fn traced() -> Targets {
    Targets::new().with_target(TRACE, tracing::Level::DEBUG).with_target(GUEST, tracing::Level::TRACE)
}

fn log_layer<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    // Spans are for the traces; in the log, each line names its own object.
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method's lifetime is too particular")]
    let events_only = FilterFn::new(|metadata| metadata.is_event());
    match format {
        LogFormat::Text => {
            let color = std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
            fmt::layer().with_ansi(color).with_writer(std::io::stderr).with_filter(events_only).boxed()
        }
        LogFormat::Json => fmt::layer()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(std::io::stderr)
            .with_filter(events_only)
            .boxed(),
    }
}

/// A number as an attribute of a span: OpenTelemetry has no unsigned ones, and makes text of them.
pub fn int(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
