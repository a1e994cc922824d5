use serde_json::json;

use super::*;
use crate::contract::desired::{self, Kept};
use crate::contract::{ChildOptions, ChildRef, Limits, Response, Until};
use crate::fixtures::{
    PARENT_UID, created, grants_with, object, parent, parent_ref, plan, pod, response, snapshot, validate,
    validate_secrets, validate_with,
};

fn converged(names: &[&str]) -> (Desired, Vec<serde_json::Value>) {
    let desired = validate(&names.iter().map(|name| pod(name)).collect::<Vec<_>>()).expect("valid");
    let live = desired.children.iter().map(|child| created(child)).collect();
    (desired, live)
}

#[test]
fn r07_child_unchanged_since_its_creation_needs_no_write() {
    let (desired, live) = converged(&["a", "b"]);
    assert!(plan(&snapshot(&live), &desired).is_empty());
}

#[test]
fn r07_values_that_the_api_server_normalizes_or_defaults_need_no_write() {
    let (desired, mut live) = converged(&["a"]);
    live[0]["spec"]["containers"][0]["image"] = json!("docker.io/library/nginx:1");
    live[0]["spec"]["restartPolicy"] = json!("Always");
    assert!(plan(&snapshot(&live), &desired).is_empty());
}

#[test]
fn r07_child_with_an_applied_hash_of_unknown_version_is_compared_and_not_rewritten() {
    let (desired, mut live) = converged(&["a"]);
    live[0]["metadata"]["annotations"]["windlass.dev/applied"] = json!("2:something-else");
    assert!(plan_comparing(&snapshot(&live), &desired, differing).is_empty());
    live[0]["spec"]["containers"][0]["image"] = json!("other");
    assert_eq!(plan(&snapshot(&live), &desired).counts(), (0, 1, 0));
}

#[test]
fn missing_child_is_created_and_changed_child_is_applied_with_its_uid() {
    let (_, live) = converged(&["a"]);
    let mut changed = pod("a");
    changed["spec"]["containers"][0]["image"] = json!("nginx:2");
    let desired = validate(&[changed, pod("b")]).expect("valid");
    let plan = plan(&snapshot(&live), &desired);
    assert_eq!(plan.counts(), (1, 1, 0));
    let Write::Apply { target, .. } = &plan.writes[0] else { panic!("{plan:?}") };
    let create_entry = Some(CreateEntry::Harmless);
    assert_eq!(
        *target,
        Target { uid: "uid-of-a".into(), resource_version: 7, create_entry, restores: false, differing: None },
        "R6: the desired state drops no field"
    );
}

/// A Secret that Windlass 0.1 applied with this `stringData`, of which the API server stores `data`.
fn secret_of_earlier_version(string_data: &serde_json::Value, data: &serde_json::Value) -> serde_json::Value {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": string_data});
    let desired = validate_secrets(&[secret], &UpdateStrategy::Apply).expect("valid");
    let mut live = created(&desired.children[0]);
    let hash = desired.children[0].applied_as_string_data.clone();
    live["metadata"]["annotations"]["windlass.dev/applied"] = hash.expect("another hash").into();
    live["data"] = data.clone();
    let entry = &mut live["metadata"]["managedFields"][0];
    entry["operation"] = json!("Apply");
    let owned = string_data.as_object().expect("a map").keys().map(|key| (format!("f:{key}"), json!({}))).collect();
    let fields = entry["fieldsV1"].as_object_mut().expect("fields");
    fields.remove("f:data");
    fields.insert("f:stringData".to_owned(), serde_json::Value::Object(owned));
    live
}

