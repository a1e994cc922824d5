//! Metrics that plugins declare in their descriptors.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};
use parking_lot::Mutex;
use windlass_core::contract::{Metric, MetricType};
use windlass_core::ids::{ObjectKey, PluginName};

use super::gauges::{Gauge, Gauges};
use super::instruments::{PLUGIN_LABEL, instruments};

/// Largest number of series (combinations of label values) of one metric. Plugins choose the label values, and counters
/// and histograms keep a series until the host ends.
const SERIES: usize = 2000;
/// Largest number of series of all metrics of one component together.
const ALL_SERIES: usize = 10_000;

/// Beginnings of the host's own metrics, and of names that Prometheus or OpenTelemetry reserve.
const RESERVED: [&str; 10] = [
    "controller_runtime_",
    "go_",
    "leader_election_",
    "operator_",
    "otel_",
    "process_",
    "rest_client_",
    "target_",
    "windlass_",
    "workqueue_",
];

/// Largest number of labels of a metric.
const LABELS: usize = 16;
/// Largest number of characters in a label's value; longer values are cut off.
const VALUE: usize = 128;

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
    Gauge(Arc<Gauge>),
    Histogram(Histogram<f64>),
}

impl Measures {
    /// The instruments that a plugin declares. Each name gets the plugin's name as its prefix.
    pub fn of(plugin: &PluginName, metrics: &[Metric]) -> Self {
        instruments().map_or_else(Self::default, |instruments| {
            Self::with(&instruments.meter, &instruments.gauges, plugin, metrics)
        })
    }

