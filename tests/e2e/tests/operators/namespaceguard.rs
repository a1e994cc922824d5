//! The life cycle of a guarded Namespace: the label is set, the sizes change, the label is removed.

use serde_json::json;

use crate::{sample, stage, wait_for};

const CHILDREN: [(&str, &str); 3] =
    [("networkpolicies", "default-deny"), ("resourcequotas", "guard"), ("limitranges", "guard")];

#[test]
fn namespace_has_policy_quota_and_limits_while_it_has_the_guard_label() {
    let env = &stage().env;
    let (guarded, other) = (&env.namespace("guarded"), &env.namespace("unguarded"));
    env.kubectl(&["label", "namespace", guarded.name(), "windlass.dev/guard=true"]);
    for (resource, name) in CHILDREN {
        wait_for(guarded, resource, name, |_| true);
    }
    let quota = guarded.get("resourcequotas", "guard").expect("a quota");
    assert_eq!(quota["spec"]["hard"]["pods"], "50", "the default without a config");
    let policy = guarded.get("networkpolicies", "default-deny").expect("a policy");
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["spec"].get("egress"), None, "no egress is allowed");

    // A hand edit that opens the policy is reverted, also after the first apply: a create owns no empty field, an apply does.
    for _ in 0..2 {
        let open = json!({ "spec": { "podSelector": { "matchLabels": { "app": "none" } }, "egress": [{}] } });
        guarded.kubectl(&["patch", "networkpolicy", "default-deny", "--type=merge", "-p", &open.to_string()]);
        wait_for(guarded, "networkpolicies", "default-deny", |policy| {
            policy["spec"]["podSelector"] == json!({})
                && policy["spec"].get("egress").is_none_or(|all| *all == json!([]))
        });
    }

    // The Plugin's config has the sizes, set by another field manager than push.
    env.apply_as("sizes", &sample("namespaceguard-plugin"));
    wait_for(guarded, "resourcequotas", "guard", |quota| {
        quota["spec"]["hard"] == json!({ "pods": "20", "requests.cpu": "2", "requests.memory": "4Gi" })
    });
    wait_for(guarded, "limitranges", "guard", |range| range["spec"]["limits"][0]["default"]["memory"] == "256Mi");
    wait_for(guarded, "networkpolicies", "default-deny", |policy| {
        policy["spec"]["egress"][0]["ports"][0]["port"] == 53
    });
    assert_eq!(other.get("resourcequotas", "guard"), None, "a Namespace without the label is left alone");

    // A child deleted by hand is recreated.
    guarded.kubectl(&["delete", "networkpolicy", "default-deny"]);
    wait_for(guarded, "networkpolicies", "default-deny", |_| true);

    env.kubectl(&["label", "namespace", guarded.name(), "windlass.dev/guard-"]);
    for (resource, name) in CHILDREN {
        guarded.wait_gone(resource, name);
    }
}
