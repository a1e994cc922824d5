//! Whether the caches show the host's own writes (rule R3).

use std::time::Instant;

use windlass_core::reconcile::written::Written;
use windlass_core::value::ids::{Gvk, ObjectKey};

use crate::cluster::watch::Store;

/// Whether the caches show a write, which was executed before this time. `of` is the cache of a child kind, or (none) of the parents; none
/// of a kind that is no longer watched, whose writes are not waited for.
pub fn shows<'a>(
    of: impl FnOnce(Option<&Gvk>) -> Option<&'a Store>,
    parent: &ObjectKey,
    write: &Written,
    at: Instant,
) -> bool {
    let Some(store) = of(write.child_kind()) else { return true };
    // By its version, or by a complete list that began after the write.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use windlass_core::object::Object;
    use windlass_core::object::child::ChildId;
    use windlass_core::reconcile::outcome::{LOOK_AGAIN, PATIENCE};
    use windlass_core::reconcile::record::own_writes::{FORGOTTEN, OwnWrites, Wait};
    use windlass_core::reconcile::written::Subject;
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

    impl Fixture {
        fn store(&self, of: Option<&Gvk>) -> Option<&Store> {
            match of.map(|kind| &*kind.kind) {
                None => Some(&self.parents),
                Some("ConfigMap") => Some(&self.maps),
                Some("Secret") => Some(&self.secrets),
                Some(_) => None,
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
            let wait = writes.wait(&self.kind, |write, at| shows(|of| self.store(of), &web(), write, at), self.now);
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
            fixture.add(vec![Written::parent_past(&shown)]);
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
        fixture.add(vec![Written::parent_gone(&shown)]);
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
                Subject::Parent => Written::parent_gone(&object("ConfigMap", "web", 1)),
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
