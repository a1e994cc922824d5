//! The state of a live component: the deletions that it would cause, and its failures. A new component or config starts
//! with an empty state; a change of the Plugin's settings keeps it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use windlass_core::contract::CallFailure;
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::guard::bucket::{Bucket, Rate};
use windlass_core::guard::deletions::{
    self, BlockedDeletions, Cause, DeletionGuard, Deletions, Fleet, Leavers, ParentDeletions, Rollout, RolloutRecord,
    Verdict,
};
use windlass_core::guard::quarantine::{Admission, CallOutcome, Quarantine, QuarantineChange};
use windlass_core::object::Object;
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::ObjectKey;

use super::Live;
use super::contended::Contended;
use crate::clock;

/// Largest rate of a component's log lines, in bytes: enough for a rollout over a thousand parents, and a bound for a
/// component that logs in each call. All plugins share the host's log.
const LOG: Rate = Rate { burst: 1024.0 * 1024.0, per_second: 64.0 * 1024.0 };
/// Added to each line's bytes: the fields that the host's log adds.
const LOG_OVERHEAD: usize = 128;

/// The state of a live component.
#[derive(Debug)]
pub struct ComponentState {
    /// Unique in this process.
    pub id: u64,
    /// The parents that wait for the name of a child.
    pub contended: Contended,
    fleet: Mutex<Fleet>,
    quarantine: Mutex<Quarantine>,
    log: Mutex<Bucket>,
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
pub struct Consequences {
    /// Parents to reconcile again.
    pub parents: Vec<ObjectKey>,
    /// Whether to reconcile the Plugin, because its status changes, or the members may share its parents.
    pub plugin: bool,
}

impl ComponentState {
    /// The state of a component that goes live. `before` is the record of the previous rollout, and `was_blocked` the
    /// hash of [its blocked deletions](Decisions::blocked_hash).
    pub fn begin(live: &Live, before: Option<&RolloutRecord>, was_blocked: Option<&str>) -> Self {
        // Retained children have no controller and are never deleted. Children of parents that are gone are deleted by
        // the garbage collector; if they counted, the other deletions would be a smaller share.
        let mut uids = live.caches.parents.store.pick(|parent| Some(parent.uid.clone()));
        let (left, of_left): (Vec<_>, Vec<_>) = live.shared.unselected.all().into_iter().unzip();
        uids.extend(of_left);
        // Parents of a custom kind have no other plugin, so this one re-adopts all their children.
        let owns_kind = live.terms.owns_kind;
        let is_ours = |child: &Object| {
            (owns_kind || child.plugin() == Some(live.terms.name.as_str())) && live.terms.has_mark(child)
        };
        // Counted by parent, because each of a hundred plugins may have few of the objects of a kind.
        let owned = live.caches.children.values().map(|watch| watch.store.count_controlled(&uids, is_ours)).sum();
        let shown = live.caches.parents.store.keys();
        let unreconciled = Unreconciled::new(shown.iter().cloned());
        let all = shown.into_iter().chain(left);
        let rollout = Rollout::begin(live.terms.guard, live.decides_by(), all, owned, was_blocked);
        Self { unreconciled, ..Self::of(rollout.after(before, clock::date())) }
    }

    /// The state on the leader that takes back the parents which the members shared: no deletion of many parents was
    /// undecided. Every parent is reconciled once before they are shared again.
    pub fn settled(live: &Live, rollout: &RolloutRecord) -> Self {
        let settled =
            Rollout::begin(live.terms.guard, live.decides_by(), [], 0, None).after(Some(rollout), clock::date());
        let left = live.shared.unselected.all().into_iter().map(|(parent, _)| parent);
        Self {
            unreconciled: Unreconciled::new(live.caches.parents.store.keys().into_iter().chain(left)),
            ..Self::of(settled)
        }
    }

    /// The state on a host that has a share of the parents only. The leader has recorded this rollout.
    pub fn of_share(live: &Live, rollout: RolloutRecord) -> Self {
        let share = Share { hash: rollout.hash.clone(), is_open: AtomicBool::new(false) };
        let fleet = Fleet::of_share(live.terms.guard, live.decides_by(), rollout);
        Self { fleet: Mutex::new(fleet), share: Some(share), ..Self::none() }
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
    pub fn none() -> Self {
        Self::of(Rollout::begin(DeletionGuard::default(), Digest::of(b""), [], 0, None))
    }

    fn of(rollout: Rollout) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed);
        let log = Mutex::new(Bucket::new(LOG, clock::date()));
        let unreconciled = Unreconciled::default();
        let gave_unwritten_status = AtomicBool::new(false);
        let fleet = Mutex::new(Fleet::new(rollout));
        Self {
            id,
            contended: Contended::default(),
            fleet,
            quarantine: Mutex::default(),
            log,
            unreconciled,
            gave_unwritten_status,
            share: None,
        }
    }

