//! Admission policies that back up the host's own checks; generated into manifests/.
//!
//! The host does not rely on them: it decides by itself which objects are children, and where plugins may write. They
//! are `ValidatingAdmissionPolicies`
//! (<https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/>), which the API server
//! evaluates without calling a webhook.

use serde_json::{Value, json};
use windlass_core::object::names::{
    ANNOTATION_APPLIED, ANNOTATION_MARK, ANNOTATION_RETAINED_FOR, FIELD_MANAGER, FINALIZER_MANAGER, LABEL_PARENT_UID,
    LABEL_PLUGIN,
};

use crate::cluster::account::HOST;

/// Labels by which the host recognizes children.
const LABELS: [&str; 2] = [LABEL_PLUGIN, LABEL_PARENT_UID];
/// Annotations by which the host recognizes children, and the content that it applied.
const ANNOTATIONS: [&str; 3] = [ANNOTATION_APPLIED, ANNOTATION_MARK, ANNOTATION_RETAINED_FOR];
/// Verb on `plugins.windlass.dev` that allows a user to set the marks: for backup tools, and for controllers that copy
/// labels from the objects they work for. Cluster admins have it.
const VERB: &str = "mark";

/// Whether a request is for one of the groups of Pods and of the workloads that create them.
const IN_WORKLOADS: &str = "request.resource.group in ['', 'apps', 'batch']";

/// The policies with their bindings, for a host in this namespace.
pub fn objects(namespace: &str) -> Vec<Value> {
    [marks(namespace), host_namespace(namespace)].into_iter().flatten().collect()
}

/// The labels or annotations of an object in CEL, empty if there are none.
fn metadata(of: &str, field: &str) -> String {
    format!("{of}.?metadata.?{field}.orValue({{}})")
}

/// The expressions of the policy on marks, with their messages.
fn mark_validations() -> [(String, String); 3] {
    // No key was set or changed: each is absent, or as it was.
    let kept = |keys: &[&str], now: &str, before: &str| {
        let keys = keys.iter().map(|key| format!("'{key}'")).collect::<Vec<_>>().join(", ");
        format!("[{keys}].all(key, !(key in {now}) || (key in {before} && {now}[key] == {before}[key]))")
    };
    let unmarked = |of: &str| {
        let keys = |keys: &[&str], field| {
            let held = metadata(of, field);
            keys.iter().map(|key| format!("!('{key}' in {held})")).collect::<Vec<_>>().join(" && ")
        };
        format!("{} && {}", keys(&LABELS, "labels"), keys(&ANNOTATIONS, "annotations"))
    };
    let may_mark = format!("authorizer.group('windlass.dev').resource('plugins').check('{VERB}').allowed()");
    let hint =
        format!("To let a backup tool or a controller set them, grant it the verb {VERB} on plugins.windlass.dev");
    [
        (
            format!(
                "({}) && ({}) || {may_mark}",
                kept(&LABELS, "variables.labels", "variables.oldLabels"),
                kept(&ANNOTATIONS, "variables.annotations", "variables.oldAnnotations"),
            ),
            format!(
                "{} belong to Windlass, which marks the children of Plugins with them: leave them out. {hint}",
                [&LABELS[..], &ANNOTATIONS[..]].concat().join(", ")
            ),
        ),
        (
            format!(
                "variables.templates.all(template, {}) && variables.volumes.all(volumes, volumes.all(volume, {})) || {may_mark}",
                unmarked("template"),
                unmarked("volume.?ephemeral.?volumeClaimTemplate"),
            ),
            format!("a template must not have the labels and annotations that mark children of Plugins. {hint}"),
        ),
        (
            format!(
                "!(request.?options.?fieldManager.orValue('') in ['{FIELD_MANAGER}', '{FINALIZER_MANAGER}']) || {may_mark}"
            ),
            format!(
                "the field managers {FIELD_MANAGER} and {FINALIZER_MANAGER} belong to Windlass: choose another \
                 --field-manager. {hint}"
            ),
        ),
    ]
}

