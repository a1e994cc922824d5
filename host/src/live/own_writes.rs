//! The host's own writes that the caches do not show yet. Until they do, their parent is not decided again (rule R3).
//!
//! No time ends this wait: the host never decides on a cache that is behind. The parent's conditions report a long wait.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use windlass_core::ids::{Gvk, ObjectKey, PluginName};
use windlass_core::outcome::{LOOK_AGAIN, PATIENCE};

use crate::cluster::watch::Store;
use crate::cluster::writer::{Subject, Written};

/// What a parent waits for before it is decided again.
#[derive(Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing: the caches show all writes.
    Over,
    /// These objects must be read: it is not known whether a write of them was carried out.
    ForAnswers(Vec<Subject>),
    /// A watch. The cache is checked again after this time.
    ForWatch(Duration),
    /// The watches of these kinds, for longer than a working watch ever takes.
    Long {
        /// The kinds.
        kinds: Vec<String>,
        /// Whether the parent's conditions report it already.
        told: bool,
    },
}

/// The writes of all parents that the caches do not show yet.
#[derive(Debug, Default)]
pub struct OwnWrites(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    of_parent: HashMap<(PluginName, ObjectKey), Pending>,
    /// Number of parents at which the forgotten ones are removed.
    clear_at: usize,
}

/// Fewer parents than this are not cleared out.
const CLEAR_MIN: usize = 1024;
/// A parent that waits is reconciled every [`LOOK_AGAIN`]. One that was not for this long is gone with its Plugin.
const FORGOTTEN: Duration = Duration::from_mins(10);

#[derive(Debug)]
struct Pending {
    since: Instant,
    asked: Instant,
    told: bool,
    /// Each write with a time at which it had been carried out.
    writes: Vec<(Written, Instant)>,
}

/// The caches in which own writes show.
pub trait Caches {
    /// The cache that shows this parent.
    fn of_parents(&self) -> &Store;
    /// The kind of the parents.
    fn parent_kind(&self) -> &Gvk;
    /// The cache that shows children of this kind; none of a kind that is no longer watched.
    fn of_children(&self, kind: &Gvk) -> Option<&Store>;
}

impl OwnWrites {
    /// Records what was written for a parent.
    pub fn add(&self, plugin: &PluginName, parent: &ObjectKey, writes: Vec<Written>) {
        self.add_at(plugin, parent, writes, Instant::now());
    }

    fn add_at(&self, plugin: &PluginName, parent: &ObjectKey, writes: Vec<Written>, now: Instant) {
        if writes.is_empty() {
            return;
        }
        let mut waiting = self.0.lock();
        if waiting.of_parent.len() >= waiting.clear_at.max(CLEAR_MIN) {
            waiting.of_parent.retain(|_, pending| now.saturating_duration_since(pending.asked) < FORGOTTEN);
            waiting.clear_at = 2 * waiting.of_parent.len();
        }
        let id = (plugin.clone(), parent.clone());
        let begin = || Pending { since: now, asked: now, told: false, writes: Vec::new() };
        let pending = waiting.of_parent.entry(id).or_insert_with(begin);
        for write in writes {
            let is_repeated =
                matches!(write, Written::Unknown(_)) && pending.writes.iter().any(|(known, _)| *known == write);
            if !is_repeated {
                pending.writes.push((write, now));
            }
        }
    }

    /// What a parent waits for.
    pub fn wait(&self, plugin: &PluginName, caches: &impl Caches, parent: &ObjectKey) -> Wait {
        self.wait_at(plugin, caches, parent, Instant::now)
    }

    fn wait_at(
        &self,
        plugin: &PluginName,
        caches: &impl Caches,
        parent: &ObjectKey,
        now: impl FnOnce() -> Instant,
    ) -> Wait {
        let of_parent = &mut self.0.lock().of_parent;
        if of_parent.is_empty() {
            return Wait::Over;
        }
        let id = (plugin.clone(), parent.clone());
        let Some(pending) = of_parent.get_mut(&id) else { return Wait::Over };
        pending.writes.retain(|(write, at)| !is_seen(caches, parent, write, *at));
        if pending.writes.is_empty() {
            of_parent.remove(&id);
            return Wait::Over;
        }
        let now = now();
        pending.asked = now;
        let unknown = pending.writes.iter().filter_map(|(write, _)| match write {
            Written::Unknown(subject) => Some(subject.clone()),
            Written::Parent { .. } | Written::Child { .. } | Written::Gone { .. } => None,
        });
        let unknown: Vec<_> = unknown.collect();
        if !unknown.is_empty() {
            return Wait::ForAnswers(unknown);
        }
        let waited = now.saturating_duration_since(pending.since);
        match PATIENCE.checked_sub(waited) {
            Some(left) if !left.is_zero() => Wait::ForWatch(left.min(LOOK_AGAIN)),
            _ => Wait::Long { kinds: kinds_behind(caches, &pending.writes), told: pending.told },
        }
    }

