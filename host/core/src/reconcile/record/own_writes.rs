//! The host's own writes that the caches do not show yet. Until they do, the host makes no new plan for the parent
//! (rule R3).
//!
//! The wait has no timeout: the host never makes a plan from a cache that is behind. The parent's conditions report a
//! long wait.

use std::time::{Duration, Instant};

use crate::reconcile::outcome::{LOOK_AGAIN, PATIENCE};
use crate::reconcile::written::{Subject, Written};
use crate::value::ids::Gvk;

/// A parent that waits for its own writes is reconciled every few seconds. One that was not for this long is gone.
pub const FORGOTTEN: Duration = Duration::from_mins(10);

/// What a parent waits for before its next plan.
#[derive(Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: the caches show all writes.
    Over,
    /// These objects must be read, because it is unknown whether a write to them was executed, or because the cache still shows them
    /// some time after the API server responded that they are gone.
    ForLookups(Vec<Subject>),
    /// A watch. The cache is checked again after this time.
    ForWatch(Duration),
    /// The watches of these kinds, which have been behind for longer than a working watch ever takes.
    Long {
        /// The kinds.
        kinds: Vec<String>,
        /// Whether the parent's conditions report the wait already.
        is_reported: bool,
    },
}

/// The writes of one parent that the caches do not show yet.
#[derive(Debug, Default)]
pub struct OwnWrites(Option<Pending>);

#[derive(Debug)]
struct Pending {
    since: Instant,
    /// When the parent last wrote, or asked whether it still waits.
    last: Instant,
    is_reported: bool,
    /// Each write, with a time after its execution.
    writes: Vec<(Written, Instant)>,
}

impl OwnWrites {
    /// Whether the caches showed all writes when they were last checked.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether there are writes that the parent waited for lately.
    pub fn is_recent(&self, now: Instant) -> bool {
        self.0.as_ref().is_some_and(|pending| now.saturating_duration_since(pending.last) < FORGOTTEN)
    }

    /// Records writes for the parent.
    pub fn add(&mut self, writes: impl IntoIterator<Item = Written>, now: Instant) {
        for write in writes {
            let begin = || Pending { since: now, last: now, is_reported: false, writes: Vec::new() };
            let pending = self.0.get_or_insert_with(begin);
            pending.last = now;
            let known = &mut pending.writes;
            let is_repeated = matches!(write, Written::Unknown(_)) && known.iter().any(|(known, _)| *known == write);
            if !is_repeated {
                known.push((write, now));
            }
        }
    }

    /// What a parent of this kind waits for. `shows`: whether the caches show a write, which was executed before a time.
    pub fn wait(&mut self, parents: &Gvk, shows: impl Fn(&Written, Instant) -> bool, now: Instant) -> Wait {
        let Some(pending) = &mut self.0 else { return Wait::Over };
        pending.last = now;
        pending.writes.retain(|(write, at)| !shows(write, *at));
        if pending.writes.is_empty() {
            self.0 = None;
            return Wait::Over;
        }
        let unknown = pending.writes.iter().filter_map(|(write, at)| match write {
            Written::Unknown(subject) => Some(subject.clone()),
            // Whether an object is gone is known from a response alone, which may come from a webhook.
            write if now.saturating_duration_since(*at) >= LOOK_AGAIN => absent(write),
            Written::Parent { .. } | Written::Past { .. } | Written::Child { .. } | Written::Gone { .. } => None,
        });
        let unknown: Vec<_> = unknown.collect();
        if !unknown.is_empty() {
            return Wait::ForLookups(unknown);
        }
        let waited = now.saturating_duration_since(pending.since);
        match PATIENCE.checked_sub(waited) {
            Some(left) if !left.is_zero() => Wait::ForWatch(left.min(LOOK_AGAIN)),
            _ => Wait::Long { kinds: kinds_behind(parents, &pending.writes), is_reported: pending.is_reported },
        }
    }

    /// Records that an object was read, because a write to it may have been executed or the cache still shows it after its deletion.
    /// `fact` is the state that the cache must show now; none if the parent need not wait for it.
    pub fn looked_up(&mut self, subject: &Subject, fact: Option<Written>, now: Instant) {
        if let Some(pending) = &mut self.0 {
            let is_of = |write: &Written| match write {
                Written::Unknown(of) => of == subject,
                write => absent(write).as_ref() == Some(subject),
            };
            pending.writes.retain(|(write, _)| !is_of(write));
            pending.writes.extend(fact.map(|fact| (fact, now)));
        }
    }

    /// Records that the parent's conditions report the wait.
    pub fn note_reported(&mut self) {
        if let Some(pending) = &mut self.0 {
            pending.is_reported = true;
        }
    }
}

/// The object of a write after which the object, or a version of it, is not there any more.
fn absent(write: &Written) -> Option<Subject> {
    match write {
        Written::Past { .. } => Some(Subject::Parent),
        Written::Gone { child, .. } => Some(Subject::Child(child.clone())),
        Written::Parent { .. } | Written::Child { .. } | Written::Unknown(_) => None,
    }
}

/// The kinds whose caches do not show these writes yet, each once.
fn kinds_behind(parents: &Gvk, writes: &[(Written, Instant)]) -> Vec<String> {
    let mut kinds: Vec<_> =
        writes.iter().map(|(write, _)| write.child_kind().unwrap_or(parents).kind.to_string()).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}
