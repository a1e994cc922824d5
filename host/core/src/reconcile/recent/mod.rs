//! The last calls of each parent, within a memory budget for all parents: the oldest call of the plugin that uses most memory is dropped
//! first, so that a plugin with many or large calls displaces its own.
//!
//! The objects of a call are shared with the caches, so a call costs little while its objects are current. The budget counts them
//! all the same, because they stay in memory after they have changed.

mod kept;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::contract::snapshot::Snapshot;
use crate::contract::{Limits, Phase};
use crate::object::Object;
use crate::object::child::ChildId;
use crate::object::parent::ParentRef;
use crate::reconcile::events::Changes;
use crate::reconcile::outcome::{Progress, Requeue, WriteProblem};
use crate::reconcile::world::Ended;
use crate::value::digest::Digest;
use crate::value::ids::{ObjectKey, PluginName};
use crate::value::memory::{self, allocated};

pub use kept::KeptResult;

/// Maximum number of reconciles of one parent that are kept. The oldest that changed nothing is dropped first.
pub const OF_PARENT: usize = 5;
/// Memory for the place of a reconcile in the store, in bytes: in the list of its parent, and in the order of its plugin.
const PLACE: usize = 128;
/// Memory for the place of a parent in the store, in bytes, with room for the lists to grow.
const PLACE_OF_PARENT: usize = 256;
/// A call that takes more than a quarter (1/`SHARE`) of the budget is not kept: it would drop the calls of many other parents.
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
    /// When the parent is reconciled again, if nothing changes; none if the reconcile goes on at once. It is no part of the decision: it
    /// differs each time.
    pub next: Option<Requeue>,
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
    pub contract: Arc<str>,
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
    /// Whether that is a failure which the parent's status, or the Plugin's, reports.
    pub is_failure: bool,
    /// The changes of children.
    pub changes: Changes,
    /// The writes of children that failed.
    pub failed: Vec<(ChildId, WriteProblem)>,
    /// What happened to the parent's status.
    pub status: StatusResult,
}

/// What a reconcile did with the parent's status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum StatusResult {
    /// The status did not have to change, or is left as it is.
    #[default]
    Unchanged,
    /// It was written.
    Written,
    /// The write failed.
    Failed,
}

impl From<&Ended<'_>> for Decision {
    fn from(ended: &Ended<'_>) -> Self {
        Self {
            outcome: ended.outcome,
            progress: ended.progress,
            message: ended.message.to_owned(),
            is_failure: ended.failure.is_some(),
            changes: ended.applied.map(|applied| applied.changes.clone()).unwrap_or_default(),
            failed: ended.applied.map(|applied| applied.problems.clone()).unwrap_or_default(),
            status: ended.status,
        }
    }
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
        let Decision { progress, message, changes, failed, .. } = &self.decision;
        let is_applied = match progress {
            Some(progress) => progress.is_applied(),
            // A failure that the conditions do not report has a message.
            None => message.is_empty(),
        };
        !(is_applied && changes.is_empty() && failed.is_empty())
    }

    /// Memory that only this reconcile occupies, in bytes.
    fn own_size(&self) -> usize {
        let Decision { message, changes, failed, .. } = &self.decision;
        let changed = changes.kinds().into_iter().map(|(_, _, children)| {
            allocated(size_of_val(children)) + children.iter().map(size_of_child).sum::<usize>()
        });
        // These share their names with the created children.
        let expiring = allocated(size_of_val::<[_]>(&changes.expiring));
        let of_failed = failed.iter().map(|(child, problem)| size_of_child(child) + size_of_problem(problem));
        let decision = allocated(message.len())
            + changed.sum::<usize>()
            + expiring
            + allocated(size_of_val::<[_]>(failed))
            + of_failed.sum::<usize>();
        let trace = self.trace.as_ref().map_or(0, |trace| allocated(trace.len()));
        let texts = memory::shared(self.plural.len()) + trace;
        let of_call =
            |call: &Call| allocated(call.snapshot.objects().count() * size_of::<Arc<Object>>()) + call.result.size();
        memory::shared(size_of::<Self>()) + PLACE + decision + texts + self.call.as_ref().map_or(0, of_call)
    }

    /// The objects and the config of the call, which other calls may have in common with this one: the address and the size of each,
    /// in bytes.
    fn shared(&self) -> impl Iterator<Item = (usize, usize)> {
        self.call.iter().flat_map(|Call { snapshot, .. }| {
            let objects = snapshot.objects();
            let objects = objects.map(|object| (Arc::as_ptr(object).addr(), object.size()));
            let config = snapshot.config.iter().map(|config| (config.as_ptr().addr(), memory::shared(config.len())));
            objects.chain(config)
        })
    }
}

