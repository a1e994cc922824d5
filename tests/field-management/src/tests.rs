//! The documented behaviour (KEP 555 and the pages on server-side apply), without an API server.

use serde_json::{Value, json};

use crate::{Conflict, Field, Refusal, Shape, Write, apply, apply_with_defaults, conflict_message, shape_of, update};

const MORNING: &str = "2026-01-01T08:00:00Z";
const NOON: &str = "2026-01-01T12:00:00Z";

fn by<'a>(manager: &'a str, time: &'a str) -> Write<'a> {
    Write { manager, api_version: "v1", subresource: None, time }
}

fn config_map(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": data})
}

fn shape() -> Shape {
    shape_of("", "ConfigMap")
}

fn applied(live: Option<&Value>, manager: &str, data: &Value) -> Value {
    apply(live, &config_map(data), &by(manager, MORNING), false, &shape()).expect("no conflict")
}

fn conflicts(refusal: Result<Value, Refusal>) -> Vec<Conflict> {
    match refusal {
        Err(Refusal::Conflicts(conflicts)) => conflicts,
        other => panic!("{other:?} instead of conflicts"),
    }
}

/// The fields that a manager owns.
fn fields(object: &Value, manager: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut of_manager = entries.filter(|entry| entry["manager"] == manager);
    of_manager.next().map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

fn managers(object: &Value) -> Vec<&str> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries.filter_map(|entry| entry["manager"].as_str()).collect()
}

/// An update by a manager that changes the object so.
fn updated(before: &Value, manager: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut after = before.clone();
    change(&mut after);
    update(Some(before), &mut after, &by(manager, NOON), &shape());
    after
}

#[test]
fn applier_owns_the_fields_that_it_applies() {
    let object = applied(None, "helm", &json!({"x": "1"}));
    let entry = json!({"manager": "helm", "operation": "Apply", "apiVersion": "v1", "time": MORNING, "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:x": {}}}});
    assert_eq!(object["metadata"]["managedFields"], json!([entry]));
}

#[test]
fn creator_owns_all_fields_and_the_objects_that_contain_them() {
    let mut object = config_map(&json!({"x": "1"}));
    update(None, &mut object, &by("kubectl-create", MORNING), &shape());
    assert_eq!(fields(&object, "kubectl-create"), json!({"f:data": {".": {}, "f:x": {}}}));
    assert_eq!(object["metadata"]["managedFields"][0]["operation"], "Update");
}

#[test]
fn apply_of_another_value_conflicts_with_the_owner() {
    let object = applied(None, "helm", &json!({"x": "1"}));
    let refused = apply(Some(&object), &config_map(&json!({"x": "2"})), &by("argo", NOON), false, &shape());
    let expected = Conflict { field: ".data.x".into(), message: "conflict with \"helm\"".into() };
    assert_eq!(conflicts(refused), [expected]);
}

#[test]
fn conflict_with_an_updater_names_its_version() {
    let object =
        updated(&applied(None, "helm", &json!({"x": "1"})), "kubectl-edit", |object| object["data"]["y"] = "1".into());
    let refused = apply(Some(&object), &config_map(&json!({"x": "2", "y": "2"})), &by("argo", NOON), false, &shape());
    let text = "Apply failed with 2 conflicts: conflicts with \"helm\":\n- .data.x\nconflicts with \"kubectl-edit\" using v1:\n- .data.y";
    assert_eq!(conflict_message(&conflicts(refused)), text);
}

#[test]
fn forced_apply_takes_fields_from_their_owners() {
    let object = applied(None, "helm", &json!({"x": "1", "y": "1"}));
    let config = config_map(&json!({"x": "2"}));
    let forced = apply(Some(&object), &config, &by("argo", NOON), true, &shape()).expect("no conflict");
    assert_eq!(fields(&forced, "helm"), json!({"f:data": {"f:y": {}}}));
    assert_eq!(fields(&forced, "argo"), json!({"f:data": {"f:x": {}}}));
    assert_eq!(forced["data"], json!({"x": "2", "y": "1"}));
}

#[test]
fn appliers_of_the_same_value_own_it_together() {
    let object = applied(None, "helm", &json!({"x": "1"}));
    let shared = applied(Some(&object), "argo", &json!({"x": "1"}));
    assert_eq!(fields(&shared, "helm"), fields(&shared, "argo"));
    // An apply that does not change the object has no time.
    assert_eq!(shared["metadata"]["managedFields"][0].get("time"), None);

    let left = applied(Some(&shared), "helm", &json!({}));
    assert_eq!(left["data"], json!({"x": "1"}), "it is argo's, too");
    let gone = applied(Some(&left), "argo", &json!({}));
    assert_eq!(gone.get("data"), None);
}

