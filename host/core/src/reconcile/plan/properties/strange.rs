//! Checks 100 000 strange responses: whatever a plugin returns, the planned writes stay inside its grants.

use std::cell::Cell;
use std::sync::LazyLock;

use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::contract::desired::{Grants, validate as validate_response};
use crate::fixtures::grants_with;
use crate::object::parent::ParentRef;
use crate::value::json::{Map, Value};

/// Places in a child that a mutation may change, as JSON pointers.
const PLACES: [&str; 22] = [
    "/apiVersion",
    "/kind",
    "/metadata",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/generateName",
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/ownerReferences",
    "/metadata/finalizers",
    "/metadata/managedFields",
    "/metadata/deletionTimestamp",
    "/metadata/labels",
    "/metadata/labels/windlass.dev~1plugin",
    "/metadata/labels/windlass.dev~1parent-uid",
    "/metadata/annotations",
    "/metadata/annotations/windlass.dev~1applied",
    "/metadata/annotations/windlass.dev~1retain",
    "/metadata/annotations/windlass.dev~1retained-for",
    "/metadata/annotations/windlass.dev~1take-over",
    "/spec",
    "/status",
];

/// Values that a mutation may set.
static VALUES: LazyLock<Vec<Json>> = LazyLock::new(|| {
    let texts = [
        "",
        "default",
        "kube-system",
        "DEFAULT",
        "v1",
        "v2",
        "apps/v1",
        "/v1",
        "v1/",
        "Pod",
        "Pods",
        "pod",
        "Secret",
        "ConfigMap",
        "Service",
        "Namespace",
        "PersistentVolume",
        "ClusterRole",
        "Plugin",
        "owned",
        "kept",
        "new",
        "true",
        "false",
        "../x",
        "a/b",
        "a%2fb",
        "a.b",
        "é",
        "\u{0}",
        "echo",
        "uid-of-parent",
        "uid-of-owned",
        "Po\u{200b}d",
        "default\u{0}",
        " default",
    ];
    let mut values: Vec<Json> = texts.iter().map(|text| json!(text)).collect();
    let deep = (0..200).fold(json!(1), |below, _| json!([below]));
    values.extend([
        json!(null),
        json!(true),
        json!(1),
        json!(-1.5e300),
        json!([]),
        json!({}),
        json!([null]),
        json!({"": ""}),
        deep,
        json!("a".repeat(300)),
        json!(["windlass.dev/echo"]),
        json!({"a": null}),
        json!({"name": "new"}),
        json!({"name": "new", "namespace": "kube-system"}),
        json!({"name": "owned", "labels": {"a": "b"}}),
        json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": true}]),
        json!({"windlass.dev/plugin": "other"}),
        json!({"windlass.dev/retain": "true", "b": "c"}),
        json!({"finalizers": ["x/y"]}),
        json!(["default"]),
        json!({"kind": "Pod"}),
    ]);
    values
});

/// Damage to the text of a child.
#[derive(Debug, Clone, Copy)]
enum Damage {
    /// A byte is replaced.
    Byte(u16, u8),
    /// The text is cut off.
    Cut(u16),
    /// One of four fields is inserted at the start of the object, also with an escaped name, so that it may occur twice.
    DuplicateField(u8),
    /// A byte is inserted.
    Inserted(u16, u8),
}

/// A child: the number of its template, its changes (indices into [`PLACES`] and [`VALUES`]), and its damage.
type StrangeChild = (u8, Vec<(usize, usize)>, Option<Damage>);

