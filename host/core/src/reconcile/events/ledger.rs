//! Remembers recent events: repetitions are counted or suppressed. Each plugin has a memory and a rate limit of its own, so that no
//! plugin affects the events of another.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use jiff::Timestamp;

use super::{Before, Note, Source, event_type_of};
use crate::contract::EventType;
use crate::guard::bucket::{Bucket, Rate};
use crate::object::reason::ParentReason;
use crate::reconcile::outcome::{Outcome, Progress};
use crate::value::bounded::{LruCache, bounded};
use crate::value::ids::{PluginName, Uid};

/// Number of remembered events that a plugin emits, over all its parents; each takes about 80 bytes.
const OF_PLUGIN: usize = 8192;
/// Number of remembered events of the host about a plugin's parents. They never occur in steady state, so the ledger remembers them only to
/// count their repetitions.
const OF_HOST: usize = 1024;
/// Number of a plugin's parents whose last outcome is remembered, because their desired state is not applied.
const FAILING: usize = 4096;

/// Minimum interval between writes of an event's count, in seconds; the same as in client-go.
const COUNT_EVERY: i64 = 6 * 60;
/// The API server deletes an event one hour after its last write (`--event-ttl`); a later repetition creates a new
/// event. Ten minutes less, so that the host updates no event that is being deleted. In seconds.
const FORGOTTEN_AFTER: i64 = 50 * 60;

/// Rate limit for events of a plugin's parents. The burst covers a rollout that a user watches. A longer flood of
/// events would cost the API server more than it helps users. At one event per second, etcd holds at most 3600 events
/// of the plugin.
const RATE: Rate = Rate { burst: 50.0, per_second: 1.0 };
/// Part of the burst reserved for warnings, so that events about creates and updates do not displace them.
const FOR_WARNINGS: f64 = 10.0;

/// The kind of reconcile that emits an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// The reconcile wrote something, or its outcome changed.
    Changed,
    /// The reconcile changed nothing: steady state.
    Steady,
    /// The reconcile changed nothing, and the plugin is called for all its parents, as after a start of the host.
    /// Events of such a reconcile were emitted before or are outdated, so they are not written.
    Sweep,
}

/// How to write an event. The stamp is part of the event's name, and unique within this ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventWrite {
    /// Create a new event.
    Create {
        /// Nanoseconds since 1970.
        stamp: i64,
    },
    /// Update the count of an existing event.
    Count {
        /// The stamp of the existing event.
        stamp: i64,
        /// Number of occurrences in total.
        count: i32,
    },
}

/// The events that were emitted, with bounded memory for each plugin.
#[derive(Debug, Default)]
pub struct Ledger {
    hasher: RandomState,
    plugins: HashMap<PluginName, PluginLedger>,
    last_stamp: i64,
}

/// The events on the parents of one plugin.
#[derive(Debug)]
struct PluginLedger {
    of_plugin: Memory,
    of_host: Memory,
    /// The parents whose desired state is not applied: reason and hash of the message.
    failing: LruCache<u64, (ParentReason, u64)>,
    bucket: Bucket,
}

impl PluginLedger {
    fn new(now: Timestamp) -> Self {
        Self {
            of_plugin: Memory::new(OF_PLUGIN),
            of_host: Memory::new(OF_HOST),
            failing: bounded(FAILING),
            bucket: Bucket::new(RATE, now),
        }
    }
}

/// Events that were emitted, or were dropped by the rate limit.
#[derive(Debug)]
struct Memory {
    emitted: LruCache<u64, Emitted>,
    /// Whether an event that occurs in steady state was evicted. From then on, the ledger cannot tell a new event in
    /// steady state from an evicted one, so it writes neither.
    is_short: bool,
}

#[derive(Debug)]
struct Emitted {
    stamp: i64,
    count: i32,
    /// Time of the last write, in seconds since 1970; `None` if the event was never written.
    written: Option<i64>,
    /// Whether the event occurred in a reconcile that changed nothing.
    in_steady_state: bool,
}

impl Memory {
    fn new(room: usize) -> Self {
        Self { emitted: bounded(room), is_short: false }
    }

    fn put(&mut self, key: u64, emitted: Emitted) {
        // `push` returns the evicted event, or the one that this one replaces.
        let replaced = self.emitted.push(key, emitted);
        self.is_short |= replaced.is_some_and(|(other, forgotten)| other != key && forgotten.in_steady_state);
    }
}

