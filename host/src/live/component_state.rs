//! How live logic behaves: what it would delete, and how often it broke. Begins anew with new logic or config, and goes on
//! when only the Plugin's settings change.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use jiff::Timestamp;
use parking_lot::Mutex;
use windlass_core::bucket::{Bucket, Rate};
use windlass_core::contract::CallFailure;
use windlass_core::digest::Digest;
use windlass_core::guard::{self, Cause, DeletionGuard, Fleet, Held, HeldParents, Leavers, Record, Rollout, Stop};
use windlass_core::ids::ObjectKey;
use windlass_core::object::Object;
use windlass_core::plan::Plan;
use windlass_core::quarantine::{Admission, Change, Outcome, Quarantine};
use windlass_core::snapshot::Snapshot;

use crate::live::Live;

/// Bytes of log lines: what a person reads of a rollout over a thousand parents, and what a chatty plugin says for good.
/// What is more would drown the host's log, which the threads of all plugins write to.
const LOG: Rate = Rate { burst: 1024.0 * 1024.0, per_second: 64.0 * 1024.0 };
/// Added to each line's bytes: what the host's log says beside it.
const LOG_OVERHEAD: usize = 128;

/// What is learnt of live logic while it runs.
#[derive(Debug)]
pub struct ComponentState {
    /// Tells it from all others of this process.
    pub id: u64,
    fleet: Mutex<Fleet>,
    quarantine: Mutex<Quarantine>,
    log: Mutex<Bucket>,
    unasked: Unasked,
    /// Whether the component gave a status that nobody writes.
    gave_unwritten_status: AtomicBool,
}

/// The parents that the component was not asked about since it went live.
#[derive(Debug, Default)]
struct Unasked {
    parents: Mutex<HashSet<ObjectKey>>,
    /// How many they are: at rest nobody takes the lock.
    count: AtomicUsize,
}

impl Unasked {
    fn new(parents: impl IntoIterator<Item = ObjectKey>) -> Self {
        let parents: HashSet<_> = parents.into_iter().collect();
        let count = AtomicUsize::new(parents.len());
        Self { parents: Mutex::new(parents), count }
    }

    /// Takes parents out; answers whether these were the last.
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

/// Whom a decision about deletions concerns.
#[derive(Debug, Default)]
pub struct Consequences {
    /// Parents that must be looked at again.
    pub parents: Vec<ObjectKey>,
    /// Whether the Plugin has something else to say now.
    pub plugin: bool,
}

impl ComponentState {
    /// Of what goes live over these parents and children. `before` is what was written down of the rollout before, and
    /// `was_held` what its [`hold`](Self::hold) said.
    pub fn begin(live: &Live, before: Option<&Record>, was_held: Option<&str>) -> Self {
        // Retained children have no controller: they are never deleted. Those of parents that are gone are the garbage
        // collector's, and would make the deletions a smaller part.
        let mut uids = live.parents.store.pick(|parent| Some(parent.uid.clone()));
        let (left, of_left): (Vec<_>, Vec<_>) = live.unselected.all().into_iter().unzip();
        uids.extend(of_left);
        // The parents of a custom kind have no other plugin: whatever they own was left to this one.
        let owns_kind = live.owns_kind();
        let is_ours =
            |child: &Object| (owns_kind || child.plugin() == Some(live.name.as_str())) && live.has_mark(child);
        // By parent: of a kind that a hundred plugins share, each has few of all the children.
        let owned = live.children.values().map(|watch| watch.store.count_controlled(&uids, is_ours)).sum();
        let shown = live.parents.store.keys();
        let unasked = Unasked::new(shown.iter().cloned());
        let all = shown.into_iter().chain(left);
        let rollout = Rollout::begin(live.guard, live.decides_by(), all, owned, was_held);
        Self { unasked, ..Self::of(rollout.after(before, Timestamp::now())) }
    }

    /// Of nothing that is live, to be replaced.
    pub fn none() -> Self {
        Self::of(Rollout::begin(DeletionGuard::default(), Digest::of(b""), [], 0, None))
    }