fn size_of_child(child: &ChildId) -> usize {
    let ObjectKey { namespace, name } = &child.key;
    namespace.as_deref().map_or(0, |namespace| memory::shared(namespace.len())) + memory::shared(name.len())
}

fn size_of_problem(problem: &WriteProblem) -> usize {
    match problem {
        WriteProblem::FieldConflict(conflicts) => {
            conflicts.iter().map(|conflict| size_of::<String>() + allocated(conflict.len())).sum::<usize>()
        }
        WriteProblem::Rejected { message, .. } | WriteProblem::Unavailable { message, .. } => allocated(message.len()),
        WriteProblem::Taken(owner) => owner.as_deref().map_or(0, |owner| allocated(owner.len())),
        WriteProblem::CacheBehind | WriteProblem::NamespaceTerminating | WriteProblem::Outdated => 0,
    }
}

/// Memory of what calls share: what several of them have in common counts once.
fn size_of_shared(parts: impl Iterator<Item = (usize, usize)>) -> usize {
    let mut parts: Vec<_> = parts.collect();
    parts.sort_unstable();
    parts.dedup();
    parts.into_iter().map(|(_, size)| size).sum()
}

/// A reconcile that was measured. This takes time, so it happens before other threads have to wait for the store.
#[derive(Debug)]
pub struct Measured {
    reconciled: Reconciled,
    own_size: usize,
}

impl Measured {
    /// Measures a reconcile for a store with this budget. Its call is omitted if it takes too much of the budget.
    pub fn new(mut reconciled: Reconciled, budget: usize) -> Self {
        let mut own_size = reconciled.own_size();
        let size = own_size + size_of_shared(reconciled.shared());
        if size > budget / SHARE && reconciled.call.take().is_some() {
            reconciled.is_call_omitted = true;
            own_size = reconciled.own_size();
        }
        Self { reconciled, own_size }
    }
}

/// The last reconciles of all parents.
#[derive(Debug, Default)]
pub struct RecentCalls {
    /// Maximum memory, in bytes.
    budget: usize,
    used: usize,
    /// The number of the newest reconcile.
    number: u64,
    plugins: HashMap<PluginName, OfPlugin>,
}

/// The last reconciles of the parents of one plugin.
#[derive(Debug, Default)]
struct OfPlugin {
    used: usize,
    parents: HashMap<ObjectKey, OfParent>,
    /// The parents by the numbers of their reconciles.
    order: BTreeMap<u64, ObjectKey>,
}

#[derive(Debug, Default)]
struct OfParent {
    /// The oldest first.
    kept: VecDeque<Kept>,
    size: usize,
}

#[derive(Debug)]
struct Kept {
    reconciled: Arc<Reconciled>,
    own_size: usize,
}

impl OfParent {
    /// Recomputes the size: an object that several calls have in common counts once. Returns the size before.
    fn measure(&mut self) -> usize {
        let own_size: usize = self.kept.iter().map(|one| one.own_size).sum();
        let place = if self.kept.is_empty() { 0 } else { PLACE_OF_PARENT };
        let size = place + own_size + size_of_shared(self.kept.iter().flat_map(|one| one.reconciled.shared()));
        std::mem::replace(&mut self.size, size)
    }
}