    /// Records that an object was read after a write that may have been carried out. `fact` is what its cache must show now.
    pub fn looked_up(&self, plugin: &PluginName, parent: &ObjectKey, subject: &Subject, fact: Option<Written>) {
        let now = Instant::now();
        let id = (plugin.clone(), parent.clone());
        if let Some(pending) = self.0.lock().of_parent.get_mut(&id) {
            pending.writes.retain(|(write, _)| !matches!(write, Written::Unknown(of) if of == subject));
            pending.writes.extend(fact.map(|fact| (fact, now)));
        }
    }

    /// Records that the parent's conditions report the wait.
    pub fn told(&self, plugin: &PluginName, parent: &ObjectKey) {
        if let Some(pending) = self.0.lock().of_parent.get_mut(&(plugin.clone(), parent.clone())) {
            pending.told = true;
        }
    }

    /// Forgets a parent that is gone.
    pub fn forget(&self, plugin: &PluginName, parent: &ObjectKey) {
        self.0.lock().of_parent.remove(&(plugin.clone(), parent.clone()));
    }
}

/// Whether the cache shows a write: by its version, or by a complete list that began after the write.
fn is_seen(caches: &impl Caches, parent: &ObjectKey, write: &Written, at: Instant) -> bool {
    // The writes of a kind that is no longer watched are not waited for.
    let Some(store) = cache_of(caches, write) else { return true };
    match write {
        Written::Unknown(_) => false,
        // A parent that the watch does not show has left the label selector: the watch never shows its versions.
        Written::Parent { resource_version } => store.has_seen(*resource_version, at) || store.get(parent).is_none(),
        Written::Child { resource_version, .. } => store.has_seen(*resource_version, at),
        Written::Gone { child, uid } => store.get(&child.key).is_none_or(|found| found.uid != *uid || found.deleting),
    }
}

/// The cache that shows a write: that of the parents, or that of a child kind.
fn cache_of<'a>(caches: &'a impl Caches, write: &Written) -> Option<&'a Store> {
    match write {
        Written::Parent { .. } | Written::Unknown(Subject::Parent) => Some(caches.of_parents()),
        Written::Child { kind, .. } => caches.of_children(kind),
        Written::Gone { child, .. } | Written::Unknown(Subject::Child(child)) => caches.of_children(&child.kind),
    }
}

