//! Children are created once each, in order, changed by their kind's update strategy, and pruned last.

use serde_json::{Value, json};
use windlass_e2e::{Namespace, condition, text};

use crate::scripts::{config_map, config_maps, deployment, pod, secret, service};
use crate::{barrier, children, names, puppets, stage, value, verbs, wait_names, write_attempts};

#[test]
fn r03_fifty_children_are_created_once_each_however_often_their_parent_changes() {
    let ns = puppets("once");
    let mark = ns.env().mark();
    let mut script = children(config_maps(50, "one"));
    // Events of its children queue the parent all the time, and so do these annotations.
    script["status"] = "reflect".into();
    let puppet = ns.puppet("web");
    puppet.apply(&script);
    for at in 0..10 {
        puppet.kubectl("annotate", &["--overwrite", &format!("touched=a{at}")]);
    }
    let done = puppet.wait_done();
    assert_eq!(done["metadata"]["generation"], 1, "the spec did not change");

    let mut script = children(config_maps(50, "two"));
    script["status"] = "reflect".into();
    puppet.play(&script);
    let attempts = write_attempts(&ns, mark, "configmaps");
    let creates = attempts.clone().filter(|event| event.verb == "create");
    let different: std::collections::HashSet<_> = creates.iter().map(|event| &event.name).collect();
    assert_eq!((creates.len(), different.len()), (50, 50), "{creates:#?}");
    let patches = attempts.filter(|event| event.verb != "create");
    for at in 0..50 {
        let of_one = patches.clone().name(&format!("web-{at}"));
        assert_eq!(verbs(&of_one), [("patch", &*format!("web-{at}"))], "{of_one:#?}");
    }
}

/// The host's own entries of a `ConfigMap`'s managedFields: their operations.
fn operations(ns: &Namespace, name: &str) -> Vec<String> {
    let map = ns.env().kubectl(&["get", "configmap", name, "-n", ns.name(), "-o", "json", "--show-managed-fields"]);
    let map: Value = serde_json::from_str(&map).expect("JSON");
    let entries = map["metadata"]["managedFields"].as_array().expect("managedFields").clone();
    let mut ours: Vec<_> = entries.iter().filter(|entry| entry["manager"] == "windlass").collect();
    ours.sort_by_key(|entry| entry["time"].to_string());
    ours.iter().map(|entry| text(entry, "/operation")).collect()
}

#[test]
fn r06_change_after_create_is_one_apply_with_resource_version_unless_a_field_is_dropped() {
    let ns = puppets("first-apply");
    let puppet = ns.puppet("web");
    let play = |data: Value| {
        let mut desired = config_map("a", "");
        desired["data"] = data;
        let version = ns.get("configmaps", "a").map(|map| text(&map, "/metadata/resourceVersion"));
        let mark = ns.env().mark();
        puppet.play(&children([desired]));
        (version, write_attempts(&ns, mark, "configmaps").to_vec())
    };
    play(json!({"value": "1", "other": "1", "spare": "1"}));

    for data in [json!({"value": "2", "other": "1", "spare": "1"}), json!({"value": "2", "other": "2", "spare": "1"})] {
        let (version, writes) = play(data);
        let [write] = &writes[..] else { panic!("{writes:#?}") };
        assert_eq!((write.code, write.query("force")), (200, Some("true")), "{write:#?}");
        let sent = write.request_object.as_ref().expect("what was sent");
        assert_eq!(
            Some(text(sent, "/metadata/resourceVersion")),
            version,
            "the apply carries the version that the plan was made for: {sent:#}"
        );
    }

    // If another client writes between the plan and such an apply, the API server rejects the apply.
    let stale = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": ns.name(),
        "resourceVersion": "1"}, "data": {"value": "stale"}});
    let refused = ns.env().try_apply_as("windlass", &stale.to_string()).expect_err("an apply of an old version");
    assert!(refused.contains("the object has been modified"), "{refused}");

    let (_, writes) = play(json!({"value": "3", "other": "2"}));
    assert_eq!(writes.len(), 2, "one patch of managedFields and one apply: {writes:#?}");
    let now = ns.get("configmaps", "a").expect("a");
    assert_eq!(now["data"], json!({"value": "3", "other": "2"}), "the dropped field is removed");
    assert_eq!(operations(&ns, "a"), ["Apply"]);

    let (_, writes) = play(json!({"value": "4", "other": "2"}));
    let [write] = &writes[..] else { panic!("{writes:#?}") };
    assert_ne!(write.query("force"), Some("true"), "later applies are not forced: {write:#?}");
}

