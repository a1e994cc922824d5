//! Declares a metric whose label ends its line in Prometheus' text format: Prometheus would reject all metrics of the host. The host rejects
//! the component.

use hostile_guests::{Descriptor, Hostile, descriptor};
use windlass_plugin::Metric;

struct ForgedMetric;

impl Hostile for ForgedMetric {
    const KIND: &str = "ForgedMetric";

    fn describe() -> Descriptor {
        let metric = Metric::counter("made_total", "", &["zone=\"a\"} 1\n# FORGED"]);
        Descriptor { metrics: vec![metric], ..descriptor(Self::KIND) }
    }
}

hostile_guests::export!(ForgedMetric);