    fn of(rollout: Rollout) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed);
        let log = Mutex::new(Bucket::new(LOG, Timestamp::now()));
        let unasked = Unasked::default();
        let gave_unwritten_status = AtomicBool::new(false);
        let fleet = Mutex::new(Fleet::new(rollout));
        Self { id, fleet, quarantine: Mutex::default(), log, unasked, gave_unwritten_status }
    }

    /// Takes deletions out of a parent's plan that must not be carried out now.
    pub fn judge(
        &self,
        (parents, guard): (&mut HeldParents, DeletionGuard),
        snapshot: &Snapshot,
        cause: impl FnOnce() -> Cause,
        leavers: impl FnOnce() -> Leavers,
        plan: &mut Plan,
    ) -> (Option<Stop>, Consequences) {
        self.with_fleet(|fleet| guard::judge(fleet, (parents, guard), snapshot, cause, leavers, plan))
    }

    /// A parent's reconcile ended without a plan.
    pub fn unanswered(&self, parent: &ObjectKey) -> Consequences {
        self.with_fleet(|fleet| fleet.unanswered(parent)).1
    }

    /// A parent is gone, or being deleted.
    pub fn forget(&self, parent: &ObjectKey) -> Consequences {
        self.with_fleet(|fleet| fleet.forget(parent)).1
    }

    /// What the Plugin's annotation says of held deletions.
    pub fn allow(&self, annotation: Option<&str>) -> Consequences {
        self.with_fleet(|fleet| fleet.allow(annotation)).1
    }

    /// The Plugin's guard is another one now. All its parents are to be looked at again.
    pub fn adjust(&self, guard: DeletionGuard) {
        self.with_fleet(|fleet| fleet.adjust(guard));
    }

    fn with_fleet<T>(&self, change: impl FnOnce(&mut Fleet) -> T) -> (T, Consequences) {
        let mut fleet = self.fleet.lock();
        // A user reads the name of what is blocked at the Plugin, so it follows every change of it.
        let said = |fleet: &Fleet| {
            let rollout = fleet.rollout();
            (fleet.held().map(|held| held.hash.clone()), fleet.hold().map(str::to_owned), rollout.is_complete())
        };
        let before = said(&fleet);
        let result = change(&mut fleet);
        let plugin = before != said(&fleet);
        (result, Consequences { parents: fleet.take_to_queue(), plugin })
    }

    /// Deletions of many parents that are held.
    pub fn held_of_all(&self) -> Option<Held> {
        self.fleet.lock().held().cloned()
    }

    /// The name of what is held of many parents, or was held before and is not decided about yet.
    pub fn hold(&self) -> Option<String> {
        self.fleet.lock().hold().map(str::to_owned)
    }

    /// What to write down of its rollout.
    pub fn record_of_rollout(&self) -> Record {
        self.fleet.lock().rollout().record()
    }

    /// Parents that the deletions of all others wait for, and that no longer exist.
    pub fn awaited_in_vain(&self, exists: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectKey> {
        self.fleet.lock().rollout().untried().filter(|parent| !exists(parent)).cloned().collect()
    }

    /// A parent was reconciled; answers whether it was the last one that the component had not been asked about.
    pub fn asked(&self, parent: &ObjectKey) -> bool {
        self.unasked.take(parent)
    }

    /// Parents that went before they were asked about: nobody waits for them. Answers whether they were the last.
    pub fn asked_in_vain(&self, exists: impl Fn(&ObjectKey) -> bool) -> bool {
        self.unasked.retain(exists)
    }

    /// How many parents the component was not asked about since it went live.
    pub fn unasked(&self) -> usize {
        self.unasked.count.load(Ordering::Relaxed)
    }

    /// The component gave a status that nobody writes; answers whether it is the first one.
    pub fn note_unwritten_status(&self) -> bool {
        // Read first: it is set once, and every reconcile of such a component comes here.
        !self.gave_unwritten_status.load(Ordering::Relaxed) && !self.gave_unwritten_status.swap(true, Ordering::Relaxed)
    }

    /// Whether the component gave a status that nobody writes.
    pub fn gave_unwritten_status(&self) -> bool {
        self.gave_unwritten_status.load(Ordering::Relaxed)
    }

    /// Whether a call may be made for a parent now.
    pub fn admit(&self, parent: &Object) -> Admission {
        self.quarantine.lock().admit(&parent.key, parent.generation, Instant::now())
    }

    /// How an admitted call ended.
    pub fn record<T>(&self, parent: &Object, admission: Admission, call: &Result<T, CallFailure>) -> Option<Change> {
        let parent = (&parent.key, parent.generation);
        self.quarantine.lock().record(parent, admission, Outcome::of(call), Instant::now(), fastrand::f64())
    }

    /// Whether a line of so many bytes may go to the log; counts what may not.
    pub fn may_log(&self, length: usize) -> bool {
        let bytes = u32::try_from(length.saturating_add(LOG_OVERHEAD)).map_or(f64::INFINITY, f64::from);
        self.log.lock().take(bytes, 0.0, Timestamp::now())
    }

    /// How much of what it said in its calls did not get to the log, of late; it includes what a call itself dropped.
    pub fn unlogged(&self, by_call: u64) -> Option<u64> {
        let mut log = self.log.lock();
        log.count_dropped(by_call);
        log.take_dropped(Timestamp::now())
    }

    /// A parent is gone, and not only being deleted.
    pub fn gone(&self, parent: &ObjectKey) -> Consequences {
        self.quarantine.lock().forget(parent);
        self.forget(parent)
    }

    /// Whether the component breaks so often, for parents of several namespaces, that it is called only now and then.
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

    /// Of logic over these parents, which own a hundred children in all.
    fn conduct(parents: &[&str], was_held: Option<&str>) -> ComponentState {
        let parents = parents.iter().map(|name| key(name));
        let rollout = Rollout::begin(DeletionGuard::default(), Digest::of(b"logic"), parents, 100, was_held);
        ComponentState::of(rollout)
    }

    fn wants(conduct: &ComponentState, parent: &str, child: &str) -> Consequences {
        let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
        let prunes = [Delete { child: ChildId { kind, key: key(child) }, uid: Uid::from(child) }];
        let unasked = (false, Cause::Unchanged);
        conduct
            .with_fleet(|fleet| {
                fleet.evaluated(DeletionGuard::default(), &key(parent), &prunes, unasked, false, Leavers::default)
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
        let conduct = ComponentState { unasked: Unasked::new(parents), ..conduct(&[], None) };
        assert_eq!(conduct.unasked(), 3);
        assert!(!conduct.asked(&key("a")) && !conduct.asked(&key("a")) && !conduct.asked(&key("new")));
        assert!(!conduct.asked_in_vain(|parent| *parent != key("gone")));
        assert!(conduct.asked(&key("b")) && conduct.unasked() == 0);
        assert!(!conduct.asked(&key("b")) && !conduct.asked_in_vain(|_| false), "told already");
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
        conduct.unanswered(&key("b"));
        assert!(wants(&conduct, "a", "a-0").plugin, "held");
        assert!(!wants(&conduct, "a", "a-0").plugin, "as before");
        assert!(wants(&conduct, "a", "a-1").plugin, "other deletions, another name");
        let name = conduct.hold();
        assert!(wants(&conduct, "b", "b-0").plugin && conduct.hold() != name);
        assert!(conduct.allow(conduct.hold().as_deref()).plugin);
    }

    #[test]
    fn r09_a_parent_that_went_before_the_logic_was_live_is_found_and_waited_for_no_longer() {
        let conduct = conduct(&["gone", "there", "failed"], None);
        conduct.unanswered(&key("failed"));
        let lost = || conduct.awaited_in_vain(|parent| *parent == key("there"));
        assert_eq!(lost(), [key("gone")], "who was asked already is nobody's hindrance");
        conduct.forget(&key("gone"));
        assert!(lost().is_empty());
    }
}