#[test]
fn r06_secret_that_an_earlier_version_wrote_as_string_data_is_applied_once_in_place_without_dropped_keys() {
    let stored = json!({"a": "eA==", "dropped": "eA==", "by-user": "eA=="});
    let mut live = secret_of_earlier_version(&json!({"a": "x"}), &stored);
    live["metadata"]["managedFields"].as_array_mut().expect("a list").push(json!({
        "manager": "kubectl-patch", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:by-user": {}}},
    }));
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"a": "x"}});
    for update in [UpdateStrategy::Apply, UpdateStrategy::Recreate] {
        let desired = validate_secrets(std::slice::from_ref(&secret), &update).expect("valid");
        let plan = plan(&snapshot(std::slice::from_ref(&live)), &desired);
        let [Write::Apply { target, .. }] = &plan.writes[..] else { panic!("{update:?}: {plan:?}") };
        let (live, child) = (object(&live), &desired.children[0]);
        assert!(live.managed.owns_more(&child.body), "{target:?}: it is compared with a fresh one");
        let values = live.values().expect("an object");
        let correction = live.managed.correct(&child.body, [&values, &child.body], None, &[]).expect("a correction");
        let fields = correction.own.expect("an entry").fields.get("f:data").map(ToString::to_string);
        assert_eq!(fields.as_deref(), Some(r#"{"f:dropped":{}}"#));
        let converged = created(child);
        assert!(crate::fixtures::plan(&snapshot(&[converged]), &desired).is_empty(), "{update:?}: applied once");
    }
    let changed = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"a": "y"}});
    let desired = validate_secrets(&[changed], &UpdateStrategy::Recreate).expect("valid");
    let plan = plan(&snapshot(&[live]), &desired);
    assert!(matches!(&plan.writes[..], [Write::Replace(_)]), "another desired state: {plan:?}");
}

#[test]
fn r06_forged_and_dropped_values_of_a_secret_are_corrected_at_once() {
    let secret = |data: &serde_json::Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": data});
    let desired = validate_secrets(&[secret(&json!({"a": "x", "b": "x"}))], &UpdateStrategy::Apply).expect("valid");
    let mut forged = created(&desired.children[0]);
    let managed = forged["metadata"]["managedFields"].as_array_mut().expect("a list");
    managed[0]["fieldsV1"]["f:data"].as_object_mut().expect("keys").remove("f:b");
    managed.push(json!({"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:data": {"f:b": {}}}}));
    assert_eq!(plan(&snapshot(&[forged]), &desired).counts(), (0, 1, 0), "without a comparison of values");
    let fewer = validate_secrets(&[secret(&json!({"a": "x"}))], &UpdateStrategy::Apply).expect("valid");
    let plan = plan(&snapshot(&[created(&desired.children[0])]), &fewer);
    let [Write::Apply { target, .. }] = &plan.writes[..] else { panic!("{plan:?}") };
    assert!(matches!(target.create_entry, Some(CreateEntry::MustGo { .. })), "the host owns the key that goes");
}

#[test]
fn r06_field_taken_by_another_manager_is_applied_again() {
    let (desired, mut live) = converged(&["a"]);
    let fields = &mut live[0]["metadata"]["managedFields"][0]["fieldsV1"];
    let container = fields["f:spec"]["f:containers"].as_object_mut().expect("containers");
    for (_, item) in container {
        item.as_object_mut().expect("a container").remove("f:image");
    }
    let plan = plan(&snapshot(&live), &desired);
    let [Write::Apply { target, .. }] = &plan.writes[..] else { panic!("{plan:?}") };
    assert!(target.restores, "the event says that an edit was reverted");
}

#[test]
fn s02_child_left_out_of_the_request_is_neither_changed_nor_created_nor_deleted() {
    let (_, live) = converged(&["changed", "dropped", "shown"]);
    let mut snapshot = snapshot(&live);
    snapshot.left_out = snapshot.children.drain(..2).collect();
    assert_eq!(snapshot.left_out.iter().map(|child| &*child.key.name).collect::<Vec<_>>(), ["changed", "dropped"]);
    let mut pods = ["changed", "fresh", "shown"].map(pod);
    for pod in &mut pods {
        pod["spec"]["containers"][0]["image"] = json!("nginx:2");
    }
    let plan = plan(&snapshot, &validate(&pods).expect("valid"));
    let written: Vec<_> = plan.writes.iter().map(|write| write.child().key.name.to_string()).collect();
    assert_eq!((written, plan.prunes.len()), (vec!["fresh".to_owned(), "shown".to_owned()], 0), "{plan:?}");
}

