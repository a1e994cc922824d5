//! The state of a live component: the deletions that it would cause, and its failures. A new component or config starts
//! with an empty state; a change of the Plugin's settings keeps it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::contended::Contended;
use crate::contract::CallFailure;
use crate::guard::deletions::{BlockedDeletions, DeletionGuard, Fleet, Rollout, RolloutRecord};
use crate::guard::quarantine::{Admission, CallOutcome, Quarantine, QuarantineChange};
use crate::object::Object;
use crate::value::clock::Clock;
use crate::value::digest::Digest;
use crate::value::ids::ObjectKey;

/// The state of a live component.
#[derive(Debug)]
pub struct ComponentState {
    /// Unique in this process.
    pub id: u64,
    /// The parents that wait for the name of a child.
    pub contended: Contended,
    clock: Clock,
    fleet: Mutex<Fleet>,
    quarantine: Mutex<Quarantine>,
    unreconciled: Unreconciled,
    /// Whether the component returned a status that is not written.
    gave_unwritten_status: AtomicBool,
    /// Set if this host has a share of the parents only; otherwise it has all of them.
    share: Option<Share>,
}

/// The share of a host in a Plugin's parents.
#[derive(Debug)]
pub struct Share {
    /// Hash of what the leader rolled out, as the Plugin's status has it.
    pub hash: String,
    /// Whether this host, if it leads, lets the members reconcile their shares.
    is_open: AtomicBool,
}

impl Share {
    /// Lets the members reconcile their shares, or no longer: the Plugin's status tells them.
    pub fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
    }

    /// Whether the leader lets the members reconcile their shares.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }
}

/// The parents that were not reconciled since the component went live.
#[derive(Debug, Default)]
struct Unreconciled {
    parents: Mutex<HashSet<ObjectKey>>,
    /// Number of these parents, so that steady state takes no lock.
    count: AtomicUsize,
}

impl Unreconciled {
    fn new(parents: impl IntoIterator<Item = ObjectKey>) -> Self {
        let parents: HashSet<_> = parents.into_iter().collect();
        let count = AtomicUsize::new(parents.len());
        Self { parents: Mutex::new(parents), count }
    }

    /// Removes the parents that no longer exist.
    fn retain(&self, exists: impl Fn(&ObjectKey) -> bool) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut parents = self.parents.lock();
        parents.retain(|parent| exists(parent));
        self.count.store(parents.len(), Ordering::Relaxed);
    }

    fn take(&self, parent: &ObjectKey) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut parents = self.parents.lock();
        let was_there = parents.remove(parent);
        self.count.store(parents.len(), Ordering::Relaxed);
        was_there && parents.is_empty()
    }
}

/// What is decided about the deletions of many parents, at one moment: reconciles go on while the Plugin's status is made.
#[derive(Debug)]
pub struct Decisions {
    /// The deletions that are blocked for many parents together, if any.
    pub blocked: Option<BlockedDeletions>,
    /// Hash of the deletions that are blocked for many parents together, or were blocked before and are not decided again
    /// yet.
    pub blocked_hash: Option<String>,
    /// The record of the component's rollout.
    pub rollout: RolloutRecord,
}

/// The objects to reconcile again after a decision about deletions.
#[derive(Debug, Default)]
#[must_use]
pub struct Consequences {
    /// Parents to reconcile again.
    pub parents: Vec<ObjectKey>,
    /// Whether to reconcile the Plugin, because its status changes, or the members may share its parents.
    pub plugin: bool,
}

/// What a component goes live with.
#[derive(Debug)]
pub struct Beginning {
    /// The thresholds of the Plugin.
    pub guard: DeletionGuard,
    /// Hash of everything that determines the children of a parent.
    pub decides_by: Digest,
    /// The parents that the watch shows.
    pub parents: Vec<ObjectKey>,
    /// Objects that have left the label selector and still have children.
    pub former: Vec<ObjectKey>,
    /// Number of children that these parents own.
    pub owned: usize,
}

