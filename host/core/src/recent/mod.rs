//! The last calls of each parent, within a memory budget for all parents: the oldest call is dropped first.
//!
//! The objects of a call are shared with the caches, so a call costs little while its objects are current. The budget counts them
//! all the same, because they stay in memory after they have changed.

mod kept;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::contract::{Limits, Phase};
use crate::digest::Digest;
use crate::events::Changes;
use crate::ids::{ObjectKey, PluginName};
use crate::object::Object;
use crate::outcome::{Progress, Requeue, WriteProblem};
use crate::parent::ParentRef;
use crate::plan::ChildId;
use crate::snapshot::Snapshot;

pub use kept::KeptResult;

/// Maximum number of reconciles of one parent that are kept. The oldest that changed nothing is dropped first.
pub const OF_PARENT: usize = 5;
/// A call that takes more than this share of the budget is not kept: it would drop the calls of many other parents.
const SHARE: usize = 4;

/// One reconcile of a parent: its call, and what the host did.
#[derive(Debug, Clone)]
pub struct Reconciled {
    /// Number in the order of the ends; set by [`RecentCalls::add`].
    pub number: u64,
    /// The parent.
    pub parent: ParentRef,
    /// The resource name of the parent's kind, in the plural.
    pub plural: Arc<str>,
    /// When the reconcile began.
    pub at: Timestamp,
    /// Why it began.
    pub trigger: &'static str,
    /// How long it took.
    pub duration: Duration,
    /// The trace of the reconcile, if it is exported.
    pub trace: Option<String>,
    /// The call; none if the plugin was not called.
    pub call: Option<Call>,
    /// Whether there was a call that needs too much memory to be kept.
    pub is_call_omitted: bool,
    /// What the host did.
    pub decision: Decision,
    /// Number of equal reconciles directly before this one, which are not kept.
    pub repeated: u32,
}

/// One call of a plugin.
#[derive(Debug, Clone)]
pub struct Call {
    /// The objects of the request.
    pub snapshot: Snapshot,
    /// The purpose of the call.
    pub phase: Phase,
    /// Hash of the call's inputs.
    pub hash: Digest,
    /// Digest of the component.
    pub component: Digest,
    /// Version of the contract that the component implements.
    pub contract: String,
    /// The wall clock's time at the start of the call.
    pub now: Timestamp,
    /// Limits of the call.
    pub limits: Limits,
    /// What the call returned.
    pub result: KeptResult,
    /// Time inside the guest and its host calls, in microseconds.
    pub guest_time_us: u64,
    /// Peak size of the guest's linear memories, in bytes.
    pub memory_peak: u64,
    /// Whether the guest read the wall clock.
    pub is_impure: bool,
}

/// What the host did in one reconcile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// The reason of the parent's condition, or a word for a reconcile that changes no condition.
    pub outcome: &'static str,
    /// How far the parent has come; none if the conditions stay.
    pub progress: Option<Progress>,
    /// What happened and what to do, as in the parent's condition.
    pub message: String,
    /// The changes of children.
    pub changes: Changes,
    /// The writes of children that failed.
    pub failed: Vec<(ChildId, WriteProblem)>,
    /// What happened to the parent's status.
    pub status: StatusResult,
    /// When the parent is reconciled again, if nothing changes; none if the reconcile goes on at once.
    pub next: Option<Requeue>,
}

/// What a reconcile did with the parent's status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StatusResult {
    /// The status did not have to change, or is left as it is.
    #[default]
    Unchanged,
    /// It was written.
    Written,
    /// The write failed.
    Failed,
}

impl Reconciled {
    /// Whether this one repeats an earlier one: the same inputs gave the same result.
    fn repeats(&self, before: &Self) -> bool {
        let is_same_call = match (&self.call, &before.call) {
            (Some(call), Some(before)) => call.hash == before.hash && call.result == before.result,
            (None, None) => self.is_call_omitted == before.is_call_omitted,
            _ => false,
        };
        is_same_call && self.decision == before.decision
    }

    /// Whether the host changed children, or did not bring the parent to its desired state.
    fn changed_something(&self) -> bool {
        let Decision { progress, changes, failed, .. } = &self.decision;
        let is_applied = progress.is_none_or(|progress| progress == Progress::Applied);
        !(is_applied && changes.is_empty() && failed.is_empty())
    }

