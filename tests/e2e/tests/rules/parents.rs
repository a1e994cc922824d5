//! Cluster-scoped parents and parents of built-in kinds.

use serde_json::{Value, json};
use windlass_e2e::{Namespace, Puppet, TIMEOUT, condition, is_done, text, wait};

use crate::scripts::{config_map, needs};
use crate::{barrier_of, children, names, stage, value, verbs, wait_names, write_attempts};

fn cluster(name: &'static str) -> (Namespace<'static>, Puppet<'static>) {
    let env = stage().with("puppet-cluster");
    let ns = env.namespace(name);
    let puppet = Puppet::new(env, "ClusterPuppet", "", ns.name());
    (ns, puppet)
}

fn in_namespace(ns: &Namespace, mut object: Value) -> Value {
    object["metadata"]["namespace"] = ns.name().into();
    object
}

#[test]
fn cluster_scoped_parent_owns_children_in_several_namespaces() {
    let (one, puppet) = cluster("cluster-one");
    let two = one.env().namespace("cluster-two");
    puppet.play(&children([in_namespace(&one, config_map("a", "1")), in_namespace(&two, config_map("a", "1"))]));
    let uid = puppet.uid();
    for ns in [&one, &two] {
        let child = ns.get("configmaps", "a").expect("the child");
        assert_eq!(text(&child, "/metadata/ownerReferences/0/uid"), uid);
        assert_eq!(text(&child, "/metadata/labels/windlass.dev~1parent-uid"), uid);
    }
    two.kubectl(&["delete", "configmap", "a", "--wait=true"]);
    wait_names(&two, "configmaps", &["a"]);
    puppet.play(&children([in_namespace(&two, config_map("a", "1"))]));
    wait_names(&one, "configmaps", &[]);
    puppet.kubectl("delete", &["--wait=true"]);
    wait_names(&two, "configmaps", &[]);
}

/// A tenant copies the marks of a cluster-scoped parent's children to large objects of its own. As children, they would
/// be part of the plugin's request and exceed its limit.
#[test]
fn s02_object_that_a_tenant_marks_as_a_child_of_a_cluster_scoped_parent_is_not_its_child() {
    let (ns, puppet) = cluster("cluster-forged");
    let vault = ns.env().namespace("cluster-tenant");
    let script = json!({ "children": [in_namespace(&ns, config_map("genuine", "1"))], "status": "reflect" });
    puppet.play(&script);
    let genuine = ns.get("configmaps", "genuine").expect("the child");
    let own = format!("ConfigMap {}/genuine", ns.name());
    let padding = "x".repeat(900_000);
    for at in 0..6 {
        let mut forged = in_namespace(&vault, config_map(&format!("forged-{at}"), &padding));
        forged["metadata"]["labels"] = genuine["metadata"]["labels"].clone();
        forged["metadata"]["annotations"] = genuine["metadata"]["annotations"].clone();
        if at % 2 == 0 {
            forged["metadata"]["ownerReferences"] = genuine["metadata"]["ownerReferences"].clone();
        } else {
            let parent = format!("puppet-cluster/ClusterPuppet.puppets.example/{}", ns.name());
            forged["metadata"]["annotations"]["windlass.dev/retained-for"] = parent.into();
        }
        vault.env().apply(&forged.to_string());
    }
    let mark = ns.env().mark();
    ns.kubectl(&["delete", "configmap", "genuine", "--wait=true"]);
    wait_names(&ns, "configmaps", &["genuine"]);
    puppet.kubectl("annotate", &["touched=yes"]);
    // The request contained only the parent's own child.
    let shown = puppet.wait(|parent| is_done(parent) && parent["status"]["children"] == json!([own]));
    assert!(condition(&shown, "Ready").is_true(), "{shown:#}");
    assert_eq!(names(&vault, "configmaps").len(), 6);
    assert_eq!(
        ns.env().host_requests(mark).namespace(vault.name()).to_vec(),
        [],
        "the host sends no request for these objects"
    );
    // An object that has the name of a child is not adopted either.
    let taken = json!({ "children": [in_namespace(&ns, config_map("genuine", "1")), in_namespace(&vault, config_map("forged-0", "2"))] });
    puppet.apply(&taken);
    let ready = puppet.wait_reason("Conflict");
    assert!(ready.message.contains("forged-0"), "{ready:?}");
    vault.kubectl(&["delete", "configmap", "forged-0"]);
    puppet.wait_done();
}

