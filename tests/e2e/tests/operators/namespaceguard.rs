//! `NamespaceGuard`'s life: a Namespace asks, sizes change, the Namespace asks no more.

use serde_json::json;

use crate::{sample, stage, wait_for, wait_gone};

const CHILDREN: [(&str, &str); 3] =
    [("networkpolicies", "default-deny"), ("resourcequotas", "guard"), ("limitranges", "guard")];

#[test]
fn a_namespace_is_guarded_while_it_asks_for_it() {
    let env = &stage().env;
    let (asks, other) = (&env.namespace("guarded"), &env.namespace("unguarded"));
    env.kubectl(&["label", "namespace", asks.name(), "windlass.dev/guard=true"]);
    for (resource, name) in CHILDREN {
        wait_for(asks, resource, name, |_| true);
    }
    let quota = asks.get("resourcequotas", "guard").expect("a quota");
    assert_eq!(quota["spec"]["hard"]["pods"], "50", "without configuration");
    let policy = asks.get("networkpolicies", "default-deny").expect("a policy");
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["spec"].get("egress"), None, "nothing leaves it");

    // Opened by hand, and closed again: a create owns no empty field, an apply does.
    for _ in 0..2 {
        let open = json!({ "spec": { "podSelector": { "matchLabels": { "app": "none" } }, "egress": [{}] } });
        asks.kubectl(&["patch", "networkpolicy", "default-deny", "--type=merge", "-p", &open.to_string()]);
        wait_for(asks, "networkpolicies", "default-deny", |policy| {
            policy["spec"]["podSelector"] == json!({})
                && policy["spec"].get("egress").is_none_or(|all| *all == json!([]))
        });
    }

    // The sizes are the Plugin's, and whoever sets them is not who pushed it.
    env.apply_as("sizes", &sample("namespaceguard-plugin"));
    wait_for(asks, "resourcequotas", "guard", |quota| {
        quota["spec"]["hard"] == json!({ "pods": "20", "requests.cpu": "2", "requests.memory": "4Gi" })
    });
    wait_for(asks, "limitranges", "guard", |range| range["spec"]["limits"][0]["default"]["memory"] == "256Mi");
    wait_for(asks, "networkpolicies", "default-deny", |policy| policy["spec"]["egress"][0]["ports"][0]["port"] == 53);
    assert_eq!(other.get("resourcequotas", "guard"), None, "who does not ask is left alone");

    // Broken by hand, and repaired.
    asks.kubectl(&["delete", "networkpolicy", "default-deny"]);
    wait_for(asks, "networkpolicies", "default-deny", |_| true);

    env.kubectl(&["label", "namespace", asks.name(), "windlass.dev/guard-"]);
    for (resource, name) in CHILDREN {
        wait_gone(asks, resource, name);
    }
}
