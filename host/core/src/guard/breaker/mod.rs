//! Limits writes to an object to one per minute if the object is written too often (rule R18). Without the limit, the host and another
//! writer would undo each other's changes forever. The limit ends after five minutes in which the host attempts no write, or in which the
//! API server refuses each one.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use crate::contract::snapshot::Snapshot;
use crate::guard::deletions::SpecHash;
use crate::object::Object;
use crate::object::child::ChildId;
use crate::value::ids::{Gvk, ObjectKey};
use crate::value::json::{Map, Value};

/// Number of writes to one object that are allowed within one [`WINDOW`]; the next one trips the breaker.
const WRITES: usize = 10;
const WINDOW: Duration = Duration::from_mins(1);
/// Minimum time between two writes to an object whose breaker is tripped.
pub const PACE: Duration = Duration::from_mins(1);
/// A tripped breaker is reset after this time without an attempted write, or if the API server refuses all writes for as long.
const QUIET: Duration = Duration::from_mins(5);
/// Maximum number of objects in each of `younger` and `older`. When `younger` is full, it becomes `older`, and the
/// former `older` is dropped. An object that thrashes is written so often that it
/// returns to `younger` before `older` is dropped.
const OBJECTS_MAX: usize = 1 << 16;

/// Counts the recent writes to each object, separately for each revision of its parent.
///
/// Writes are counted per parent: the same object, written as a child of another parent, is counted separately. Objects
/// are identified by name, since an object that is deleted and created again and again has a new UID each time.
#[derive(Debug, Default)]
pub struct Breaker {
    /// Makes keys small, and unpredictable from outside.
    hasher: RandomState,
    /// Objects written in this window.
    younger: HashMap<u64, Writes>,
    /// Objects written in the previous window, and not since.
    older: HashMap<u64, Writes>,
    /// Start of this window.
    since: Option<Instant>,
    /// Objects whose breaker is tripped. The map needs no limit: an object is here only after more than [`WRITES`]
    /// writes in one minute, so the host's write rate bounds the number of entries.
    tripped: HashMap<u64, Tripped>,
}

/// The uid, the generation (or else the content) and the labels of a parent, hashed: the state that a plugin's response follows from. The
/// breaker counts each revision from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParentRevision(u64);

impl ParentRevision {
    /// The revision of this parent. Call it before the breaker is locked: it may unpack the parent.
    pub fn of(parent: &Object) -> Self {
        let mut hasher = DefaultHasher::new();
        parent.uid.hash(&mut hasher);
        match parent.generation {
            Some(generation) => generation.hash(&mut hasher),
            None => SpecHash::of(parent).hash(&mut hasher),
        }
        parent.with_labels(|labels| labels.hash(&mut hasher));
        Self(hasher.finish())
    }
}

/// Whether a status may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusPass {
    /// Write it unchanged.
    Write,
    /// Write it with the reason `Thrashing`.
    WriteThrashing,
    /// Do not write it before this time has passed.
    Wait(Duration),
}

#[derive(Debug)]
struct Writes {
    last: Instant,
    /// Earlier writes, oldest first, fewer than [`WRITES`]. Most objects have none, which costs no allocation.
    before: Vec<Instant>,
}

#[derive(Debug)]
struct Tripped {
    /// Time of the last admitted write.
    last_write: Instant,
    /// Time of the last attempted write, admitted or not.
    last_attempt: Instant,
    /// Time of the first write that the API server has refused since it last accepted one; `None` if it accepted the last write.
    refused_since: Option<Instant>,
    /// `refused_since` as it was before the last admitted write, whose result is not known when it is admitted.
    refused_before: Option<Instant>,
    /// Hash of the desired status at the last attempt that counted; `None` before the first, or if another writer removed
    /// the reason `Thrashing`.
    desired_status: Option<u64>,
}

impl Breaker {
    /// Admits and counts a write to a child of a parent, or to the parent itself (its finalizers).
    ///
    /// # Errors
    /// The object is written too often; returns the time until the write is allowed.
    pub fn admit(
        &mut self,
        revision: ParentRevision,
        kind: &Gvk,
        key: &ObjectKey,
        now: Instant,
    ) -> Result<(), Duration> {
        let subject = self.subject(revision, kind, key);
        self.admit_subject(subject, now)
    }

    /// Admits and counts a plan that creates children of a kind and deletes others of the kind that were [just
    /// written](Self::was_just_written): a plugin that returns other names each time would have children created and deleted for ever, none
    /// of them twice.
    ///
    /// # Errors
    /// As those of `admit`.
    pub fn admit_renames(&mut self, revision: ParentRevision, kind: &Gvk, now: Instant) -> Result<(), Duration> {
        let subject = self.hasher.hash_one((revision, &kind.group, &kind.kind, "names"));
        self.admit_subject(subject, now)
    }

    /// Whether a child was written within the last minute.
    pub fn was_just_written(&self, revision: ParentRevision, child: &ChildId, now: Instant) -> bool {
        let id = self.subject(revision, &child.kind, &child.key);
        let known = self.younger.get(&id).or_else(|| self.older.get(&id));
        known.is_some_and(|writes| now.saturating_duration_since(writes.last) < WINDOW)
    }