#[test]
fn field_that_another_manager_took_stays_when_its_applier_leaves_it_out() {
    let object = applied(None, "helm", &json!({"x": "1", "y": "1"}));
    let object = updated(&object, "kubectl-edit", |object| object["data"]["x"] = "2".into());
    let object = applied(Some(&object), "helm", &json!({"y": "1"}));
    assert_eq!(object["data"], json!({"x": "2", "y": "1"}), "helm lost x to kubectl-edit");
}

#[test]
fn update_takes_changed_fields_and_removed_ones_from_others() {
    let object = applied(None, "helm", &json!({"x": "1", "y": "1", "z": "1"}));
    let object = updated(&object, "kubectl-edit", |object| object["data"] = json!({"x": "2", "z": "1"}));
    assert_eq!(fields(&object, "helm"), json!({"f:data": {"f:z": {}}}));
    assert_eq!(fields(&object, "kubectl-edit"), json!({"f:data": {"f:x": {}}}));
}

#[test]
fn apply_that_changes_nothing_returns_the_same_object() {
    let object = applied(None, "helm", &json!({"x": "1"}));
    let again = apply(Some(&object), &config_map(&json!({"x": "1"})), &by("helm", NOON), false, &shape());
    assert_eq!(again, Ok(object));
}

#[test]
fn update_that_changes_nothing_returns_the_same_object() {
    let object = applied(None, "helm", &json!({"x": "1"}));
    assert_eq!(updated(&object, "kubectl-edit", |_| ()), object);
}

#[test]
fn applier_does_not_own_defaults() {
    let shape = Shape::custom();
    let config = json!({"kind": "A", "metadata": {}, "spec": {"size": 1}});
    let object = apply_with_defaults(None, &config, &by("helm", MORNING), false, &shape, |object| {
        object["spec"]["color"] = "red".into();
    });
    let object = object.expect("no conflict");
    assert_eq!(object["spec"], json!({"size": 1, "color": "red"}));
    assert_eq!(fields(&object, "helm"), json!({"f:spec": {"f:size": {}}}));
}

#[test]
fn empty_list_resets_managed_fields_and_a_missing_one_keeps_them() {
    let object = applied(None, "helm", &json!({"x": "1"}));
    for reset in [json!([]), json!([{}])] {
        let reset = updated(&object, "kubectl-edit", |object| object["metadata"]["managedFields"] = reset);
        assert_eq!(reset["metadata"].get("managedFields"), None);
        let changed = updated(&reset, "kubectl-edit", |object| object["data"]["x"] = "2".into());
        assert_eq!(managers(&changed), [""; 0], "updates are not tracked until the next apply");
    }
    let kept = updated(&object, "kubectl-edit", |object| object["metadata"]["managedFields"] = Value::Null);
    assert_eq!(kept, object);
}

#[test]
fn custom_kind_ignores_an_empty_list_of_managed_fields() {
    let config = json!({"kind": "A", "metadata": {}, "spec": {"size": 1}});
    let before = apply(None, &config, &by("helm", MORNING), false, &Shape::custom()).expect("no conflict");
    let mut after = before.clone();
    after["metadata"]["managedFields"] = json!([]);
    update(Some(&before), &mut after, &by("kubectl-edit", NOON), &Shape::custom());
    assert_eq!(after, before);
}

#[test]
fn first_apply_gives_unowned_fields_an_entry_of_their_own() {
    let object = config_map(&json!({"x": "1", "y": "1"}));
    let refused = apply(Some(&object), &config_map(&json!({"x": "2"})), &by("helm", NOON), false, &shape());
    assert_eq!(conflicts(refused)[0].message, "conflict with \"before-first-apply\" using v1");
    let object = applied(Some(&object), "helm", &json!({"x": "1"}));
    assert_eq!(managers(&object), ["helm", "before-first-apply"]);
}

#[test]
fn edited_entries_replace_the_old_ones() {
    let object = applied(None, "helm", &json!({"x": "1"}));
    let object =
        updated(&object, "kubectl-edit", |object| object["metadata"]["managedFields"][0]["manager"] = "argo".into());
    assert_eq!(managers(&object), ["argo"]);
}