/// The kinds whose watches are awaited, each once.
fn kinds_behind(caches: &impl Caches, writes: &[(Written, Instant)]) -> Vec<String> {
    let mut kinds: Vec<_> = writes
        .iter()
        .map(|(write, _)| match write {
            Written::Parent { .. } | Written::Unknown(Subject::Parent) => caches.parent_kind().kind.to_string(),
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

    use windlass_core::ids::Uid;
    use windlass_core::object::Object;
    use windlass_core::plan::ChildId;

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

    fn echo() -> PluginName {
        "echo".parse().expect("a name")
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
            let store = || Store::new(crate::cluster::watch::Index::Identity);
            let fixture = Self {
                writes: OwnWrites::default(),
                parents: store(),
                maps: store(),
                secrets: store(),
                kind: Gvk::from_api_version("v1", "ConfigMap"),
                now: Instant::now(),
            };
            fixture.parents.applied(object("ConfigMap", "web", 1));
            fixture
        }

        fn add(&self, writes: Vec<Written>) {
            self.writes.add_at(&echo(), &web(), writes, self.now);
        }

        fn wait(&self) -> Wait {
            self.writes.wait_at(&echo(), self, &web(), || self.now)
        }
    }

    fn long(kinds: &[&str], told: bool) -> Wait {
        Wait::Long { kinds: kinds.iter().map(ToString::to_string).collect(), told }
    }

    #[test]
    fn r03_a_parent_is_not_decided_again_before_the_cache_shows_its_own_write_however_long_that_takes() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.wait(), Wait::Over);
        fixture.add(vec![child("Secret", 7)]);
        fixture.secrets.applied(object("Secret", "another", 6));
        for (after, wait) in [
            (0, Wait::ForWatch(LOOK_AGAIN)),
            (28, Wait::ForWatch(Duration::from_secs(2))),
            (2, long(&["Secret"], false)),
            (100_000, long(&["Secret"], false)),
        ] {
            fixture.now += Duration::from_secs(after);
            assert_eq!(fixture.wait(), wait);
        }
        fixture.writes.told(&echo(), &web());
        // As the status is that reports it.
        fixture.add(vec![Written::Parent { resource_version: 2 }]);
        assert_eq!(fixture.wait(), long(&["ConfigMap", "Secret"], true));
        fixture.parents.applied(object("ConfigMap", "web", 2));
        assert_eq!(fixture.wait(), long(&["Secret"], true), "conditions say it once");
        fixture.secrets.applied(object("Secret", "another", 7));
        assert_eq!(fixture.wait(), Wait::Over);
    }

    #[test]
    fn r03_a_write_to_a_child_of_the_parents_own_kind_is_looked_for_among_the_children() {
        let fixture = Fixture::new();
        fixture.add(vec![child("ConfigMap", 7)]);
        fixture.parents.applied(object("ConfigMap", "web", 7));
        assert_eq!(fixture.wait(), Wait::ForWatch(LOOK_AGAIN));
        fixture.maps.applied(object("ConfigMap", "a", 7));
        assert_eq!(fixture.wait(), Wait::Over);
        fixture.add(vec![child("Pod", 7)]);
        assert_eq!(fixture.wait(), Wait::Over, "a kind that is no longer watched");
    }

    #[test]
    fn r03_a_list_that_begins_after_a_write_shows_it_and_one_that_began_before_does_not() {
        let mut fixture = Fixture::new();
        fixture.secrets.list_begins();
        fixture.now = Instant::now();
        fixture.add(vec![child("Secret", 7)]);
        fixture.secrets.list_ends();
        assert_eq!(fixture.wait(), Wait::ForWatch(LOOK_AGAIN));
        // The object is deleted by now, so no version of it will ever come.
        fixture.secrets.list_begins();
        fixture.secrets.list_ends();
        assert_eq!(fixture.wait(), Wait::Over);
    }

    #[test]
    fn r03_own_writes_are_awaited_after_the_versions_went_back_by_a_restored_backup() {
        let mut fixture = Fixture::new();
        fixture.secrets.applied(object("Secret", "a", 1000));
        fixture.secrets.list_begins();
        fixture.secrets.listed(object("Secret", "a", 500));
        fixture.secrets.list_ends();
        fixture.now = Instant::now();
        fixture.add(vec![child("Secret", 501)]);
        assert_eq!(fixture.wait(), Wait::ForWatch(LOOK_AGAIN));
        fixture.secrets.applied(object("Secret", "b", 501));
        assert_eq!(fixture.wait(), Wait::Over);
    }

    #[test]
    fn r03_a_write_without_an_answer_is_looked_up_before_anything_is_decided() {
        let mut fixture = Fixture::new();
        let secret = Subject::Child(id("Secret", "a"));
        for _ in 0..2 {
            fixture.add(vec![Written::Unknown(secret.clone()), Written::Unknown(Subject::Parent)]);
        }
        fixture.now += 2 * PATIENCE;
        assert_eq!(fixture.wait(), Wait::ForAnswers(vec![secret.clone(), Subject::Parent]));
        fixture.writes.looked_up(&echo(), &web(), &Subject::Parent, None);
        assert_eq!(fixture.wait(), Wait::ForAnswers(vec![secret.clone()]));
        fixture.writes.looked_up(&echo(), &web(), &secret, Some(child("Secret", 9)));
        assert_eq!(fixture.wait(), long(&["Secret"], false), "it exists, and the cache does not show it");
        fixture.secrets.applied(object("Secret", "a", 9));
        assert_eq!(fixture.wait(), Wait::Over);
    }

    #[test]
    fn r03_a_deletion_is_seen_when_the_cache_shows_the_object_no_more() {
        let fixture = Fixture::new();
        fixture.secrets.applied(object("Secret", "a", 3));
        fixture.add(vec![Written::Gone { child: id("Secret", "a"), uid: Uid::from("uid-of-a") }]);
        assert_eq!(fixture.wait(), Wait::ForWatch(LOOK_AGAIN));
        fixture.secrets.deleted(&object("Secret", "a", 4));
        assert_eq!(fixture.wait(), Wait::Over);
    }

    #[test]
    fn a_parent_that_left_the_selector_does_not_wait_for_a_version_that_its_watch_never_shows() {
        let fixture = Fixture::new();
        fixture.add(vec![Written::Parent { resource_version: 9 }]);
        assert_eq!(fixture.wait(), Wait::ForWatch(LOOK_AGAIN));
        fixture.parents.deleted(&object("ConfigMap", "web", 8));
        assert_eq!(fixture.wait(), Wait::Over);
    }

    #[test]
    fn parents_that_nobody_asks_for_any_more_do_not_pile_up() {
        let mut fixture = Fixture::new();
        for at in 0..10 * CLEAR_MIN {
            let parent = ObjectKey::new(Some("n"), &format!("p{at}"));
            fixture.writes.add_at(&echo(), &parent, vec![child("Secret", 7)], fixture.now);
            fixture.now += Duration::from_secs(1);
        }
        assert!(fixture.writes.0.lock().of_parent.len() <= 2 * CLEAR_MIN);
    }
}
