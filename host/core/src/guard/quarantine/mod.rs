//! Reduces the calls of a component that traps, times out or exceeds a limit of memory, table elements or instances to
//! single probes (rule R19): each such call may cost the host the maximum time of a call. The first call that returns
//! ends the quarantine of the component, and of the namespace of the parent for which it was called.
//!
//! Failures are counted per parent, since a tenant controls the content of its parents. A failing parent waits alone,
//! the failing parents of one namespace wait for each other, and the whole component enters quarantine only when five
//! calls in a row fail, for three parents or more. If the plugin was called for parents in more than one namespace, the
//! failures must be in more than one as well. A parent whose calls do not fail waits for seconds at most.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::contract::CallFailure;
use crate::guard::backoff::backoff;
use crate::value::ids::ObjectKey;

/// Number of failures in a row that lead to quarantine.
const FAILURES: u32 = 5;
/// Minimum number of failing parents that lead to quarantine of a namespace or of the component.
const PARENTS: usize = 3;
/// Longest wait of a parent that is new, whose last call succeeded, or whose spec changed since its last call failed.
const SHORT_WAIT_MAX: Duration = Duration::from_secs(5);
/// Time after which a probe without a result is given up: its reconcile was abandoned. Longer than a call waits and
/// runs.
const PROBE_PATIENCE: Duration = Duration::from_mins(1);
/// Maximum number of entries in each of `failing` and `succeeded`. A parent beyond that counts as new.
const PARENTS_MAX: usize = 1 << 16;

/// The recent calls of one active component. A new digest starts with a new quarantine.
#[derive(Debug, Default)]
pub struct Quarantine {
    /// Parents whose last call failed.
    failing: HashMap<ObjectKey, Failing>,
    /// Parents whose last call succeeded.
    succeeded: HashSet<ObjectKey>,
    /// Failures in a row of the parents of one namespace, by namespace.
    namespaces: HashMap<Arc<str>, Scope>,
    /// All parents together.
    all: Scope,
    /// The namespace of the first call.
    first_namespace: Option<Arc<str>>,
    /// Whether there were calls in other namespaces.
    has_several_namespaces: bool,
}

#[derive(Debug)]
struct Failing {
    /// Number of failures in a row.
    failures: u32,
    /// Time of the last failure, and the parent's generation then.
    last: Instant,
    generation: Option<i64>,
    /// Earliest time of the next call.
    next: Option<Instant>,
}

impl Failing {
    fn wait(&self, generation: Option<i64>, now: Instant) -> Duration {
        let Some(next) = self.next else { return Duration::ZERO };
        // The user may have fixed the parent; but changing it every second must not allow a call every second.
        let is_changed = generation != self.generation;
        let until = if is_changed { next.min(self.last + SHORT_WAIT_MAX) } else { next };
        until.saturating_duration_since(now)
    }
}

/// The result of a parent's last call, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastCall {
    /// The last call succeeded.
    Succeeded,
    /// There was no call.
    Never,
    /// The last call failed.
    Failed,
}

/// The failures in a row of a group of parents: of one namespace, or of all.
#[derive(Debug, Default)]
struct Scope {
    /// Number of failures in a row.
    failures: u32,
    /// Some of the parents that failed: at most [`PARENTS`], and one more of a second namespace.
    parents: HashSet<ObjectKey>,
    /// Set while in quarantine.
    probes: Option<Probes>,
}

/// The schedule of probes. Parents with a successful last call are probed first, and do not wait for new parents, of
/// which a tenant can create any number.
#[derive(Debug)]
struct Probes {
    failed: u32,
    /// Earliest times of the next probe.
    failing: Instant,
    new: Instant,
    succeeded: Instant,
    /// Start of the running probe without a result: of parents that succeeded, and of all others.
    running_succeeded: Option<Instant>,
    running: Option<Instant>,
}

impl Probes {
    fn new(failed: u32, now: Instant, random: f64) -> Self {
        let wait = backoff(failed, random);
        Self {
            failed,
            failing: now + wait,
            new: now + wait.min(SHORT_WAIT_MAX),
            succeeded: now + backoff(0, random),
            running_succeeded: None,
            running: None,
        }
    }

