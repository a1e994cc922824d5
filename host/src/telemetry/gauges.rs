//! The gauges that plugins declare.
//!
//! A gauge is the state of objects, so its series end with the parents that it was measured for. The SDK exports a
//! gauge's series for ever, and of an observable up-down counter only those that the last observation had: gauges of
//! plugins are such counters, which Prometheus shows as gauges.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;
use parking_lot::Mutex;
use windlass_core::contract::Metric;
use windlass_core::ids::ObjectKey;

/// Largest number of parents that are remembered for one series.
pub(super) const OWNERS: usize = 64;

/// The gauges of all plugins, by name, unit and description. The SDK keeps a callback for ever, and runs it at each export, so
/// all components with the same gauge share one: a component is prepared again at each try to make it live.
#[derive(Debug, Default)]
pub(super) struct Gauges(Mutex<HashMap<[String; 3], Exported>>);

/// The gauges of the components that share a callback.
type Exported = Arc<Mutex<Vec<Weak<Gauge>>>>;

impl Gauges {
    /// A gauge that is exported for as long as it exists.
    pub fn build(&self, meter: &Meter, name: String, metric: &Metric) -> Arc<Gauge> {
        let gauge = Arc::new(Gauge::default());
        let key = [name.clone(), metric.unit.clone(), metric.description.clone()];
        let mut all = self.0.lock();
        let exported = all.entry(key).or_insert_with(|| {
            let exported = Exported::default();
            let observed = exported.clone();
            let instrument = meter.f64_observable_up_down_counter(name).with_unit(metric.unit.clone());
            let _ = instrument
                .with_description(metric.description.clone())
                .with_callback(move |observer| {
                    for gauge in observed.lock().iter().filter_map(Weak::upgrade) {
                        gauge.0.lock().values().for_each(|series| observer.observe(series.value, &series.labels));
                    }
                })
                .build();
            exported
        });
        let mut exported = exported.lock();
        exported.retain(|gauge| gauge.strong_count() > 0);
        exported.push(Arc::downgrade(&gauge));
        gauge
    }

    /// Number of gauges that were registered with the SDK.
    #[cfg(test)]
    pub fn registered(&self) -> usize {
        self.0.lock().len()
    }
}

/// The series of one gauge of one component, by the hash of their labels.
#[derive(Debug, Default)]
pub(super) struct Gauge(Mutex<HashMap<u64, Series>>);

#[derive(Debug)]
struct Series {
    labels: Vec<KeyValue>,
    value: f64,
    /// The parents whose calls measured it; none if they are more than [`OWNERS`], and the series stays until the component goes.
    parents: Option<HashSet<ObjectKey>>,
}

impl Gauge {
    pub fn record(&self, series: u64, labels: Vec<KeyValue>, value: f64, parent: &ObjectKey) {
        let mut all = self.0.lock();
        let series = all.entry(series).or_insert_with(|| Series { labels, value, parents: Some(HashSet::new()) });
        series.value = value;
        if let Some(parents) = &mut series.parents
            && !parents.contains(parent)
        {
            parents.insert(parent.clone());
            if parents.len() > OWNERS {
                series.parents = None;
            }
        }
    }

    /// Removes the series that were measured for this parent alone; returns their hashes.
    pub fn forget(&self, parent: &ObjectKey) -> Vec<u64> {
        let mut forgotten = Vec::new();
        self.0.lock().retain(|hash, series| {
            let Some(parents) = &mut series.parents else { return true };
            let is_kept = !parents.remove(parent) || !parents.is_empty();
            if !is_kept {
                forgotten.push(*hash);
            }
            is_kept
        });
        forgotten
    }
}
