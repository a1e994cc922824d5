//! Metrics of reconciles, calls and queues, under the names that dashboards for controller-runtime use. A controller is
//! a Plugin.

use std::sync::Arc;
use std::time::{Duration, Instant};

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;
use parking_lot::Mutex;
use windlass_core::contract::CallReport;
use windlass_core::reconcile::outcome::Requeue;

use super::instruments::{Instruments, instruments};
use super::measures::PLUGIN_LABEL;
use crate::clock;

/// The measurements of one Plugin's reconciles and calls.
#[derive(Debug)]
pub struct Controller {
    /// Labels of the reconciles' metrics.
    name: [KeyValue; 1],
    /// The same with each result.
    success: [KeyValue; 2],
    error: [KeyValue; 2],
    requeue: [KeyValue; 2],
    requeue_after: [KeyValue; 2],
    /// Labels of the queue's metrics.
    queue: [KeyValue; 2],
    /// Label of Windlass' own metrics.
    plugin: [KeyValue; 1],
    /// Label of the metrics that only OTLP exports.
    otlp: [KeyValue; 1],
}

impl Controller {
    /// The measurements of the Plugin of this name.
    pub fn new(name: &str) -> Self {
        let label = |label: &'static str| KeyValue::new(label, name.to_owned());
        let result = |result: &'static str| [label("controller"), KeyValue::new("result", result)];
        let controller = Self {
            name: [label("controller")],
            success: result("success"),
            error: result("error"),
            requeue: result("requeue"),
            requeue_after: result("requeue_after"),
            queue: [label("name"), label("controller")],
            plugin: [label("plugin")],
            otlp: [label(PLUGIN_LABEL)],
        };
        controller.begin_series();
        controller
    }

    /// Makes the counters appear with 0: `rate` and `increase` of Prometheus miss the first event of a counter that appears
    /// with it.
    fn begin_series(&self) {
        let Some(instruments) = instruments() else { return };
        for result in [&self.success, &self.error, &self.requeue, &self.requeue_after] {
            instruments.reconcile_total.add(0, result);
        }
        instruments.reconcile_errors.add(0, &self.name);
        instruments.skipped_calls.add(0, &self.plugin);
        instruments.dropped_measurements.add(0, &self.plugin);
        instruments.blocked_deletions.add(0, &self.plugin);
    }

    /// Records a reconcile: how it ended, how long its parent waited in the queue, and how long it took.
    pub fn reconciled(&self, requeue: Requeue, waited: Duration, took: Duration) {
        let Some(instruments) = instruments() else { return };
        let result = match requeue {
            Requeue::Settled(None) | Requeue::WhenChanged | Requeue::Gone => &self.success,
            Requeue::Settled(Some(_)) | Requeue::After(_) => &self.requeue_after,
            Requeue::Pause(_) => &self.requeue,
            Requeue::Backoff(_) | Requeue::Unavailable(_) => {
                instruments.reconcile_errors.add(1, &self.name);
                &self.error
            }
        };
        instruments.reconcile_total.add(1, result);
        let seconds = took.as_secs_f64();
        instruments.reconcile_time.record(seconds, &self.name);
        instruments.work_duration.record(seconds, &self.queue);
        instruments.queue_duration.record(waited.as_secs_f64(), &self.queue);
        instruments.operator_reconciles.add(1, &self.otlp);
        instruments.operator_duration.record(seconds * 1000.0, &self.otlp);
    }

    /// Counts a reconcile that failed with this reason.
    pub fn failed(&self, reason: &'static str) {
        let Some(instruments) = instruments() else { return };
        let [plugin] = self.otlp.clone();
        instruments.operator_errors.add(1, &[plugin, KeyValue::new("error_type", reason)]);
    }

    /// Counts created and deleted children.
    pub fn wrote(&self, created: usize, deleted: usize) {
        let Some(instruments) = instruments().filter(|_| created + deleted > 0) else { return };
        instruments.operator_created.add(created as u64, &self.otlp);
        instruments.operator_deleted.add(deleted as u64, &self.otlp);
    }

    /// Counts a reconcile in which deletions were blocked.
    pub fn blocked_deletions(&self) {
        let Some(instruments) = instruments() else { return };
        instruments.blocked_deletions.add(1, &self.plugin);
    }

    /// Counts a reconcile that needed no call.
    pub fn skipped_call(&self) {
        let Some(instruments) = instruments() else { return };
        instruments.skipped_calls.add(1, &self.plugin);
    }

    /// Counts a measurement of the plugin that was dropped.
    pub fn dropped_measurement(&self) {
        let Some(instruments) = instruments() else { return };
        instruments.dropped_measurements.add(1, &self.plugin);
    }