#[test]
fn r08_children_are_pruned_by_uid_and_in_the_background_after_all_other_writes() {
    let ns = puppets("prune");
    let puppet = ns.puppet("web");
    puppet.play(&children([config_map("a", "1"), config_map("b", "1")]));
    let uid = text(&ns.get("configmaps", "b").expect("b"), "/metadata/uid");
    let mark = ns.env().mark();
    puppet.play(&children([config_map("a", "2"), config_map("c", "1")]));
    wait_names(&ns, "configmaps", &["a", "c"]);

    let attempts = write_attempts(&ns, mark, "configmaps");
    let order = verbs(&attempts);
    assert_eq!(order.last(), Some(&("delete", "b")), "{order:?}");
    assert_eq!(order.iter().filter(|(verb, _)| *verb == "delete").count(), 1, "{order:?}");
    assert!(order.contains(&("create", "c")) && order.contains(&("patch", "a")), "{order:?}");
    let sent = attempts.last().and_then(|event| event.request_object.clone()).expect("what was sent");
    assert_eq!(
        (text(&sent, "/preconditions/uid"), text(&sent, "/propagationPolicy")),
        (uid, "Background".to_owned()),
        "{sent:#}"
    );
}

#[test]
fn r08_nothing_is_deleted_while_a_write_fails() {
    let ns = puppets("prune-not");
    let puppet = ns.puppet("web");
    puppet.play(&children([config_map("a", "1"), config_map("b", "1")]));
    let mark = ns.env().mark();
    let mut refused = config_map("c", "1");
    refused["data"] = json!({ "no such key!": "1" });
    puppet.apply(&children([config_map("a", "1"), refused]));
    let ready = puppet.wait_reason("ChildRejected");
    assert!(ready.message.contains('c') && ready.status == "False", "{ready:?}");
    barrier(&ns, "after");
    let deletes = write_attempts(&ns, mark, "configmaps").filter(|event| event.verb == "delete");
    assert_eq!(deletes.to_vec(), []);
    assert_eq!(names(&ns, "configmaps"), ["a", "after", "b"]);
}

#[test]
fn r10_children_are_created_in_install_order_and_deleted_in_reverse() {
    let ns = puppets("order");
    let puppet = ns.puppet("web");
    let mark = ns.env().mark();
    let of_each = |name: &str| [pod(name, "a:1"), service(name, 80), config_map(name, "1"), secret(name, "1")];
    puppet.play(&children([of_each("one"), of_each("two")].concat()));
    let kinds = |verb: &'static str, mark| {
        let mut all = ns.env().host_writes(mark).namespace(ns.name()).filter(|event| event.verb == verb);
        all.0.sort_by(|one, other| one.timestamp.cmp(&other.timestamp));
        all.iter().map(|event| event.resource.clone()).collect::<Vec<_>>()
    };
    let pairs = |order: [&str; 4]| order.map(|kind| [kind.to_owned(), kind.to_owned()]).concat();
    assert_eq!(kinds("create", mark), pairs(["secrets", "configmaps", "services", "pods"]));

    let mark = ns.env().mark();
    puppet.play(&children([]));
    wait_names(&ns, "secrets", &[]);
    assert_eq!(kinds("delete", mark), pairs(["pods", "services", "configmaps", "secrets"]));
}

#[test]
fn r11_recreate_deletes_and_creates_a_changed_child_and_never_applies_it() {
    let ns = puppets("recreate");
    let puppet = ns.puppet("web");
    puppet.play(&children([pod("changes", "a:1"), pod("stays", "a:1")]));
    let uid = |name: &str| text(&ns.pod(name), "/metadata/uid");
    let before = (uid("changes"), uid("stays"));
    let mark = ns.env().mark();
    puppet.play(&children([pod("changes", "a:2"), pod("stays", "a:1")]));
    assert_eq!(text(&ns.pod("changes"), "/spec/containers/0/image"), "a:2");
    assert!(uid("changes") != before.0 && uid("stays") == before.1);
    assert_eq!(verbs(&write_attempts(&ns, mark, "pods")), [("delete", "changes"), ("create", "changes")]);
}

