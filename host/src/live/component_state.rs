//! What the host learns of a live component: the deletions that it would cause, and its failures. It starts empty with each new
//! component or config, and stays when only the Plugin's settings change.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use jiff::Timestamp;
use parking_lot::Mutex;
use windlass_core::bucket::{Bucket, Rate};
use windlass_core::contract::CallFailure;
use windlass_core::digest::Digest;
use windlass_core::guard::{
    self, BlockedDeletions, Cause, DeletionGuard, Fleet, Leavers, ParentDeletions, Record, Rollout, Stop,
};
use windlass_core::ids::ObjectKey;
use windlass_core::object::Object;
use windlass_core::plan::Plan;
use windlass_core::quarantine::{Admission, CallOutcome, Change, Quarantine};
use windlass_core::snapshot::Snapshot;

use super::Live;

/// The rate of a component's log lines, in bytes: enough for a rollout over a thousand parents, and a bound for a component that
/// logs in each call. All plugins share the host's log.
const LOG: Rate = Rate { burst: 1024.0 * 1024.0, per_second: 64.0 * 1024.0 };
/// Added to each line's bytes: the fields that the host's log adds.
const LOG_OVERHEAD: usize = 128;

/// What the host has learnt of a live component.
#[derive(Debug)]
pub struct ComponentState {
    /// Unique in this process.
    pub id: u64,
    fleet: Mutex<Fleet>,
    quarantine: Mutex<Quarantine>,
    log: Mutex<Bucket>,
    uncalled: Uncalled,
    /// Whether a response had a status that is not written.
    gave_unwritten_status: AtomicBool,
}

/// The parents that were not reconciled since the component went live.
#[derive(Debug, Default)]
struct Uncalled {
    parents: Mutex<HashSet<ObjectKey>>,
    /// Their number: in steady state the lock is not taken.
    count: AtomicUsize,
}

impl Uncalled {
    fn new(parents: impl IntoIterator<Item = ObjectKey>) -> Self {
        let parents: HashSet<_> = parents.into_iter().collect();
        let count = AtomicUsize::new(parents.len());
        Self { parents: Mutex::new(parents), count }
    }

    /// Removes parents. Returns whether they were the last ones.
    fn retain(&self, is_unasked: impl Fn(&ObjectKey) -> bool) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut parents = self.parents.lock();
        let before = parents.len();
        parents.retain(|parent| is_unasked(parent));
        self.count.store(parents.len(), Ordering::Relaxed);
        before > 0 && parents.is_empty()
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

/// What has to be reconciled again after a decision about deletions.
#[derive(Debug, Default)]
pub struct Consequences {
    /// Parents to reconcile again.
    pub parents: Vec<ObjectKey>,
    /// Whether the Plugin's status changes.
    pub plugin: bool,
}

impl ComponentState {
    /// For a component that goes live, with its parents and children. `before` is the record of the previous rollout, and `was_blocked`
    /// the result of its [`blocked_hash`](Self::blocked_hash).
    pub fn begin(live: &Live, before: Option<&Record>, was_blocked: Option<&str>) -> Self {
        // Retained children have no controller and are never deleted. Children of parents that are gone are deleted by the garbage
        // collector, and would make the deletions a smaller part.
        let mut uids = live.parents.store.pick(|parent| Some(parent.uid.clone()));
        let (left, of_left): (Vec<_>, Vec<_>) = live.unselected.all().into_iter().unzip();
        uids.extend(of_left);
        // Parents of a custom kind have no other plugin, so this one re-adopts all their children.
        let owns_kind = live.owns_kind();
        let is_ours =
            |child: &Object| (owns_kind || child.plugin() == Some(live.name.as_str())) && live.has_mark(child);
        // Counted by parent: of a kind that a hundred plugins share, each plugin has few of the children.
        let owned = live.children.values().map(|watch| watch.store.count_controlled(&uids, is_ours)).sum();
        let shown = live.parents.store.keys();
        let uncalled = Uncalled::new(shown.iter().cloned());
        let all = shown.into_iter().chain(left);
        let rollout = Rollout::begin(live.guard, live.decides_by(), all, owned, was_blocked);
        Self { uncalled, ..Self::of(rollout.after(before, Timestamp::now())) }
    }

    /// A placeholder until the real one is known.
    pub fn none() -> Self {
        Self::of(Rollout::begin(DeletionGuard::default(), Digest::of(b""), [], 0, None))
    }