impl ComponentState {
    /// The state of a component that goes live. `before` is the record of the previous rollout, and `was_blocked` the
    /// hash of [its blocked deletions](Decisions::blocked_hash).
    pub fn begin(clock: Clock, with: Beginning, before: Option<&RolloutRecord>, was_blocked: Option<&str>) -> Self {
        let Beginning { guard, decides_by, parents, former, owned } = with;
        let unreconciled = Unreconciled::new(parents.iter().cloned());
        let rollout = Rollout::begin(guard, decides_by, parents.into_iter().chain(former), owned, was_blocked);
        Self { unreconciled, ..Self::of(clock, rollout.after(before, clock.date())) }
    }

    /// The state on the leader that takes back the parents which the members shared: no deletion of many parents was
    /// undecided. Every parent is reconciled once before they are shared again.
    pub fn settled(clock: Clock, with: Beginning, rollout: &RolloutRecord) -> Self {
        let settled = Rollout::begin(with.guard, with.decides_by, [], 0, None).after(Some(rollout), clock.date());
        let unreconciled = Unreconciled::new(with.parents.into_iter().chain(with.former));
        Self { unreconciled, ..Self::of(clock, settled) }
    }

    /// The state on a host that has a share of the parents only. The leader has recorded this rollout.
    pub fn of_share(clock: Clock, guard: DeletionGuard, decides_by: Digest, rollout: RolloutRecord) -> Self {
        let share = Share { hash: rollout.hash.clone(), is_open: AtomicBool::new(false) };
        let fleet = Fleet::of_share(guard, decides_by, rollout);
        Self { fleet: Mutex::new(fleet), share: Some(share), ..Self::none(clock) }
    }

    /// The share of this host; none if this host has all parents.
    pub fn share(&self) -> Option<&Share> {
        self.share.as_ref()
    }

    /// Whether every parent was reconciled, and no decision about deletions of many parents is open.
    pub fn is_settled(&self) -> bool {
        self.unreconciled() == 0 && !self.is_quarantined() && self.fleet.lock().is_settled()
    }

    /// A placeholder until the component's state is known.
    pub fn none(clock: Clock) -> Self {
        Self::of(clock, Rollout::begin(DeletionGuard::default(), Digest::of(b""), [], 0, None))
    }