    /// Takes back the last admitted write of a child: the API server has refused it, so there is nothing that anybody could undo. Refused
    /// writes are retried with growing waits (rule R13).
    pub fn take_back(&mut self, revision: ParentRevision, child: &ChildId) {
        let id = self.subject(revision, &child.kind, &child.key);
        if let Some(tripped) = self.tripped.get_mut(&id) {
            tripped.refused_since = tripped.refused_before.or(Some(tripped.last_write));
            return;
        }
        let Some(writes) = self.younger.get_mut(&id) else { return };
        match writes.before.pop() {
            Some(earlier) => writes.last = earlier,
            None => drop(self.younger.remove(&id)),
        }
    }

    fn subject(&self, revision: ParentRevision, kind: &Gvk, key: &ObjectKey) -> u64 {
        self.hasher.hash_one((revision, &kind.group, &kind.kind, key))
    }

    /// Counts a write to a parent's own status.
    ///
    /// A status that reflects its children may be written as often as the children change, so each state of the
    /// children is counted separately. The breaker trips on a status that keeps changing while nothing else does.
    ///
    /// While the breaker is tripped, the status in the API server has the reason `Thrashing`, so it never equals the
    /// desired status. Then, and only then, `desired_status` is called. It returns the status that would be written
    /// without the reason `Thrashing`, or `None` if the present status does not have that reason (another writer
    /// removed it). If it equals the one of the previous attempt, nothing changes any more, so this attempt does not
    /// restart the quiet period.
    pub fn admit_status(
        &mut self,
        revision: ParentRevision,
        snapshot: &Snapshot,
        desired_status: impl FnOnce() -> Option<Map>,
        now: Instant,
    ) -> StatusPass {
        let seen: Vec<_> = snapshot.children.iter().map(|child| child.content).collect();
        let subject = self.hasher.hash_one((revision, "status", seen));
        let tripped = self.tripped.get_mut(&subject).filter(|tripped| !tripped.is_quiet(now));
        let was_tripped = tripped.is_some();
        if let Some(tripped) = tripped {
            let desired_hash = desired_status().map(|status| self.hasher.hash_one(Value::from(status).to_string()));
            if desired_hash.is_some() && desired_hash == tripped.desired_status {
                // Check again at least once a minute: a flipping status that is checked only at the end of the quiet
                // period could match by chance.
                return StatusPass::Wait(PACE.min(tripped.quiet_in(now)));
            }
            tripped.desired_status = desired_hash;
        }
        match (self.admit_subject(subject, now), was_tripped) {
            (Ok(()), false) => StatusPass::Write,
            // The first excessive status is written nevertheless, to report the thrashing.
            (Ok(()), true) | (Err(_), false) => StatusPass::WriteThrashing,
            (Err(wait), true) => StatusPass::Wait(wait),
        }
    }

    fn admit_subject(&mut self, id: u64, now: Instant) -> Result<(), Duration> {
        self.expire(now);
        if let Some(tripped) = self.tripped.get_mut(&id) {
            if !tripped.is_quiet(now) {
                return tripped.admit(now);
            }
            self.tripped.remove(&id);
        }
        let mut writes = Writes { last: now, before: Vec::new() };
        if let Some(known) = self.younger.remove(&id).or_else(|| self.older.remove(&id)) {
            writes.before = known.before;
            writes.before.push(known.last);
            writes.before.retain(|at| now.saturating_duration_since(*at) < WINDOW);
            if writes.before.len() >= WRITES {
                let mut tripped = Tripped::new(known.last, now);
                let outcome = tripped.admit(now);
                self.tripped.insert(id, tripped);
                return outcome;
            }
        }
        if self.younger.len() >= OBJECTS_MAX {
            self.begin_window(now);
        }
        self.younger.insert(id, writes);
        Ok(())
    }

    /// Drops expired entries.
    fn expire(&mut self, now: Instant) {
        let age = now.saturating_duration_since(*self.since.get_or_insert(now));
        if age >= WINDOW {
            self.begin_window(now);
        }
        if age >= 2 * WINDOW {
            self.older = HashMap::new();
        }
    }

    /// Begins a new window. Writes before the previous window are dropped as a whole, so no entry needs to expire on
    /// its own, except tripped ones.
    fn begin_window(&mut self, now: Instant) {
        self.older = std::mem::take(&mut self.younger);
        self.since = Some(now);
        self.tripped.retain(|_, tripped| !tripped.is_quiet(now));
        self.tripped.shrink_to_fit();
    }
}

impl Tripped {
    fn new(last_write: Instant, now: Instant) -> Self {
        Self { last_write, last_attempt: now, refused_since: None, refused_before: None, desired_status: None }
    }

    fn is_quiet(&self, now: Instant) -> bool {
        self.quiet_in(now).is_zero()
    }

    fn quiet_in(&self, now: Instant) -> Duration {
        QUIET.saturating_sub(now.saturating_duration_since(self.refused_since.unwrap_or(self.last_attempt)))
    }

    fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        self.last_attempt = now;
        let wait = PACE.saturating_sub(now.saturating_duration_since(self.last_write));
        if wait.is_zero() {
            self.last_write = now;
            self.refused_before = self.refused_since.take();
            Ok(())
        } else {
            Err(wait)
        }
    }
}

#[cfg(test)]
mod tests;