#[test]
fn s06_value_edited_under_the_hosts_field_manager_is_reverted_when_values_are_compared() {
    let (desired, mut live) = converged(&["a", "b"]);
    assert!(plan_comparing(&snapshot(&live), &desired, differing).is_empty(), "unchanged since its creation");
    live[0]["spec"]["containers"][0]["image"] = json!("forged:1");
    assert!(plan(&snapshot(&live), &desired).is_empty(), "its managed fields show no edit");
    let named = |live: &[serde_json::Value]| {
        let plan = plan_comparing(&snapshot(live), &desired, differing);
        let [Write::Apply { child, target }] = &plan.writes[..] else { panic!("{plan:?}") };
        assert_eq!(&*child.key.name, "a");
        target.differing.expect("a name")
    };
    let forged = named(&live);
    live[0]["metadata"]["resourceVersion"] = json!("8");
    live[0]["status"] = json!({"phase": "Running"});
    assert_eq!(named(&live), forged, "a new status changes no value that the host owns");
    live[0]["spec"]["containers"][0]["image"] = json!("forged:2");
    assert_ne!(named(&live), forged);
    // The values that an apply left are not changed again.
    assert!(plan_comparing(&snapshot(&live), &desired, |_, _| None).is_empty());
}

#[test]
fn r15_children_that_outlive_their_parent_are_not_deleted() {
    let (_, live) = converged(&["a", "b"]);
    let mut changed = pod("b");
    changed["spec"]["containers"][0]["image"] = json!("nginx:2");
    let desired = validate_with(&[changed], &UpdateStrategy::Recreate).expect("valid");
    let mut plan = plan(&snapshot(&live), &desired);
    assert_eq!(plan.counts(), (0, 0, 2), "a is dropped, b is recreated");
    plan.keep_children();
    assert!(plan.is_empty() && plan.take_due_prunes().is_empty());
}

#[test]
fn r08_child_that_is_no_longer_desired_is_pruned_by_its_uid_and_version() {
    let (_, mut live) = converged(&["a", "b", "c"]);
    let (desired, _) = converged(&["b"]);
    live[2]["metadata"]["resourceVersion"] = json!("77");
    let plan = plan(&snapshot(&live), &desired);
    let pruned: Vec<_> = plan.prunes.iter().map(|delete| (delete.child.to_string(), delete.uid.to_string())).collect();
    let owned = |name: &str, uid: &str| (name.to_owned(), uid.to_owned());
    assert_eq!(pruned, [owned("Pod default/c", "uid-of-c"), owned("Pod default/a", "uid-of-a")]);
    assert_eq!(plan.prunes[0].resource_version, 77);
}

#[test]
fn r04_object_with_only_the_hosts_labels_is_neither_pruned_nor_changed() {
    let (desired, mut live) = converged(&["a"]);
    live[0]["metadata"].as_object_mut().expect("metadata").remove("ownerReferences");
    let foreign = snapshot(&live);
    assert!(foreign.children.is_empty(), "the object is not in the request");
    let none = Desired::default();
    assert!(plan(&foreign, &none).is_empty());
    // Desiring a child of that name leads to a POST, which the API server rejects.
    assert_eq!(plan(&foreign, &desired).counts(), (1, 0, 0));
}

#[test]
fn r04_object_in_another_namespace_is_never_a_child() {
    let (_, mut live) = converged(&["a"]);
    live[0]["metadata"]["namespace"] = json!("elsewhere");
    assert!(snapshot(&live).children.is_empty(), "owner reference and labels can be forged");
    live[0]["metadata"].as_object_mut().expect("metadata").remove("ownerReferences");
    live[0]["metadata"]["annotations"]["windlass.dev/retained-for"] = json!("echo/Echo.my-operator.dev/default/hello");
    assert!(snapshot(&live).children.is_empty(), "the mark of a retained child can be forged");
}