/// A tenant pads children, which it may write, until the request would exceed 4 MiB.
#[test]
fn s02_child_that_exceeds_the_request_limit_is_left_out_and_left_alone() {
    let (ns, puppet) = cluster("cluster-padded");
    let child = |name: &str, value: &str| in_namespace(&ns, config_map(name, value));
    let names = ["a", "b", "c", "d", "e"];
    puppet.play(&children(names.map(|name| child(name, "1"))));
    let padded = |name: &str, bytes: usize| {
        let mut padded = child(name, "1");
        padded["data"] = json!({ "padding": "x".repeat(bytes) });
        ns.env().apply_as("tenant", &padded.to_string());
    };
    for name in names {
        padded(name, if name == "c" { 1_000_000 } else { 900_000 });
    }
    // The host has seen all of them.
    puppet.wait_reason("LimitExceeded");

    // The largest child is left out; the others are changed to the desired state.
    puppet.apply(&children(["a", "b", "c", "d", "e", "f"].map(|name| child(name, "2"))));
    let value = |name: &str| text(&ns.get("configmaps", name).expect(name), "/data/value");
    let is_left_out = |value_of_others: &str| {
        wait(&format!("others at {value_of_others}"), TIMEOUT, || {
            let ready = condition(&puppet.get()?, "Ready");
            let others_are = ["a", "b", "d", "e", "f"].iter().all(|name| {
                ns.get("configmaps", name).is_some_and(|found| text(&found, "/data/value") == value_of_others)
            });
            (others_are && ready.is_false("LimitExceeded")).then_some(ready)
        })
    };
    let ready = is_left_out("2");
    assert!(ready.message.contains(&format!("ConfigMap {}/c (1000", ns.name())), "{ready:?}");
    assert!(ready.message.contains("raise spec.limits.requestBytes"), "{ready:?}");
    assert_eq!(value("c"), "1");

    // Nor is it deleted when the plugin no longer returns it.
    puppet.apply(&children(["a", "b", "d", "e", "f"].map(|name| child(name, "3"))));
    is_left_out("3");
    assert_eq!(value("c"), "1");

    // As soon as it fits, it is a child like the others.
    padded("c", 1);
    puppet.wait_done();
    wait_names(&ns, "configmaps", &["a", "b", "d", "e", "f"]);
}

#[test]
fn child_of_a_cluster_scoped_parent_without_a_namespace_is_rejected() {
    let (ns, puppet) = cluster("cluster-nowhere");
    puppet.apply(&children([in_namespace(&ns, config_map("a", "1")), config_map("b", "1")]));
    let ready = puppet.wait_reason("ResponseRejected");
    assert!(ready.message.contains("namespace"), "{ready:?}");
    assert_eq!(names(&ns, "configmaps"), [""; 0], "no child of a rejected response is applied");
}

#[test]
fn related_requirement_of_a_cluster_scoped_parent_must_name_a_namespace() {
    let (ns, puppet) = cluster("cluster-related");
    ns.env().apply(&in_namespace(&ns, config_map("input", "gold")).to_string());
    let mut requirement = needs("in", "input");
    let script = |requirement: &Value| json!({ "requirements": [requirement], "status": "reflect" });
    puppet.apply(&script(&requirement));
    let ready = puppet.wait_reason("ResponseRejected");
    assert!(ready.message.contains("namespace"), "{ready:?}");
    // A cluster-scoped parent may require objects of any namespace.
    requirement["namespace"] = ns.name().into();
    puppet.apply(&script(&requirement));
    puppet.wait(|puppet| puppet["status"]["related"]["in"]["values"] == json!(["gold"]));
    // A cluster-scoped kind must be granted by the Plugin.
    let namespace = json!({ "id": "in", "apiVersion": "v1", "kind": "Namespace", "name": ns.name() });
    puppet.apply(&script(&namespace));
    let ready = puppet.wait_reason("ReadForbidden");
    assert!(ready.message.contains("Namespace"), "{ready:?}");
}

/// Labels a namespace for the decorator.
fn decorate(ns: &Namespace) {
    ns.env().kubectl(&["label", "namespace", ns.name(), "puppets.example/decorate=true"]);
}

fn policy(ns: &Namespace) -> Option<Value> {
    ns.get("networkpolicies", "decoration")
}