    /// Says whether the deletions of a parent's plan may be carried out now.
    pub fn judge(
        &self,
        (own, guard): (&mut ParentDeletions, DeletionGuard),
        snapshot: &Snapshot,
        cause: impl FnOnce() -> Cause,
        leavers: impl FnOnce() -> Leavers,
        deletions: &Deletions<'_>,
    ) -> (Option<Verdict>, Consequences) {
        self.with_fleet(|fleet| deletions::judge(fleet, (own, guard), snapshot, cause, leavers, deletions))
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
        self.with_fleet(|fleet| fleet.adjust(guard));
    }

    fn with_fleet<T>(&self, change: impl FnOnce(&mut Fleet) -> T) -> (T, Consequences) {
        let mut fleet = self.fleet.lock();
        // The facts of the Plugin's status that a decision can change.
        let reported = |fleet: &Fleet| {
            let rollout = fleet.rollout();
            (
                fleet.blocked().map(|blocked| blocked.hash.clone()),
                fleet.blocked_hash().map(str::to_owned),
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
            blocked_hash: fleet.blocked_hash().map(str::to_owned),
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
        self.quarantine.lock().admit(&parent.key, parent.generation, clock::now())
    }

    /// Records the result of an admitted call. Returns the change if the component enters or leaves quarantine.
    pub fn note_call<T>(
        &self,
        parent: &Object,
        admission: Admission,
        call: &Result<T, CallFailure>,
    ) -> Option<QuarantineChange> {
        let parent = (&parent.key, parent.generation);
        self.quarantine.lock().record(parent, admission, CallOutcome::of(call), clock::now(), fastrand::f64())
    }

    /// Whether a line, span attribute or span event of `length` bytes may be logged or exported. One that may not is counted.
    pub fn may_log(&self, length: usize) -> bool {
        let bytes = u32::try_from(length.saturating_add(LOG_OVERHEAD)).map_or(f64::INFINITY, f64::from);
        self.log.lock().take(bytes, 0.0, clock::date())
    }

    /// Number of log lines that were dropped since the last report, by the limit of a call (`by_call` of them in this
    /// call) or by the rate. None if there are none, or if the last report is less than a minute old.
    pub fn unlogged(&self, by_call: u64) -> Option<u64> {
        let mut log = self.log.lock();
        log.add_dropped(by_call);
        log.take_dropped(clock::date())
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

    use windlass_core::object::child::{ChildId, Delete};
    use windlass_core::value::ids::{Gvk, Uid};

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Some("n"), name)
    }

    /// The state of a component with these parents, which own a hundred children together.
    fn component(parents: &[&str], was_blocked: Option<&str>) -> ComponentState {
        let parents = parents.iter().map(|name| key(name));
        let rollout = Rollout::begin(DeletionGuard::default(), Digest::of(b"component"), parents, 100, was_blocked);
        ComponentState::of(rollout)
    }

    fn evaluate(component: &ComponentState, parent: &str, child: &str) -> Consequences {
        let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
        let prunes = [Delete { child: ChildId { kind, key: key(child) }, uid: Uid::from(child), resource_version: 1 }];
        let unasked = (false, Cause::Unchanged);
        component
            .with_fleet(|fleet| {
                fleet.evaluated(DeletionGuard::default(), &key(parent), &prunes, unasked, false, Leavers::default)
            })
            .1
    }

    #[test]
    fn log_lines_are_rate_limited_and_counted_for_each_component() {
        let flooding = component(&[], None);
        let lines = 100_000;
        let kept = (0..lines).filter(|_| flooding.may_log(1000)).count();
        assert!((900..lines / 10).contains(&kept), "a burst of a MiB: {kept} lines");
        assert_eq!(flooding.unlogged(5), Some((lines - kept + 5) as u64));
        assert_eq!(flooding.unlogged(5), None, "the count was reported just now");
        assert!(component(&[], None).may_log(1000));
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
        component.forget_deletions(&bad.key);
        assert!(matches!(component.admit(&bad), Admission::Denied(_)));
        component.forget(&bad.key);
        assert_eq!(component.admit(&bad), Admission::Call, "a new parent of the same name");
    }

    #[test]
    fn r09_plugin_is_reconciled_whenever_the_hash_of_blocked_deletions_changes() {
        let component = component(&["a", "b"], Some("before"));
        component.unplanned(&key("b"));
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
            let component = ComponentState::of(Rollout::begin(guard, Digest::of(b"component"), [key("a")], 1, None));
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
        component.unplanned(&key("failed"));
        let deleted = || component.awaited_in_vain(|parent| *parent == key("there"));
        assert_eq!(deleted(), [key("gone")], "a parent whose call failed does not delay the rollout");
        component.forget_deletions(&key("gone"));
        assert!(deleted().is_empty());
    }
}