#[test]
fn r05_child_without_applied_hash_is_changed_in_place_and_never_deleted() {
    let rolling = UpdateStrategy::Rolling { recreate: true, until: Until::Conditions(Arc::new([])) };
    for (update, writes) in
        [(UpdateStrategy::Apply, 1), (UpdateStrategy::Recreate, 1), (rolling, 1), (UpdateStrategy::OnDelete, 0)]
    {
        let desired = validate_with(&[pod("a")], &update).expect("valid");
        let mut live = created(&desired.children[0]);
        // The child as it is right after its adoption.
        live["metadata"]["annotations"] = json!({});
        live["spec"]["containers"][0]["image"] = json!("other");
        assert_eq!(plan(&snapshot(&[live]), &desired).counts(), (0, writes, 0), "{update:?}");
    }
}

#[test]
fn r05_child_of_another_plugin_under_the_same_parent_is_ignored() {
    let (_, mut live) = converged(&["a"]);
    assert_eq!(snapshot(&live).children.len(), 1);
    live[0]["metadata"]["labels"]["windlass.dev/plugin"] = json!("another");
    assert!(snapshot(&live).children.is_empty(), "a built-in kind may have several plugins");
    let all = [object(&live[0])];
    let heir = |plugin: &str| plugin == "another";
    let inherited = Snapshot::new(parent_ref(), parent(), all, None, heir);
    assert_eq!(inherited.children.len(), 1, "the children of a deleted plugin are inherited");
}

#[test]
fn r04_retained_child_is_never_pruned_and_is_adopted_by_a_parent_of_the_same_name() {
    let mut retained = pod("data");
    retained["metadata"]["annotations"] = json!({"windlass.dev/retain": "true"});
    let desired = validate(&[retained]).expect("valid");
    let mut live = created(&desired.children[0]);
    assert!(plan(&snapshot(std::slice::from_ref(&live)), &Desired::default()).is_empty());
    live["metadata"]["labels"]["windlass.dev/parent-uid"] = json!("a-parent-that-is-gone");
    live["metadata"]["annotations"]["windlass.dev/applied"] = json!("1:another");
    assert_eq!(plan(&snapshot(&[live]), &desired).counts(), (0, 1, 0));
}

#[test]
fn r04_plan_waits_for_a_child_that_is_being_deleted() {
    let (desired, mut live) = converged(&["a"]);
    live[0]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let waiting = plan(&snapshot(&live), &desired);
    assert!(waiting.is_empty());
    assert_eq!(waiting.terminating.len(), 1);
    assert!(plan(&snapshot(&live), &Desired::default()).is_empty(), "a terminating child is not deleted again");
}

#[test]
fn r04_create_waits_until_the_object_that_has_its_name_is_gone() {
    let desired = validate(&[pod("a"), pod("b")]).expect("valid");
    let mut waiting = plan(&snapshot(&[]), &desired);
    waiting.put_off_creates(|child| &*child.key.name == "a");
    assert!(matches!(&waiting.writes[..], [Write::Create(child)] if &*child.key.name == "b"));
    assert_eq!(waiting.terminating, [desired.children[0].id()]);
}

#[test]
fn r11_recreate_replaces_a_changed_child_and_on_delete_leaves_it() {
    let (_, live) = converged(&["a"]);
    let mut changed = pod("a");
    changed["spec"]["containers"][0]["image"] = json!("nginx:2");
    // A manual edit of an unchanged desired child is reverted in place: nothing restarts for it.
    let same = validate_with(&[pod("a")], &UpdateStrategy::Recreate).expect("valid");
    let mut edited = live.clone();
    edited[0]["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"] = json!({".": {}});
    assert!(matches!(plan(&snapshot(&edited), &same).writes[..], [Write::Apply { .. }]));
    let planned = |update| plan(&snapshot(&live), &validate_with(&[changed.clone()], &update).expect("valid"));
    assert!(matches!(planned(UpdateStrategy::Recreate).writes[..], [Write::Replace(_)]));
    let on_delete = planned(UpdateStrategy::OnDelete);
    assert!(on_delete.is_empty());
    assert_eq!(on_delete.when_deleted, [ChildId::of(&object(&live[0]))]);
}

