//! Child kinds that are served late, and kinds that are forbidden.

use serde_json::{Value, json};
use windlass_e2e::{Env, SYSTEM_NAMESPACE, condition};

use crate::scripts::{config_map, serve_toys, toy};
use crate::{Alone, alone, children, guest, wait_names};

/// Pushes `puppet-rolling` without permissions: its child kinds may not be served yet.
fn push_rolling(alone: &Alone) {
    let component = guest("puppet-rolling");
    alone.env.windlass(&["push", &component.to_string_lossy(), "--name", "puppet-rolling", "--no-wait"]);
}

/// Grants the host and the plugin's ServiceAccount the permissions of `puppet-rolling` for some of its child kinds.
fn grant(env: &Env, kinds: &[&str]) {
    let rule =
        |group: &str, resources: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": ["*"] });
    let own = ["rollingpuppets", "rollingpuppets/status", "rollingpuppets/finalizers"];
    let cluster_role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "rolling-by-hand", "labels": { "windlass.dev/aggregate-to-host": "true" } },
        "rules": [
            rule("puppets.example", &[&own, kinds].concat()),
            rule("", &["configmaps", "secrets", "namespaces"]),
        ],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": "rolling-by-hand" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "rolling-by-hand" },
        "subjects": [{ "kind": "ServiceAccount", "name": "windlass-plugin-puppet-rolling", "namespace": SYSTEM_NAMESPACE }],
    });
    for object in [cluster_role, binding] {
        env.apply(&object.to_string());
    }
}

fn wait_not_granted(env: &Env, reason: &'static str, word: &str) -> Value {
    env.wait_plugin("puppet-rolling", |plugin| {
        let granted = condition(plugin, "Granted");
        granted.is_false(reason) && granted.message.contains(word)
    })
}

/// The Plugin `puppet` still works.
#[track_caller]
fn assert_neighbour_works(alone: &Alone, name: &str) {
    let ns = alone.env.namespace(name);
    ns.puppet("web").play(&children([config_map("a", "1")]));
    let plugin = alone.env.get("plugins.windlass.dev", "", "puppet").expect("the Plugin");
    assert!(condition(&plugin, "Available").is_true(), "{plugin:#}");
}

#[test]
fn missing_or_forbidden_child_kind_stops_only_its_own_plugin_until_it_is_available() {
    let alone = alone();
    grant(alone.env, &[]);
    push_rolling(&alone);
    wait_not_granted(alone.env, "ChildKindMissing", "Doll");
    assert_neighbour_works(&alone, "kind-missing");

    serve_toys(alone.env);
    wait_not_granted(alone.env, "Forbidden", "Doll");
    assert_neighbour_works(&alone, "kind-forbidden");

    grant(alone.env, &["dolls", "masks"]);
    alone.env.wait_live("puppet-rolling", &guest("puppet-rolling"));
    let ns = alone.env.namespace("kind-late");
    let rolling = ns.puppet_of("RollingPuppet", "web");
    rolling.play(&children([toy("Doll", "a", "1")]));
    wait_names(&ns, "dolls", &["a"]);

    // A permission is revoked and a CRD is deleted while the Plugin is live.
    grant(alone.env, &["masks"]);
    alone.env.kubectl(&["delete", "crd", "dolls.puppets.example"]);
    wait_not_granted(alone.env, "ChildKindMissing", "Doll");
    assert_neighbour_works(&alone, "kind-gone");
    grant(alone.env, &["dolls", "masks"]);
    serve_toys(alone.env);
    alone.env.wait_live("puppet-rolling", &guest("puppet-rolling"));
    wait_names(&ns, "dolls", &["a"]);
    alone.env.kubectl(&["delete", "rollingpuppets", "--all", "--all-namespaces"]);
}