/// Only the host and the plugins' ServiceAccounts may set or change the marks of a child, or use the host's field
/// managers. Removing marks is allowed: the host sets them again.
fn marks(namespace: &str) -> [Value; 2] {
    let old = |field| format!("oldObject == null ? {{}} : {}", metadata("oldObject", field));
    let variables = [
        ("labels", metadata("object", "labels")),
        ("oldLabels", old("labels")),
        ("annotations", metadata("object", "annotations")),
        ("oldAnnotations", old("annotations")),
        // Templates from which the control plane's controllers create objects. In other groups, `template` may mean
        // anything. The spec of a ResourceClaimTemplate is a template as well.
        (
            "templates",
            format!(
                "({IN_WORKLOADS} ? [object.?template, object.?spec.?template, object.?spec.?jobTemplate, \
                 object.?spec.?jobTemplate.?spec.?template] : request.resource.group == 'resource.k8s.io' ? [object.?spec] : [])\
                 .filter(template, template.hasValue()).map(template, template.value()) + \
                 ({IN_WORKLOADS} ? object.?spec.?volumeClaimTemplates.orValue([]) : [])"
            ),
        ),
        // A Pod, and the templates of Pods: their ephemeral volumes have templates in turn.
        (
            "volumes",
            format!("{IN_WORKLOADS} ? (variables.templates + [object]).map(pod, pod.?spec.?volumes.orValue([])) : []"),
        ),
    ];
    let validations = mark_validations();
    let spec = json!({
        // The host is safe without this policy, so an error in it must not block any write.
        "failurePolicy": "Ignore",
        "matchConstraints": {"resourceRules": [rule(&["CREATE", "UPDATE"], "*", "*/*", "*")]},
        "matchConditions": [
            {
                "name": "neither-the-host-nor-a-plugin",
                "expression": format!("!('system:serviceaccounts:{namespace}' in request.userInfo.groups)"),
            },
            {
                // These controllers copy labels and annotations: from a Service to its EndpointSlices, from a
                // Deployment to its ReplicaSets.
                "name": "not-the-control-plane",
                "expression": "!('system:serviceaccounts:kube-system' in request.userInfo.groups) && \
                               request.userInfo.username != 'system:kube-controller-manager'",
            },
        ],
        "variables": variables.map(|(name, expression)| json!({"name": name, "expression": expression})),
        "validations": validations.map(|(expression, message)| {
            json!({"expression": expression, "message": message, "reason": "Forbidden"})
        }),
    });
    policy("windlass-marks", &spec)
}

/// No plugin's ServiceAccount may write in the host's namespace, or change that Namespace.
fn host_namespace(namespace: &str) -> [Value; 2] {
    let all = ["CREATE", "UPDATE", "DELETE", "CONNECT"];
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {
            // A namespaceSelector does not exclude cluster-scoped objects other than Namespaces: hence two rules.
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceRules": [rule(&all, "*", "*/*", "Namespaced"), rule(&all, "", "namespaces", "Cluster")],
        },
        "matchConditions": [{
            "name": "is-a-plugin",
            "expression": format!(
                "'system:serviceaccounts:{namespace}' in request.userInfo.groups && \
                 request.userInfo.username != 'system:serviceaccount:{namespace}:{HOST}'"
            ),
        }],
        "validations": [{
            "expression": "false",
            "message": format!(
                "the ServiceAccounts of plugins may not write in the namespace of the Windlass host, {namespace}"
            ),
            "reason": "Forbidden",
        }],
    });
    policy("windlass-host-namespace", &spec)
}

fn rule(operations: &[&str], group: &str, resources: &str, scope: &str) -> Value {
    json!({
        "apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": [resources], "scope": scope,
    })
}

/// A policy, and the binding that enables it in the whole cluster.
fn policy(name: &str, spec: &Value) -> [Value; 2] {
    let version = "admissionregistration.k8s.io/v1";
    let metadata = json!({"name": name});
    [
        json!({"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec}),
        json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata,
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    ]
}