#[test]
fn parent_of_a_built_in_kind_gets_children_and_its_status_is_left_alone() {
    let env = stage().with("decorator");
    let (ns, plain) = (env.namespace("decorated"), env.namespace("plain"));
    let mark = env.mark();
    decorate(&ns);
    let created = env.wait_object("networkpolicies", ns.name(), "decoration", |_| true);
    let namespace = env.get("namespaces", "", ns.name()).expect("the namespace");
    let owner = &created["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"]), (&"Namespace".into(), &namespace["metadata"]["uid"]));
    assert_eq!(created["spec"]["policyTypes"], json!(["Ingress"]));

    env.kubectl(&["annotate", "namespace", ns.name(), "puppets.example/deny=Egress"]);
    env.wait_object("networkpolicies", ns.name(), "decoration", |policy| {
        policy["spec"]["policyTypes"] == json!(["Egress"])
    });
    ns.kubectl(&["delete", "networkpolicy", "decoration", "--wait=true"]);
    env.wait_object("networkpolicies", ns.name(), "decoration", |_| true);
    let namespace = env.get("namespaces", "", ns.name()).expect("the namespace");
    assert_eq!(namespace["status"], json!({ "phase": "Active" }));
    let written = env.host_requests(mark).attempted_writes().resource("namespaces");
    assert_eq!(written.to_vec(), []);
    assert!(policy(&plain).is_none(), "a Namespace without the label is not a parent");
}

#[test]
fn r12_failure_of_a_parent_of_a_built_in_kind_is_reported_by_an_event() {
    let env = stage().with("decorator");
    let ns = env.namespace("too-much");
    env.kubectl(&["annotate", "namespace", ns.name(), "puppets.example/deny=everything"]);
    decorate(&ns);
    wait("an event on the namespace", TIMEOUT, || {
        let events = env.list("events", "");
        let is_failure = |event: &&Value| {
            text(event, "/involvedObject/name") == ns.name() && text(event, "/message").contains("too much")
        };
        events.iter().find(is_failure).map(|event| assert_eq!(text(event, "/type"), "Warning"))
    });
    assert!(policy(&ns).is_none());
}

#[test]
fn r14_parent_that_leaves_the_selector_is_finalized_and_its_children_pass_the_deletion_guard() {
    let env = stage().with("decorator-finalizes");
    let ns = env.namespace("leaves");
    let has_finalizer = |namespace: &Value| !namespace["metadata"]["finalizers"].is_null();
    env.kubectl(&["label", "namespace", ns.name(), "puppets.example/hold=true"]);
    wait_names(&ns, "configmaps", &["a", "b", "c", "d"]);
    env.wait_object("namespaces", "", ns.name(), has_finalizer);

    env.kubectl(&["label", "namespace", ns.name(), "puppets.example/hold-"]);
    let hash = wait("an event with the hash that allows the deletions", TIMEOUT, || {
        let events = env.list("events", "");
        let on_namespace = events.iter().filter(|event| text(event, "/involvedObject/name") == ns.name());
        on_namespace.map(|event| text(event, "/message")).find_map(|message| {
            let (_, rest) = message.split_once("windlass.dev/allow-deletion=")?;
            rest.split_once(' ').map(|(hash, _)| hash.to_owned())
        })
    });
    assert!(env.get("namespaces", "", ns.name()).is_some_and(|namespace| has_finalizer(&namespace)));
    assert_eq!(names(&ns, "configmaps"), ["a", "b", "c", "d"]);

    env.kubectl(&["annotate", "namespace", ns.name(), &format!("windlass.dev/allow-deletion={hash}")]);
    env.wait_object("namespaces", "", ns.name(), |namespace| !has_finalizer(namespace));
    wait_names(&ns, "configmaps", &[]);
}

#[test]
fn r14_object_of_the_plugins_own_kind_is_a_parent_while_its_labels_and_annotations_match() {
    let ns = stage().with("puppet-staged").namespace("ignored");
    let puppet = ns.puppet_of("StagedPuppet", "web");
    puppet.play(&children([config_map("a", "1")]));
    for verb in ["label", "annotate"] {
        puppet.kubectl(verb, &["ignored=true"]);
        wait_names(&ns, "configmaps", &[]);
        // It was not finalized for its deletion.
        puppet.wait(|puppet| puppet["metadata"]["finalizers"].is_null());
        let mark = ns.env().mark();
        puppet.apply(&children([config_map("a", verb)]));
        barrier_of(&ns, "StagedPuppet", &format!("beside-{verb}"));
        let names: Vec<_> =
            verbs(&write_attempts(&ns, mark, "configmaps")).iter().map(|(_, name)| (*name).to_owned()).collect();
        assert_eq!(names, [format!("beside-{verb}")], "the host leaves it alone");
        puppet.kubectl(verb, &["ignored-"]);
        puppet.wait_done();
        assert_eq!(value(&ns, "a"), verb);
        ns.kubectl(&["delete", "stagedpuppet", &format!("beside-{verb}"), "--wait=true"]);
    }
}
