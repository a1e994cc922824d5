//! Metrics that plugins declare in their descriptors, and the host's own metrics. They are exported by OTLP if the
//! `OTEL_*` variables set an endpoint; otherwise they are dropped.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter, MeterProvider};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use parking_lot::Mutex;
use windlass_core::contract::{Metric, MetricType};
use windlass_core::ids::PluginName;

/// Largest number of series (combinations of label values) of one metric. Plugins choose the label values, and an
/// instrument keeps a series until the host ends.
const SERIES: usize = 2000;
/// Largest number of series of all metrics of one component together.
const ALL_SERIES: usize = 10_000;

/// Largest number of labels of a metric.
const LABELS: usize = 16;
/// Largest number of characters in a label's value; longer values are cut off.
const VALUE: usize = 128;

/// Label with the name of the plugin.
const PLUGIN_LABEL: &str = "windlass.plugin";
/// Label with the kind that a watch shows.
const KIND_LABEL: &str = "windlass.kind";

/// Set if metrics are exported.
static OUTLET: OnceLock<Outlet> = OnceLock::new();

struct Outlet {
    meter: Meter,
    reconcile_duration: Histogram<f64>,
    watch_restarts: Counter<u64>,
}

/// Sends measurements to this provider from now on.
pub(super) fn open(provider: &SdkMeterProvider) {
    let meter = provider.meter("windlass");
    let reconcile_duration = meter
        .f64_histogram("operator.reconcile_duration")
        .with_unit("ms")
        .with_description("Time from the beginning of a reconcile to its end, calls and writes included")
        .build();
    let watch_restarts = meter
        .u64_counter("windlass_watch_restarts_total")
        .with_description("Watch tasks of the host that panicked and were started again")
        .build();
    // Telemetry starts once per process.
    let _ = OUTLET.set(Outlet { meter, reconcile_duration, watch_restarts });
}

/// Records the duration of one reconcile of a plugin's parents.
pub fn reconciled(plugin: &PluginName, took: Duration) {
    let Some(outlet) = OUTLET.get() else { return };
    let took = took.as_secs_f64() * 1000.0;
    outlet.reconcile_duration.record(took, &[KeyValue::new(PLUGIN_LABEL, plugin.to_string())]);
}

/// Counts a restart of a watch's task after a panic.
pub fn watch_restarted(kind: &str) {
    if let Some(outlet) = OUTLET.get() {
        outlet.watch_restarts.add(1, &[KeyValue::new(KIND_LABEL, kind.to_owned())]);
    }
}

/// Exports, for each kind, the time since the last progress of its watch, as `ages` returns it.
pub fn observe_watches(ages: impl Fn() -> BTreeMap<String, Duration> + Send + Sync + 'static) {
    if let Some(Outlet { meter, .. }) = OUTLET.get() {
        observe_ages(meter, ages);
    }
}

fn observe_ages(meter: &Meter, ages: impl Fn() -> BTreeMap<String, Duration> + Send + Sync + 'static) {
    let gauge = meter.f64_observable_gauge("windlass_watch_progress_age_seconds").with_unit("s").with_description(
        "Time since a watch of the kind last delivered an event or a bookmark, or ended without an error",
    );
    let observed = gauge.with_callback(move |observer| {
        for (kind, age) in ages() {
            observer.observe(age.as_secs_f64(), &[KeyValue::new(KIND_LABEL, kind)]);
        }
    });
    // The meter keeps the instrument.
    let _ = observed.build();
}

/// The instruments of one plugin's component.
#[derive(Debug, Default)]
pub struct Measures {
    /// Label on each measurement; none if metrics are not exported. Without it, `b_c` of the plugin `a` and `c` of the
    /// plugin `a-b` would be the same instrument.
    plugin: Option<KeyValue>,
    declared: BTreeMap<String, Declared>,
    /// Number of series of all metrics.
    all: AtomicUsize,
    hasher: RandomState,
}

#[derive(Debug)]
struct Declared {
    labels: Vec<String>,
    instrument: Instrument,
    /// Hashes of the series that have a measurement.
    seen: Mutex<HashSet<u64>>,
}