#[test]
fn r11_retained_child_is_changed_in_place_and_never_recreated() {
    let retained = |image: &str| {
        let mut child = pod("data");
        child["metadata"]["annotations"] = json!({"windlass.dev/retain": "true"});
        child["spec"]["containers"][0]["image"] = json!(image);
        child
    };
    let live = created(&validate(&[retained("nginx:1")]).expect("valid").children[0]);
    for update in
        [UpdateStrategy::Recreate, UpdateStrategy::Rolling { recreate: true, until: Until::Conditions(Arc::new([])) }]
    {
        let desired = validate_with(&[retained("nginx:2")], &update).expect("valid");
        let plan = plan(&snapshot(std::slice::from_ref(&live)), &desired);
        assert!(matches!(plan.writes[..], [Write::Apply { .. }]), "{plan:?}");
    }
}

#[test]
fn r10_deletions_run_in_waves_in_reverse_install_order() {
    let child = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let desired = [child("Service", "s"), child("Pod", "a"), child("ConfigMap", "s"), child("Pod", "b")];
    let live: Vec<_> = validate(&desired).expect("valid").children.iter().map(|child| created(child)).collect();
    let mut plan = plan(&snapshot(&live), &Desired::default());
    let waves = plan.take_due_prunes();
    let names = |wave: &Vec<Delete>| wave.iter().map(|delete| delete.child.to_string()).collect::<Vec<_>>();
    assert_eq!(
        waves.iter().map(names).collect::<Vec<_>>(),
        [vec!["Pod default/b", "Pod default/a"], vec!["Service default/s"], vec!["ConfigMap default/s"]]
    );
}

#[test]
fn r08_no_prune_is_due_while_a_desired_child_waits_for_its_own_deletion() {
    let (desired, mut live) = converged(&["a"]);
    live[0]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    live.extend(converged(&["b"]).1);
    let mut waiting = plan(&snapshot(&live), &desired);
    assert_eq!(waiting.prunes.len(), 1);
    assert!(waiting.take_due_prunes().is_empty());
}

#[test]
fn owner_reference_of_a_child_names_its_parent() {
    let (_, live) = converged(&["a"]);
    assert_eq!(live[0]["metadata"]["ownerReferences"][0]["uid"], json!(PARENT_UID));
}

#[test]
fn r14_only_retained_children_of_a_terminating_parent_are_written() {
    let mut kept = pod("kept");
    kept["metadata"]["annotations"] = json!({"windlass.dev/retain": "true"});
    let mut plan = plan(&snapshot(&[]), &validate(&[pod("a"), kept]).expect("valid"));
    plan.keep_retained_writes();
    let written: Vec<_> = plan.writes.iter().map(|write| write.child().key.name.to_string()).collect();
    assert_eq!(written, ["kept"]);
}

#[test]
fn r08_child_that_the_response_keeps_is_neither_changed_nor_deleted() {
    let (all, live) = converged(&["a", "b"]);
    let snapshot = snapshot(&live);
    let deleted = |kept| {
        let plan = plan(&snapshot, &Desired { kept, ..Desired::default() });
        assert_eq!(plan.deletions().pruned.len(), plan.prunes.len(), "the guard does not count it");
        plan.prunes.iter().map(|delete| delete.child.key.name.to_string()).collect::<Vec<_>>().join(" ")
    };
    let a = [(all.children[0].kind.group_kind(), all.children[0].key.clone())];
    assert_eq!(deleted(Kept::None), "b a");
    assert_eq!(deleted(Kept::These(a.into_iter().collect())), "b");
    assert_eq!(deleted(Kept::All), "");
}

