//! The host's own writes that the caches do not show yet. Until they do, the host makes no new plan for the parent
//! (rule R3).
//!
//! The wait has no timeout: the host never makes a plan from a cache that is behind. The parent's conditions report a
//! long wait.

use std::time::{Duration, Instant};

use windlass_core::reconcile::outcome::{LOOK_AGAIN, PATIENCE};
use windlass_core::reconcile::written::{Subject, Written};
use windlass_core::value::ids::{Gvk, ObjectKey};

use crate::cluster::watch::Store;

/// A parent that waits for its own writes is reconciled every few seconds. One that was not for this long is gone.
pub(super) const FORGOTTEN: Duration = Duration::from_mins(10);

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

/// The caches that show own writes.
pub trait Caches {
    /// The cache that shows this parent.
    fn of_parents(&self) -> &Store;
    /// The kind of the parents.
    fn parent_kind(&self) -> &Gvk;
    /// The cache that shows children of this kind; none of a kind that is no longer watched.
    fn of_children(&self, kind: &Gvk) -> Option<&Store>;
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

    /// What the parent waits for.
    pub fn wait(&mut self, caches: &impl Caches, parent: &ObjectKey, now: Instant) -> Wait {
        let Some(pending) = &mut self.0 else { return Wait::Over };
        pending.last = now;
        pending.writes.retain(|(write, at)| !is_seen(caches, parent, write, *at));
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
            _ => Wait::Long { kinds: kinds_behind(caches, &pending.writes), is_reported: pending.is_reported },
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

/// Whether the cache shows a write: by its version, or by a complete list that began after the write.
fn is_seen(caches: &impl Caches, parent: &ObjectKey, write: &Written, at: Instant) -> bool {
    // The writes of a kind that is no longer watched are not waited for.
    let Some(store) = cache_of(caches, write) else { return true };
    match write {
        Written::Unknown(_) => false,
        // A parent that the watch does not show is gone or has left the label selector: the watch never shows its
        // versions.
        Written::Parent { resource_version } => store.has_seen(*resource_version, at) || store.get(parent).is_none(),
        Written::Past { uid, resource_version } => {
            store.was_listed_since(at)
                || store.get(parent).is_none_or(|found| found.uid != *uid || found.resource_version > *resource_version)
        }
        Written::Child { resource_version, .. } => store.has_seen(*resource_version, at),
        Written::Gone { child, uid } => store.get(&child.key).is_none_or(|found| found.uid != *uid || found.deleting),
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

/// The cache that shows a write: of the parents, or of a child kind; none if the kind is no longer watched.
fn cache_of<'a>(caches: &'a impl Caches, write: &Written) -> Option<&'a Store> {
    match write {
        Written::Parent { .. } | Written::Past { .. } | Written::Unknown(Subject::Parent) => Some(caches.of_parents()),
        Written::Child { kind, .. } => caches.of_children(kind),
        Written::Gone { child, .. } | Written::Unknown(Subject::Child(child)) => caches.of_children(&child.kind),
    }
}

/// The kinds whose caches do not show these writes yet, each once.
fn kinds_behind(caches: &impl Caches, writes: &[(Written, Instant)]) -> Vec<String> {
    let mut kinds: Vec<_> = writes
        .iter()
        .map(|(write, _)| match write {
            Written::Parent { .. } | Written::Past { .. } | Written::Unknown(Subject::Parent) => {
                caches.parent_kind().kind.to_string()
            }
            Written::Child { kind, .. } => kind.kind.to_string(),
            Written::Gone { child, .. } | Written::Unknown(Subject::Child(child)) => child.kind.kind.to_string(),
        })
        .collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_core::object::Object;
    use windlass_core::object::child::ChildId;
    use windlass_core::value::ids::Uid;

    use super::*;

    /// A plugin with parents of kind `ConfigMap` and children of kind `ConfigMap` and `Secret`.
    struct Fixture {
        writes: OwnWrites,
        parents: Store,
        maps: Store,
        secrets: Store,
        kind: Gvk,
        now: Instant,
    }

    impl Caches for Fixture {
        fn of_parents(&self) -> &Store {
            &self.parents
        }

        fn parent_kind(&self) -> &Gvk {
            &self.kind
        }

        fn of_children(&self, kind: &Gvk) -> Option<&Store> {
            match &*kind.kind {
                "ConfigMap" => Some(&self.maps),
                "Secret" => Some(&self.secrets),
                _ => None,
            }
        }
    }

    fn web() -> ObjectKey {
        ObjectKey::new(Some("n"), "web")
    }

    fn kind(kind: &str) -> Arc<Gvk> {
        Arc::new(Gvk::from_api_version("v1", kind))
    }

    fn object(of: &str, name: &str, version: u64) -> Object {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"uid-of-{name}","resourceVersion":"{version}"}}}}"#
        );
        Object::from_api(&kind(of), &text).expect("an object")
    }

    fn child(of: &str, resource_version: u64) -> Written {
        Written::Child { kind: kind(of), resource_version }
    }

    fn id(of: &str, name: &str) -> ChildId {
        ChildId { kind: kind(of), key: ObjectKey::new(Some("n"), name) }
    }

    impl Fixture {
        fn new() -> Self {
            let store = || Store::new(crate::cluster::watch::Index::Uid);
            let fixture = Self {
                writes: OwnWrites::default(),
                parents: store(),
                maps: store(),
                secrets: store(),
                kind: Gvk::from_api_version("v1", "ConfigMap"),
                now: Instant::now(),
            };
            fixture.parents.upsert(object("ConfigMap", "web", 1));
            fixture
        }

        fn add(&mut self, writes: Vec<Written>) {
            self.writes.add(writes, self.now);
        }

        fn wait(&mut self) -> Wait {
            let mut writes = std::mem::take(&mut self.writes);
            let wait = writes.wait(self, &web(), self.now);
            self.writes = writes;
            wait
        }
    }

    fn long(kinds: &[&str], is_reported: bool) -> Wait {
        Wait::Long { kinds: kinds.iter().map(ToString::to_string).collect(), is_reported }
    }

    #[test]
    fn r03_parent_is_not_reconciled_before_the_cache_shows_the_hosts_last_write() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.wait(), Wait::Over);
        fixture.add(vec![child("Secret", 7)]);
        fixture.secrets.upsert(object("Secret", "another", 6));
        for (after, wait) in [
            (0, Wait::ForWatch(LOOK_AGAIN)),
            (28, Wait::ForWatch(Duration::from_secs(2))),
            (2, long(&["Secret"], false)),
            (100_000, long(&["Secret"], false)),
        ] {
            fixture.now += Duration::from_secs(after);
            assert_eq!(fixture.wait(), wait);
        }
        fixture.writes.note_reported();
        // For example the status that reports the wait.
        fixture.add(vec![Written::Parent { resource_version: 2 }]);
        assert_eq!(fixture.wait(), long(&["ConfigMap", "Secret"], true));
        fixture.parents.upsert(object("ConfigMap", "web", 2));
        assert_eq!(fixture.wait(), long(&["Secret"], true), "the condition is written once");
        fixture.secrets.upsert(object("Secret", "another", 7));
        assert_eq!(fixture.wait(), Wait::Over);
    }

    #[test]
    fn r03_write_to_a_child_of_the_parents_own_kind_is_awaited_in_the_cache_of_children() {
        let mut fixture = Fixture::new();
        fixture.add(vec![child("ConfigMap", 7)]);
        fixture.parents.upsert(object("ConfigMap", "web", 7));
        assert_eq!(fixture.wait(), Wait::ForWatch(LOOK_AGAIN));
        fixture.maps.upsert(object("ConfigMap", "a", 7));
        assert_eq!(fixture.wait(), Wait::Over);
        fixture.add(vec![child("Pod", 7)]);
        assert_eq!(fixture.wait(), Wait::Over, "a kind that is no longer watched");
    }

    #[test]
    fn r03_list_that_begins_after_a_write_counts_as_showing_it_and_an_earlier_one_does_not() {
        let mut fixture = Fixture::new();
        fixture.secrets.begin_list();
        fixture.now = Instant::now();
        fixture.add(vec![child("Secret", 7)]);
        fixture.secrets.finish_list();
        assert_eq!(fixture.wait(), Wait::ForWatch(LOOK_AGAIN));
        // The object is deleted by now, so no version of it will ever come.
        fixture.secrets.begin_list();
        fixture.secrets.finish_list();
        assert_eq!(fixture.wait(), Wait::Over);
    }

    #[test]
    fn r03_own_writes_are_awaited_after_a_restored_backup_lowered_resource_versions() {
        let mut fixture = Fixture::new();
        fixture.secrets.upsert(object("Secret", "a", 1000));
        fixture.secrets.begin_list();
        fixture.secrets.add_listed(object("Secret", "a", 500));
        fixture.secrets.finish_list();
        fixture.now = Instant::now();
        fixture.add(vec![child("Secret", 501)]);
        assert_eq!(fixture.wait(), Wait::ForWatch(LOOK_AGAIN));
        fixture.secrets.upsert(object("Secret", "b", 501));
        assert_eq!(fixture.wait(), Wait::Over);
    }

    #[test]
    fn r03_write_without_a_response_is_looked_up_before_the_next_reconcile() {
        let mut fixture = Fixture::new();
        let secret = Subject::Child(id("Secret", "a"));
        for _ in 0..2 {
            fixture.add(vec![Written::Unknown(secret.clone()), Written::Unknown(Subject::Parent)]);
        }
        fixture.now += 2 * PATIENCE;
        assert_eq!(fixture.wait(), Wait::ForLookups(vec![secret.clone(), Subject::Parent]));
        fixture.writes.looked_up(&Subject::Parent, None, fixture.now);
        assert_eq!(fixture.wait(), Wait::ForLookups(vec![secret.clone()]));
        fixture.writes.looked_up(&secret, Some(child("Secret", 9)), fixture.now);
        assert_eq!(fixture.wait(), long(&["Secret"], false), "the Secret exists, and the cache does not show it");
        fixture.secrets.upsert(object("Secret", "a", 9));
        assert_eq!(fixture.wait(), Wait::Over);
    }

    #[test]
    fn r03_deletion_is_awaited_until_the_cache_no_longer_shows_the_object() {
        let mut fixture = Fixture::new();
        fixture.secrets.upsert(object("Secret", "a", 3));
        fixture.add(vec![Written::Gone { child: id("Secret", "a"), uid: Uid::from("uid-of-a") }]);
        assert_eq!(fixture.wait(), Wait::ForWatch(LOOK_AGAIN));
        fixture.secrets.remove(&object("Secret", "a", 4));
        assert_eq!(fixture.wait(), Wait::Over);
    }

    #[test]
    fn r03_parent_is_not_reconciled_before_the_cache_shows_the_removal_of_its_finalizer() {
        for kept_by_another_finalizer in [true, false] {
            let mut fixture = Fixture::new();
            let shown = fixture.parents.get(&web()).expect("the parent");
            fixture.add(vec![Written::past(&shown)]);
            // A later version of another parent proves nothing: the removal of the last finalizer has no version of its own.
            fixture.parents.upsert(object("ConfigMap", "another", 9));
            assert_eq!(fixture.wait(), Wait::ForWatch(LOOK_AGAIN));
            if kept_by_another_finalizer {
                fixture.parents.upsert(object("ConfigMap", "web", 10));
            } else {
                fixture.parents.remove(&object("ConfigMap", "web", 10));
            }
            assert_eq!(fixture.wait(), Wait::Over);
        }
    }

    #[test]
    fn r03_parent_that_is_gone_is_awaited_beyond_its_later_versions_up_to_a_namesake() {
        let mut fixture = Fixture::new();
        let shown = fixture.parents.get(&web()).expect("the parent");
        fixture.add(vec![Written::gone(&shown)]);
        fixture.parents.upsert(object("ConfigMap", "web", 2));
        assert_eq!(fixture.wait(), Wait::ForWatch(LOOK_AGAIN));
        let namesake = r#"{"metadata":{"name":"web","namespace":"n","uid":"another","resourceVersion":"3"}}"#;
        fixture.parents.upsert(Object::from_api(&kind("ConfigMap"), namesake).expect("an object"));
        assert_eq!(fixture.wait(), Wait::Over);
    }

    #[test]
    fn r03_object_that_the_cache_still_shows_after_its_deletion_is_read() {
        let secret = Subject::Child(id("Secret", "a"));
        for (subject, still_there) in [(Subject::Parent, 1), (secret.clone(), 3)] {
            let mut fixture = Fixture::new();
            fixture.secrets.upsert(object("Secret", "a", 3));
            let gone = || match &subject {
                Subject::Parent => Written::gone(&object("ConfigMap", "web", 1)),
                Subject::Child(child) => Written::Gone { child: child.clone(), uid: Uid::from("uid-of-a") },
            };
            let is_there = || match &subject {
                Subject::Parent => Written::Parent { resource_version: still_there },
                Subject::Child(_) => child("Secret", still_there),
            };
            fixture.add(vec![gone()]);
            fixture.now += LOOK_AGAIN;
            assert_eq!(fixture.wait(), Wait::ForLookups(vec![subject.clone()]));
            fixture.writes.looked_up(&subject, Some(gone()), fixture.now);
            assert_eq!(
                fixture.wait(),
                Wait::ForWatch(LOOK_AGAIN),
                "the read says that it is gone: the watch is behind"
            );
            fixture.now += LOOK_AGAIN;
            assert_eq!(fixture.wait(), Wait::ForLookups(vec![subject.clone()]));
            fixture.writes.looked_up(&subject, Some(is_there()), fixture.now);
            assert_eq!(fixture.wait(), Wait::Over, "{subject:?} was never deleted");
        }
    }

    #[test]
    fn writes_that_a_parent_still_waits_for_are_recent_whenever_they_were_sent() {
        let mut fixture = Fixture::new();
        fixture.add(vec![child("Secret", 7)]);
        for _ in 0..3 {
            fixture.now += FORGOTTEN / 2;
            fixture.wait();
        }
        assert!(fixture.writes.is_recent(fixture.now));
        assert!(!fixture.writes.is_recent(fixture.now + FORGOTTEN));
        assert!(!OwnWrites::default().is_recent(fixture.now));
    }

    #[test]
    fn parent_that_left_the_selector_does_not_wait_for_the_hosts_last_write() {
        let mut fixture = Fixture::new();
        fixture.add(vec![Written::Parent { resource_version: 9 }]);
        assert_eq!(fixture.wait(), Wait::ForWatch(LOOK_AGAIN));
        fixture.parents.remove(&object("ConfigMap", "web", 8));
        assert_eq!(fixture.wait(), Wait::Over);
    }
}