impl OfPlugin {
    /// Drops the oldest reconcile.
    fn drop_oldest(&mut self) -> Option<Arc<Reconciled>> {
        let (_, key) = self.order.pop_first()?;
        let of_parent = self.parents.get_mut(&key)?;
        let dropped = of_parent.kept.pop_front()?;
        let before = of_parent.measure();
        self.used = self.used + of_parent.size - before;
        if of_parent.kept.is_empty() {
            self.parents.remove(&key);
        }
        Some(dropped.reconciled)
    }
}

impl RecentCalls {
    /// Creates an empty store with this budget in bytes; 0 keeps nothing.
    pub fn new(budget: usize) -> Self {
        Self { budget, ..Self::default() }
    }

    /// Adds a reconcile, and drops the oldest ones if they do not fit into the budget any more. Returns those that were dropped:
    /// to free the memory of large calls takes time, and other threads need not wait for it.
    pub fn add(&mut self, Measured { mut reconciled, own_size }: Measured) -> Vec<Arc<Reconciled>> {
        let mut dropped = Vec::new();
        self.number += 1;
        reconciled.number = self.number;
        let key = reconciled.parent.key.clone();
        let of_plugin = self.plugins.entry(reconciled.parent.plugin.clone()).or_default();
        let of_parent = of_plugin.parents.entry(key.clone()).or_default();
        if let Some(last) = of_parent.kept.pop_back_if(|last| reconciled.repeats(&last.reconciled)) {
            reconciled.repeated = last.reconciled.repeated.saturating_add(1);
            of_plugin.order.remove(&last.reconciled.number);
            dropped.push(last.reconciled);
        }
        while of_parent.kept.len() >= OF_PARENT {
            // After a child is created, events of the child make calls that change nothing; the call that created it explains more.
            let before_last = of_parent.kept.iter().rev().skip(1).rev();
            let at =
                before_last.map(|one| one.reconciled.changed_something()).position(|changed| !changed).unwrap_or(0);
            if let Some(Kept { reconciled, .. }) = of_parent.kept.remove(at) {
                of_plugin.order.remove(&reconciled.number);
                dropped.push(reconciled);
            }
        }
        of_parent.kept.push_back(Kept { reconciled: Arc::new(reconciled), own_size });
        of_plugin.order.insert(self.number, key);
        let before = of_parent.measure();
        let added = of_parent.size;
        of_plugin.used = of_plugin.used + added - before;
        self.used = self.used + added - before;
        while self.used > self.budget {
            let largest = self.plugins.iter_mut().max_by_key(|(_, of_plugin)| of_plugin.used);
            let Some((name, of_plugin)) = largest else { break };
            let before = of_plugin.used;
            let Some(oldest) = of_plugin.drop_oldest() else { break };
            self.used = self.used + of_plugin.used - before;
            dropped.push(oldest);
            if of_plugin.parents.is_empty() {
                let name = name.clone();
                self.plugins.remove(&name);
            }
        }
        dropped
    }

    /// The number of the newest reconcile; 0 if there was none.
    pub fn newest(&self) -> u64 {
        self.number
    }

    /// The kept reconciles after this number that match, the oldest first.
    pub fn after(&self, number: u64, matches: impl Fn(&Reconciled) -> bool) -> Vec<Arc<Reconciled>> {
        let kept = self.plugins.values().flat_map(|of_plugin| {
            let later = of_plugin.order.range(number.saturating_add(1)..);
            later.filter_map(|(number, key)| {
                let mut kept = of_plugin.parents.get(key)?.kept.iter().map(|one| &one.reconciled);
                kept.find(|one| one.number == *number).cloned()
            })
        });
        let mut kept: Vec<_> = kept.filter(|one| matches(one)).collect();
        kept.sort_unstable_by_key(|one| one.number);
        kept
    }
}

#[cfg(test)]
mod tests;