#[test]
fn r10_child_that_replaces_another_is_created_first_and_the_other_one_goes_before_it_only_if_it_must() {
    let kind = Gvk::from_api_version("v1", "Service");
    let service = |name: &str| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"nodePort": 30000}]}});
    let of = |children: &[serde_json::Value], replaces: Option<&str>| {
        let replaces = replaces.map(|name| ChildRef { kind: kind.clone(), namespace: None, name: name.to_owned() });
        let options = children.iter().map(|_| ChildOptions { replaces: replaces.clone(), ..ChildOptions::default() });
        let response = Response { options: Some(options.collect()), ..response(children) };
        desired::validate(&response, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default())
    };
    let wanted = of(&[service("new")], Some("old")).expect("valid");
    let mut old = created(&of(&[service("old")], None).expect("valid").children[0]);
    let other = created(&validate(&[pod("other")]).expect("valid").children[0]);
    let mut first = plan(&snapshot(&[old.clone(), other.clone()]), &wanted);
    assert_eq!(first.deletions().pruned.len(), 2, "the guard counts it");
    first.put_off_prunes();
    first.put_off_prunes();
    let pruned: Vec<_> = first.prunes.iter().map(|delete| &*delete.child.key.name).collect();
    assert_eq!(pruned, ["other", "old"]);
    assert!(matches!(&first.writes[..], [Write::Create(_)]));
    let mut waits = plan(&snapshot(&[old.clone(), other.clone()]), &wanted);
    waits.terminating.push(waits.prunes[0].child.clone());
    waits.put_off_prunes();
    waits.put_off_prunes();
    let room: Vec<_> = waits.leaving.iter().flat_map(|leaving| &leaving.room).collect();
    let room: Vec<_> = room.iter().map(|delete| &*delete.child.key.name).collect();
    assert_eq!((waits.prunes.len(), room), (0, vec!["old"]), "it goes only if it is in the way (R8)");
    let mut blocked = plan(&snapshot(&[old.clone(), other.clone()]), &wanted);
    blocked.obey(&Verdict { stop: Stop::PutOff, keeps_recreated: false });
    assert_eq!((blocked.writes.len(), blocked.held.len()), (0, 2), "it waits until a user allows the deletion");
    old["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let leaving = plan(&snapshot(&[old]), &wanted);
    assert_eq!((leaving.writes.len(), leaving.being_deleted().len()), (0, 1), "the parent says what it waits for");
    assert!(matches!(&plan(&snapshot(&[other]), &wanted).writes[..], [Write::Create(_)]));

    let refused = |children: &[serde_json::Value], name| of(children, Some(name)).expect_err("refused").to_string();
    let other = refused(&[pod("a")], "old");
    assert!(other.contains("which is of another kind"), "{other}");
    let both = refused(&[service("a")], "a");
    assert!(both.contains("which the response returns as well"), "{both}");
    let kept = ChildRef {
        kind: Gvk::from_api_version("v1", "PersistentVolumeClaim"),
        namespace: None,
        name: "data".to_owned(),
    };
    for kind in ["PersistentVolumeClaim.v1", "Namespace.v1", "Database.v1.example.com"] {
        let (name, version) = kind.split_once('.').expect("a kind");
        let api_version =
            version.split_once('.').map_or(version.to_owned(), |(version, group)| format!("{group}/{version}"));
        let replaces = Some(ChildRef { kind: Gvk::from_api_version(&api_version, name), ..kept.clone() });
        let options = Some([ChildOptions { replaces, ..ChildOptions::default() }].into());
        let response = Response { options, ..response(&[pod("a")]) };
        let refused =
            desired::validate(&response, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default());
        assert!(refused.expect_err(kind).to_string().contains("objects with data and custom resources"), "{kind}");
    }
}
