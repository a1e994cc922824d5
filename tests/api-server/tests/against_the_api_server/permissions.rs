//! Users who may not do everything, on both sides.

use std::time::Duration;

use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use windlass_api_model::ApiServer;

use crate::compare::equal;
use crate::connection::{Send, response};
use crate::run::{call, model};

/// The user who may do everything.
pub const ADMIN: &str = "admin";

/// Each user with the permitted verbs.
const USERS: [(&str, &[&str]); 5] = [
    ("windlass-reader", &["get", "list", "watch"]),
    ("windlass-creator", &["get", "create"]),
    ("windlass-patcher", &["get", "patch"]),
    ("windlass-applier", &["create", "patch"]),
    ("windlass-updater", &["update", "delete"]),
];
const VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];
const RESOURCES: [(&str, &str); 4] =
    [("", "configmaps"), ("", "secrets"), ("example.com", "parts"), ("", "namespaces")];

/// The names of the users.
pub fn users() -> [&'static str; 5] {
    USERS.map(|(user, _)| user)
}

/// Whether a user may use a verb on a resource, or on its status.
fn is_permitted(user: &str, verb: &str, resource: &str, is_status: bool) -> bool {
    let verbs = USERS.iter().find(|(name, _)| *name == user).map_or(&[][..], |(_, verbs)| verbs);
    let has_status = resource == "parts" && user == "windlass-patcher";
    verbs.contains(&verb) && resource != "secrets" && (!is_status || has_status)
}

/// Every question: user, verb, API group, resource, and whether it is about the status.
fn questions() -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str, bool)> {
    users().into_iter().flat_map(|user| {
        let of = move |verb| {
            RESOURCES.map(|(group, resource)| [false, true].map(|is_status| (user, verb, group, resource, is_status)))
        };
        VERBS.into_iter().flat_map(of).flatten()
    })
}

/// Denies users on a model what they may not do.
pub fn deny(model: &mut ApiServer) {
    for (user, verb, group, resource, is_status) in questions() {
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let status = if is_status { "/status" } else { "" };
        let is_denied = !is_permitted(user, verb, resource, is_status);
        model.deny(user, verb, &format!("{resource}{group}{status}"), is_denied);
    }
}

/// Gives the users their permissions on the API server, and waits until it knows them.
pub fn grant(runtime: &Runtime, client: &Client) {
    let of_roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let of_bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    for user in users() {
        let granted = questions()
            .filter(|(of, verb, _, resource, is_status)| *of == user && is_permitted(user, verb, resource, *is_status));
        let rules: Vec<_> = granted
            .map(|(_, verb, group, resource, is_status)| {
                let resource = format!("{resource}{}", if is_status { "/status" } else { "" });
                json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]})
            })
            .collect();
        let api_version = "rbac.authorization.k8s.io/v1";
        let role =
            json!({"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules});
        let of = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user});
        let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user});
        let binding = json!({
            "apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": user}, "roleRef": of, "subjects": [subject],
        });
        for (url, object) in [(of_roles, role), (of_bindings, binding)] {
            let (code, body) = runtime.block_on(response(client.clone(), Send::json(Method::POST, url, object)));
            assert!(code == 201 || code == 409, "{body}");
        }
        let (_, verb, group, resource, is_status) = questions()
            .find(|(of, verb, _, resource, is_status)| *of == user && is_permitted(user, verb, resource, *is_status))
            .expect("a permission");
        windlass_testbed::until(format!("the permissions of {user}"), Duration::from_mins(1), || {
            let (_, reviewed) =
                runtime.block_on(response(client.clone(), review(user, verb, group, resource, is_status)));
            Ok((reviewed["status"]["allowed"] == true).then_some(()))
        })
        .expect("permissions");
    }
}

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// An access review, as the host sends it.
fn review(user: &str, verb: &str, group: &str, resource: &str, is_status: bool) -> Send {
    let mut attributes = json!({
        "group": group, "version": "v1", "resource": resource, "namespace": "default", "name": "a", "verb": verb,
    });
    if is_status {
        attributes["subresource"] = "status".into();
    }
    let spec = json!({"user": user, "groups": ["system:authenticated"], "resourceAttributes": attributes});
    let body =
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": spec});
    Send::json(Method::POST, REVIEWS, body)
}

/// Compares all reviews.
pub async fn compare_reviews(client: &Client) {
    let (mut model, _) = model();
    deny(&mut model);
    let shown = |code: u16, body: &Value| {
        let status = json!({"allowed": body["status"]["allowed"], "user": body["status"]["userInfo"]["username"]});
        json!({"code": code, "kind": body["kind"], "status": status})
    };
    let of_permissions = questions()
        .map(|(user, verb, group, resource, is_status)| (ADMIN, review(user, verb, group, resource, is_status)));
    let of_selves = users().into_iter().map(|user| {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}});
        let url = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        (user, Send { user: Some(user), ..Send::json(Method::POST, url, body) })
    });
    for (user, send) in of_permissions.chain(of_selves) {
        let mut call = call("POST", &send.url, "", Some(send.body.clone()));
        user.clone_into(&mut call.user);
        let ours = model.respond(&call);
        let (code, theirs) = response(client.clone(), send).await;
        equal("review", &shown(ours.code, &ours.body), &shown(code, &theirs))
            .unwrap_or_else(|text| panic!("{text}\n{theirs}"));
    }
}