    fn size(&self, seen: &mut HashSet<*const Object>) -> usize {
        let Decision { message, changes, failed, .. } = &self.decision;
        let changed: usize = changes.kinds().iter().map(|(_, _, children)| children.len()).sum();
        let decision = message.len() + changed * size_of::<ChildId>() + failed.len() * 512;
        size_of::<Self>() + decision + self.call.as_ref().map_or(0, |call| call.size(seen))
    }
}

impl Call {
    /// Memory that the call occupies, in bytes, without the objects in `seen`, to which it adds its own.
    fn size(&self, seen: &mut HashSet<*const Object>) -> usize {
        let objects = self.snapshot.objects().map(|object| {
            let own = if seen.insert(Arc::as_ptr(object)) { size_of::<Object>() + object.json.size() } else { 0 };
            own + size_of::<Arc<Object>>()
        });
        objects.sum::<usize>() + self.result.size()
    }
}

/// The key of a parent.
type Key = (PluginName, ObjectKey);

/// The last reconciles of all parents.
#[derive(Debug, Default)]
pub struct RecentCalls {
    /// Maximum memory, in bytes.
    budget: usize,
    used: usize,
    /// The number of the newest reconcile.
    number: u64,
    parents: HashMap<Key, OfParent>,
    /// The parents by the numbers of their reconciles.
    order: BTreeMap<u64, Key>,
}

#[derive(Debug, Default)]
struct OfParent {
    /// The oldest first.
    reconciled: VecDeque<Arc<Reconciled>>,
    size: usize,
}

impl OfParent {
    /// Recomputes the size: an object that several calls have in common counts once.
    fn measure(&mut self) {
        let mut seen = HashSet::new();
        self.size = self.reconciled.iter().map(|one| one.size(&mut seen)).sum();
    }
}

impl RecentCalls {
    /// Creates an empty store with this budget in bytes; 0 keeps nothing.
    pub fn new(budget: usize) -> Self {
        Self { budget, ..Self::default() }
    }

    /// Adds a reconcile, and drops the oldest ones if they do not fit into the budget any more.
    pub fn add(&mut self, mut reconciled: Reconciled) {
        self.number += 1;
        reconciled.number = self.number;
        if reconciled.size(&mut HashSet::new()) > self.budget / SHARE {
            reconciled.is_call_omitted |= reconciled.call.take().is_some();
        }
        let key = (reconciled.parent.plugin.clone(), reconciled.parent.key.clone());
        let of_parent = self.parents.entry(key.clone()).or_default();
        if let Some(last) = of_parent.reconciled.pop_back_if(|last| reconciled.repeats(last)) {
            reconciled.repeated = last.repeated.saturating_add(1);
            self.order.remove(&last.number);
        }
        while of_parent.reconciled.len() >= OF_PARENT {
            // After a child is created, events of the child make calls that change nothing; the call that created it explains more.
            let before_last = of_parent.reconciled.iter().rev().skip(1).rev();
            let at = before_last.map(|one| one.changed_something()).position(|changed| !changed).unwrap_or(0);
            if let Some(dropped) = of_parent.reconciled.remove(at) {
                self.order.remove(&dropped.number);
            }
        }
        of_parent.reconciled.push_back(Arc::new(reconciled));
        self.order.insert(self.number, key);
        let before = of_parent.size;
        of_parent.measure();
        self.used = self.used + of_parent.size - before;
        while self.used > self.budget {
            let Some((_, key)) = self.order.pop_first() else { return };
            self.drop_oldest(&key);
        }
    }

    /// Drops the oldest reconcile of a parent.
    fn drop_oldest(&mut self, key: &Key) {
        let Some(of_parent) = self.parents.get_mut(key) else { return };
        of_parent.reconciled.pop_front();
        let before = of_parent.size;
        of_parent.measure();
        self.used = self.used + of_parent.size - before;
        if of_parent.reconciled.is_empty() {
            self.parents.remove(key);
        }
    }

    /// The number of the newest reconcile; 0 if there was none.
    pub fn newest(&self) -> u64 {
        self.number
    }

    /// The kept reconciles after this number that match, the oldest first.
    pub fn after(&self, number: u64, matches: impl Fn(&Reconciled) -> bool) -> Vec<Arc<Reconciled>> {
        let later = self.order.range(number.saturating_add(1)..);
        let kept = later.filter_map(|(number, key)| {
            self.parents.get(key)?.reconciled.iter().find(|one| one.number == *number).cloned()
        });
        kept.filter(|one| matches(one)).collect()
    }
}

#[cfg(test)]
mod tests;