#[test]
fn entries_are_sorted_by_operation_then_time_then_manager() {
    let mut object = config_map(&json!({"x": "1"}));
    update(None, &mut object, &by("a", MORNING), &shape());
    let applied = |object: &Value, manager, time, data: &Value| {
        apply(Some(object), &config_map(data), &by(manager, time), false, &shape()).expect("no conflict")
    };
    let object = applied(&object, "b", NOON, &json!({"b": "1"}));
    let object = applied(&object, "d", MORNING, &json!({"d": "1"}));
    let object = applied(&object, "c", MORNING, &json!({"c": "1"}));
    assert_eq!(managers(&object), ["c", "d", "b", "a"]);
}

#[test]
fn eleventh_updater_joins_the_two_oldest() {
    let mut object = config_map(&json!({"0": "1"}));
    update(None, &mut object, &by("0", MORNING), &shape());
    for manager in 1..11 {
        let manager = manager.to_string();
        object = updated(&object, &manager, |object| object["data"][&manager] = "1".into());
    }
    assert_eq!(managers(&object).len(), 10);
    assert_eq!(fields(&object, "ancient-changes"), json!({"f:data": {".": {}, "f:0": {}, "f:1": {}}}));
}

fn service(ports: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": ports}})
}

fn apply_service(live: Option<&Value>, manager: &str, ports: &Value) -> Result<Value, Refusal> {
    apply(live, &service(ports), &by(manager, MORNING), false, &shape_of("", "Service"))
}

#[test]
fn list_items_merge_by_keys_with_defaults() {
    let first = apply_service(None, "helm", &json!([{"port": 80, "name": "web"}])).expect("no conflict");
    let owned =
        json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}}}}});
    assert_eq!(fields(&first, "helm"), owned);

    let refused = apply_service(Some(&first), "argo", &json!([{"port": 80, "protocol": "TCP", "name": "http"}]));
    assert_eq!(conflicts(refused)[0].field, ".spec.ports[port=80,protocol=\"TCP\"].name");

    let both = apply_service(Some(&first), "argo", &json!([{"port": 80, "protocol": "UDP"}])).expect("no conflict");
    assert_eq!(both["spec"]["ports"], json!([{"port": 80, "name": "web"}, {"port": 80, "protocol": "UDP"}]));
    let left = apply_service(Some(&both), "helm", &json!([])).expect("no conflict");
    assert_eq!(left["spec"]["ports"], json!([{"port": 80, "protocol": "UDP"}]));
}

#[test]
fn duplicate_keys_in_an_applied_list_are_invalid() {
    let refused = apply_service(None, "helm", &json!([{"port": 80}, {"port": 80, "protocol": "TCP"}]));
    let text = "failed to create typed patch object: .spec.ports: duplicate entries for key [port=80,protocol=\"TCP\"]";
    assert_eq!(refused, Err(Refusal::Invalid(text.into())));
}

#[test]
fn applied_items_keep_their_order_and_others_their_places() {
    let shape = Shape::custom().with("spec.items", Field::list_by_keys(&["name"]));
    let list = |names: &str| Value::Array(names.chars().map(|name| json!({"name": name.to_string()})).collect());
    let object = |names| json!({"kind": "A", "metadata": {}, "spec": {"items": list(names)}});
    let live = apply(None, &object("axbyc"), &by("helm", MORNING), false, &shape).expect("no conflict");
    let merged = apply(Some(&live), &object("cba"), &by("argo", NOON), false, &shape).expect("no conflict");
    assert_eq!(merged["spec"]["items"], list("xycba"));
}

#[test]
fn selector_of_a_service_is_owned_as_a_whole() {
    let object = |selector: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": {"selector": selector}});
    let shape = shape_of("", "Service");
    let first = apply(None, &object(json!({"app": "a"})), &by("helm", MORNING), false, &shape).expect("no conflict");
    assert_eq!(fields(&first, "helm"), json!({"f:spec": {"f:selector": {}}}));
    let refused = apply(Some(&first), &object(json!({"tier": "b"})), &by("argo", NOON), false, &shape);
    assert_eq!(conflicts(refused)[0].field, ".spec.selector");
}

#[test]
fn finalizers_are_owned_one_by_one() {
    let object = |finalizers: Value| json!({"kind": "A", "metadata": {"finalizers": finalizers}});
    let shape = Shape::custom();
    let first = apply(None, &object(json!(["a/a"])), &by("helm", MORNING), false, &shape).expect("no conflict");
    assert_eq!(fields(&first, "helm"), json!({"f:metadata": {"f:finalizers": {"v:\"a/a\"": {}}}}));
    let both = apply(Some(&first), &object(json!(["b/b"])), &by("argo", NOON), false, &shape).expect("no conflict");
    assert_eq!(both["metadata"]["finalizers"], json!(["a/a", "b/b"]));
    let left = apply(Some(&both), &object(json!([])), &by("helm", NOON), false, &shape).expect("no conflict");
    assert_eq!(left["metadata"]["finalizers"], json!(["b/b"]));
}