    fn wait(&self, last_call: LastCall, now: Instant) -> Duration {
        let (due, running, patience) = match last_call {
            LastCall::Succeeded => (self.succeeded, self.running_succeeded, SHORT_WAIT_MAX),
            LastCall::Never => (self.new, self.running, SHORT_WAIT_MAX),
            LastCall::Failed => (self.failing, self.running, PROBE_PATIENCE),
        };
        running.map_or(due, |since| since + patience).saturating_duration_since(now)
    }

    fn running_of(&mut self, last_call: LastCall) -> &mut Option<Instant> {
        match last_call {
            LastCall::Succeeded => &mut self.running_succeeded,
            LastCall::Never | LastCall::Failed => &mut self.running,
        }
    }
}

impl Scope {
    /// Records a failed call, and returns true if it led to quarantine. With `may_enter` false, it never does.
    fn broke(&mut self, parent: &ObjectKey, call: Admission, may_enter: bool, now: Instant, random: f64) -> bool {
        if let Some(probes) = &mut self.probes {
            // A call from before the quarantine is no new information: only probes count now.
            if call == Admission::Probe {
                *probes = Probes::new(probes.failed.saturating_add(1), now, random);
            }
            return false;
        }
        self.failures = self.failures.saturating_add(1);
        // Keep one place for a parent of a second namespace, so that `is_in_several_namespaces_with` sees it.
        let is_new_namespace = self.parents.iter().all(|known| known.namespace != parent.namespace);
        if self.parents.len() < PARENTS || is_new_namespace && self.parents.len() <= PARENTS {
            self.parents.insert(parent.clone());
        }
        let enters = self.failures >= FAILURES && self.parents.len() >= PARENTS && may_enter;
        if enters {
            self.probes = Some(Probes::new(0, now, random));
        }
        enters
    }

    /// Returns true if the failures in a row, together with one of this parent, are in several namespaces.
    fn is_in_several_namespaces_with(&self, parent: &ObjectKey) -> bool {
        self.parents.iter().any(|known| known.namespace != parent.namespace)
    }
}

/// Whether a call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// The call may be made, like any other.
    Call,
    /// The call may be made, and its result decides about the quarantine. Until then no other parent of that quarantine
    /// is admitted.
    Probe,
    /// The call may not be made before this time has passed.
    Denied(Duration),
}

/// How a call ended, as far as it matters for quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The guest returned, with any response.
    Returned,
    /// The guest was stopped, or trapped.
    Broke,
    /// The guest did not run, so the call is no information about it.
    NotRun,
}

/// Quarantine of the whole component begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuarantineChange {
    /// The component is in quarantine now, so the Plugin is not Ready.
    Entered,
    /// The component has left quarantine, and all parents that were denied may be queued again.
    Cleared,
}

impl CallOutcome {
    /// Classifies a call. Only calls that use up the host's time, or end the guest, count as failures. An invalid
    /// response is a problem of its parent, and returns as fast as any other.
    pub fn of<T>(call: &Result<T, CallFailure>) -> Self {
        match call {
            Ok(_) | Err(CallFailure::ResponseTooLarge(_) | CallFailure::Malformed(_)) => Self::Returned,
            Err(
                CallFailure::Deadline(_)
                | CallFailure::Memory(_)
                | CallFailure::TableElements(_)
                | CallFailure::Instances(_)
                | CallFailure::StackOverflow
                | CallFailure::Trap(_)
                | CallFailure::UnsupportedImport(_)
                | CallFailure::Exit(_),
            ) => Self::Broke,
            Err(CallFailure::RequestTooLarge { .. } | CallFailure::Host(_)) => Self::NotRun,
        }
    }
}

impl Quarantine {
    /// Decides whether a call may be made now for a parent of this generation. The caller [records](Self::record) the
    /// result of an admitted call.
    pub fn admit(&mut self, parent: &ObjectKey, generation: Option<i64>, now: Instant) -> Admission {
        let own = self.failing.get(parent).map(|failing| failing.wait(generation, now));
        let last_call = self.last_call_of(parent);
        let of_namespace = parent.namespace.as_ref().and_then(|namespace| self.namespaces.get(namespace));
        let probes = || [&self.all].into_iter().chain(of_namespace).filter_map(|scope| scope.probes.as_ref());
        let wait = probes().map(|probes| probes.wait(last_call, now)).chain(own).max().unwrap_or_default();
        if !wait.is_zero() {
            return Admission::Denied(wait);
        }
        if probes().next().is_none() {
            return Admission::Call;
        }
        self.for_each_probes(parent, |probes| *probes.running_of(last_call) = Some(now));
        Admission::Probe
    }

