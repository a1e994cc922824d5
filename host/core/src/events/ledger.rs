//! What was told of late: a repetition is counted or left untold, and one plugin's flood is its own.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use jiff::Timestamp;
use lru::LruCache;

use super::{Before, Note, Source};
use crate::bucket::{Bucket, Rate};
use crate::contract::EventType;
use crate::ids::{PluginName, Uid};
use crate::outcome::{Progress, Verdict};

/// Events of plugins that are remembered, of all parents: some 80 bytes each.
const OF_PLUGINS: usize = 8192;
/// The same of the host's own, which never come up at rest: those whose repetition could still be counted.
const OF_HOST: usize = 1024;
/// Parents without conditions of ours whose failure is remembered.
const FAILING: usize = 4096;

/// The count of an event is written at most so often, in seconds; as client-go does.
const COUNT_EVERY: i64 = 6 * 60;
/// The API server forgets an event an hour after its last write (`--event-ttl`): a later one begins anew. In seconds.
const FORGOTTEN_AFTER: i64 = 50 * 60;

/// What a plugin's parents may tell at once, and each second from then on. A burst is a rollout that somebody watches;
/// what goes on for longer is a flood, which would cost the API server more than it tells a person. One event a second
/// is at most 3600 of them in etcd.
const RATE: Rate = Rate { burst: 50.0, per_second: 1.0 };
/// So much of it is kept for warnings, which would else drown in what is created and updated.
const FOR_WARNINGS: f64 = 10.0;

/// What a reconcile was that something is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// Something was written, or the verdict is another than before.
    Changed,
    /// Nothing else happened.
    AtRest,
    /// Nothing else happened, and the plugin is asked about all its parents, as after the host's start. What it tells
    /// now it has told before, or it is old news: a restart of the host writes nothing.
    Sweep,
}

/// How an event is to be written. The stamp is part of its name, and unique for this ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Telling {
    /// A new one.
    Create {
        /// Nanoseconds since 1970.
        stamp: i64,
    },
    /// One that exists came again.
    Count {
        /// The stamp of the one that exists.
        stamp: i64,
        /// How often it came in all.
        count: i32,
    },
}

/// What was told, of all parents, within fixed bounds.
#[derive(Debug)]
pub struct Ledger {
    hasher: RandomState,
    of_plugins: Memory,
    of_host: Memory,
    /// By parent: reason and hash of the message.
    failing: LruCache<u64, (&'static str, u64)>,
    buckets: HashMap<PluginName, Bucket>,
    last_stamp: i64,
}

/// Events that were told, or could have been.
#[derive(Debug)]
struct Memory {
    told: LruCache<u64, Told>,
    room: usize,
    /// Whether something was forgotten that is said at rest: from then on what is new at rest cannot be told from it.
    is_short: bool,
}

#[derive(Debug)]
struct Told {
    stamp: i64,
    count: i32,
    /// When it was written last, in seconds since 1970; `None` if it never was.
    written: Option<i64>,
    /// Whether it is said at rest, too.
    stands: bool,
}

impl Memory {
    fn new(room: usize) -> Self {
        // Not with a capacity: the crate would take all the room at once.
        Self { told: LruCache::unbounded(), room, is_short: false }
    }

    fn put(&mut self, key: u64, told: Told) {
        self.told.put(key, told);
        if self.told.len() > self.room {
            self.is_short |= self.told.pop_lru().is_some_and(|(_, forgotten)| forgotten.stands);
        }
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            of_plugins: Memory::new(OF_PLUGINS),
            of_host: Memory::new(OF_HOST),
            failing: LruCache::unbounded(),
            buckets: HashMap::new(),
            last_stamp: 0,
        }
    }
}

impl Ledger {
    /// Decides whether and how an event is written, and takes note of it.
    pub fn tell(
        &mut self,
        plugin: &PluginName,
        parent: &Uid,
        note: &Note,
        occasion: Occasion,
        now: Timestamp,
    ) -> Option<Telling> {
        let warns = note.event_type == EventType::Warning;
        let key = self.hasher.hash_one((parent, warns, &note.reason, &note.message));
        let seconds = now.as_second();
        let memory = match note.source {
            Source::Host => &mut self.of_host,
            Source::Plugin => &mut self.of_plugins,
        };
        match memory.told.get_mut(&key) {
            Some(told) if occasion != Occasion::Changed => {
                told.stands = true;
                return None;
            }
            Some(Told { stamp, count, written: Some(written), .. }) if seconds - *written < FORGOTTEN_AFTER => {
                *count = count.saturating_add(1);
                let is_due = seconds - *written >= COUNT_EVERY;
                if !is_due || !bucket_of(&mut self.buckets, plugin, now).take(1.0, kept(warns), now) {
                    return None;
                }
                *written = seconds;
                return Some(Telling::Count { stamp: *stamp, count: *count });
            }
            _ => {}
        }
        let is_old_news = occasion == Occasion::Sweep || (occasion == Occasion::AtRest && memory.is_short);
        let is_written = !is_old_news && bucket_of(&mut self.buckets, plugin, now).take(1.0, kept(warns), now);
        self.last_stamp = nanoseconds(now).max(self.last_stamp.saturating_add(1));
        let stamp = self.last_stamp;
        // Remembered also if there was no room for it: else it would come up again at rest.
        let (written, stands) = (is_written.then_some(seconds), occasion != Occasion::Changed);
        memory.put(key, Told { stamp, count: 1, written, stands });
        is_written.then_some(Telling::Create { stamp })
    }

    /// What was said before of a parent that has no conditions of ours; takes note of what is said now. At rest, after
    /// a success, this keeps nothing of it.
    pub fn before(&mut self, parent: &Uid, verdict: &Verdict) -> Before {
        let key = self.hasher.hash_one(parent);
        if verdict.progress == Progress::Applied {
            return match self.failing.pop(&key) {
                Some((reason, _)) => Before::Other(Some(Cow::Borrowed(reason))),
                None => Before::Same,
            };
        }
        let said = (verdict.reason, self.hasher.hash_one(&verdict.message));
        let before = self.failing.put(key, said);
        if self.failing.len() > FAILING {
            self.failing.pop_lru();
        }
        match before {
            Some(before) if before == said => Before::Same,
            before => Before::Other(before.map(|(reason, _)| Cow::Borrowed(reason))),
        }
    }

    /// An event that was to be written met a full queue.
    pub fn lost(&mut self, plugin: &PluginName, now: Timestamp) {
        bucket_of(&mut self.buckets, plugin, now).count_dropped(1);
    }

    /// How many events of a plugin were dropped since this was answered last; nothing if that was less than a minute
    /// ago.
    pub fn take_dropped(&mut self, plugin: &PluginName, now: Timestamp) -> Option<u64> {
        self.buckets.get_mut(plugin)?.take_dropped(now)
    }
}

fn bucket_of<'a>(buckets: &'a mut HashMap<PluginName, Bucket>, plugin: &PluginName, now: Timestamp) -> &'a mut Bucket {
    if !buckets.contains_key(plugin) {
        // One that is idle is as good as none: plugins come and go.
        buckets.retain(|_, bucket| !bucket.is_idle(now));
    }
    buckets.entry(plugin.clone()).or_insert_with(|| Bucket::new(RATE, now))
}

/// Tokens that something else must not take.
fn kept(warns: bool) -> f64 {
    if warns { 0.0 } else { FOR_WARNINGS }
}

/// Nanoseconds since 1970, which 64 bits hold until 2262.
fn nanoseconds(now: Timestamp) -> i64 {
    i64::try_from(now.as_nanosecond()).unwrap_or_default()
}
