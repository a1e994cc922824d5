//! `GlobalConfigMap` and `ConfigMapPropagation`: copies of a ConfigMap in all namespaces, and in some.

use serde_json::{Value, json};
use windlass_e2e::{Env, Namespace, condition};

use super::written;

const GLOBAL: &str = "globalconfigmaps.porting.example.com";
const PROPAGATION: &str = "configmappropagations.porting.example.com";

#[track_caller]
fn source(ns: &Namespace, name: &str, value: &str) {
    let data = json!({ "some": value, "other": "value" });
    let metadata = json!({ "name": name, "namespace": ns.name() });
    ns.env().apply(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data }).to_string());
}

/// Waits until the namespaces have a copy with this value.
#[track_caller]
fn wait_copies(name: &str, namespaces: &[Namespace], value: &str) {
    for ns in namespaces {
        ns.env().wait_object("configmaps", ns.name(), name, |copy| {
            copy["data"] == json!({ "some": value, "other": "value" })
        });
    }
}

/// What the host wrote in these namespaces.
#[track_caller]
fn verbs(namespaces: &[Namespace], writes: &[(String, String, String)]) -> Vec<String> {
    let is_there = |(_, namespace, _): &&(String, String, String)| namespaces.iter().any(|ns| ns.name() == namespace);
    writes.iter().filter(is_there).map(|(verb, ..)| verb.clone()).collect()
}

pub(super) fn steps_of_global(env: &Env) {
    const NAME: &str = "globalsettings";
    let origin = env.namespace("global");
    source(&origin, NAME, "value");
    let namespaces = ["first", "second", "third"].map(|name| env.namespace(name));
    let mark = env.mark();
    let spec = json!({ "sourceName": NAME, "sourceNamespace": origin.name() });
    let parent = json!({
        "apiVersion": "porting.example.com/v1", "kind": "GlobalConfigMap", "metadata": { "name": NAME }, "spec": spec,
    });
    env.apply(&parent.to_string());
    wait_copies(NAME, &namespaces, "value");
    env.wait_object(GLOBAL, "", NAME, |global| condition(global, "Ready").is_true());
    assert_eq!(verbs(&namespaces, &written(env, mark, "globalconfigmap", "configmaps")), ["create"; 3]);

    // Beside the script: a namespace that comes later, a change of the source, and the namespaces that no plugin may write to.
    let later = [env.namespace("later")];
    wait_copies(NAME, &later, "value");
    source(&origin, NAME, "new");
    wait_copies(NAME, &namespaces, "new");
    wait_copies(NAME, &later, "new");
    for closed in ["kube-system", "kube-public", "kube-node-lease", "windlass-system"] {
        assert_eq!(env.get("configmaps", closed, NAME), None, "{closed}");
    }
}

#[track_caller]
fn propagation(env: &Env, name: &str, version: &str, origin: &Namespace, targets: &[Namespace]) {
    let targets: Vec<_> = targets.iter().map(Namespace::name).collect();
    let parent = json!({
        "apiVersion": "porting.example.com/v1", "kind": "ConfigMapPropagation",
        "metadata": { "name": name, "labels": { "version": version } },
        "spec": { "sourceName": "settings", "sourceNamespace": origin.name(), "targetNamespaces": targets },
    });
    env.apply(&parent.to_string());
}

pub(super) fn steps_of_propagation(env: &Env) {
    const UNMANAGED: &str = "settings-propagation-unmanaged";
    let origin = env.namespace("original");
    source(&origin, "settings", "value");
    let managed = ["one", "two", "three"].map(|name| env.namespace(name));
    let unmanaged = ["four", "five"].map(|name| env.namespace(name));
    let mark = env.mark();
    // The host would see it first.
    propagation(env, UNMANAGED, "v2", &origin, &unmanaged);
    propagation(env, "settings-propagation", "v1", &origin, &managed);
    wait_copies("settings", &managed, "value");
    env.wait_object(PROPAGATION, "", "settings-propagation", |parent| {
        parent["status"]["actualCopies"] == 3 && condition(parent, "Ready").is_true()
    });
    let writes = written(env, mark, "configmappropagation", "configmaps");
    assert_eq!((verbs(&managed, &writes), writes.len()), (vec!["create".to_owned(); 3], 3), "{writes:?}");
    let other = env.get(PROPAGATION, "", UNMANAGED).expect("the other parent");
    assert_eq!(other.get("status"), None, "a parent that is not selected is left alone");

    // Beside the script: the label decides.
    env.kubectl(&["label", PROPAGATION, UNMANAGED, "version=v1", "--overwrite"]);
    wait_copies("settings", &unmanaged, "value");
    env.kubectl(&["label", PROPAGATION, UNMANAGED, "version=v2", "--overwrite"]);
    for ns in unmanaged {
        ns.wait_gone("configmaps", "settings");
    }
    let is_deselected = |parent: &Value| condition(parent, "Ready").is_false("NotSelected");
    env.wait_object(PROPAGATION, "", UNMANAGED, is_deselected);
}
