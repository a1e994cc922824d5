//! Metrics that plugins declare in their descriptors.
//!
//! The host keeps their values itself. Instruments of the SDK would keep the series of a plugin after its end, and an export would copy
//! labels and descriptions for each of them; here the bytes of a series are known before it begins, and it ends with its component.

mod push;
mod room;
mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use opentelemetry_sdk::metrics::Temporality;
use parking_lot::Mutex;
use windlass_core::contract::Metric;
use windlass_core::value::ids::{ObjectKey, PluginName};

use self::push::{Push, Reader};
use self::room::Room;
use self::table::{Rooms, Table};

pub(super) use self::push::WithPlugins;

/// Label with the name of the plugin, in metrics of OTLP.
pub(super) const PLUGIN_LABEL: &str = "windlass.plugin";
/// Largest number of series of all metrics of one component together.
const ALL_SERIES: usize = 10_000;
/// Room for the metrics of one component, in bytes: those of their lines in the text format, and 256 for each series.
const OF_COMPONENT: usize = 2 << 20;
/// Room for the metrics of all components, in bytes.
const OF_ALL: usize = 16 << 20;

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

/// Set if metrics are exported.
static METRICS: OnceLock<Arc<PluginMetrics>> = OnceLock::new();

/// Keeps measurements of plugins in these metrics from now on.
pub(super) fn open(metrics: Arc<PluginMetrics>) {
    // Telemetry starts once per process.
    let _ = METRICS.set(metrics);
}

/// The metrics of one plugin's component; none if metrics are not exported.
#[derive(Debug, Default)]
pub struct Measures(Option<Arc<Component>>);

impl Measures {
    /// The metrics that a plugin declares. Each name gets the plugin's name as its prefix.
    pub fn of(plugin: &PluginName, metrics: &[Metric]) -> Self {
        Self(METRICS.get().map(|all| all.component(plugin, metrics)))
    }

    /// Records one measurement of a call for this parent. Returns false if it is dropped: the metric is not declared, the value is not
    /// possible for it, or there is no room for another series.
    pub fn record(&self, parent: &ObjectKey, metric: &str, value: f64, labels: &[(String, String)]) -> bool {
        let Some(component) = &self.0 else { return true };
        component.tables.get(metric).is_some_and(|table| table.record(parent, value, labels))
    }

    /// Ends the gauges' series that were measured for this parent alone.
    pub fn forget(&self, parent: &ObjectKey) {
        for table in self.0.iter().flat_map(|component| component.tables.values()) {
            table.forget(parent);
        }
    }
}

/// The metrics of one component, by their declared names.
#[derive(Debug)]
struct Component {
    tables: BTreeMap<String, Arc<Table>>,
    push: Option<Push>,
}

/// The metrics of all components. A component is exported for as long as it exists.
#[derive(Debug)]
pub(super) struct PluginMetrics {
    components: Mutex<Vec<Weak<Component>>>,
    room: Arc<Room>,
    /// Set if metrics are exported by OTLP.
    pushed: Option<Temporality>,
}

impl PluginMetrics {
    /// Metrics that are also exported by OTLP if this is an exporter's temporality.
    pub fn new(pushed: Option<Temporality>) -> Self {
        Self { components: Mutex::default(), room: Arc::new(Room::new(OF_ALL)), pushed }
    }

    /// The metrics of a component.
    fn component(&self, plugin: &PluginName, metrics: &[Metric]) -> Arc<Component> {
        let rooms = Rooms { bytes: Room::within(&self.room, OF_COMPONENT), series: Room::new(ALL_SERIES) };
        let (rooms, prefix) = (Arc::new(rooms), prefix(plugin.as_str()));
        // A component without metrics needs no provider.
        let push = self.pushed.filter(|_| !metrics.is_empty()).map(Push::new);
        let tables = metrics.iter().map(|metric| {
            let table = Table::new(plugin, format!("{prefix}{}", metric.name), metric, &rooms);
            let table = match &push {
                Some(push) => push.add(table),
                None => Arc::new(table),
            };
            (metric.name.clone(), table)
        });
        let component = Arc::new(Component { tables: tables.collect(), push });
        let mut components = self.components.lock();
        components.retain(|component| component.strong_count() > 0);
        components.push(Arc::downgrade(&component));
        component
    }

    fn components(&self) -> Vec<Arc<Component>> {
        self.components.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn readers(&self) -> Vec<Reader> {
        self.components().iter().filter_map(|component| Some(component.push.as_ref()?.reader.clone())).collect()
    }

    /// Number of bytes that [`write`](Self::write) adds at most.
    pub fn bytes(&self) -> usize {
        self.room.used()
    }

    /// Adds the metrics in Prometheus' text format.
    pub fn write(&self, text: &mut String) {
        // All series of one name must be together. Of each plugin, the newest component that measured something is exported: another one
        // may finish its last reconciles. Of one name, only one type is exported.
        let mut names = BTreeMap::<_, BTreeMap<_, _>>::new();
        let components = self.components();
        for table in components.iter().flat_map(|component| component.tables.values()).filter(|table| !table.is_empty())
        {
            names.entry(&table.name).or_default().insert(&table.plugin, table);
        }
        for tables in names.into_values() {
            let mut metric_type = None;
            for table in tables.into_values() {
                if metric_type.is_none() {
                    metric_type = Some(table.metric.metric_type);
                    text.push_str(&table.head());
                }
                if metric_type == Some(table.metric.metric_type) {
                    table.write(text);
                }
            }
        }
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
mod tests;
