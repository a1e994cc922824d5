//! One metric of one component: its series, their bytes, and their lines in Prometheus' text format.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Histogram;
use parking_lot::Mutex;
use windlass_core::contract::descriptor::PLUGIN_METRIC_LABEL;
use windlass_core::contract::{Metric, MetricType};
use windlass_core::value::ids::{ObjectKey, PluginName};

use super::PLUGIN_LABEL;
use super::room::Room;

/// Largest number of series (combinations of label values) of one metric.
pub(super) const SERIES: usize = 2000;
/// Largest number of characters in a label's value; longer values are cut off.
const VALUE: usize = 128;
/// Largest size of the labels of one series in the text format, in bytes.
pub(super) const LABELS: usize = 1024;
/// Largest number of parents that are remembered for one series of a gauge.
pub(super) const OWNERS: usize = 64;

/// Boundaries of histograms: the defaults of OpenTelemetry's SDK.
const BOUNDS: [f64; 15] =
    [0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0, 10_000.0];

/// Bytes of a line apart from name and labels, at most: `_bucket`, `{`, `,le="10000"`, `} `, a number, and the newline.
const LINE: usize = 48;
/// Bytes in memory that a series takes beside its labels.
const ROW: usize = 256;
/// Bytes in memory that an attribute of a series takes, beside its text, if it is exported by OTLP.
const ATTRIBUTE: usize = 128;
/// Bytes in memory that a remembered parent takes.
const OWNER: usize = 32;

/// Room for the series of one component.
#[derive(Debug)]
pub(super) struct Rooms {
    /// Bytes, in memory or in the text format, whichever are more.
    pub bytes: Room,
    pub series: Room,
}

/// The series of one metric.
#[derive(Debug)]
pub(super) struct Table {
    pub plugin: PluginName,
    /// The name with the plugin's prefix.
    pub name: String,
    pub metric: Metric,
    /// Of all metrics of the component.
    rooms: Arc<Rooms>,
    rows: Mutex<Rows>,
    /// Set if the metric is a histogram that is exported by OTLP.
    histogram: Option<Histogram<f64>>,
    keeps_attributes: bool,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Rows {
    /// Whether the bytes of the lines before the first series are taken.
    has_head: bool,
    /// By the labels in the text format.
    by_labels: HashMap<Box<str>, Row>,
}

#[derive(Debug)]
struct Row {
    value: Value,
    /// The labels for OTLP; empty if they are not exported.
    attributes: Vec<KeyValue>,
    /// Hashes of the parents whose calls measured a gauge; none if they are too many, and the series stays until the component goes.
    parents: Option<HashSet<u64>>,
    /// Bytes that were taken for the series.
    bytes: usize,
}

#[derive(Debug)]
enum Value {
    Number(f64),
    /// The number of values in each bucket, and the sum of all values.
    Distribution(Box<([u64; BOUNDS.len() + 1], f64)>),
}

impl Table {
    /// The metric that a plugin declares, with this full name. Its series take from the rooms of their component.
    pub fn new(plugin: &PluginName, name: String, metric: &Metric, rooms: &Arc<Rooms>) -> Self {
        Self {
            plugin: plugin.clone(),
            name,
            metric: metric.clone(),
            rooms: rooms.clone(),
            rows: Mutex::default(),
            histogram: None,
            keeps_attributes: false,
            hasher: RandomState::new(),
        }
    }

    /// Exports the series by OTLP: values of a histogram are recorded there too, and [`each`](Self::each) has attributes.
    pub fn export(&mut self, histogram: Option<Histogram<f64>>) {
        self.keeps_attributes = histogram.is_none();
        self.histogram = histogram;
    }

    /// Records one measurement of a call for this parent. Returns false if it is dropped: the value is not finite, or negative for a
    /// counter, or there is no room for another series or another parent of a gauge's series, which would outlive that parent.
    pub fn record(&self, parent: &ObjectKey, value: f64, labels: &[(String, String)]) -> bool {
        if !value.is_finite() || (value < 0.0 && self.metric.metric_type == MetricType::Counter) {
            return false;
        }
        let labels = self.declared(labels);
        let text = self.text_of(&labels);
        let parent = self.hasher.hash_one(parent);
        let mut rows = self.rows.lock();
        if !rows.by_labels.contains_key(text.as_str()) {
            let Some(row) = self.begin(&mut rows, &text, &labels, parent) else { return false };
            rows.by_labels.insert(text.as_str().into(), row);
        }
        let Some(row) = rows.by_labels.get_mut(text.as_str()) else { return false };
        if !self.remember(row, parent) {
            return false;
        }
        match &mut row.value {
            Value::Number(sum) if self.metric.metric_type == MetricType::Counter => *sum += value,
            Value::Number(state) => *state = value,
            Value::Distribution(all) => {
                let (buckets, sum) = &mut **all;
                *sum += value;
                if let Some(count) = buckets.get_mut(BOUNDS.partition_point(|bound| *bound < value)) {
                    *count += 1;
                }
            }
        }
        if let Some(histogram) = &self.histogram {
            histogram.record(value, &self.attributes(&labels));
        }
        true
    }

    /// The declared labels in declared order, so that equal labels give the same series.
    fn declared(&self, labels: &[(String, String)]) -> Vec<(&str, String)> {
        let declared = self.metric.labels.iter().filter_map(|name| {
            let (_, value) = labels.iter().find(|(label, _)| label == name)?;
            Some((name.as_str(), value.chars().take(VALUE).collect()))
        });
        declared.collect()
    }

