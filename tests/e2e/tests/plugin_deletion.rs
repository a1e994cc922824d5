//! Deletion of a Plugin: its children are left or deleted by `spec.deletionPolicy`, and no finalizer remains.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use serde_json::{Value, json};
use windlass_e2e::{Env, Namespace, Puppet, TIMEOUT, condition, guest, wait};

const PLUGINS: &str = "plugins.windlass.dev";
const FINALIZING: &str = "puppet-finalizes";

fn config_map(name: &str, retain: bool) -> Value {
    let annotations = if retain { json!({ "windlass.dev/retain": "true" }) } else { json!({}) };
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "annotations": annotations }, "data": { "a": "1" } })
}

fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn finalizing<'a>(env: &Env, ns: &Namespace<'a>) -> Puppet<'a> {
    env.push(&guest(&format!("puppets/{FINALIZING}")), FINALIZING, &[]);
    env.wait_live(FINALIZING, &guest(&format!("puppets/{FINALIZING}")));
    let puppet = ns.puppet_of("FinalizingPuppet", "web");
    puppet.play(&json!({ "children": [config_map("a", false), config_map("kept", true)] }));
    puppet
}

#[test]
fn plugin_deleted_while_no_host_runs_leaves_all_children_and_no_finalizer() {
    let env = Env::start();
    let host = env.start_host();
    let ns = env.namespace("orphans");
    let puppet = finalizing(&env, &ns);
    assert_eq!(finalizers(&puppet.get().expect("there")), ["windlass.dev/puppet-finalizes"]);
    let plugin = env.get(PLUGINS, "", FINALIZING).expect("a Plugin");
    assert_eq!(finalizers(&plugin), ["windlass.dev/host"], "the host must see the deletion of a Plugin that finalizes");
    // A finalizer of another owner, which the host must leave.
    puppet.kubectl(
        "patch",
        &["--type=json", "-p", r#"[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/other"}]"#],
    );

    assert!(host.terminate().success());
    env.kubectl(&["delete", PLUGINS, FINALIZING, "--wait=false"]);
    let mark = env.mark();
    let _host = env.start_host();
    env.wait_gone(PLUGINS, "", FINALIZING);
    let left = puppet.get().expect("there");
    assert_eq!(finalizers(&left), ["example.com/other"]);
    assert_eq!(env.host_requests(mark).attempted_writes().filter(|write| write.verb == "delete").to_vec(), []);
    for child in ["a", "kept"] {
        assert!(ns.get("configmaps", child).is_some(), "{child}");
    }
    // Nothing blocks the deletion of the parent any more.
    puppet.kubectl("patch", &["--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    puppet.kubectl("delete", &["--wait=true", "--timeout=180s"]);
}

#[test]
fn plugin_with_deletion_policy_delete_deletes_children_as_its_account_except_retained_ones() {
    let env = Env::start();
    let _host = env.start_host();
    let ns = env.namespace("prunes");
    let puppet = finalizing(&env, &ns);
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    ns.echo("other", 2, "nginx:1");
    ns.wait_settled("other");
    // The label alone does not make an object a child.
    ns.kubectl(&["create", "configmap", "foreign"]);
    ns.kubectl(&["label", "configmap", "foreign", "windlass.dev/plugin=puppet-finalizes"]);
    env.patch_plugin(FINALIZING, &json!({ "deletionPolicy": "Delete" }));
    let cluster = "puppet-cluster";
    env.push(&guest("puppets/puppet-cluster"), cluster, &[]);
    env.wait_live(cluster, &guest("puppets/puppet-cluster"));

    let mark = env.mark();
    env.kubectl(&["delete", PLUGINS, FINALIZING, "--wait=true", "--timeout=180s"]);
    assert!(ns.get("configmaps", "a").is_none(), "the child is deleted");
    for left in ["kept", "foreign"] {
        assert!(ns.get("configmaps", left).is_some(), "{left}");
    }
    assert_eq!(finalizers(&puppet.get().expect("the parent still exists")), [""; 0]);
    assert_eq!(ns.pod_names(), ["other-0", "other-1"], "children of another Plugin are left alone");
    let pruned = env.host_requests(mark).attempted_writes().filter(|write| write.verb == "delete");
    let deleted: Vec<_> = pruned.iter().map(|write| (&*write.name, write.impersonated.as_deref())).collect();
    let account = "system:serviceaccount:windlass-system:windlass-plugin-puppet-finalizes";
    assert_eq!(deleted, [("a", Some(account))]);

    // A Plugin that does not finalize, whose deletionPolicy is set only now.
    env.patch_plugin("echo", &json!({ "deletionPolicy": "Delete" }));
    env.wait_plugin("echo", |plugin| finalizers(plugin) == ["windlass.dev/host"]);
    env.kubectl(&["delete", PLUGINS, "echo", "--wait=true", "--timeout=180s"]);
    ns.wait_pods(&[]);

    // An object that a tenant marks as child of a cluster-scoped parent is not deleted.
    let vault = env.namespace("vault");
    let parent = Puppet::new(&env, "ClusterPuppet", "", ns.name());
    let mut genuine = config_map("genuine", false);
    genuine["metadata"]["namespace"] = ns.name().into();
    parent.play(&json!({ "children": [genuine] }));
    let mut forged = ns.get("configmaps", "genuine").expect("the child");
    forged["metadata"] = json!({
        "name": "forged", "namespace": vault.name(), "labels": forged["metadata"]["labels"],
        "annotations": forged["metadata"]["annotations"], "ownerReferences": forged["metadata"]["ownerReferences"],
    });
    env.apply(&forged.to_string());
    env.patch_plugin(cluster, &json!({ "deletionPolicy": "Delete" }));
    env.wait_plugin(cluster, |plugin| finalizers(plugin) == ["windlass.dev/host"]);
    env.kubectl(&["delete", PLUGINS, cluster, "--wait=true", "--timeout=180s"]);
    assert!(ns.get("configmaps", "genuine").is_none(), "the child is deleted");
    assert!(vault.get("configmaps", "forged").is_some(), "an object that the host did not create is left alone");
}

#[test]
fn deletion_policy_set_while_the_newest_component_fails_takes_effect() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    let live = env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("told-late");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");

    // The pinned digest matches no component.
    env.patch_plugin("echo", &json!({ "digest": format!("sha256:{}", "0".repeat(64)) }));
    env.wait_plugin("echo", |plugin| condition(plugin, "Fetched").is_false("DigestMismatch"));
    env.patch_plugin("echo", &json!({ "deletionPolicy": "Delete" }));
    let plugin = env.wait_plugin("echo", |plugin| finalizers(plugin) == ["windlass.dev/host"]);
    assert!(condition(&plugin, "Fetched").is_false("DigestMismatch"), "{plugin:#}");
    assert_eq!(plugin["status"]["activeDigest"], live.as_str());
    env.kubectl(&["delete", PLUGINS, "echo", "--wait=true", "--timeout=180s"]);
    ns.wait_pods(&[]);
}

#[test]
fn plugin_that_cannot_delete_its_children_gives_the_reason_and_goes_with_skip_finalize() {
    let env = Env::start();
    let _host = env.start_host();
    let ns = env.namespace("stuck");
    let puppet = finalizing(&env, &ns);
    env.patch_plugin(FINALIZING, &json!({ "deletionPolicy": "Delete" }));
    env.kubectl(&["delete", "clusterrolebinding", "windlass-plugin-puppet-finalizes:account"]);
    wait("the permission to be revoked", TIMEOUT, || {
        let user = "--as=system:serviceaccount:windlass-system:windlass-plugin-puppet-finalizes";
        let can_delete = env.try_kubectl(&["auth", "can-i", "delete", "configmaps", "-n", ns.name(), user]);
        can_delete.is_err().then_some(())
    });

    env.kubectl(&["delete", PLUGINS, FINALIZING, "--wait=false"]);
    let plugin = env.wait_plugin(FINALIZING, |plugin| condition(plugin, "Ready").is_false("Terminating"));
    let message = condition(&plugin, "Ready").message;
    for words in ["delete ConfigMap", "forbidden", "windlass.dev/skip-finalize"] {
        assert!(message.contains(words), "{words:?} is not in {message}");
    }
    assert!(ns.get("configmaps", "a").is_some());
    // The host keeps trying, and this does not block the deletion of other objects.
    wait("the host to try again", TIMEOUT, || {
        (env.host_log_lines("deletion of the Plugin blocked").len() >= 3).then_some(())
    });
    let plugin = env.get(PLUGINS, "", FINALIZING).expect("the Plugin still exists");
    assert_eq!(plugin["status"]["parentKind"], "FinalizingPuppet.v1.puppets.example", "{plugin:#}");
    assert_eq!(finalizers(&puppet.get().expect("there")), [""; 0]);

    env.kubectl(&["annotate", PLUGINS, FINALIZING, "windlass.dev/skip-finalize=true"]);
    env.wait_gone(PLUGINS, "", FINALIZING);
    assert!(ns.get("configmaps", "a").is_some(), "the child is left alone");
}
