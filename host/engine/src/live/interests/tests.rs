use std::sync::Weak;

use parking_lot::Mutex;
use windlass_core::contract::reserved::HostNamespace;
use windlass_core::object::Object;

use super::*;

/// Interests, and watches that only count their references.
struct Setup {
    interests: Interests<()>,
    leased: Mutex<Vec<(String, Weak<()>)>>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { interests: Interests::new(usize::MAX), leased: Mutex::default() }
    }
}

fn plugin(name: &str) -> PluginName {
    name.parse().expect("a name")
}

fn parent(name: &str) -> ObjectKey {
    ObjectKey::new(Some("shop"), name)
}

fn kind(name: &str) -> Arc<Gvk> {
    Arc::new(Gvk::from_api_version("v1", name))
}

fn need(of: &str, namespace: &str, select: Select) -> Need {
    Need { id: "a".into(), kind: kind(of), place: Place::In(namespace.into()), select, metadata_only: false }
}

fn named(of: &str, namespace: &str, name: &str) -> Need {
    need(of, namespace, Select::Name(name.into()))
}

fn labelled(of: &str, namespace: &str, selector: &str) -> Need {
    need(of, namespace, Select::Labels(selector.parse().expect(selector)))
}

fn object(of: &str, namespace: &str, name: &str, labels: &str) -> Arc<Object> {
    let text = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"u","resourceVersion":"1","labels":{labels}}}}}"#
    );
    Arc::new(Object::from_api(&kind(of), &text).expect("an object"))
}

impl Setup {
    fn follow(&self, by: &str, name: &str, needs: &[Need]) {
        let needs = self.serve(by, name, needs);
        self.interests.keep(&plugin(by), &parent(name), &needs);
    }

    fn serve(&self, by: &str, name: &str, needs: &[Need]) -> Needs {
        let needs: Needs = needs.into();
        assert_eq!(self.try_serve(by, name, &needs), Ok(()));
        needs
    }

    fn try_serve(&self, by: &str, name: &str, needs: &Needs) -> Result<(), Full> {
        if self.interests.followed(&plugin(by), &parent(name), needs).is_none() {
            let leases = needs.iter().map(|need| self.lease(need)).collect();
            let followed = self.interests.follow(&plugin(by), &parent(name), needs, leases, Instant::now())?;
            assert_eq!(followed.len(), needs.len());
        }
        Ok(())
    }

    /// The running watch of the kind, or a new one.
    fn lease(&self, need: &Need) -> Arc<()> {
        let mut leased = self.leased.lock();
        let of = format!("{}{}", need.kind.kind, if need.metadata_only { " metadata" } else { "" });
        let running = leased.iter().filter(|(kind, _)| *kind == of).find_map(|(_, watch)| watch.upgrade());
        running.unwrap_or_else(|| {
            let watch = Arc::new(());
            leased.push((of, Arc::downgrade(&watch)));
            watch
        })
    }

    fn concerned(&self, before: Option<&Arc<Object>>, after: Option<&Arc<Object>>) -> Vec<String> {
        self.concerned_by(before, after, false)
    }

    /// The parents that a change concerns, or the change of the metadata alone.
    fn concerned_by(
        &self,
        before: Option<&Arc<Object>>,
        after: Option<&Arc<Object>>,
        metadata_only: bool,
    ) -> Vec<String> {
        let of = before.or(after).expect("an object").kind.clone();
        let change = Change { before: before.cloned(), after: after.cloned() };
        let concerned = self.interests.concerned(&WatchId { metadata_only, ..WatchId::of_kind(of) }, &change);
        concerned.iter().map(|interest| format!("{} {}", interest.plugin, interest.parent.name)).collect()
    }

    /// Entries of all indexes.
    fn size(&self) -> usize {
        let state = self.interests.0.read();
        let by_kind = state.kinds.values().map(|of_kind| {
            let by_labels = of_kind.by_labels.values().flat_map(HashMap::values);
            of_kind.by_name.values().chain(by_labels).map(HashMap::len).sum::<usize>()
        });
        by_kind.sum::<usize>() + state.plugins.values().map(|of_plugin| of_plugin.parents.len()).sum::<usize>()
    }

    /// Kinds with a running watch, and the number of watches that were ever started.
    fn watched(&self) -> (Vec<String>, usize) {
        let leased = self.leased.lock();
        let running = leased.iter().filter(|(_, watch)| watch.strong_count() > 0).map(|(kind, _)| kind.clone());
        (running.collect(), leased.len())
    }
}

