//! Measures histograms of new series in each call, with labels that Prometheus' text escapes, and asks to be called each second. The host
//! keeps a bounded number of bytes for the component, drops the other measurements and counts them, and uses the response.

use std::time::UNIX_EPOCH;

use hostile_guests::raw::{Metric, MetricType, host};
use hostile_guests::{Descriptor, Hostile, Outcome, Request, Response, descriptor, good};
use windlass_plugin::clock;

/// Series of one call, in each metric: together, they need almost as many bytes as the measurements of one call may have.
const SERIES: u32 = 32;

struct MetricBomb;

impl Hostile for MetricBomb {
    const KIND: &str = "MetricBomb";

    fn describe() -> Descriptor {
        let metric = |name: &&str| Metric {
            name: (*name).to_owned(),
            unit: "s".to_owned(),
            description: String::new(),
            metric_type: MetricType::Histogram,
            labels: vec!["fuse".to_owned()],
        };
        Descriptor {
            metrics: ["first", "second", "third", "fourth"].iter().map(metric).collect(),
            ..descriptor(Self::KIND)
        }
    }

    fn attack(request: &Request) -> Outcome {
        // The clock also makes the call impure: the host does not reuse the response, and calls the guest again.
        let now = clock::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
        for series in 0..SERIES {
            let fuse = format!("{now}-{series}{}", "\"\\\n".repeat(150));
            for metric in ["first", "second", "third", "fourth"] {
                host::measure(metric, 1.0, &[("fuse".to_owned(), fuse.clone())]);
            }
        }
        Ok(Response { requeue: Some(1), ..good(request) })
    }
}

hostile_guests::export!(MetricBomb);