    fn of(clock: Clock, rollout: Rollout) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            id: LAST.fetch_add(1, Ordering::Relaxed),
            contended: Contended::default(),
            clock,
            fleet: Mutex::new(Fleet::new(rollout)),
            quarantine: Mutex::default(),
            unreconciled: Unreconciled::default(),
            gave_unwritten_status: AtomicBool::new(false),
            share: None,
        }
    }

    /// Records that a parent's reconcile ended without a plan.
    pub fn unplanned(&self, parent: &ObjectKey) -> Consequences {
        self.with_fleet(|fleet| fleet.unplanned(parent)).1
    }

    /// Forgets the deletions of a parent that is gone or being deleted.
    pub fn forget_deletions(&self, parent: &ObjectKey) -> Consequences {
        self.with_fleet(|fleet| fleet.forget(parent)).1
    }

    /// Applies the Plugin's annotation that releases blocked deletions.
    pub fn allow(&self, annotation: Option<&str>) -> Consequences {
        self.with_fleet(|fleet| fleet.allow(annotation)).1
    }

    /// Applies a changed `deletionGuard`. The caller must queue all parents.
    pub fn adjust(&self, guard: DeletionGuard) {
        drop(self.with_fleet(|fleet| fleet.adjust(guard)));
    }

    /// Changes what is decided about deletions.
    pub(in crate::reconcile) fn with_fleet<T>(&self, change: impl FnOnce(&mut Fleet) -> T) -> (T, Consequences) {
        let mut fleet = self.fleet.lock();
        // The facts of the Plugin's status that a decision can change.
        let reported = |fleet: &Fleet| {
            let rollout = fleet.rollout();
            (
                fleet.blocked().map(|blocked| blocked.hash.clone()),
                rollout.blocked_hash().map(str::to_owned),
                rollout.is_complete(),
                fleet.is_settled(),
            )
        };
        let before = reported(&fleet);
        let result = change(&mut fleet);
        let plugin = before != reported(&fleet);
        (result, Consequences { parents: fleet.take_to_queue(), plugin })
    }

    /// What is decided about the deletions of many parents.
    pub fn decisions(&self) -> Decisions {
        let fleet = self.fleet.lock();
        Decisions {
            blocked: fleet.blocked().cloned(),
            blocked_hash: fleet.rollout().blocked_hash().map(str::to_owned),
            rollout: fleet.record(),
        }
    }

    /// The record of the component's rollout.
    pub fn record_of_rollout(&self) -> RolloutRecord {
        self.fleet.lock().record()
    }

    /// Parents that no longer exist, but for which the deletions of other parents wait.
    pub fn awaited_in_vain(&self, exists: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectKey> {
        self.fleet.lock().rollout().untried().filter(|parent| !exists(parent)).cloned().collect()
    }

    /// Records that a parent was reconciled. Returns whether it was the last one since the component went live.
    pub fn note_reconciled(&self, parent: &ObjectKey) -> bool {
        self.unreconciled.take(parent)
    }

    /// Forgets the parents that no longer exist: the Plugin's status does not wait for them.
    pub fn forget_unreconciled(&self, exists: impl Fn(&ObjectKey) -> bool) {
        self.unreconciled.retain(exists);
    }

    /// Number of parents that were not reconciled since the component went live.
    pub fn unreconciled(&self) -> usize {
        self.unreconciled.count.load(Ordering::Relaxed)
    }

    /// Records a response whose status is not written. Returns whether it is the first one.
    pub fn note_unwritten_status(&self) -> bool {
        // Loaded before it is stored: the flag is set once, and each reconcile of such a component comes here.
        !self.gave_unwritten_status.load(Ordering::Relaxed) && !self.gave_unwritten_status.swap(true, Ordering::Relaxed)
    }

    /// Whether the component returned a status that is not written.
    pub fn gave_unwritten_status(&self) -> bool {
        self.gave_unwritten_status.load(Ordering::Relaxed)
    }

    /// Whether a call may be made for a parent now.
    pub fn admit(&self, parent: &Object) -> Admission {
        self.quarantine.lock().admit(&parent.key, parent.generation, self.clock.now())
    }

    /// Records the result of an admitted call. Returns the change if the component enters or leaves quarantine.
    pub fn note_call<T>(
        &self,
        parent: &Object,
        admission: Admission,
        call: &Result<T, CallFailure>,
    ) -> Option<QuarantineChange> {
        let parent = (&parent.key, parent.generation);
        self.quarantine.lock().record(parent, admission, CallOutcome::of(call), self.clock.now(), self.clock.random())
    }

    /// Forgets a parent that is gone: its deletions, and its failures in quarantine.
    pub fn forget(&self, parent: &ObjectKey) -> Consequences {
        self.quarantine.lock().forget(parent);
        self.forget_deletions(parent)
    }

    /// Whether the component is in quarantine: it failed so often, for parents of several namespaces, that it is rarely
    /// called.
    pub fn is_quarantined(&self) -> bool {
        self.quarantine.lock().is_active()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fixtures::CLOCK;
    use crate::guard::deletions::{Cause, Leavers};
    use crate::object::child::{ChildId, Delete};
    use crate::value::ids::{Gvk, Uid};

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Some("n"), name)
    }

    /// The state of a component with these parents, which own a hundred children together.
    fn component(parents: &[&str], was_blocked: Option<&str>) -> ComponentState {
        let parents = parents.iter().map(|name| key(name));
        let rollout = Rollout::begin(DeletionGuard::default(), Digest::of(b"component"), parents, 100, was_blocked);
        ComponentState::of(CLOCK, rollout)
    }

    fn evaluate(component: &ComponentState, parent: &str, child: &str) -> Consequences {
        let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
        let prunes =
            [Delete { child: ChildId { kind, key: key(child) }, uid: Uid::from(child), resource_version: 1, stage: 0 }];
        let unasked = (false, Cause::Unchanged);
        component
            .with_fleet(|fleet| {
                fleet.evaluated(DeletionGuard::default(), &key(parent), &prunes, unasked, false, Leavers::default)
            })
            .1
    }

    #[test]
    fn last_parent_to_be_reconciled_with_a_new_component_is_reported_once() {
        let parents = ["a", "b", "gone"].map(key);
        let component = ComponentState { unreconciled: Unreconciled::new(parents), ..component(&[], None) };
        assert_eq!(component.unreconciled(), 3);
        assert!(
            !component.note_reconciled(&key("a"))
                && !component.note_reconciled(&key("a"))
                && !component.note_reconciled(&key("new"))
        );
        component.forget_unreconciled(|parent| *parent != key("gone"));
        assert_eq!(component.unreconciled(), 1);
        assert!(component.note_reconciled(&key("b")) && component.unreconciled() == 0);
        assert!(!component.note_reconciled(&key("b")), "reported before");
    }

    #[test]
    fn r19_parent_that_is_being_deleted_keeps_its_failures_until_it_is_gone() {
        let component = component(&["bad"], None);
        let kind = Arc::new(Gvk::from_api_version("v1", "Echo"));
        let bad = r#"{"metadata":{"name":"bad","namespace":"n","uid":"1","resourceVersion":"1","generation":1}}"#;
        let bad = Object::from_api(&kind, bad).expect("an object");
        for _ in 0..5 {
            assert_eq!(component.admit(&bad), Admission::Call);
            component.note_call(&bad, Admission::Call, &Err::<(), _>(CallFailure::StackOverflow));
        }
        drop(component.forget_deletions(&bad.key));
        assert!(matches!(component.admit(&bad), Admission::Denied(_)));
        drop(component.forget(&bad.key));
        assert_eq!(component.admit(&bad), Admission::Call, "a new parent of the same name");
    }

    #[test]
    fn r09_plugin_is_reconciled_whenever_the_hash_of_blocked_deletions_changes() {
        let component = component(&["a", "b"], Some("before"));
        drop(component.unplanned(&key("b")));
        assert!(evaluate(&component, "a", "a-0").plugin, "deletions are blocked");
        assert!(!evaluate(&component, "a", "a-0").plugin, "the hash is the same");
        assert!(evaluate(&component, "a", "a-1").plugin, "other deletions have another hash");
        let hash = || component.decisions().blocked_hash;
        let name = hash();
        assert!(evaluate(&component, "b", "b-0").plugin && hash() != name);
        assert!(component.allow(hash().as_deref()).plugin);
    }

    #[test]
    fn r09_decisions_are_those_of_one_moment_while_parents_are_reconciled() {
        let guard = DeletionGuard { max_percent: 0, min_children: 1 };
        for _ in 0..500 {
            let component =
                ComponentState::of(CLOCK, Rollout::begin(guard, Digest::of(b"component"), [key("a")], 1, None));
            std::thread::scope(|scope| {
                scope.spawn(|| evaluate(&component, "a", "a-0"));
                loop {
                    let Decisions { blocked, blocked_hash, .. } = component.decisions();
                    assert_eq!(blocked.as_ref().map(|blocked| &blocked.hash), blocked_hash.as_ref());
                    if blocked.is_some() {
                        break;
                    }
                }
            });
        }
    }

    #[test]
    fn r09_rollout_stops_waiting_for_a_parent_deleted_before_the_component_went_live() {
        let component = component(&["gone", "there", "failed"], None);
        drop(component.unplanned(&key("failed")));
        let deleted = || component.awaited_in_vain(|parent| *parent == key("there"));
        assert_eq!(deleted(), [key("gone")], "a parent whose call failed does not delay the rollout");
        drop(component.forget_deletions(&key("gone")));
        assert!(deleted().is_empty());
    }
}
