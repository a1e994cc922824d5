//! Metrics that plugins declare in their descriptors.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter};
use parking_lot::Mutex;
use windlass_core::contract::{Metric, MetricType};
use windlass_core::ids::PluginName;

use super::instruments::{PLUGIN_LABEL, instruments};

/// Largest number of series (combinations of label values) of one metric. Plugins choose the label values, and an
/// instrument keeps a series until the host ends.
const SERIES: usize = 2000;
/// Largest number of series of all metrics of one component together.
const ALL_SERIES: usize = 10_000;

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
    Gauge(Gauge<f64>),
    Histogram(Histogram<f64>),
}

impl Measures {
    /// The instruments that a plugin declares. Each name gets the plugin's name as its prefix.
    pub fn of(plugin: &PluginName, metrics: &[Metric]) -> Self {
        instruments().map_or_else(Self::default, |instruments| Self::with(&instruments.meter, plugin, metrics))
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
    use opentelemetry::metrics::MeterProvider as _;

    use super::super::exported::Last;
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
        measure(&Measures::with(&provider.meter("test"), &plugin, &declared));
        last.of(&provider)
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
    fn plugins_with_equal_metric_names_are_distinguished_by_a_label() {
        let (last, provider) = Last::provider();
        for (plugin, name) in [("a", "b_c"), ("a-b", "c")] {
            let plugin = plugin.parse().expect("a name");
            let declared = [metric(name, MetricType::Counter, &["windlass.plugin"])];
            let measures = Measures::with(&provider.meter("test"), &plugin, &declared);
            measures.record(name, 1.0, &labels(&[("windlass.plugin", "another")]));
        }
        assert_eq!(last.of(&provider), ["a_b_c{windlass.plugin=a-b}=1", "a_b_c{windlass.plugin=a}=1"]);
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