#[test]
fn status_apply_owns_and_changes_the_status_alone() {
    let shape = Shape::custom();
    let object = |size: u8| json!({"kind": "A", "metadata": {}, "spec": {"size": size}, "status": {"ready": size}});
    let live = apply(None, &object(1), &by("helm", MORNING), false, &shape).expect("no conflict");
    assert_eq!((live.get("status"), fields(&live, "helm")), (None, json!({"f:spec": {"f:size": {}}})));

    let status = Write { subresource: Some("status"), ..by("controller", NOON) };
    let after = apply(Some(&live), &object(2), &status, false, &shape).expect("no conflict");
    assert_eq!((&after["spec"]["size"], &after["status"]["ready"]), (&json!(1), &json!(2)));
    assert_eq!(fields(&after, "controller"), json!({"f:status": {"f:ready": {}}}));

    let other = Write { manager: "other", ..status };
    let refused = apply(Some(&after), &object(3), &other, false, &shape);
    assert_eq!(conflicts(refused)[0].message, "conflict with \"controller\" with subresource \"status\"");
}

#[test]
fn status_update_ignores_edited_entries() {
    let shape = Shape::custom();
    let config = json!({"kind": "A", "metadata": {}, "spec": {"size": 1}});
    let before = apply(None, &config, &by("helm", MORNING), false, &shape).expect("no conflict");
    let mut after = before.clone();
    after["status"] = json!({"ready": true});
    after["metadata"]["managedFields"] = json!([{}]);
    update(Some(&before), &mut after, &Write { subresource: Some("status"), ..by("controller", NOON) }, &shape);
    assert_eq!(managers(&after), ["helm", "controller"]);
    assert_eq!(fields(&after, "controller"), json!({"f:status": {".": {}, "f:ready": {}}}));
}

#[test]
fn containers_of_a_deployment_merge_by_name() {
    let shape = shape_of("apps", "Deployment");
    let object = |containers: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {},
            "spec": {"template": {"spec": {"containers": containers}}}})
    };
    let mut live = object(json!([{"name": "a", "image": "b"}]));
    update(None, &mut live, &by("kubectl", MORNING), &shape);
    let owned = json!({"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:image": {}, "f:resources": {}}});
    // The API server always writes the list of containers, so that no manager adds it.
    assert_eq!(fields(&live, "kubectl")["f:spec"]["f:template"]["f:spec"]["f:containers"], owned);

    let config = object(json!([{"name": "a", "env": [{"name": "x", "value": "1"}]}]));
    let object = apply(Some(&live), &config, &by("helm", NOON), false, &shape).expect("no conflict");
    let container = json!({"name": "a", "image": "b", "env": [{"name": "x", "value": "1"}], "resources": {}});
    assert_eq!(object["spec"]["template"]["spec"]["containers"], json!([container]));
}

#[test]
fn fields_without_a_schema_are_owned_with_their_objects() {
    let shape = Shape::custom().with("spec", Field::Untyped);
    let config = json!({"kind": "A", "metadata": {}, "spec": {"a": {"b": [1]}}});
    let object = apply(None, &config, &by("helm", MORNING), false, &shape).expect("no conflict");
    assert_eq!(fields(&object, "helm"), json!({"f:spec": {"f:a": {".": {}, "f:b": {}}}}));
}

#[test]
fn conflicts_with_a_subresource_come_before_those_with_the_main_resource() {
    let shape = shape_of("", "Service");
    let object = |kind: &str, ready: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": {"type": kind},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    };
    let labelled = |label: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"labels": {"a": label}},
            "status": {"conditions": [{"type": "Ready", "status": label}]}})
    };
    let status = |manager| Write { subresource: Some("status"), ..by(manager, NOON) };
    let live = apply(None, &object("ClusterIP", "1"), &by("a", MORNING), false, &shape).expect("no conflict");
    let live = apply(Some(&live), &labelled("1"), &by("a", MORNING), false, &shape).expect("no conflict");
    let live = apply(Some(&live), &object("ClusterIP", "1"), &status("a"), false, &shape).expect("no conflict");
    let found = conflicts(apply(Some(&live), &labelled("2"), &status("b"), false, &shape));
    let fields: Vec<_> = found.iter().map(|conflict| conflict.field.as_str()).collect();
    assert_eq!(fields, [".status.conditions[type=\"Ready\"].status", ".metadata.labels.a"]);
}

