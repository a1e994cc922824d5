//! Parents other than a namespaced custom resource.

use serde_json::{Value, json};
use windlass_e2e::{Namespace, Puppet, SOON, condition, is_done, text, wait};

use crate::scripts::{config_map, needs};
use crate::{children, names, stage, wait_names};

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
fn a_cluster_scoped_parent_owns_children_in_several_namespaces() {
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

/// A tenant copies what marks the children of a cluster-scoped parent to large objects of its own: as a child each would be
/// handed to the plugin, and all of them are more than a request may be.
#[test]
fn s02_what_a_tenant_marks_as_a_child_of_a_cluster_scoped_parent_is_none() {
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
    // Its own child alone is what the plugin was shown.
    let shown = puppet.wait(|parent| is_done(parent) && parent["status"]["children"] == json!([own]));
    assert!(condition(&shown, "Ready").is_true(), "{shown:#}");
    assert_eq!(names(&vault, "configmaps").len(), 6);
    assert_eq!(ns.env().host_requests(mark).namespace(vault.name()).to_vec(), [], "nothing is asked of them");
    // What is in the way of a child is not taken over either.
    let taken = json!({ "children": [in_namespace(&ns, config_map("genuine", "1")), in_namespace(&vault, config_map("forged-0", "2"))] });
    puppet.apply(&taken);
    let ready = puppet.wait_reason("Conflict");
    assert!(ready.message.contains("forged-0"), "{ready:?}");
    vault.kubectl(&["delete", "configmap", "forged-0"]);
    puppet.wait_done();
}

/// A tenant pads children, which others may write, until the request would be larger than 4 MiB.
#[test]
fn s02_a_child_that_does_not_fit_the_request_is_left_out_and_left_alone() {
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

    // The largest is left out, the others are brought to what the plugin says.
    puppet.apply(&children(["a", "b", "c", "d", "e", "f"].map(|name| child(name, "2"))));
    let value = |name: &str| text(&ns.get("configmaps", name).expect(name), "/data/value");
    let is_left_out = |value_of_others: &str| {
        wait(&format!("others at {value_of_others}"), SOON, || {
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

    // Nor is it deleted when the plugin no longer wants it.
    puppet.apply(&children(["a", "b", "d", "e", "f"].map(|name| child(name, "3"))));
    is_left_out("3");
    assert_eq!(value("c"), "1");

    // As soon as it fits, it is a child like the others.
    padded("c", 1);
    puppet.wait_done();
    wait_names(&ns, "configmaps", &["a", "b", "d", "e", "f"]);
}

#[test]
fn a_cluster_scoped_parents_child_without_a_namespace_is_refused() {
    let (ns, puppet) = cluster("cluster-nowhere");
    puppet.apply(&children([in_namespace(&ns, config_map("a", "1")), config_map("b", "1")]));
    let ready = puppet.wait_reason("ResponseRejected");
    assert!(ready.message.contains("namespace"), "{ready:?}");
    assert_eq!(names(&ns, "configmaps"), [""; 0], "not a part of it is applied");
}

#[test]
fn related_of_a_cluster_scoped_parent_must_name_its_namespace() {
    let (ns, puppet) = cluster("cluster-related");
    ns.env().apply(&in_namespace(&ns, config_map("input", "gold")).to_string());
    let mut wanted = needs("in", "input");
    let script = |wanted: &Value| json!({ "requirements": [wanted], "status": "reflect" });
    puppet.apply(&script(&wanted));
    let ready = puppet.wait_reason("ResponseRejected");
    assert!(ready.message.contains("namespace"), "{ready:?}");
    // It has no namespace of its own that others would be beside.
    wanted["namespace"] = ns.name().into();
    puppet.apply(&script(&wanted));
    puppet.wait(|puppet| puppet["status"]["related"]["in"]["values"] == json!(["gold"]));
    // A kind that is in no namespace must be named by the Plugin.
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
fn a_decorated_kind_gets_children_and_its_status_is_left_alone() {
    let env = stage().with("decorator");
    let (ns, plain) = (env.namespace("decorated"), env.namespace("plain"));
    let mark = env.mark();
    decorate(&ns);
    let made = env.wait_object("networkpolicies", ns.name(), "decoration", |_| true);
    let namespace = env.get("namespaces", "", ns.name()).expect("the namespace");
    let owner = &made["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"]), (&"Namespace".into(), &namespace["metadata"]["uid"]));
    assert_eq!(made["spec"]["policyTypes"], json!(["Ingress"]));

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
    assert!(policy(&plain).is_none(), "without the label it is nobody's parent");
}

#[test]
fn r12_the_failure_of_a_parent_without_a_status_of_ours_is_told_by_an_event() {
    let env = stage().with("decorator");
    let ns = env.namespace("too-much");
    env.kubectl(&["annotate", "namespace", ns.name(), "puppets.example/deny=everything"]);
    decorate(&ns);
    wait("an event on the namespace", SOON, || {
        let events = env.list("events", "");
        let told = |event: &&Value| {
            text(event, "/involvedObject/name") == ns.name() && text(event, "/message").contains("too much")
        };
        events.iter().find(told).map(|event| assert_eq!(text(event, "/type"), "Warning"))
    });
    assert!(policy(&ns).is_none());
}

#[test]
fn r14_a_decorated_object_that_leaves_the_selector_is_finalized_and_its_children_go_through_the_guard() {
    let env = stage().with("decorator-finalizes");
    let ns = env.namespace("leaves");
    let is_held = |namespace: &Value| !namespace["metadata"]["finalizers"].is_null();
    env.kubectl(&["label", "namespace", ns.name(), "puppets.example/hold=true"]);
    wait_names(&ns, "configmaps", &["a", "b", "c", "d"]);
    env.wait_object("namespaces", "", ns.name(), is_held);

    env.kubectl(&["label", "namespace", ns.name(), "puppets.example/hold-"]);
    let hash = wait("an event that says how to go on", SOON, || {
        let events = env.list("events", "");
        let told = events.iter().filter(|event| text(event, "/involvedObject/name") == ns.name());
        told.map(|event| text(event, "/message")).find_map(|message| {
            let (_, rest) = message.split_once("windlass.dev/allow-deletion=")?;
            rest.split_once(' ').map(|(hash, _)| hash.to_owned())
        })
    });
    assert!(env.get("namespaces", "", ns.name()).is_some_and(|namespace| is_held(&namespace)));
    assert_eq!(names(&ns, "configmaps"), ["a", "b", "c", "d"]);

    env.kubectl(&["annotate", "namespace", ns.name(), &format!("windlass.dev/allow-deletion={hash}")]);
    env.wait_object("namespaces", "", ns.name(), |namespace| !is_held(namespace));
    wait_names(&ns, "configmaps", &[]);
}