    /// The labels in the text format. The plugin is one of them: without it, `b_c` of the plugin `a` and `c` of the plugin `a-b` would be
    /// the same metric.
    fn text_of(&self, labels: &[(&str, String)]) -> String {
        let mut text = String::new();
        let of_plugin = (PLUGIN_METRIC_LABEL, self.plugin.as_str());
        for (name, value) in labels.iter().map(|(name, value)| (*name, value.as_str())).chain([of_plugin]) {
            let comma = if text.is_empty() { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(text, "{comma}{name}=\"{}\"", Escaped(value, true));
        }
        text
    }

    fn attributes(&self, labels: &[(&str, String)]) -> Vec<KeyValue> {
        let labels = labels.iter().map(|(name, value)| KeyValue::new((*name).to_owned(), value.clone()));
        labels.chain([KeyValue::new(PLUGIN_LABEL, self.plugin.to_string())]).collect()
    }

    /// A new series of this parent, if there is room for it.
    fn begin(&self, rows: &mut Rows, text: &str, labels: &[(&str, String)], parent: u64) -> Option<Row> {
        if text.len() > LABELS || rows.by_labels.len() >= SERIES {
            return None;
        }
        let attributes = if self.keeps_attributes { self.attributes(labels) } else { Vec::new() };
        let line = self.name.len() + text.len() + LINE;
        let parents = (self.metric.metric_type == MetricType::Gauge).then(|| HashSet::from([parent]));
        let of_parents = parents.as_ref().map_or(0, |parents| OWNER * parents.len());
        let bytes = self.lines() * line + ROW + attributes.len() * ATTRIBUTE + of_parents;
        let head = if rows.has_head { 0 } else { self.head().len() };
        let Rooms { bytes: room, series } = &*self.rooms;
        if !series.take(1) {
            return None;
        }
        if !room.take(bytes + head) {
            series.give(1);
            return None;
        }
        rows.has_head = true;
        let is_histogram = self.metric.metric_type == MetricType::Histogram;
        let value = if is_histogram { Value::Distribution(Box::default()) } else { Value::Number(0.0) };
        Some(Row { value, attributes, parents, bytes })
    }

    /// Remembers that the series of a gauge was measured for this parent. Returns false if there is no room for that.
    fn remember(&self, row: &mut Row, parent: u64) -> bool {
        let Some(parents) = &mut row.parents else { return true };
        let room = &self.rooms.bytes;
        if parents.contains(&parent) {
            return true;
        }
        if parents.len() >= OWNERS {
            room.give(OWNER * parents.len());
            row.bytes -= OWNER * parents.len();
            row.parents = None;
            return true;
        }
        if !room.take(OWNER) {
            return false;
        }
        parents.insert(parent);
        row.bytes += OWNER;
        true
    }

    /// Ends the series that were measured for this parent alone.
    pub fn forget(&self, parent: &ObjectKey) {
        let (parent, Rooms { bytes: room, series }) = (self.hasher.hash_one(parent), &*self.rooms);
        self.rows.lock().by_labels.retain(|_, row| {
            let Some(parents) = &mut row.parents else { return true };
            if !parents.remove(&parent) {
                return true;
            }
            if parents.is_empty() {
                room.give(row.bytes);
                series.give(1);
                return false;
            }
            room.give(OWNER);
            row.bytes -= OWNER;
            true
        });
    }

    /// Passes each number of a counter or gauge to `observe`, with its attributes.
    pub fn each(&self, mut observe: impl FnMut(f64, &[KeyValue])) {
        for row in self.rows.lock().by_labels.values() {
            if let Value::Number(number) = row.value {
                observe(number, &row.attributes);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.lock().by_labels.is_empty()
    }

    /// The lines before the first series.
    pub fn head(&self) -> String {
        let Self { name, metric, .. } = self;
        let metric_type = match metric.metric_type {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        format!("# HELP {name} {}\n# TYPE {name} {metric_type}\n", Escaped(&metric.description, false))
    }

    /// Writes the lines of all series.
    pub fn write(&self, text: &mut String) {
        for (labels, row) in &self.rows.lock().by_labels {
            // Writing to a String cannot fail.
            let _ = self.write_row(labels, &row.value, text);
        }
    }

    fn write_row(&self, labels: &str, value: &Value, text: &mut String) -> fmt::Result {
        let name = &self.name;
        let (buckets, sum) = match value {
            Value::Number(number) => return writeln!(text, "{name}{{{labels}}} {}", Number(*number)),
            Value::Distribution(all) => &**all,
        };
        let mut count = 0;
        let bounds = BOUNDS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        for (bound, bucket) in bounds.zip(buckets) {
            count += bucket;
            writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}")?;
        }
        writeln!(text, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {count}", Number(*sum))
    }

    /// Number of lines of one series.
    fn lines(&self) -> usize {
        if self.metric.metric_type == MetricType::Histogram { BOUNDS.len() + 3 } else { 1 }
    }
}

/// A number of at most 24 characters: `Display` writes up to 300 zeros.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0;
        if number.abs() < 1e15 && number.fract() == 0.0 { write!(f, "{number}") } else { write!(f, "{number:?}") }
    }
}

/// A text of others in the text format: the value of a label, in which quotes are escaped as well, or a description.
struct Escaped<'a>(&'a str, bool);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '"' if self.1 => f.write_str("\\\"")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