    /// Records how an admitted call ended. `random` (0 to 1) adds jitter to the next probe.
    pub fn record(
        &mut self,
        (parent, generation): (&ObjectKey, Option<i64>),
        admission: Admission,
        outcome: CallOutcome,
        now: Instant,
        random: f64,
    ) -> Option<QuarantineChange> {
        match outcome {
            CallOutcome::NotRun => {
                let last_call = self.last_call_of(parent);
                if admission == Admission::Probe {
                    self.for_each_probes(parent, |probes| *probes.running_of(last_call) = None);
                }
                None
            }
            CallOutcome::Returned => {
                self.note_namespace(parent);
                self.succeeded(parent);
                let was_in = self.is_active();
                self.all = Scope::default();
                was_in.then_some(QuarantineChange::Cleared)
            }
            CallOutcome::Broke => {
                self.note_namespace(parent);
                self.failed((parent, generation), now, random);
                if let Some(namespace) = &parent.namespace {
                    let scope = self.namespaces.entry(namespace.clone()).or_default();
                    scope.broke(parent, admission, true, now, random);
                }
                // If all parents are in one namespace, its failures count for the whole component.
                let may_enter = !self.has_several_namespaces || self.all.is_in_several_namespaces_with(parent);
                self.all.broke(parent, admission, may_enter, now, random).then_some(QuarantineChange::Entered)
            }
        }
    }

    fn last_call_of(&self, parent: &ObjectKey) -> LastCall {
        if self.failing.contains_key(parent) {
            LastCall::Failed
        } else if self.succeeded.contains(parent) {
            LastCall::Succeeded
        } else {
            LastCall::Never
        }
    }

    fn for_each_probes(&mut self, parent: &ObjectKey, mut act: impl FnMut(&mut Probes)) {
        let place = parent.namespace.as_ref().and_then(|namespace| self.namespaces.get_mut(namespace));
        for probes in [&mut self.all].into_iter().chain(place).filter_map(|scope| scope.probes.as_mut()) {
            act(probes);
        }
    }

    fn succeeded(&mut self, parent: &ObjectKey) {
        self.failing.remove(parent);
        if let Some(namespace) = &parent.namespace {
            self.namespaces.remove(namespace);
        }
        // Most parents are known already, so this avoids a clone.
        if !self.succeeded.contains(parent) && self.succeeded.len() < PARENTS_MAX {
            self.succeeded.insert(parent.clone());
        }
    }

    fn failed(&mut self, (parent, generation): (&ObjectKey, Option<i64>), now: Instant, random: f64) {
        self.succeeded.remove(parent);
        if self.failing.len() >= PARENTS_MAX && !self.failing.contains_key(parent) {
            return;
        }
        let first = Failing { failures: 0, last: now, generation, next: None };
        let own = self.failing.entry(parent.clone()).or_insert(first);
        let failures = own.failures.saturating_add(1);
        let next = failures.checked_sub(FAILURES).map(|failed| now + backoff(failed, random));
        *own = Failing { failures, last: now, generation, next };
    }

    /// Records that a parent of this namespace was called.
    fn note_namespace(&mut self, parent: &ObjectKey) {
        if let Some(namespace) = &parent.namespace {
            let first = self.first_namespace.get_or_insert_with(|| namespace.clone());
            self.has_several_namespaces |= first != namespace;
        }
    }

    /// Drops the state of a parent that no longer exists. A parent that is being deleted may still be called to
    /// finalize.
    pub fn forget(&mut self, parent: &ObjectKey) {
        self.succeeded.remove(parent);
        if self.failing.remove(parent).is_none() || self.failing.keys().any(|other| other.namespace == parent.namespace)
        {
            return;
        }
        if let Some(namespace) = &parent.namespace {
            self.namespaces.remove(namespace);
        }
    }

    /// Returns true if the whole component is in quarantine.
    pub fn is_active(&self) -> bool {
        self.all.probes.is_some()
    }
}

#[cfg(test)]
mod tests;