    fn of(rollout: Rollout) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed);
        let log = Mutex::new(Bucket::new(LOG, Timestamp::now()));
        let uncalled = Uncalled::default();
        let gave_unwritten_status = AtomicBool::new(false);
        let fleet = Mutex::new(Fleet::new(rollout));
        Self { id, fleet, quarantine: Mutex::default(), log, uncalled, gave_unwritten_status }
    }

    /// Takes the deletions out of a parent's plan that must not be carried out now.
    pub fn judge(
        &self,
        (own, guard): (&mut ParentDeletions, DeletionGuard),
        snapshot: &Snapshot,
        cause: impl FnOnce() -> Cause,
        leavers: impl FnOnce() -> Leavers,
        plan: &mut Plan,
    ) -> (Option<Stop>, Consequences) {
        self.with_fleet(|fleet| guard::judge(fleet, (own, guard), snapshot, cause, leavers, plan))
    }

    /// Records that a parent's reconcile ended without a plan.
    pub fn unplanned(&self, parent: &ObjectKey) -> Consequences {
        self.with_fleet(|fleet| fleet.unplanned(parent)).1
    }

    /// Forgets a parent that is gone or being deleted.
    pub fn forget(&self, parent: &ObjectKey) -> Consequences {
        self.with_fleet(|fleet| fleet.forget(parent)).1
    }

    /// Applies the Plugin's annotation that releases blocked deletions.
    pub fn allow(&self, annotation: Option<&str>) -> Consequences {
        self.with_fleet(|fleet| fleet.allow(annotation)).1
    }

    /// Puts another `deletionGuard` into force. All parents have to be reconciled again.
    pub fn adjust(&self, guard: DeletionGuard) {
        self.with_fleet(|fleet| fleet.adjust(guard));
    }

    fn with_fleet<T>(&self, change: impl FnOnce(&mut Fleet) -> T) -> (T, Consequences) {
        let mut fleet = self.fleet.lock();
        // The Plugin's status has the hash of the blocked deletions, so it changes with them.
        let said = |fleet: &Fleet| {
            let rollout = fleet.rollout();
            (
                fleet.blocked().map(|held| held.hash.clone()),
                fleet.blocked_hash().map(str::to_owned),
                rollout.is_complete(),
            )
        };
        let before = said(&fleet);
        let result = change(&mut fleet);
        let plugin = before != said(&fleet);
        (result, Consequences { parents: fleet.take_to_queue(), plugin })
    }

    /// The blocked deletions of many parents together.
    pub fn blocked_of_all(&self) -> Option<BlockedDeletions> {
        self.fleet.lock().blocked().cloned()
    }

    /// The hash of the deletions of many parents that are blocked, or were blocked before and are undecided.
    pub fn blocked_hash(&self) -> Option<String> {
        self.fleet.lock().blocked_hash().map(str::to_owned)
    }

    /// The record of its rollout, for the Plugin's status.
    pub fn record_of_rollout(&self) -> Record {
        self.fleet.lock().rollout().record()
    }

    /// Parents that no longer exist and that the deletions of other parents wait for.
    pub fn awaited_in_vain(&self, exists: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectKey> {
        self.fleet.lock().rollout().untried().filter(|parent| !exists(parent)).cloned().collect()
    }

    /// Records that a parent was reconciled. Returns whether it was the last one.
    pub fn asked(&self, parent: &ObjectKey) -> bool {
        self.uncalled.take(parent)
    }

    /// Forgets the parents that no longer exist. Returns whether they were the last ones.
    pub fn forget_uncalled(&self, exists: impl Fn(&ObjectKey) -> bool) -> bool {
        self.uncalled.retain(exists)
    }

    /// How many parents were not reconciled since the component went live.
    pub fn uncalled(&self) -> usize {
        self.uncalled.count.load(Ordering::Relaxed)
    }

    /// Records a response whose status is not written. Returns whether it is the first one.
    pub fn note_unwritten_status(&self) -> bool {
        // Read before it is written: it is set once, and each reconcile of such a component comes here.
        !self.gave_unwritten_status.load(Ordering::Relaxed) && !self.gave_unwritten_status.swap(true, Ordering::Relaxed)
    }

    /// Whether a response had a status that is not written.
    pub fn gave_unwritten_status(&self) -> bool {
        self.gave_unwritten_status.load(Ordering::Relaxed)
    }

    /// Whether a call may be made for a parent now.
    pub fn admit(&self, parent: &Object) -> Admission {
        self.quarantine.lock().admit(&parent.key, parent.generation, Instant::now())
    }

    /// Records the result of an admitted call.
    pub fn record<T>(&self, parent: &Object, admission: Admission, call: &Result<T, CallFailure>) -> Option<Change> {
        let parent = (&parent.key, parent.generation);
        self.quarantine.lock().record(parent, admission, CallOutcome::of(call), Instant::now(), fastrand::f64())
    }

    /// Whether a line of so many bytes may be logged. Counts the lines that may not.
    pub fn may_log(&self, length: usize) -> bool {
        let bytes = u32::try_from(length.saturating_add(LOG_OVERHEAD)).map_or(f64::INFINITY, f64::from);
        self.log.lock().take(bytes, 0.0, Timestamp::now())
    }

    /// How many log lines were dropped of late, by the call itself or by the rate.
    pub fn unlogged(&self, by_call: u64) -> Option<u64> {
        let mut log = self.log.lock();
        log.count_dropped(by_call);
        log.take_dropped(Timestamp::now())
    }

    /// Forgets a parent that is gone.
    pub fn gone(&self, parent: &ObjectKey) -> Consequences {
        self.quarantine.lock().forget(parent);
        self.forget(parent)
    }

    /// Whether the component is in quarantine: it failed so often, for parents of several namespaces, that it is called only seldom.
    pub fn is_quarantined(&self) -> bool {
        self.quarantine.lock().is_active()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_core::ids::{Gvk, Uid};
    use windlass_core::plan::{ChildId, Delete};

    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Some("n"), name)
    }

    /// For a component with these parents, which own a hundred children together.
    fn conduct(parents: &[&str], was_blocked: Option<&str>) -> ComponentState {
        let parents = parents.iter().map(|name| key(name));
        let rollout = Rollout::begin(DeletionGuard::default(), Digest::of(b"logic"), parents, 100, was_blocked);
        ComponentState::of(rollout)
    }

    fn wants(conduct: &ComponentState, parent: &str, child: &str) -> Consequences {
        let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
        let prunes = [Delete { child: ChildId { kind, key: key(child) }, uid: Uid::from(child) }];
        let uncalled = (false, Cause::Unchanged);
        conduct
            .with_fleet(|fleet| {
                fleet.evaluated(DeletionGuard::default(), &key(parent), &prunes, uncalled, false, Leavers::default)
            })
            .1
    }

    #[test]
    fn a_flood_of_log_lines_ends_and_is_counted_and_other_logic_has_a_log_of_its_own() {
        let flooding = conduct(&[], None);
        let lines = 100_000;
        let kept = (0..lines).filter(|_| flooding.may_log(1000)).count();
        assert!((900..lines / 10).contains(&kept), "a burst of a MiB: {kept} lines");
        assert_eq!(flooding.unlogged(5), Some((lines - kept + 5) as u64));
        assert_eq!(flooding.unlogged(5), None, "it was said just now");
        assert!(conduct(&[], None).may_log(1000));
    }

    #[test]
    fn the_last_parent_that_was_not_asked_about_is_told_once() {
        let parents = ["a", "b", "gone"].map(key);
        let conduct = ComponentState { uncalled: Uncalled::new(parents), ..conduct(&[], None) };
        assert_eq!(conduct.uncalled(), 3);
        assert!(!conduct.asked(&key("a")) && !conduct.asked(&key("a")) && !conduct.asked(&key("new")));
        assert!(!conduct.forget_uncalled(|parent| *parent != key("gone")));
        assert!(conduct.asked(&key("b")) && conduct.uncalled() == 0);
        assert!(!conduct.asked(&key("b")) && !conduct.forget_uncalled(|_| false), "told already");
    }

    #[test]
    fn r19_parent_that_is_only_being_deleted_keeps_its_failures() {
        let conduct = conduct(&["bad"], None);
        let kind = Arc::new(Gvk::from_api_version("v1", "Echo"));
        let bad = r#"{"metadata":{"name":"bad","namespace":"n","uid":"1","resourceVersion":"1","generation":1}}"#;
        let bad = Object::from_api(&kind, bad).expect("an object");
        for _ in 0..5 {
            assert_eq!(conduct.admit(&bad), Admission::Call);
            conduct.record(&bad, Admission::Call, &Err::<(), _>(CallFailure::StackOverflow));
        }
        conduct.forget(&bad.key);
        assert!(matches!(conduct.admit(&bad), Admission::Denied(_)));
        conduct.gone(&bad.key);
        assert_eq!(conduct.admit(&bad), Admission::Call, "a new one of its name");
    }

    #[test]
    fn r09_the_plugin_is_told_of_every_name_that_allows_what_is_held() {
        let conduct = conduct(&["a", "b"], Some("before"));
        conduct.unplanned(&key("b"));
        assert!(wants(&conduct, "a", "a-0").plugin, "held");
        assert!(!wants(&conduct, "a", "a-0").plugin, "as before");
        assert!(wants(&conduct, "a", "a-1").plugin, "other deletions, another name");
        let name = conduct.blocked_hash();
        assert!(wants(&conduct, "b", "b-0").plugin && conduct.blocked_hash() != name);
        assert!(conduct.allow(conduct.blocked_hash().as_deref()).plugin);
    }

    #[test]
    fn r09_a_parent_that_went_before_the_logic_was_live_is_found_and_waited_for_no_longer() {
        let conduct = conduct(&["gone", "there", "failed"], None);
        conduct.unplanned(&key("failed"));
        let lost = || conduct.awaited_in_vain(|parent| *parent == key("there"));
        assert_eq!(lost(), [key("gone")], "who was asked already is nobody's hindrance");
        conduct.forget(&key("gone"));
        assert!(lost().is_empty());
    }
}