    /// Records a call: its outcome, what it used, and the kind of its failure if the guest was stopped.
    pub fn called(&self, outcome: &'static str, stopped_by: Option<&'static str>, report: &CallReport) {
        let Some(instruments) = instruments() else { return };
        let [plugin] = &self.plugin;
        let outcome = [plugin.clone(), KeyValue::new("outcome", outcome)];
        instruments.call_time.record(Duration::from_micros(report.guest_time_us).as_secs_f64(), &outcome);
        instruments.call_memory.record(number(report.memory_peak), &self.plugin);
        instruments.response_size.record(number(report.response_bytes), &self.plugin);
        if let Some(reason) = stopped_by {
            instruments.traps.add(1, &[plugin.clone(), KeyValue::new("reason", reason)]);
        }
    }
}

/// The state of one Plugin's queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Number of parents that are ready and wait for a worker.
    pub ready: usize,
    /// Number of parents that are reconciled now.
    pub running: usize,
    /// Largest number of parents that are reconciled at once.
    pub concurrency: usize,
    /// Number of times that a parent became ready.
    pub adds: u64,
    /// Number of times that a failed parent was queued again.
    pub retries: u64,
    /// Duration of all running reconciles together.
    pub unfinished: Duration,
    /// Duration of the longest running reconcile.
    pub longest: Duration,
}

/// The state of one live component.
#[derive(Debug, Clone)]
pub struct PluginState {
    /// Name of the Plugin.
    pub plugin: String,
    /// Digest of the component.
    pub digest: String,
    /// Version of the component, from its descriptor.
    pub version: String,
    /// Number of parents.
    pub parents: usize,
    /// Number of failing parents.
    pub failing: usize,
    /// Number of parents whose deletions are blocked.
    pub blocked: usize,
    /// Kinds of children, and the number of children of each.
    pub children: Vec<(String, usize)>,
    /// Whether the component is in quarantine.
    pub quarantined: bool,
}

/// A condition of a Plugin, as its status has it.
#[derive(Debug, Clone)]
pub struct PluginCondition {
    /// Name of the Plugin.
    pub plugin: String,
    /// Type of the condition.
    pub kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Reason of the condition.
    pub reason: &'static str,
}

/// Exports the state of the queues, which `queues` returns with the names of their Plugins.
pub fn observe_queues(queues: impl Fn() -> Vec<(String, QueueState)> + Send + Sync + 'static) {
    let Some(instruments) = instruments() else { return };
    let queues = States::new(queues);
    let state = |(name, description), labels: fn(&str) -> Vec<KeyValue>, of: fn(&QueueState) -> f64| {
        observe(&instruments.meter, name, description, &queues, move |(name, state)| vec![(of(state), labels(name))]);
    };
    let depth = ("workqueue_depth", "Keys that are ready and wait for a worker");
    state(depth, by_queue, |state| number(state.ready as u64));
    let active = ("controller_runtime_active_workers", "Reconciles that run now");
    state(active, by_controller, |state| number(state.running as u64));
    let most = ("controller_runtime_max_concurrent_reconciles", "Largest number of reconciles at once");
    state(most, by_controller, |state| number(state.concurrency as u64));
    let description = "Duration of all running reconciles together; it grows without end if one is stuck";
    state(("workqueue_unfinished_work_seconds", description), by_queue, |state| state.unfinished.as_secs_f64());
    let longest = ("workqueue_longest_running_processor_seconds", "Duration of the longest running reconcile");
    state(longest, by_queue, |state| state.longest.as_secs_f64());
    let total = |name, description, of: fn(&QueueState) -> u64| {
        let queues = queues.clone();
        let counter = instruments.meter.u64_observable_counter(name).with_description(description);
        let _ = counter
            .with_callback(move |observer| {
                for (name, state) in queues.get().iter() {
                    observer.observe(of(state), &by_queue(name));
                }
            })
            .build();
    };
    total("workqueue_adds_total", "Times that a key became ready", |state| state.adds);
    total("workqueue_retries_total", "Times that a failed key was queued again", |state| state.retries);
}

fn by_queue(controller: &str) -> Vec<KeyValue> {
    ["name", "controller"].map(|label| KeyValue::new(label, controller.to_owned())).to_vec()
}

fn by_controller(controller: &str) -> Vec<KeyValue> {
    vec![KeyValue::new("controller", controller.to_owned())]
}

fn by_plugin(state: &PluginState) -> KeyValue {
    KeyValue::new("plugin", state.plugin.clone())
}

