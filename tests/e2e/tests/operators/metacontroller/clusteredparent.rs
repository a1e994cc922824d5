//! `ClusteredParent`: a `RoleBinding` in a namespace for each `ClusterRole` that asks for it.

use serde_json::json;
use windlass_e2e::{Env, text};

const BINDINGS: &str = "rolebindings";
const ROLES: &str = "clusterroles";
const NAME: &str = "my-clusterrole";

/// The API server lets an account bind a role of which it has not all permissions only with the verb `bind`.
pub(super) const MAY_BIND: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: clusteredparent-binds}
rules: [{apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [bind], resourceNames: [my-clusterrole, resting]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: clusteredparent-binds}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: clusteredparent-binds}
subjects: [{kind: ServiceAccount, namespace: windlass-system, name: windlass-plugin-clusteredparent}]
";

#[track_caller]
fn apply(env: &Env, name: &str) {
    let annotations = json!({ "porting.example.com/default-service-account-binding": "default" });
    let reads = json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "watch", "list"] });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name, "annotations": annotations },
        "rules": [reads],
    });
    env.apply(&role.to_string());
}

pub(super) fn steps(env: &Env) {
    apply(env, "resting");
    apply(env, NAME);
    let binding = env.wait_object(BINDINGS, "default", NAME, |_| true);
    assert_eq!(text(&binding, "/roleRef/name"), NAME);
    assert_eq!(text(&binding, "/subjects/0/name"), "default");

    // The host sees that the namespaced child of a cluster-scoped parent is gone.
    env.kubectl(&["delete", BINDINGS, NAME, "-n", "default", "--wait=true"]);
    env.wait_object(BINDINGS, "default", NAME, |now| now["metadata"]["uid"] != binding["metadata"]["uid"]);

    env.kubectl(&["delete", ROLES, NAME]);
    env.wait_gone(ROLES, "", NAME);
    env.wait_gone(BINDINGS, "default", NAME);
    env.wait_object(BINDINGS, "default", "resting", |_| true);
}
