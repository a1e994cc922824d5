use windlass_core::value::ids::Gvk;

use super::*;

fn object(name: &str, uid: &str, version: u64, parent: &str) -> Object {
    let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
    let text = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{uid}","resourceVersion":"{version}",
        "labels":{{"windlass.dev/parent-uid":"{parent}"}}}}}}"#
    );
    Object::from_api(&kind, &text).expect("an object")
}

fn names(store: &Store, parent: &str) -> Vec<String> {
    let parent = ParentRef {
        plugin: "echo".parse().expect("a name"),
        kind: Arc::new(Gvk::from_api_version("my-operator.dev/v1", "Echo")),
        key: ObjectKey::new(Some("n"), "web"),
        uid: parent.into(),
        mark_key: None,
    };
    let mut names = Vec::new();
    store.for_each_of(&parent, |object| names.push(object.key.to_string()));
    names.sort();
    names
}

#[test]
fn object_whose_parent_label_changes_moves_in_the_index() {
    let store = Store::new(Index::Owner);
    store.upsert(object("a", "1", 5, "p"));
    store.upsert(object("b", "2", 6, "p"));
    assert_eq!(names(&store, "p"), ["n/a", "n/b"]);
    let change = store.upsert(object("a", "1", 7, "q"));
    assert!(change.before.is_some() && change.after.is_some());
    assert_eq!((names(&store, "p"), names(&store, "q")), (vec!["n/b".to_owned()], vec!["n/a".to_owned()]));
    store.remove(&object("b", "2", 8, "p"));
    assert!(names(&store, "p").is_empty() && store.get(&ObjectKey::new(Some("n"), "b")).is_none());
    let now = Instant::now();
    assert!(store.has_seen(8, now) && !store.has_seen(9, now));
}

#[test]
fn r09_only_objects_that_a_parent_controls_are_counted() {
    let store = Store::new(Index::Owner);
    let child = |name: &str, parent: &str, controller: &str| {
        let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"1",
            "labels":{{"windlass.dev/parent-uid":"{parent}"}},
            "ownerReferences":[{{"uid":"{controller}","controller":true}}]}}}}"#
        );
        Object::from_api(&kind, &text).expect("an object")
    };
    for (name, parent, controller) in [("a", "p", "p"), ("b", "q", "q"), ("taken", "p", "x"), ("gone", "r", "r")] {
        store.upsert(child(name, parent, controller));
    }
    store.upsert(object("retained", "retained", 2, "p"));
    let parents = ["p", "q", "childless"].map(Uid::from);
    assert_eq!(store.count_controlled(&parents, |_| true), 2);
    assert_eq!(store.count_controlled(&parents, |child| &*child.key.name == "a"), 1);
}

#[test]
fn retained_child_is_found_by_its_parents_name_until_it_is_changed_or_deleted() {
    let store = Store::new(Index::Owner);
    let retained = |name: &str, version: u64, annotations: &str| {
        let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{name}","resourceVersion":"{version}",
            "annotations":{{{annotations}}}}}}}"#
        );
        Object::from_api(&kind, &text).expect("an object")
    };
    let of_web = r#""windlass.dev/retained-for":"echo/Echo.my-operator.dev/n/web""#;
    store.upsert(object("mine", "1", 1, "p"));
    store.upsert(retained("a", 2, of_web));
    store.upsert(retained("b", 3, &of_web.replace("web", "other")));
    assert_eq!(names(&store, "p"), ["n/a", "n/mine"]);
    store.upsert(retained("a", 4, ""));
    assert_eq!(names(&store, "p"), ["n/mine"]);
    store.upsert(retained("b", 5, of_web));
    assert_eq!(names(&store, "p"), ["n/b", "n/mine"]);
    store.remove(&retained("b", 6, of_web));
    assert_eq!(names(&store, "p"), ["n/mine"]);
}

#[test]
fn parent_is_found_by_its_uid_until_it_is_replaced_or_deleted() {
    let store = Store::new(Index::Uid);
    store.upsert(object("a", "1", 5, "p"));
    assert_eq!(store.key_of(&"1".into()), Some(ObjectKey::new(Some("n"), "a")));
    store.upsert(object("a", "2", 6, "p"));
    assert_eq!((store.key_of(&"1".into()), store.key_of(&"2".into()).is_some()), (None, true));
    store.remove(&object("a", "2", 7, "p"));
    assert_eq!(store.key_of(&"2".into()), None);
}

#[test]
fn children_are_counted_by_plugin_and_copied_labels_do_not_count() {
    let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
    let pod = |name: &str, plugin: &str, more: &str| {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{name}","resourceVersion":"1",
            "labels":{{"windlass.dev/plugin":"{plugin}","windlass.dev/parent-uid":"p"}},{more}}}}}"#
        );
        Object::from_api(&kind, &text).expect("an object")
    };
    let owner = |uid: &str| {
        format!(r#""ownerReferences":[{{"apiVersion":"v1","kind":"A","name":"a","uid":"{uid}","controller":true}}]"#)
    };
    let retained = r#""annotations":{"windlass.dev/retained-for":"echo A n web"}"#;
    let store = Store::new(Index::Owner);
    let counts = || ["echo", "shop"].map(|plugin| store.children_of(plugin));
    store.upsert(pod("a", "echo", &owner("p")));
    store.upsert(pod("b", "echo", retained));
    store.upsert(pod("copy", "echo", &owner("of another parent")));
    store.upsert(pod("c", "shop", &owner("p")));
    assert_eq!(counts(), [2, 1]);
    store.upsert(pod("a", "echo", &owner("p")));
    assert_eq!(counts(), [2, 1], "a change is no second child");
    store.upsert(pod("a", "shop", &owner("p")));
    store.remove(&pod("c", "shop", &owner("p")));
    assert_eq!(counts(), [1, 1]);
    store.begin_list();
    store.finish_list();
    assert_eq!(counts(), [0, 0]);
    assert!(store.inner.read().children.is_empty(), "a plugin that is gone leaves nothing");
}