#[test]
fn apply_whose_defaults_restore_the_object_changes_nothing() {
    let shape = shape_of("", "Service");
    let config = json!({"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": {"selector": {"app": "a"}}});
    // A default within a field that is owned as a whole: the merge alone would remove it.
    let defaults = |object: &mut Value| object["spec"]["selector"]["tier"] = "b".into();
    let write = |time| by("helm", time);
    let first = apply_with_defaults(None, &config, &write(MORNING), false, &shape, defaults).expect("no conflict");
    assert_eq!(apply_with_defaults(Some(&first), &config, &write(NOON), false, &shape, defaults), Ok(first));
}

#[test]
fn removed_struct_of_a_built_in_kind_is_empty_before_defaults_are_set() {
    let shape = shape_of("apps", "Deployment");
    let object = |spec: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": spec});
    let recreate = object(json!({"strategy": {"type": "Recreate"}}));
    let live = apply(None, &recreate, &by("helm", MORNING), false, &shape).expect("no conflict");
    let defaults = |object: &mut Value| {
        assert_eq!(object["spec"]["strategy"], json!({}));
        object["spec"]["strategy"] = json!({"type": "RollingUpdate"});
    };
    let after = apply_with_defaults(Some(&live), &object(json!({})), &by("helm", NOON), false, &shape, defaults);
    assert_eq!(after.expect("no conflict")["spec"]["strategy"]["type"], "RollingUpdate");
}

#[test]
fn required_text_of_a_built_in_kind_becomes_empty_instead_of_missing() {
    let shape = shape_of("", "Service");
    let object = |condition: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {}, "status": {"conditions": [condition]}});
    let status = |manager| Write { subresource: Some("status"), ..by(manager, NOON) };
    let config = json!({"apiVersion": "v1", "kind": "Service", "metadata": {}});
    let live = apply(None, &config, &by("helm", MORNING), false, &shape).expect("no conflict");
    let config = object(json!({"type": "Ready", "status": "True", "reason": "A"}));
    let live = apply(Some(&live), &config, &status("a"), false, &shape).expect("no conflict");
    let kept = object(json!({"type": "Ready", "reason": "A"}));
    let live = apply(Some(&live), &kept, &status("b"), false, &shape).expect("no conflict");
    let live = apply(Some(&live), &kept, &status("a"), false, &shape).expect("no conflict");
    assert_eq!(live["status"]["conditions"][0]["status"], "");
}

#[test]
fn empty_labels_applied_to_a_custom_kind_count_as_a_change_each_time() {
    let config = json!({"kind": "A", "metadata": {"labels": {}}, "spec": {"size": 1}});
    let first = apply(None, &config, &by("helm", MORNING), false, &Shape::custom()).expect("no conflict");
    assert_eq!(first["metadata"].get("labels"), None);
    let again = apply(Some(&first), &config, &by("helm", NOON), false, &Shape::custom()).expect("no conflict");
    assert_eq!(again["metadata"]["managedFields"][0]["time"], NOON);

    let mut config_map = config_map(&json!({"x": "1"}));
    config_map["metadata"]["labels"] = json!({});
    let first = apply(None, &config_map, &by("helm", MORNING), false, &shape()).expect("no conflict");
    assert_eq!(apply(Some(&first), &config_map, &by("helm", NOON), false, &shape()), Ok(first));
}

#[test]
fn time_that_moves_its_entry_in_the_list_is_not_restored() {
    let shape = Shape::custom();
    let object = |size: u8| json!({"kind": "A", "metadata": {}, "spec": {"size": size}, "status": {"ready": true}});
    let status = |manager, time| Write { subresource: Some("status"), ..by(manager, time) };
    let live = apply(None, &object(1), &by("helm", MORNING), false, &shape).expect("no conflict");
    let live = apply(Some(&live), &object(1), &status("a", MORNING), false, &shape).expect("no conflict");
    // A status apply with another spec changes the object until the API server restores the spec.
    let after = apply(Some(&live), &object(2), &status("a", NOON), false, &shape).expect("no conflict");
    assert_eq!(managers(&live), ["a", "helm"]);
    assert_eq!(managers(&after), ["helm", "a"]);
    // Now it is the last, and stays so.
    let again = apply(Some(&after), &object(2), &status("a", "2026-01-01T13:00:00Z"), false, &shape);
    assert_eq!(again, Ok(after));
}