impl Ledger {
    /// Decides whether and how to write an event, and records the event. `None`: the event is not written.
    pub fn emit(
        &mut self,
        plugin: &PluginName,
        parent: &Uid,
        note: &Note,
        occasion: Occasion,
        now: Timestamp,
    ) -> Option<EventWrite> {
        let warns = note.event_type == EventType::Warning;
        let key = self.hasher.hash_one((parent, warns, &note.reason, &note.message));
        let seconds = now.as_second();
        let ledger = of(&mut self.plugins, plugin, now);
        let memory = match note.source {
            Source::Host => &mut ledger.of_host,
            Source::Plugin => &mut ledger.of_plugin,
        };
        match memory.emitted.get_mut(&key) {
            Some(emitted) if occasion != Occasion::Changed => {
                emitted.in_steady_state = true;
                return None;
            }
            Some(Emitted { stamp, count, written: Some(written), .. }) if seconds - *written < FORGOTTEN_AFTER => {
                *count = count.saturating_add(1);
                let is_due = seconds - *written >= COUNT_EVERY;
                if !is_due || !ledger.bucket.take(1.0, kept(warns), now) {
                    return None;
                }
                *written = seconds;
                return Some(EventWrite::Count { stamp: *stamp, count: *count });
            }
            _ => {}
        }
        let is_known = occasion == Occasion::Sweep || (occasion == Occasion::Steady && memory.is_short);
        let is_written = !is_known && ledger.bucket.take(1.0, kept(warns), now);
        self.last_stamp = nanoseconds(now).max(self.last_stamp.saturating_add(1));
        let stamp = self.last_stamp;
        // The event is recorded even if the rate limit dropped it; otherwise it would be emitted later, in steady
        // state.
        let (written, in_steady_state) = (is_written.then_some(seconds), occasion != Occasion::Changed);
        memory.put(key, Emitted { stamp, count: 1, written, in_steady_state });
        is_written.then_some(EventWrite::Create { stamp })
    }

    /// Returns the earlier outcome of a parent, and records the present one. A success removes the parent's record. If
    /// nothing is remembered, the result is that of `unknown`.
    pub fn before(
        &mut self,
        plugin: &PluginName,
        parent: &Uid,
        outcome: &Outcome,
        now: Timestamp,
        unknown: impl FnOnce() -> Before,
    ) -> Before {
        let (key, failing) = (self.hasher.hash_one(parent), &mut of(&mut self.plugins, plugin, now).failing);
        if outcome.progress == Progress::Applied {
            return failing.pop(&key).map_or_else(unknown, |(reason, _)| Before::Other(Some(reason)));
        }
        let warns = |(reason, _): &(ParentReason, u64)| event_type_of(*reason) == Some(EventType::Warning);
        if event_type_of(outcome.reason).is_none() && failing.peek(&key).is_some_and(warns) {
            // A step on the way: the failure before it is over once the parent has its desired state.
            return Before::Same;
        }
        let latest = (outcome.reason, self.hasher.hash_one(&outcome.message));
        match failing.put(key, latest) {
            Some(before) if before == latest => Before::Same,
            Some((reason, _)) => Before::Other(Some(reason)),
            None => unknown(),
        }
    }

    /// Counts an event of the plugin that was dropped because the queue of events was full.
    pub fn lost(&mut self, plugin: &PluginName, now: Timestamp) {
        of(&mut self.plugins, plugin, now).bucket.add_dropped(1);
    }

    /// Returns the number of a plugin's events that were dropped since the last report; `None` if there are none, or if
    /// the last report was less than a minute ago.
    pub fn take_dropped(&mut self, plugin: &PluginName, now: Timestamp) -> Option<u64> {
        self.plugins.get_mut(plugin)?.bucket.take_dropped(now)
    }

    /// Forgets the events of a Plugin that was deleted.
    pub fn forget(&mut self, plugin: &PluginName) {
        self.plugins.remove(plugin);
    }
}

/// The ledger of a plugin.
fn of<'a>(
    plugins: &'a mut HashMap<PluginName, PluginLedger>,
    plugin: &PluginName,
    now: Timestamp,
) -> &'a mut PluginLedger {
    plugins.entry(plugin.clone()).or_insert_with(|| PluginLedger::new(now))
}

/// Number of tokens that an event must leave for warnings.
fn kept(warns: bool) -> f64 {
    if warns { 0.0 } else { FOR_WARNINGS }
}

/// Nanoseconds since 1970; fits into 64 bits until the year 2262.
fn nanoseconds(now: Timestamp) -> i64 {
    i64::try_from(now.as_nanosecond()).unwrap_or_default()
}