#[test]
fn namespace_index_follows_every_change() {
    let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
    let pod = |namespace: &str, name: &str, version: u64| {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{namespace}-{name}",
            "resourceVersion":"{version}"}}}}"#
        );
        Object::from_api(&kind, &text).expect("an object")
    };
    let node = r#"{"metadata":{"name":"node","uid":"node","resourceVersion":"1"}}"#;
    let store = Store::new(Index::Uid);
    let indexed = || store.inner.read().by_namespace.as_ref().map(HashMap::len);
    let of = |namespace: Option<&str>| {
        let found = store.in_namespace(namespace);
        found.iter().map(|pod| format!("{} {}", pod.key, pod.resource_version)).collect::<Vec<_>>()
    };
    store.upsert(pod("a", "x", 1));
    store.upsert(Object::from_api(&kind, node).expect("an object"));
    assert_eq!(indexed(), None, "the index is built only when a namespace is requested");
    assert_eq!((of(Some("a")), of(Some("b")), of(None)), (vec!["a/x 1".to_owned()], vec![], vec!["node 1".to_owned()]));
    store.upsert(pod("a", "x", 2));
    store.upsert(pod("b", "y", 2));
    assert_eq!((of(Some("a")), of(Some("b"))), (vec!["a/x 2".to_owned()], vec!["b/y 2".to_owned()]));
    store.remove(&pod("b", "y", 3));
    store.begin_list();
    store.add_listed(pod("a", "z", 4));
    store.add_listed(pod("c", "x", 4));
    store.finish_list();
    assert_eq!((of(Some("a")), of(Some("c"))), (vec!["a/z 4".to_owned()], vec!["c/x 4".to_owned()]));
    assert!(of(None).is_empty() && of(Some("b")).is_empty());
    assert_eq!(indexed(), Some(2), "empty namespaces leave the index");
    for name in ["y", "c", "x", "b"] {
        store.upsert(pod("a", name, 5));
    }
    assert_eq!(of(Some("a")), ["a/b 5", "a/c 5", "a/x 5", "a/y 5", "a/z 4"], "in the same order every time");
}

#[test]
fn long_list_replaces_the_cache_without_blocking_readers() {
    let store = Store::new(Index::Owner);
    let last = 4 * CHUNK;
    (0..=CHUNK).for_each(|at| drop(store.upsert(object(&format!("old-{at}"), &format!("o{at}"), 1, "p"))));
    store.begin_list();
    (0..last).for_each(|at| store.add_listed(object(&format!("new-{at}"), &format!("n{at}"), 7, "p")));
    let (now, reads) = (Instant::now(), std::cell::Cell::new(0));
    let changes = store.replace(|| {
        assert!(store.inner.try_read().is_some(), "the lock is free");
        assert!(!store.has_seen(7, now), "the list is not in the cache yet");
        reads.set(reads.get() + 1);
    });
    assert_eq!((changes.len(), reads.get()), (last + CHUNK + 1, 6));
    assert!(store.has_seen(7, now));
    assert_eq!(store.size(), last);
}

#[test]
fn new_list_replaces_the_cache_and_reports_only_changes() {
    let store = Store::new(Index::Owner);
    store.upsert(object("same", "1", 1, "p"));
    store.upsert(object("gone", "2", 2, "p"));
    store.upsert(object("again", "3", 3, "p"));
    store.begin_list();
    store.add_listed(object("same", "1", 1, "p"));
    store.add_listed(object("again", "4", 4, "p"));
    store.add_listed(object("new", "5", 5, "p"));
    assert_eq!(names(&store, "p"), ["n/again", "n/gone", "n/same"], "the cache changes only when the list is complete");
    let mut changed: Vec<_> = store
        .finish_list()
        .iter()
        .map(|change| {
            let uid = |object: &Option<Arc<Object>>| object.as_ref().map(|object| object.uid.to_string());
            (uid(&change.before), uid(&change.after))
        })
        .collect();
    changed.sort();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(changed, [(None, some("5")), (some("2"), None), (some("3"), some("4"))]);
    assert_eq!(names(&store, "p"), ["n/again", "n/new", "n/same"]);
}

#[test]
fn object_keeps_the_same_allocated_key_across_changes() {
    let store = Store::new(Index::Uid);
    let key_of = |change: Change| change.after.expect("the object exists").key.clone();
    let first = key_of(store.upsert(object("a", "1", 1, "p")));
    let changed = key_of(store.upsert(object("a", "1", 2, "p")));
    store.begin_list();
    store.add_listed(object("a", "1", 3, "p"));
    let listed = key_of(store.finish_list().remove(0));
    assert!([changed, listed].iter().all(|key| Arc::ptr_eq(&key.name, &first.name)));
}

#[test]
fn unchanged_object_of_a_list_is_not_stored_twice() {
    let store = Store::new(Index::Owner);
    store.upsert(object("same", "1", 1, "p"));
    let before = store.get(&ObjectKey::new(Some("n"), "same")).expect("there");
    store.begin_list();
    store.add_listed(object("same", "1", 1, "p"));
    assert_eq!(Arc::strong_count(&before), 4, "one shared object: here, by name, by owner, in the list");
    assert!(store.finish_list().is_empty());
}