/// Exports the state of the live components, as `plugins` returns it.
pub fn observe_plugins(plugins: impl Fn() -> Vec<PluginState> + Send + Sync + 'static) {
    let Some(Instruments { meter, .. }) = instruments() else { return };
    let plugins = States::new(plugins);
    observe(meter, "windlass_plugin_info", "Always 1; the labels name the live component", &plugins, |state| {
        let labels = [("plugin", &state.plugin), ("digest", &state.digest), ("version", &state.version)];
        vec![(1.0, labels.map(|(name, value)| KeyValue::new(name, value.clone())).to_vec())]
    });
    let description = "Parents, by whether their last reconcile ended as desired";
    observe(meter, "windlass_parents", description, &plugins, |state| {
        let ready = state.parents.saturating_sub(state.failing);
        let of = |is_ready, parents| (number(parents as u64), vec![by_plugin(state), KeyValue::new("ready", is_ready)]);
        vec![of("true", ready), of("false", state.failing)]
    });
    let description = "Parents whose deletions are blocked until a user allows them";
    observe(meter, "windlass_parents_with_blocked_deletions", description, &plugins, |state| {
        vec![(number(state.blocked as u64), vec![by_plugin(state)])]
    });
    observe(meter, "windlass_children", "Children in the host's caches, by kind", &plugins, |state| {
        let children = state.children.iter();
        children
            .map(|(kind, count)| (number(*count as u64), vec![by_plugin(state), KeyValue::new("kind", kind.clone())]))
            .collect()
    });
    let description = "1 if too many calls of the live component failed, so that it is rarely called";
    observe(meter, "windlass_plugin_quarantined", description, &plugins, |state| {
        vec![(f64::from(u8::from(state.quarantined)), vec![by_plugin(state)])]
    });
}

/// Exports the conditions of the Plugins, as `conditions` returns them.
pub fn observe_conditions(conditions: impl Fn() -> Vec<PluginCondition> + Send + Sync + 'static) {
    let Some(Instruments { meter, .. }) = instruments() else { return };
    let conditions = States::new(conditions);
    let description = "Always 1; the labels are a condition of the Plugin";
    observe(meter, "windlass_plugin_condition", description, &conditions, |condition| {
        let labels = [("type", condition.kind), ("status", condition.status), ("reason", condition.reason)];
        let plugin = KeyValue::new("plugin", condition.plugin.clone());
        vec![(1.0, labels.map(|(name, value)| KeyValue::new(name, value)).into_iter().chain([plugin]).collect())]
    });
}

/// Exports which Leases this host holds. `leases` returns the name of each, and whether this host holds it.
pub fn observe_leases(leases: impl Fn() -> Vec<(String, bool)> + Send + Sync + 'static) {
    let Some(Instruments { meter, .. }) = instruments() else { return };
    let leases = States::new(leases);
    let description = "1 if this host holds the Lease, 0 if not";
    observe(meter, "leader_election_master_status", description, &leases, |(name, is_held)| {
        vec![(f64::from(u8::from(*is_held)), vec![KeyValue::new("name", name.clone())])]
    });
}

/// States that several instruments observe in one collection, so they are computed once for all of them.
struct States<S> {
    compute: Box<dyn Fn() -> Vec<S> + Send + Sync>,
    last: Mutex<Option<(Instant, Arc<[S]>)>>,
}

/// Time for which states are not computed again.
const SAME_COLLECTION: Duration = Duration::from_millis(100);

impl<S> States<S> {
    fn new(compute: impl Fn() -> Vec<S> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { compute: Box::new(compute), last: Mutex::default() })
    }

    fn get(&self) -> Arc<[S]> {
        let mut last = self.last.lock();
        match &*last {
            Some((at, states)) if clock::since(*at) < SAME_COLLECTION => states.clone(),
            _ => {
                let states: Arc<[S]> = (self.compute)().into();
                *last = Some((clock::now(), states.clone()));
                states
            }
        }
    }
}

/// Exports a number, or several, of each state. The meter keeps the instrument.
fn observe<S: Send + Sync + 'static>(
    meter: &Meter,
    name: &'static str,
    description: &'static str,
    states: &Arc<States<S>>,
    of: impl Fn(&S) -> Vec<(f64, Vec<KeyValue>)> + Send + Sync + 'static,
) {
    let states = states.clone();
    let instrument = meter.f64_observable_up_down_counter(name).with_description(description);
    let _ = instrument
        .with_callback(move |observer| {
            for (value, labels) in states.get().iter().flat_map(&of) {
                observer.observe(value, &labels);
            }
        })
        .build();
}

#[expect(clippy::cast_precision_loss, reason = "counts and sizes are far below 2^53")]
fn number(count: u64) -> f64 {
    count as f64
}