#[test]
fn related_change_affects_parents_that_require_this_name_in_this_namespace() {
    let setup = Setup::default();
    setup.follow("echo", "a", &[named("Secret", "shop", "db")]);
    setup.follow("echo", "b", &[named("Secret", "shop", "db"), named("ConfigMap", "shop", "mq")]);
    setup.follow("other", "a", &[named("Secret", "shared", "db")]);
    let db = object("Secret", "shop", "db", "{}");
    for (before, after) in [(None, Some(&db)), (Some(&db), Some(&db)), (Some(&db), None)] {
        assert_eq!(setup.concerned(before, after), ["echo a", "echo b"], "the object appears, changes, disappears");
    }
    assert_eq!(setup.concerned(None, Some(&object("Secret", "shared", "db", "{}"))), ["other a"]);
    assert_eq!(setup.concerned(None, Some(&object("ConfigMap", "shop", "mq", "{}"))), ["echo b"]);
    for unrelated in [
        object("Secret", "shop", "mq", "{}"),
        object("ConfigMap", "shop", "db", "{}"),
        object("Pod", "shop", "db", "{}"),
    ] {
        assert!(setup.concerned(None, Some(&unrelated)).is_empty(), "{:?}", unrelated.key);
    }
}

#[test]
fn related_change_affects_parents_whose_selector_matches_before_or_after_it() {
    let setup = Setup::default();
    setup.follow("echo", "web", &[labelled("Secret", "shop", "tier=web")]);
    setup.follow("echo", "web2", &[labelled("Secret", "shop", "tier in (web)")]);
    setup.follow("echo", "db", &[labelled("Secret", "shop", "tier=db")]);
    setup.follow("echo", "all", &[labelled("Secret", "shop", "")]);
    setup.follow("echo", "elsewhere", &[labelled("Secret", "shared", "")]);
    let web = object("Secret", "shop", "x", r#"{"tier":"web"}"#);
    let db = object("Secret", "shop", "x", r#"{"tier":"db"}"#);
    assert_eq!(setup.concerned(None, Some(&web)), ["echo all", "echo web", "echo web2"]);
    assert_eq!(setup.concerned(Some(&web), Some(&db)), ["echo all", "echo db", "echo web", "echo web2"]);
    assert_eq!(setup.concerned(Some(&db), None), ["echo all", "echo db"]);
    assert_eq!(setup.concerned(None, Some(&object("Secret", "shared", "x", "{}"))), ["echo elsewhere"]);
}

#[test]
fn related_metadata_is_watched_apart_and_a_change_of_the_rest_concerns_no_parent_that_requires_metadata_alone() {
    let setup = Setup::default();
    setup.follow("echo", "whole", &[named("Secret", "shop", "db")]);
    setup.follow("echo", "part", &[Need { metadata_only: true, ..named("Secret", "shop", "db") }]);
    let db = object("Secret", "shop", "db", "{}");
    assert_eq!(setup.concerned_by(None, Some(&db), false), ["echo whole"]);
    assert_eq!(setup.concerned_by(None, Some(&db), true), ["echo part"]);
    assert_eq!(setup.watched(), (vec!["Secret".to_owned(), "Secret metadata".to_owned()], 2));
}

#[test]
fn related_change_in_any_namespace_affects_parents_that_require_objects_of_all() {
    let setup = Setup::default();
    let in_all = |need: Need| Need { place: Place::AllBut(HostNamespace::new("windlass-system")), ..need };
    setup.follow("echo", "by-name", &[in_all(named("Secret", "", "db"))]);
    setup.follow("echo", "by-labels", &[in_all(labelled("Secret", "", "tier=web"))]);
    setup.follow("echo", "any", &[in_all(labelled("Secret", "", ""))]);
    setup.follow("echo", "elsewhere", &[labelled("Secret", "shop", "tier=web")]);
    let secret = |name: &str, labels: &str| object("Secret", "bank", name, labels);
    assert_eq!(setup.concerned(None, Some(&secret("db", "{}"))), ["echo any", "echo by-name"]);
    assert_eq!(setup.concerned(None, Some(&secret("mq", r#"{"tier":"web"}"#))), ["echo any", "echo by-labels"]);
    for name in ["by-name", "by-labels", "any", "elsewhere"] {
        setup.interests.forget(&plugin("echo"), &parent(name));
    }
    assert_eq!(setup.size(), 0);
}

#[test]
fn related_plugins_that_require_a_kind_are_found_by_it() {
    let setup = Setup::default();
    setup.follow("a", "web", &[named("ConfigMap", "shop", "settings")]);
    setup.follow("b", "web", &[labelled("ConfigMap", "shop", "app=web"), named("Secret", "shop", "key")]);
    let of = |name: &str| {
        let mut plugins: Vec<_> =
            setup.interests.plugins_of(&WatchId::of_kind(kind(name))).iter().map(ToString::to_string).collect();
        plugins.sort();
        plugins
    };
    assert_eq!(
        (of("ConfigMap"), of("Secret"), of("Pod")),
        (vec!["a".to_owned(), "b".to_owned()], vec!["b".to_owned()], vec![])
    );
}

#[test]
fn related_watch_runs_as_long_as_a_parent_requires_its_kind() {
    let setup = Setup::default();
    setup.follow("echo", "a", &[named("Secret", "shop", "db"), named("ConfigMap", "shop", "x")]);
    setup.follow("other", "b", &[labelled("Secret", "shop", "")]);
    assert_eq!(setup.watched(), (vec!["Secret".to_owned(), "ConfigMap".to_owned()], 2), "one for each kind");
    setup.follow("echo", "a", &[named("Secret", "shop", "mq")]);
    assert_eq!(setup.watched(), (vec!["Secret".to_owned()], 2), "no parent requires ConfigMaps any more");
    setup.interests.forget(&plugin("other"), &parent("b"));
    setup.follow("echo", "a", &[named("Secret", "shop", "db")]);
    assert_eq!(setup.watched(), (vec!["Secret".to_owned()], 2), "a watch that is still required is not restarted");
    setup.interests.forget_plugin(&plugin("echo"));
    assert_eq!(setup.watched(), (vec![], 2));
    assert!(setup.concerned(None, Some(&object("Secret", "shop", "db", "{}"))).is_empty());
    assert_eq!(setup.size(), 0, "nothing is left of parents that are gone");
}

#[test]
fn related_new_watch_of_a_kind_replaces_the_old_one() {
    let setup = Setup::default();
    setup.follow("echo", "a", &[named("Secret", "shop", "db")]);
    let needs: Needs = [named("Secret", "shop", "mq")].into();
    let new = Arc::new(());
    let follow = setup.interests.follow(&plugin("other"), &parent("b"), &needs, vec![new.clone()], Instant::now());
    assert!(follow.is_ok());
    assert_eq!(setup.watched().0.len(), 0, "the old watch ends");
    let followed = setup.interests.followed(&plugin("other"), &parent("b"), &needs).expect("followed");
    assert!(followed.iter().all(|followed| Arc::ptr_eq(&followed.watch, &new)));
    assert_eq!(setup.concerned(None, Some(&object("Secret", "shop", "db", "{}"))), ["echo a"]);
}

#[test]
fn related_parent_without_requirements_leaves_no_watch_and_no_interest() {
    let setup = Setup::default();
    setup.follow("echo", "a", &[named("Secret", "shop", "db"), labelled("Secret", "shop", "x")]);
    assert_eq!(setup.interests.last(&plugin("echo"), &parent("a")).map(|needs| needs.len()), Some(2));
    setup.interests.keep(&plugin("echo"), &parent("a"), &Needs::default());
    assert_eq!((setup.watched().0.len(), setup.size()), (0, 0));
    assert!(setup.interests.last(&plugin("echo"), &parent("a")).is_none());
    setup.interests.keep(&plugin("echo"), &parent("never"), &Needs::default());
    assert_eq!(setup.size(), 0);
}

#[test]
fn related_requirements_of_an_intermediate_response_are_watched_and_not_recorded() {
    let setup = Setup::default();
    setup.follow("echo", "a", &[named("Secret", "shop", "db")]);
    setup.serve("echo", "a", &[named("Secret", "shop", "mq")]);
    assert_eq!(setup.concerned(None, Some(&object("Secret", "shop", "mq", "{}"))), ["echo a"]);
    let last = setup.interests.last(&plugin("echo"), &parent("a")).expect("a final response");
    assert_eq!(*last, [named("Secret", "shop", "db")]);
}

#[test]
fn related_requirements_of_one_plugin_are_bounded_and_a_parent_that_is_refused_keeps_its_own() {
    let needs = |count: usize| -> Needs {
        (0..count).map(|n| Need { id: n.to_string().into(), ..labelled("Secret", "shop", "tier=web") }).collect()
    };
    let limit = 2 * size_of(&needs(10));
    let setup = Setup { interests: Interests::new(limit), ..Setup::default() };
    let kept = || setup.interests.0.read().plugins.get(&plugin("echo")).map(|of_plugin| of_plugin.size);
    for name in ["a", "b"] {
        setup.follow("echo", name, &needs(10));
    }
    assert_eq!(kept(), Some(limit), "the last final requirements are those that were served, and count once");
    assert_eq!(setup.try_serve("echo", "c", &needs(1)), Err(Full(limit)));
    assert_eq!(setup.try_serve("echo", "b", &needs(11)), Err(Full(limit)));
    assert_eq!(setup.interests.last(&plugin("echo"), &parent("b")), Some(needs(10)));
    assert_eq!(setup.try_serve("other", "c", &needs(1)), Ok(()), "each plugin has its own memory");
    let web = object("Secret", "shop", "x", r#"{"tier":"web"}"#);
    assert_eq!(setup.concerned(None, Some(&web)), ["echo a", "echo b", "other c"]);
    setup.interests.forget(&plugin("echo"), &parent("a"));
    assert_eq!(setup.try_serve("echo", "c", &needs(1)), Ok(()));
    assert_eq!(kept(), Some(size_of(&needs(10)) + size_of(&needs(1))));
    setup.interests.keep(&plugin("echo"), &parent("c"), &Needs::default());
    setup.interests.forget_plugin(&plugin("echo"));
    assert_eq!(kept(), None);
}

#[test]
fn related_requirements_of_a_response_that_is_not_final_count_beside_the_last_final_ones() {
    let setup =
        Setup { interests: Interests::new(3 * size_of(&[labelled("Secret", "shop", "a=1")])), ..Setup::default() };
    setup.follow("echo", "a", &[labelled("Secret", "shop", "a=1")]);
    setup.serve("echo", "a", &[labelled("Secret", "shop", "b=1")]);
    let two = |value: u32| ["b", "c"].map(|key| labelled("Secret", "shop", &format!("{key}={value}")));
    assert_eq!(setup.try_serve("echo", "a", &two(1).into()), Ok(()));
    assert!(setup.try_serve("echo", "b", &[labelled("Secret", "shop", "a=1")].into()).is_err());
    let (parent, two) = (parent("a"), two(2).into());
    assert_eq!(setup.try_serve("echo", "a", &two), Ok(()), "requirements of the same size replace others");
    setup.interests.keep(&plugin("echo"), &parent, &two);
    assert_eq!(setup.try_serve("echo", "b", &[labelled("Secret", "shop", "a=1")].into()), Ok(()));
}

#[test]
fn related_equal_selectors_of_parents_are_kept_once() {
    let setup = Setup::default();
    for name in ["a", "b"] {
        setup.follow("echo", name, &[labelled("Secret", "shop", "tier=web")]);
    }
    let selector = |name: &str| match &setup.interests.last(&plugin("echo"), &parent(name)).expect("kept")[0].select {
        Select::Labels(selector) => selector.clone(),
        Select::Name(_) | Select::Nothing => unreachable!("it selects by labels"),
    };
    let (one, other) = (selector("a"), selector("b"));
    let terms = one.required_term().zip(other.required_term());
    assert!(terms.is_some_and(|(one, other)| std::ptr::eq(one, other)), "in the same memory");
}

#[test]
fn related_change_of_an_object_is_matched_without_unpacking_the_object() {
    let setup = Setup::default();
    setup.follow("echo", "web", &[labelled("Secret", "shop", "tier=web")]);
    let packed = |labels: &str| {
        let mut object = Object::clone(&object("Secret", "shop", "x", labels));
        object.json = "unreadable".as_bytes().into();
        Arc::new(object)
    };
    let (web, db) = (packed(r#"{"tier":"web"}"#), packed(r#"{"tier":"db"}"#));
    assert_eq!(setup.concerned(Some(&web), Some(&db)), ["echo web"]);
    assert_eq!(setup.concerned(Some(&db), Some(&web)), ["echo web"]);
    assert!(setup.concerned(Some(&db), Some(&db)).is_empty());
}

#[test]
fn related_unchanged_requirements_add_no_watch_and_no_interest() {
    let setup = Setup::default();
    for _ in 0..3 {
        setup.follow("echo", "a", &[named("Secret", "shop", "db")]);
    }
    assert_eq!((setup.watched().1, setup.size()), (1, 2), "one watch, one parent with one interest");
}