    fn with(meter: &Meter, gauges: &Gauges, plugin: &PluginName, metrics: &[Metric]) -> Self {
        let prefix = prefix(plugin.as_str());
        let declared = metrics.iter().map(|metric| {
            let name = format!("{prefix}{}", metric.name);
            let (unit, description) = (metric.unit.clone(), metric.description.clone());
            let instrument = match metric.metric_type {
                MetricType::Counter => {
                    let counter = meter.f64_counter(name).with_unit(unit).with_description(description);
                    Instrument::Counter(counter.build())
                }
                MetricType::Gauge => Instrument::Gauge(gauges.build(meter, name, metric)),
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

    /// Records one measurement of a call for this parent. Drops undeclared metrics, values that are not finite, negative values of
    /// counters, and new series above the limit.
    pub fn record(&self, parent: &ObjectKey, metric: &str, value: f64, labels: &[(String, String)]) {
        let Some(Declared { labels: declared, instrument, seen }) = self.declared.get(metric) else { return };
        if !value.is_finite() || (value < 0.0 && matches!(instrument, Instrument::Counter(_))) {
            return;
        }
        // Labels in declared order: equal labels give the same series.
        let labels = declared.iter().filter_map(|name| {
            let (_, value) = labels.iter().find(|(label, _)| label == name)?;
            Some(KeyValue::new(name.clone(), value.chars().take(VALUE).collect::<String>()))
        });
        let labels: Vec<_> = self.plugin.iter().cloned().chain(labels).collect();
        let Some(series) = self.series(seen, &labels) else { return };
        match instrument {
            Instrument::Counter(counter) => counter.add(value, &labels),
            Instrument::Gauge(gauge) => gauge.record(series, labels, value, parent),
            Instrument::Histogram(histogram) => histogram.record(value, &labels),
        }
    }

    /// Ends the gauges' series that were measured for this parent alone.
    pub fn forget(&self, parent: &ObjectKey) {
        for Declared { instrument, seen, .. } in self.declared.values() {
            let Instrument::Gauge(gauge) = instrument else { continue };
            for series in gauge.forget(parent) {
                if seen.lock().remove(&series) {
                    self.all.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// The hash of a series that is known, or is added. None if there is no room for it.
    fn series(&self, seen: &Mutex<HashSet<u64>>, labels: &[KeyValue]) -> Option<u64> {
        let (series, mut seen) = (self.hasher.hash_one(labels), seen.lock());
        if seen.contains(&series) {
            return Some(series);
        }
        // Concurrent calls may each add one series above the limit; the limit need not be exact.
        let is_room = seen.len() < SERIES && self.all.load(Ordering::Relaxed) < ALL_SERIES;
        if is_room {
            seen.insert(series);
            self.all.fetch_add(1, Ordering::Relaxed);
        }
        is_room.then_some(series)
    }
}

/// The beginning of the names of a plugin's metrics: `web-app` becomes `web_app_`. If that is the beginning of other metrics, or
/// begins with a digit, which no metric's name may do, it becomes `plugin_web_app_`.
fn prefix(plugin: &str) -> String {
    let prefix = format!("{}_", plugin.replace('-', "_"));
    let is_reserved = RESERVED.iter().any(|reserved| prefix.starts_with(reserved) || reserved.starts_with(&prefix));
    if is_reserved || prefix.starts_with(|first: char| first.is_ascii_digit()) {
        format!("plugin_{prefix}")
    } else {
        prefix
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::metrics::MeterProvider as _;

    use super::super::exported::Last;
    use super::super::gauges::OWNERS;
    use super::*;

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
        let (last, provider) = Last::provider();
        let declared = [
            metric("seen_total", MetricType::Counter, &["phase"]),
            metric("cores", MetricType::Gauge, &["namespace", "name"]),
        ];
        let plugin = "web-app".parse().expect("a name");
        let measures = Measures::with(&provider.meter("test"), &Gauges::default(), &plugin, &declared);
        measure(&measures);
        last.of(&provider)
    }

    fn parent(name: &str) -> ObjectKey {
        ObjectKey::new(Some("n"), name)
    }

    fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn declared_metrics_are_exported_under_the_plugins_name() {
        let exported = exported(|measures| {
            measures.record(&parent("a"), "seen_total", 1.0, &labels(&[("phase", "Running")]));
            measures.record(&parent("a"), "seen_total", 2.0, &labels(&[("phase", "Running"), ("other", "x")]));
            measures.record(&parent("a"), "cores", 3.0, &labels(&[("name", "b"), ("namespace", "a")]));
            measures.record(&parent("a"), "cores", 1.5, &labels(&[("namespace", "a"), ("name", "b")]));
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
    fn series_of_a_gauge_ends_with_the_last_parent_that_it_was_measured_for() {
        let (last, provider) = Last::provider();
        let plugin = "web".parse().expect("a name");
        let declared = [metric("cores", MetricType::Gauge, &["name"]), metric("all", MetricType::Gauge, &[])];
        let measures = Measures::with(&provider.meter("test"), &Gauges::default(), &plugin, &declared);
        for name in ["a", "b"] {
            measures.record(&parent(name), "cores", 2.0, &labels(&[("name", name)]));
            measures.record(&parent(name), "all", 4.0, &[]);
        }
        let (all, of_a) = ("web_all{windlass.plugin=web}=4", "web_cores{name=a,windlass.plugin=web}=2");
        assert_eq!(last.of(&provider), [all, of_a, "web_cores{name=b,windlass.plugin=web}=2"]);
        measures.forget(&parent("b"));
        assert_eq!(last.of(&provider), [all, of_a]);
        measures.forget(&parent("a"));
        assert_eq!(last.of(&provider), [""; 0]);
        // There is room for other series again.
        assert_eq!(measures.all.load(Ordering::Relaxed), 0);
        measures.record(&parent("c"), "all", 1.0, &[]);
        assert_eq!(last.of(&provider), ["web_all{windlass.plugin=web}=1"]);
        drop(measures);
        assert_eq!(last.of(&provider), [""; 0], "the component is gone");
    }

    #[test]
    fn series_of_many_parents_stays_until_the_component_goes() {
        let (last, provider) = Last::provider();
        let plugin = "web".parse().expect("a name");
        let declared = [metric("all", MetricType::Gauge, &[])];
        let measures = Measures::with(&provider.meter("test"), &Gauges::default(), &plugin, &declared);
        let parents: Vec<_> = (0..=OWNERS).map(|at| parent(&at.to_string())).collect();
        for parent in &parents {
            measures.record(parent, "all", 1.0, &[]);
        }
        for parent in &parents {
            measures.forget(parent);
        }
        assert_eq!(last.of(&provider), ["web_all{windlass.plugin=web}=1"]);
        drop(measures);
        assert_eq!(last.of(&provider), [""; 0]);
    }

    #[test]
    fn component_that_is_prepared_often_registers_its_gauges_once() {
        let (last, provider) = Last::provider();
        let (gauges, plugin) = (Gauges::default(), "web".parse().expect("a name"));
        let declared = [metric("cores", MetricType::Gauge, &["name"])];
        let prepare = || Measures::with(&provider.meter("test"), &gauges, &plugin, &declared);
        let live = prepare();
        live.record(&parent("a"), "cores", 1.0, &labels(&[("name", "a")]));
        for _ in 0..100 {
            prepare();
        }
        let candidate = prepare();
        assert_eq!(last.of(&provider), ["web_cores{name=a,windlass.plugin=web}=1"]);
        candidate.record(&parent("b"), "cores", 2.0, &labels(&[("name", "b")]));
        drop(live);
        assert_eq!(last.of(&provider), ["web_cores{name=b,windlass.plugin=web}=2"]);
        assert_eq!(gauges.registered(), 1);
    }

    #[test]
    fn plugin_cannot_have_metrics_with_names_of_the_host() {
        for (plugin, expected) in [
            ("web-app", "web_app_"),
            ("windlass", "plugin_windlass_"),
            ("workqueue", "plugin_workqueue_"),
            ("leader", "plugin_leader_"),
            ("controller-runtime-x", "plugin_controller_runtime_x_"),
            ("operator", "plugin_operator_"),
            ("operators", "operators_"),
            ("3scale", "plugin_3scale_"),
        ] {
            assert_eq!(prefix(plugin), expected);
        }
    }

    #[test]
    fn plugins_with_equal_metric_names_are_distinguished_by_a_label() {
        let (last, provider) = Last::provider();
        for (plugin, name) in [("a", "b_c"), ("a-b", "c")] {
            let plugin = plugin.parse().expect("a name");
            let declared = [metric(name, MetricType::Counter, &["windlass.plugin"])];
            let measures = Measures::with(&provider.meter("test"), &Gauges::default(), &plugin, &declared);
            measures.record(&parent("a"), name, 1.0, &labels(&[("windlass.plugin", "another")]));
        }
        assert_eq!(last.of(&provider), ["a_b_c{windlass.plugin=a-b}=1", "a_b_c{windlass.plugin=a}=1"]);
    }

    #[test]
    fn undeclared_metrics_and_invalid_values_are_dropped() {
        let exported = exported(|measures| {
            measures.record(&parent("a"), "other_total", 1.0, &[]);
            measures.record(&parent("a"), "seen_total", -1.0, &[]);
            assert_eq!(measures.all.load(Ordering::Relaxed), 0, "it takes no place of a series");
            measures.record(&parent("a"), "seen_total", f64::NAN, &[]);
            measures.record(&parent("a"), "cores", f64::INFINITY, &[]);
        });
        assert_eq!(exported, [""; 0]);
    }

    #[test]
    fn number_of_series_and_length_of_label_values_are_bounded() {
        let exported = exported(|measures| {
            for at in 0..SERIES + 10 {
                measures.record(&parent("a"), "cores", 1.0, &labels(&[("name", &format!("{at}{}", "x".repeat(1000)))]));
            }
            measures.record(&parent("a"), "cores", 2.0, &labels(&[("name", &format!("0{}", "x".repeat(1000)))]));
        });
        assert!(exported.len() <= SERIES, "{}", exported.len());
        assert!(exported.iter().all(|line| line.len() < 200), "label values are shortened");
        assert!(exported.iter().any(|line| line.ends_with("=2")), "known series are still updated");
    }
}