#[test]
fn r11_on_delete_leaves_an_existing_child_unchanged_and_creates_a_missing_one() {
    let ns = puppets("on-delete");
    let puppet = ns.puppet("web");
    puppet.play(&children([service("front", 80)]));
    let mark = ns.env().mark();
    puppet.play(&children([service("front", 81)]));
    assert_eq!(write_attempts(&ns, mark, "services").to_vec(), []);
    ns.kubectl(&["delete", "service", "front", "--wait=true"]);
    let front = ns.env().wait_object("services", ns.name(), "front", |_| true);
    assert_eq!(front["spec"]["ports"][0]["port"], 81);
    puppet.wait_done();
}

#[test]
fn r11_condition_names_recreate_when_the_api_server_rejects_an_immutable_field() {
    let ns = puppets("immutable");
    let puppet = ns.puppet("web");
    let fixed = |value: &str| {
        let mut map = config_map("fixed", value);
        map["immutable"] = true.into();
        map
    };
    puppet.play(&children([fixed("1")]));
    puppet.apply(&children([fixed("2")]));
    let ready = puppet.wait_reason("ChildRejected");
    for word in ["fixed", "immutable", "recreate"] {
        assert!(ready.message.contains(word), "{word}: {ready:?}");
    }
    assert_eq!(value(&ns, "fixed"), "1");
}

#[test]
fn r13_update_that_does_not_fit_the_schema_is_a_rejection_and_other_children_are_written() {
    let ns = puppets("untyped");
    let two = |value: &Value| {
        let mut broken = config_map("broken", "1");
        broken["data"]["value"] = value.clone();
        children([broken, config_map("fine", value.to_string().trim_matches('"'))])
    };
    let puppet = ns.puppet("web");
    puppet.play(&two(&"1".into()));
    puppet.apply(&two(&2.into()));
    let ready = puppet.wait_reason("ChildRejected");
    for words in ["ConfigMap", "broken", ".data.value", "expected string"] {
        assert!(ready.message.contains(words), "{words}: {ready:?}");
    }
    ns.env().wait_object("configmaps", ns.name(), "fine", |map| text(map, "/data/value") == "2");
    assert_eq!(value(&ns, "broken"), "1");
}