fn strange() -> impl Strategy<Value = Vec<StrangeChild>> {
    let changes = proptest::collection::vec((0..PLACES.len(), 0..VALUES.len()), 0..3);
    let damage = prop_oneof![
        (any::<u16>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        any::<u16>().prop_map(Damage::Cut),
        (0_u8..4).prop_map(Damage::DuplicateField),
        (any::<u16>(), any::<u8>()).prop_map(|(at, byte)| Damage::Inserted(at, byte)),
    ];
    let child = (0_u8..4, changes, proptest::option::weighted(0.15, damage));
    proptest::collection::vec(child, 1..3)
}

fn child((template, changes, damage): &StrangeChild) -> Vec<u8> {
    let mut child = match template {
        0 => json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}}),
        1 => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "namespace": "default"}}),
        2 => json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "owned", "labels": {"a": "b"}}}),
        _ => json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kept", "annotations": {"a": "b"}}}),
    };
    for (place, value) in changes {
        put(&mut child, PLACES[*place], VALUES[*value].clone());
    }
    let mut text = child.to_string().into_bytes();
    let length = text.len();
    match *damage {
        None => {}
        Some(Damage::Byte(at, byte)) => text[usize::from(at) % length] = byte,
        Some(Damage::Inserted(at, byte)) => text.insert(usize::from(at) % length, byte),
        Some(Damage::Cut(at)) => text.truncate(usize::from(at) % length),
        Some(Damage::DuplicateField(which)) => {
            let again = [
                r#"{"kind":"Secret","#,
                r#"{"metadata":{"name":"x","namespace":"kube-system"},"#,
                r#"{"\u006bind":"Secret","#,
                r#"{"apiVersion":"v1","#,
            ];
            text.splice(..1, again[usize::from(which)].bytes());
        }
    }
    text
}

/// Sets the value at a JSON pointer, if its parent can hold one.
fn put(child: &mut Json, place: &str, value: Json) {
    let (above, field) = place.rsplit_once('/').expect("a pointer");
    if above.len() > 1 && child.pointer(above).is_none() {
        put(child, above, json!({}));
    }
    if let Some(Json::Object(map)) = child.pointer_mut(above) {
        map.insert(field.replace("~1", "/"), value);
    }
}

/// The cluster that all responses meet: children that are owned, retained, or only look like children.
struct World {
    snapshot: Snapshot,
    parent: ParentRef,
    grants: Vec<Grants>,
    limits: Limits,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let pod = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}});
    let mut config = pod("owned");
    config["kind"] = json!("ConfigMap");
    let mut kept = pod("kept");
    kept["metadata"]["annotations"] = json!({"windlass.dev/retain": "true"});
    let desired =
        validate(&[pod("owned"), pod("also-owned"), config, kept, pod("copied"), pod("leaving")]).expect("valid");
    let mut live: Vec<Json> = desired.children.iter().map(|child| created(child)).collect();
    let mut elsewhere = live[0].clone();
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    for live in &mut live {
        live["metadata"]["uid"] = json!(format!("uid-of-{}-{}", live["kind"], live["metadata"]["name"]));
        match live["metadata"]["name"].as_str() {
            Some("copied") => drop(live["metadata"].as_object_mut().expect("metadata").remove("ownerReferences")),
            Some("leaving") => live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            _ => {}
        }
    }
    live.push(elsewhere);
    let rolling = |recreate| UpdateStrategy::Rolling { recreate, until: Until::Conditions(Arc::new([])) };
    let updates = [UpdateStrategy::Apply, UpdateStrategy::Recreate, rolling(false), rolling(true)];
    World {
        snapshot: snapshot(&live),
        parent: parent_ref(),
        grants: updates.iter().map(grants_with).collect(),
        limits: Limits::default(),
    }
});