#[derive(Debug)]
enum Instrument {
    Counter(Counter<f64>),
    Gauge(Gauge<f64>),
    Histogram(Histogram<f64>),
}

impl Measures {
    /// The instruments that a plugin declares. Each name gets the plugin's name as its prefix.
    pub fn of(plugin: &PluginName, metrics: &[Metric]) -> Self {
        let Some(Outlet { meter, .. }) = OUTLET.get() else { return Self::default() };
        Self::with(meter, plugin, metrics)
    }

    fn with(meter: &Meter, plugin: &PluginName, metrics: &[Metric]) -> Self {
        let prefix = plugin.as_str().replace('-', "_");
        let declared = metrics.iter().map(|metric| {
            let name = format!("{prefix}_{}", metric.name);
            let (unit, description) = (metric.unit.clone(), metric.description.clone());
            let instrument = match metric.metric_type {
                MetricType::Counter => {
                    let counter = meter.f64_counter(name).with_unit(unit).with_description(description);
                    Instrument::Counter(counter.build())
                }
                MetricType::Gauge => {
                    Instrument::Gauge(meter.f64_gauge(name).with_unit(unit).with_description(description).build())
                }
                MetricType::Histogram => {
                    let histogram = meter.f64_histogram(name).with_unit(unit).with_description(description);
                    Instrument::Histogram(histogram.build())
                }
            };
            let own = |label: &&String| *label != PLUGIN_LABEL;
            let labels = metric.labels.iter().filter(own).take(LABELS).cloned().collect();
            (metric.name.clone(), Declared { labels, instrument, seen: Mutex::default() })
        });
        let plugin = Some(KeyValue::new(PLUGIN_LABEL, plugin.to_string()));
        Self { plugin, declared: declared.collect(), ..Self::default() }
    }

    /// Records one measurement. Drops undeclared metrics, values that are not finite, negative values of counters, and
    /// new series above the limit.
    pub fn record(&self, metric: &str, value: f64, labels: &[(String, String)]) {
        let Some(Declared { labels: declared, instrument, seen }) = self.declared.get(metric) else { return };
        if !value.is_finite() {
            return;
        }
        // Labels in declared order: equal labels give the same series.
        let labels = declared.iter().filter_map(|name| {
            let (_, value) = labels.iter().find(|(label, _)| label == name)?;
            Some(KeyValue::new(name.clone(), value.chars().take(VALUE).collect::<String>()))
        });
        let labels: Vec<_> = self.plugin.iter().cloned().chain(labels).collect();
        if !self.has_room(seen, &labels) {
            return;
        }
        match instrument {
            Instrument::Counter(counter) if value >= 0.0 => counter.add(value, &labels),
            Instrument::Counter(_) => {}
            Instrument::Gauge(gauge) => gauge.record(value, &labels),
            Instrument::Histogram(histogram) => histogram.record(value, &labels),
        }
    }

    /// Whether a series is known, or there is room for it; then it is added.
    fn has_room(&self, seen: &Mutex<HashSet<u64>>, labels: &[KeyValue]) -> bool {
        let (series, mut seen) = (self.hasher.hash_one(labels), seen.lock());
        if seen.contains(&series) {
            return true;
        }
        // Concurrent calls may each add one series above the limit; the limit need not be exact.
        let is_room = seen.len() < SERIES && self.all.load(Ordering::Relaxed) < ALL_SERIES;
        if is_room {
            seen.insert(series);
            self.all.fetch_add(1, Ordering::Relaxed);
        }
        is_room
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::metrics::Temporality;
    use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics};
    use opentelemetry_sdk::metrics::exporter::PushMetricExporter;

    use super::*;

    /// Keeps the last export, as `name{label=value}=number`.
    #[derive(Clone, Default)]
    struct Last(Arc<Mutex<Vec<String>>>);

    impl PushMetricExporter for Last {
        async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
            let mut exported = self.0.lock();
            exported.clear();
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