#[test]
fn r06_keys_of_a_secret_that_the_plugin_drops_are_removed_and_forged_values_are_reverted() {
    let ns = puppets("string-data");
    let secret = |data: Value| {
        children([json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" }, "stringData": data })])
    };
    let data = || ns.get("secrets", "a").expect("a Secret")["data"].clone();
    let puppet = ns.puppet("web");
    puppet.play(&secret(json!({ "kept": "1", "first": "1", "second": "1" })));
    puppet.play(&secret(json!({ "kept": "2", "first": "1" })));
    assert_eq!(data(), json!({ "kept": "Mg==", "first": "MQ==" }));
    puppet.play(&secret(json!({ "kept": "2" })));
    assert_eq!(data(), json!({ "kept": "Mg==" }));
    ns.kubectl(&["patch", "secret", "a", "--type=merge", "-p", r#"{"data": {"kept": "Zm9yZ2Vk"}}"#]);
    ns.env().wait_object("secrets", ns.name(), "a", |secret| text(secret, "/data/kept") == "Mg==");
}

#[test]
fn r12_failed_call_leaves_the_plugins_part_of_the_status_and_sets_the_reason() {
    let ns = puppets("status");
    let puppet = ns.puppet("web");
    let status = json!({ "count": 3, "conditions": [{ "type": "Danced", "status": "True", "reason": "Music" }] });
    let done = puppet.play(&json!({ "children": [config_map("a", "1")], "status": status }));
    assert_eq!((&done["status"]["count"], condition(&done, "Danced").is_true()), (&3.into(), true), "{done:#}");

    for (fail, reason, stalled) in [
        (json!({ "failed": "no luck" }), "PluginFailed", false),
        (json!({ "retry": 3_600_000 }), "Waiting", false),
        (json!({ "invalid": "no sense" }), "InvalidSpec", true),
    ] {
        puppet.apply(&json!({ "fail": fail }));
        let failed = puppet.wait(|puppet| condition(puppet, "Ready").is_false(reason));
        assert_eq!((&failed["status"]["count"], condition(&failed, "Danced").is_true()), (&3.into(), true));
        assert_eq!(condition(&failed, "Stalled").is_true(), stalled, "{failed:#}");
        assert_eq!(condition(&failed, "Reconciling").is_true(), !stalled, "{failed:#}");
        let observed = failed["status"]["observedGeneration"] == failed["metadata"]["generation"];
        assert_eq!(
            observed, stalled,
            "observedGeneration changes only on success or if the parent is stalled: {failed:#}"
        );
    }
    assert_eq!(names(&ns, "configmaps"), ["a"], "a failure deletes nothing");
}

#[test]
fn r12_status_that_does_not_fit_the_schema_is_a_rejection_and_children_are_written() {
    let ns = puppets("untyped-status");
    let puppet = ns.puppet("web");
    puppet.play(&json!({ "children": [config_map("a", "1")], "status": { "count": 1 } }));
    puppet.apply(&json!({ "children": [config_map("a", "2")], "status": { "count": "two" } }));
    let ready = puppet.wait_reason("StatusRejected");
    for words in [".status.count", "expected"] {
        assert!(ready.message.contains(words), "{words}: {ready:?}");
    }
    assert_eq!(value(&ns, "a"), "2");
}

#[test]
fn r12_plugins_own_ready_condition_counts_once_all_children_are_applied() {
    let ns = puppets("own-ready");
    let puppet = ns.puppet("web");
    let not_yet = json!({ "conditions": [{ "type": "Ready", "status": "False", "reason": "Rehearsing" }] });
    puppet.apply(&json!({ "children": [config_map("a", "1")], "status": not_yet }));
    let rehearsing = puppet.wait(|puppet| condition(puppet, "Ready").is_false("Rehearsing"));
    assert_eq!(rehearsing["status"]["observedGeneration"], rehearsing["metadata"]["generation"], "{rehearsing:#}");
    assert_eq!(names(&ns, "configmaps"), ["a"]);
}

#[test]
fn r15_no_child_is_written_for_a_parent_that_is_being_deleted() {
    let ns = stage().with("puppet").namespace("leaving");
    let puppet = ns.puppet("web");
    puppet.play(&children([config_map("a", "1"), config_map("b", "1")]));
    // A finalizer of another owner keeps the parent for a while.
    let finalizers_patch = |finalizers: Value| json!({ "metadata": { "finalizers": finalizers } }).to_string();
    puppet.kubectl("patch", &["--type=merge", "-p", &finalizers_patch(json!(["example.com/hold"]))]);
    puppet.kubectl("delete", &["--wait=false"]);
    let calls = puppet.calls();
    let mark = ns.env().mark();
    ns.kubectl(&["delete", "configmap", "a", "--wait=true"]);
    puppet.apply(&children([config_map("a", "2"), config_map("b", "2"), config_map("c", "2")]));
    barrier(&ns, "after");
    let mut attempts = write_attempts(&ns, mark, "configmaps");
    attempts.0.retain(|event| event.name != "after");
    assert_eq!(attempts.to_vec(), []);
    assert_eq!(puppet.calls(), calls, "the plugin is not called");
    puppet.kubectl("patch", &["--type=merge", "-p", &finalizers_patch(Value::Null)]);
    wait_names(&ns, "configmaps", &["after"]);
}

#[test]
fn r06_field_taken_between_plan_and_apply_is_left_to_its_manager_and_named_in_the_condition() {
    let ns = puppets("taken-between");
    let play = |value: &str, stall: u32| json!({ "children": [config_map("${name}", value)], "stall": stall });
    // Whether the other write comes in between is random, so several parents are tried.
    let raced = (0..10).find_map(|turn| {
        let name = format!("web-{turn}");
        let puppet = ns.puppet(&name);
        puppet.play(&play("1", 0));
        let mark = ns.env().mark();
        puppet.apply(&play("2", 20_000));
        let mut theirs = config_map(&name, "theirs");
        theirs["metadata"]["namespace"] = ns.name().into();
        ns.env().apply_as("other", &theirs.to_string());
        let ready = puppet.wait_reason("FieldConflict");
        let writes = write_attempts(&ns, mark, "configmaps").name(&name);
        // The change of managedFields before the second apply has no field manager.
        let applies = writes.iter().filter(|write| write.query("fieldManager").is_some());
        let by_host: Vec<_> = applies.map(|write| (write.query("force") == Some("true"), write.code)).collect();
        // This spec no longer stalls the plugin.
        puppet.apply(&play("1", 0));
        (by_host.first() == Some(&(true, 409))).then_some((name, ready, by_host))
    });
    let (name, ready, by_host) = raced.expect("one of ten writes comes between plan and apply");
    assert_eq!(by_host.get(1), Some(&(false, 409)), "the second apply is not forced: {by_host:?}");
    assert!(by_host.iter().all(|(_, code)| *code == 409), "the host wrote nothing: {by_host:?}");
    assert_eq!(value(&ns, &name), "theirs");
    assert!(ready.message.contains("\"other\""), "{ready:?}");
}

#[test]
fn r06_replicas_set_through_scale_stay_and_are_a_conflict_only_if_the_plugin_sets_them() {
    let ns = puppets("scale");
    let scaled = |name: &str| {
        ns.kubectl(&["scale", "deployment", name, "--replicas=3"]);
        ns.env().wait_object("deployments", ns.name(), name, |found| found["spec"]["replicas"] == 3);
    };
    // The plugin leaves the replicas to another writer, such as a HorizontalPodAutoscaler.
    let left = ns.puppet("left");
    left.play(&children([deployment("left", "nginx:1", None)]));
    scaled("left");
    left.play(&children([deployment("left", "nginx:2", None)]));
    let found = ns.get("deployments", "left").expect("left");
    assert_eq!((&found["spec"]["replicas"], image_of(&found)), (&3.into(), "nginx:2".to_owned()));

    let wanted = ns.puppet("wanted");
    wanted.play(&children([deployment("wanted", "nginx:1", Some(2))]));
    scaled("wanted");
    wanted.apply(&children([deployment("wanted", "nginx:2", Some(2))]));
    let named = |puppet: &Value| {
        let ready = condition(puppet, "Ready");
        ready.is_false("FieldConflict") && ready.observed_generation == Some(2)
    };
    let ready = condition(&wanted.wait(named), "Ready");
    assert!(ready.message.contains(".spec.replicas") && ready.message.contains("scale"), "{ready:?}");
    let found = ns.get("deployments", "wanted").expect("wanted");
    assert_eq!(
        (&found["spec"]["replicas"], image_of(&found)),
        (&3.into(), "nginx:1".to_owned()),
        "after a conflict no field of the child is applied"
    );
}

fn image_of(deployment: &Value) -> String {
    text(deployment, "/spec/template/spec/containers/0/image")
}

#[test]
fn r04_retained_child_outlives_its_parent_and_a_parent_of_the_same_name_readopts_it() {
    let ns = puppets("retained");
    let puppet = ns.puppet("web");
    let retained = |value: &str| {
        let mut map = config_map("kept", value);
        map["metadata"]["annotations"] = json!({ "windlass.dev/retain": "true" });
        children([map, config_map("gone", value)])
    };
    puppet.play(&retained("1"));
    let uid = text(&ns.get("configmaps", "kept").expect("kept"), "/metadata/uid");
    ns.kubectl(&["delete", "puppet", "web", "--wait=true"]);
    wait_names(&ns, "configmaps", &["kept"]);

    let mark = ns.env().mark();
    puppet.play(&retained("2"));
    let kept = ns.get("configmaps", "kept").expect("kept");
    assert_eq!(
        (text(&kept, "/metadata/uid"), value(&ns, "kept")),
        (uid, "2".to_owned()),
        "the object was not recreated"
    );
    let writes = write_attempts(&ns, mark, "configmaps").name("kept");
    let [write] = &writes[..] else { panic!("{writes:#?}") };
    assert_eq!((write.verb.as_str(), write.code, write.query("force")), ("patch", 200, Some("true")), "{write:#?}");
}

#[test]
fn r04_child_that_lost_the_ownership_labels_gets_its_marks_back_and_no_other_write() {
    let ns = puppets("unlabelled");
    let puppet = ns.puppet("web");
    puppet.play(&children([config_map("a", "1")]));
    let mark = ns.env().mark();
    ns.kubectl(&["label", "configmap", "a", "windlass.dev/plugin-", "windlass.dev/parent-uid-"]);
    let owned = |map: &Value| text(map, "/metadata/labels/windlass.dev~1plugin") == "puppet";
    ns.env().wait_object("configmaps", ns.name(), "a", owned);
    // The audit log has a request some time after the object shows it.
    barrier(&ns, "after");
    let writes = write_attempts(&ns, mark, "configmaps").name("a");
    let writes: Vec<_> = writes.iter().map(|write| (write.verb.as_str(), write.code, write.query("force"))).collect();
    assert_eq!(
        writes,
        [("create", 409, None), ("patch", 200, None)],
        "the patch sets only the marks, because the cache did not show the object's content"
    );
}