/// Asserts everything that must hold for an object that will be sent.
fn assert_is_ours(child: &DesiredChild, parent: &ParentRef) {
    let meta = child.body.get("metadata").and_then(Value::as_object).expect("metadata");
    let text = |map: &Map, field: &str, expected: &str| {
        assert_eq!(map.get(field).and_then(Value::as_str), Some(expected), "{field}");
    };
    assert!(*child.kind.group == *"" && *child.kind.version == *"v1");
    assert!(matches!(&*child.kind.kind, "Pod" | "ConfigMap" | "Service"), "{}", child.kind);
    assert_eq!(child.key.namespace, parent.key.namespace);
    text(&child.body, "apiVersion", "v1");
    text(&child.body, "kind", &child.kind.kind);
    text(meta, "namespace", "default");
    text(meta, "name", &child.key.name);
    assert!(child.body.get("status").is_none());
    for (key, _) in meta.iter() {
        assert!(matches!(key, "annotations" | "labels" | "name" | "namespace" | "ownerReferences"), "{key}");
    }
    let marks = |field: &str| {
        let map = meta.get(field).and_then(Value::as_object).cloned().unwrap_or_default();
        let ours = map.iter().filter(|(key, _)| key.starts_with("windlass.dev/"));
        ours.map(|(key, value)| (key.to_owned(), value.as_str().expect("text").to_owned())).collect::<Vec<_>>()
    };
    let entry = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        marks("labels"),
        [entry("windlass.dev/parent-uid", "uid-of-parent"), entry("windlass.dev/plugin", "echo")]
    );
    let applied = entry("windlass.dev/applied", &child.applied);
    if child.owner.is_some() {
        assert_eq!(meta.get("ownerReferences"), Some(&Value::Array(vec![Value::Object(parent.owner_reference())])));
        assert_eq!(marks("annotations"), [applied]);
    } else {
        assert_eq!(meta.get("ownerReferences"), None);
        let kept = entry("windlass.dev/retained-for", "echo/Echo.my-operator.dev/default/hello");
        assert_eq!(marks("annotations"), [applied, kept]);
    }
}

/// Asserts that a delete concerns a child that this parent owns, by its present UID.
fn assert_deletes_owned_child(delete: &Delete, snapshot: &Snapshot) {
    let found = snapshot.children.iter().find(|live| live.uid == delete.uid && live.key == delete.child.key);
    let live = found.expect("a child");
    assert!(live.kind == delete.child.kind && live.is_owned_by(&snapshot.parent.uid) && !live.deleting);
    assert_eq!(delete.child.key.namespace, snapshot.parent.key.namespace);
}

/// Asserts that a response is either rejected, or that its plan stays inside the grants and the parent's namespace.
/// Returns the number of planned writes; `None` if the response is rejected.
pub(super) fn stays_inside(response: &Response, update: usize) -> Option<usize> {
    let World { snapshot, parent, grants, limits } = &*WORLD;
    let desired = validate_response(response, parent, &grants[update % grants.len()], limits).ok()?;
    let plan = plan(snapshot, &desired);
    for write in &plan.writes {
        match write {
            Write::Create(child) => assert_is_ours(child, parent),
            Write::Apply { child, target } => {
                assert_is_ours(child, parent);
                let live = snapshot.children.iter().find(|live| live.uid == target.uid).expect("a child");
                assert_eq!((&live.kind, &live.key), (&child.kind, &child.key));
            }
            Write::Replace(delete) => assert_deletes_owned_child(delete, snapshot),
        }
    }
    plan.prunes.iter().for_each(|delete| assert_deletes_owned_child(delete, snapshot));
    Some(plan.writes.len())
}

#[test]
fn no_response_leads_to_a_write_outside_the_grants_or_the_parents_namespace() {
    let (accepted, written) = (Cell::new(0_u32), Cell::new(0_usize));
    let mut runner = TestRunner::new(Config { cases: 100_000, ..Config::with_source_file(file!()) });
    let outcome = runner.run(&(strange(), 0..WORLD.grants.len()), |(children, update)| {
        let response = Response { children: children.iter().map(child).collect(), ..Response::default() };
        if let Some(writes) = stays_inside(&response, update) {
            accepted.set(accepted.get() + 1);
            written.set(written.get() + writes);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(accepted.get() > 10_000 && written.get() > 10_000, "{} accepted, {} writes", accepted.get(), written.get());
}