    fn metric(name: &str, metric_type: MetricType, labels: &[&str]) -> Metric {
        Metric {
            name: name.to_owned(),
            unit: String::new(),
            description: String::new(),
            metric_type,
            labels: labels.iter().map(ToString::to_string).collect(),
        }
    }

    /// The export after `measure` has run.
    fn exported(measure: impl FnOnce(&Measures)) -> Vec<String> {
        let last = Last::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(last.clone()).build();
        let declared = [
            metric("seen_total", MetricType::Counter, &["phase"]),
            metric("cores", MetricType::Gauge, &["namespace", "name"]),
        ];
        let plugin = "web-app".parse().expect("a name");
        measure(&Measures::with(&provider.meter("test"), &plugin, &declared));
        provider.force_flush().expect("flushed");
        last.0.lock().clone()
    }

    fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn declared_metrics_are_exported_under_the_plugins_name() {
        let exported = exported(|measures| {
            measures.record("seen_total", 1.0, &labels(&[("phase", "Running")]));
            measures.record("seen_total", 2.0, &labels(&[("phase", "Running"), ("other", "x")]));
            measures.record("cores", 3.0, &labels(&[("name", "b"), ("namespace", "a")]));
            measures.record("cores", 1.5, &labels(&[("namespace", "a"), ("name", "b")]));
        });
        assert_eq!(
            exported,
            [
                "web_app_cores{name=b,namespace=a,windlass.plugin=web-app}=1.5",
                "web_app_seen_total{phase=Running,windlass.plugin=web-app}=3"
            ]
        );
    }

    #[test]
    fn time_since_progress_is_exported_for_each_watched_kind() {
        let last = Last::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(last.clone()).build();
        let ages = [("Pod.v1", 61), ("Secret.v1", 0)].map(|(kind, age)| (kind.to_owned(), Duration::from_secs(age)));
        observe_ages(&provider.meter("test"), move || BTreeMap::from(ages.clone()));
        provider.force_flush().expect("flushed");
        assert_eq!(
            *last.0.lock(),
            [
                "windlass_watch_progress_age_seconds{windlass.kind=Pod.v1}=61",
                "windlass_watch_progress_age_seconds{windlass.kind=Secret.v1}=0"
            ]
        );
    }

    #[test]
    fn plugins_with_equal_metric_names_are_distinguished_by_a_label() {
        let last = Last::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(last.clone()).build();
        for (plugin, name) in [("a", "b_c"), ("a-b", "c")] {
            let plugin = plugin.parse().expect("a name");
            let declared = [metric(name, MetricType::Counter, &["windlass.plugin"])];
            let measures = Measures::with(&provider.meter("test"), &plugin, &declared);
            measures.record(name, 1.0, &labels(&[("windlass.plugin", "another")]));
        }
        provider.force_flush().expect("flushed");
        assert_eq!(*last.0.lock(), ["a_b_c{windlass.plugin=a-b}=1", "a_b_c{windlass.plugin=a}=1"]);
    }

    #[test]
    fn undeclared_metrics_and_invalid_values_are_dropped() {
        let exported = exported(|measures| {
            measures.record("other_total", 1.0, &[]);
            measures.record("seen_total", -1.0, &[]);
            measures.record("seen_total", f64::NAN, &[]);
            measures.record("cores", f64::INFINITY, &[]);
        });
        assert_eq!(exported, [""; 0]);
    }

    #[test]
    fn number_of_series_and_length_of_label_values_are_bounded() {
        let exported = exported(|measures| {
            for at in 0..SERIES + 10 {
                measures.record("cores", 1.0, &labels(&[("name", &format!("{at}{}", "x".repeat(1000)))]));
            }
            measures.record("cores", 2.0, &labels(&[("name", &format!("0{}", "x".repeat(1000)))]));
        });
        assert!(exported.len() <= SERIES, "{}", exported.len());
        assert!(exported.iter().all(|line| line.len() < 200), "label values are shortened");
        assert!(exported.iter().any(|line| line.ends_with("=2")), "known series are still updated");
    }
}
