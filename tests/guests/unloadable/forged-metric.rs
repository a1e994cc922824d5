//! Declares a metric whose label ends its line in Prometheus' text format: Prometheus would reject all metrics of the host. The host rejects
//! the component.

use hostile_guests::raw::{Metric, MetricType};
use hostile_guests::{Descriptor, Hostile, descriptor};

struct ForgedMetric;

impl Hostile for ForgedMetric {
    const KIND: &str = "ForgedMetric";

    fn describe() -> Descriptor {
        let metric = Metric {
            name: "made_total".to_owned(),
            unit: String::new(),
            description: String::new(),
            metric_type: MetricType::Counter,
            labels: vec!["zone=\"a\"} 1\n# FORGED".to_owned()],
        };
        Descriptor { metrics: vec![metric], ..descriptor(Self::KIND) }
    }
}

hostile_guests::export!(ForgedMetric);
