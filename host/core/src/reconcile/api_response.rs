//! What the API server's response to a write says: whether it was executed, and what follows for the object.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::applied::Stored;
use super::outcome::{Rejection, WriteProblem};
use super::written::{Subject, Written};
use crate::object::Object;
use crate::object::child::Delete;
use crate::value::ids::{Gvk, Uid};

/// The written object, or its metadata; a `Status` after a delete has none.
#[derive(Debug, Default, Deserialize)]
pub struct Ack {
    #[serde(default)]
    metadata: AckMetadata,
    #[serde(skip)]
    object: Option<Box<Object>>,
    #[serde(skip)]
    warnings: Vec<Box<str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AckMetadata {
    uid: String,
    resource_version: String,
    generation: Option<i64>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

impl Ack {
    /// The same with the written object, if the response has it.
    #[must_use]
    pub fn with_object(self, object: Option<Object>) -> Self {
        Self { object: object.map(Box::new), ..self }
    }

    /// The same with what the API server warned about.
    #[must_use]
    pub fn with_warnings(self, warnings: Vec<Box<str>>) -> Self {
        Self { warnings, ..self }
    }

    /// What the API server warned about.
    pub fn warnings(&self) -> &[Box<str>] {
        &self.warnings
    }

    /// The written object, if the request asked for it.
    pub fn object(&self) -> Option<&Object> {
        self.object.as_deref()
    }

    /// The write of a parent that this response acknowledges.
    pub fn parent(&self) -> Written {
        Written::Parent { resource_version: self.resource_version() }
    }

    /// The write of a child that this response acknowledges.
    pub fn child(&self, kind: &Arc<Gvk>) -> Written {
        Written::Child { kind: kind.clone(), resource_version: self.resource_version() }
    }

    /// The written object, as the API server stored it.
    pub fn stored(&self) -> Stored {
        let AckMetadata { uid, generation, .. } = &self.metadata;
        Stored { uid: Uid::from(uid.as_str()), resource_version: self.resource_version(), generation: *generation }
    }

    /// Version of the written object, or 0 if the response has none: then there is no write to wait for.
    pub fn resource_version(&self) -> u64 {
        self.metadata.resource_version.parse().unwrap_or(0)
    }

    /// The deletion that this response acknowledges: the object is gone, or marked for deletion.
    pub fn deleted(&self, delete: Delete) -> Written {
        if self.metadata.deletion_timestamp.is_some() {
            self.child(&delete.child.kind)
        } else {
            Written::Gone { child: delete.child, uid: delete.uid }
        }
    }
}

/// A request that did not succeed. Its text is that of the API server, or says why there is none.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The API server, or a proxy before it, responded with this.
    #[error("{}", .0.message)]
    ByServer(Box<Status>),
    /// There was no response that the host understood, for this reason. The request may have been executed.
    #[error("{0}")]
    NoResponse(String),
    /// The request was not sent.
    #[error("{0}")]
    Unsent(WriteProblem),
}

/// The failure in a response (`metav1.Status`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The HTTP status.
    pub code: u16,
    /// The reason, as a word.
    pub reason: String,
    /// The text for people.
    pub message: String,
    /// What the failure is about.
    pub details: Option<Details>,
}

/// What a failure is about (`metav1.StatusDetails`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The object's resource, that is, the plural of its kind.
    pub kind: String,
    /// The object's uid.
    pub uid: String,
    /// The single causes.
    pub causes: Vec<Cause>,
    /// Seconds after which the request may be repeated; 0 if the API server does not say.
    pub retry_after_seconds: u32,
}

/// One cause of a failure (`metav1.StatusCause`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// The reason, as a word.
    pub reason: String,
    /// The text for people.
    pub message: String,
    /// The field, as a path.
    pub field: String,
}

/// The owners of fields with which an apply conflicted.
pub struct FieldOwners {
    /// The API server's message for each field.
    pub causes: Vec<String>,
    /// Whether all conflicts are with Update managers: no applier, and not through a subresource.
    pub only_drift: bool,
    /// Whether the only conflict is with the entry of the host's own POST.
    pub only_ours: bool,
}

impl Refused {
    /// The fields and their owners, if this is a conflict of an apply.
    pub fn conflict(&self) -> Option<FieldOwners> {
        let causes = &self.status().filter(|status| status.code == 409)?.details.as_ref()?.causes;
        let conflicts: Vec<_> = causes.iter().filter(|cause| cause.reason == "FieldManagerConflict").collect();
        if conflicts.is_empty() {
            return None;
        }
        Some(FieldOwners {
            only_drift: conflicts.iter().all(|cause| is_drift(&cause.message)),
            only_ours: conflicts.iter().all(|cause| is_drift(&cause.message) && cause.message.starts_with(OURS)),
            causes: conflicts.iter().map(|cause| format!("{} ({})", cause.field, cause.message)).collect(),
        })
    }

    /// The fields that make the object invalid, if that is why the API server refuses it; not if they cannot change.
    pub fn invalid_fields(&self) -> impl Iterator<Item = &str> {
        let is_immutable =
            matches!(self.problem(), WriteProblem::Rejected { rejection: Rejection::ImmutableField, .. });
        let is_invalid = |status: &&Status| status.code == 422 && !status.is_by_webhook() && !is_immutable;
        let status = self.status().filter(is_invalid);
        let causes = status.and_then(|status| status.details.as_ref()).map_or(&[][..], |details| &details.causes);
        // A policy names no field, and custom resources may have "<nil>" for the whole object.
        causes.iter().map(|cause| &*cause.field).filter(|field| !matches!(*field, "" | "<nil>"))
    }

    /// Whether the same request may succeed later: there was no response, or the API server is busy.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::NoResponse(_) => true,
            Self::ByServer(status) => matches!(status.code, 429 | 502..=504),
            Self::Unsent(_) => false,
        }
    }

    /// Whether a create failed because the name is taken.
    pub fn already_exists(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "AlreadyExists" && !status.is_by_webhook())
    }

    /// The resource and the name of another object that a create needs and that the API server does not know, if that is why it failed:
    /// the role of a binding, or a namespace.
    pub fn missing(&self) -> Option<(&str, &str)> {
        let status = self.status().filter(|status| status.code == 404 && status.reason == "NotFound");
        let details = status.filter(|status| !status.is_by_webhook())?.details.as_ref()?;
        Some((&details.kind, &details.name))
    }

    /// Whether a JSON patch could not be applied to the current object, above all because of a failed `test`. The API
    /// server gives the same text for all such failures (apiserver, handlers/patch.go); the status 422 alone can also come
    /// from admission policies.
    pub fn does_not_fit(&self) -> bool {
        self.status().is_some_and(|status| {
            status.code == 422 && status.message == "the server rejected our request due to an error in our request"
        })
    }

    /// Whether a write failed because the object has another version, or because another object has the name.
    pub fn is_outdated(&self) -> bool {
        self.conflict().is_none() && matches!(self.problem(), WriteProblem::Outdated)
    }

    /// Whether the object of a request does not exist. The code 404 alone does not say so: it also answers for a missing namespace or an
    /// unserved kind, and an admission webhook may deny a request with any status. If a proxy copies the API server's text, the read that
    /// ends each wait for a deletion finds the object.
    ///
    /// `kind` and `plural` name the kind of the object; an object of another uid counts as well if no uid is given.
    pub fn is_gone(&self, (kind, plural): (&str, &str), name: &str, uid: Option<&Uid>) -> bool {
        let is_of = |details: &Details| {
            let is_of_kind = [plural, kind, ""].contains(&&*details.kind);
            let is_of_uid = details.uid.is_empty() || uid.is_none_or(|uid| details.uid == uid.to_string());
            details.name == name && is_of_kind && is_of_uid
        };
        self.status().is_some_and(|status| {
            status.code == 404
                && status.reason == "NotFound"
                && status.details.as_ref().is_some_and(is_of)
                && !status.is_by_webhook()
        })
    }

    /// The write to record if it is unknown whether the request was executed: there was no response, or a server error. With 429 the API
    /// server has not started the request. Otherwise none.
    pub fn unknown(&self, subject: Subject) -> Option<Written> {
        let leaves_open = match self {
            Self::ByServer(status) => status.code >= 500 && !status.is_rejection_with_500(),
            Self::NoResponse(_) => true,
            Self::Unsent(_) => false,
        };
        leaves_open.then_some(Written::Unknown(subject))
    }

    /// The consequence for the object of the write.
    pub fn problem(&self) -> WriteProblem {
        let status = match self {
            Self::ByServer(status) => status,
            Self::NoResponse(message) => {
                return WriteProblem::Unavailable { message: message.clone(), retry_after: None };
            }
            Self::Unsent(problem) => return problem.clone(),
        };
        match status.code {
            409 if !status.is_by_webhook() => WriteProblem::Outdated,
            403 if status.is_namespace_terminating() => WriteProblem::NamespaceTerminating,
            500 if status.is_rejection_with_500() => status.rejected(),
            429 | 500..=599 => WriteProblem::Unavailable {
                message: status.message.clone(),
                retry_after: status
                    .details
                    .as_ref()
                    .map(|details| Duration::from_secs(details.retry_after_seconds.into()))
                    .filter(|wait| !wait.is_zero()),
            },
            _ => status.rejected(),
        }
    }

    fn status(&self) -> Option<&Status> {
        match self {
            Self::ByServer(status) => Some(status),
            Self::NoResponse(_) | Self::Unsent(_) => None,
        }
    }
}

/// How the API server names [`FIELD_MANAGER`](crate::object::names::FIELD_MANAGER).
const OURS: &str = "conflict with \"windlass\" ";

/// Whether a conflict is with an Update manager. The API server names an Apply manager alone, as in `conflict with
/// "helm"`, and an Update manager with its version and time, as in `conflict with "kubectl-edit" using v1 at …`
/// (apimachinery, managedfields/internal/conflict.go).
fn is_drift(message: &str) -> bool {
    let after_name = message.rsplit_once('"').map_or("", |(_, after)| after);
    after_name.starts_with(" using ") && !message.contains(" with subresource ")
}

/// How messages about a field that cannot change put it: those of built-in kinds, and of CEL transition rules (the API server names the
/// rule if it has no message, and authors write much the same).
const IMMUTABLE: [&str; 9] = [
    "immutable",
    "may not change",
    "may not be changed",
    "updates to ",
    "cannot change",
    "cannot be changed",
    "cannot be modified",
    "cannot be updated",
    "oldSelf",
];

impl Status {
    /// Whether an admission webhook denied the request. The API server puts these words before each message of a webhook (apiserver,
    /// plugin/webhook/errors); the rest of the status is the webhook's.
    fn is_by_webhook(&self) -> bool {
        self.message.starts_with("admission webhook \"")
    }

    /// Whether a 500 is a rejection of this object, so that a retry has the same result. The API server gives such a status no reason
    /// (apimachinery, managedfields/internal/structuredmerge.go): an apply whose object, merged or not, does not fit the schema of its kind
    /// (a number for a string, a duplicate key in a list, an unknown field); or an object that is too large for etcd. A conversion webhook
    /// that does not respond, or a schema that is not known yet, has one of these texts as well, and passes.
    fn is_rejection_with_500(&self) -> bool {
        const UNTYPED: [&str; 4] = [
            "failed to create typed patch object (",
            "failed to create typed live object (",
            "failed to convert new typed object (",
            "failed to convert new object (",
        ];
        const PASSES: [&str; 2] = ["conversion webhook", "no corresponding type"];
        let message = &*self.message;
        let is_untyped = UNTYPED.iter().any(|start| message.starts_with(start));
        self.code == 500
            && (is_untyped && !PASSES.iter().any(|words| message.contains(words))
                || message.contains("field not declared in schema")
                || message.contains("request is too large"))
    }

    /// A rejection. For these causes the API server gives no reason of its own, only a message.
    fn rejected(&self) -> WriteProblem {
        let (code, message) = (self.code, self.message.clone());
        let is_own = !self.is_by_webhook();
        let rejection = match code {
            422 if IMMUTABLE.iter().any(|words| message.contains(words)) => Rejection::ImmutableField,
            403 if is_own && message.contains(" cannot impersonate ") => Rejection::Impersonation,
            403 if is_own && message.contains(" cannot ") => Rejection::Permission,
            _ => Rejection::Other,
        };
        WriteProblem::Rejected { code, message, rejection }
    }

    /// Whether admission rejected an object because its namespace is being deleted (apiserver, plugin/namespace/lifecycle).
    /// Old API servers do not give the cause.
    fn is_namespace_terminating(&self) -> bool {
        let causes = self.details.iter().flat_map(|details| &details.causes);
        causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
            || self.message.contains("because it is being terminated")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u16, message: &str) -> Refused {
        Refused::ByServer(Box::new(Status { code, message: message.to_owned(), ..Status::default() }))
    }

    fn status(text: serde_json::Value) -> Refused {
        Refused::ByServer(Box::new(serde_json::from_value(text).expect("a status")))
    }

    #[test]
    fn r08_object_is_gone_only_if_the_api_server_says_not_found_and_names_it() {
        type Change = fn(&mut serde_json::Value);
        let uid = Uid::from("1");
        let of = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut found = serde_json::json!({
                "status": "Failure", "code": 404, "reason": "NotFound", "message": r#"configmaps "a" not found"#,
                "details": {"name": "a", "kind": "configmaps"},
            });
            change(&mut found);
            status(found).is_gone(("ConfigMap", "configmaps"), "a", Some(&uid))
        };
        assert!(of(&|_| {}));
        assert!(of(&|found| found["details"]["uid"] = "1".into()));
        let changes: [(&str, Change); 6] = [
            ("no details", |found| found["details"] = serde_json::Value::Null),
            ("another uid", |found| found["details"]["uid"] = "2".into()),
            ("another name", |found| found["details"]["name"] = "b".into()),
            ("its namespace of the same name", |found| found["details"]["kind"] = "namespaces".into()),
            ("a kind that is not served", |found| found["reason"] = "Failed to parse error data".into()),
            ("a webhook", |found| {
                found["message"] = r#"admission webhook "a.b.c" denied the request: configmaps "a" not found"#.into();
            }),
        ];
        for (what, change) in changes {
            assert!(!of(&change), "{what}");
        }
    }

    #[test]
    fn write_too_large_for_etcd_is_rejected_and_not_retried() {
        let refused = error(500, "etcdserver: request is too large").problem();
        assert!(matches!(refused, WriteProblem::Rejected { code: 500, .. }), "{refused:?}");
        let temporary = error(500, "etcdserver: leader changed").problem();
        assert!(matches!(temporary, WriteProblem::Unavailable { .. }), "{temporary:?}");
    }

    #[test]
    fn r13_object_that_does_not_fit_its_schema_is_rejected_and_other_errors_with_500_are_retried() {
        let of = |message: &str| {
            let error = error(500, message);
            let is_rejected = matches!(error.problem(), WriteProblem::Rejected { code: 500, .. });
            assert_eq!(error.unknown(Subject::Parent).is_none(), is_rejected, "a rejected write was not executed");
            is_rejected
        };
        for message in [
            r#"failed to create typed patch object (n/a; v1, Kind=Service): errors: .spec.ports: duplicate entries for key [port=80,protocol="TCP"]"#,
            "failed to create typed patch object (n/a; v1, Kind=ConfigMap): .data.n: expected string, got &value.valueUnstructured{Value:1}",
            "failed to create typed live object (n/a; a.b/v1, Kind=A): .spec.x: expected string, got int",
            "failed to convert new typed object (n/a; apps/v1, Kind=Deployment) to object: quantities must match",
            "failed to convert new object (n/a; v1, Kind=PersistentVolumeClaim) to proper version: quantities must match",
            "failed to create typed patch object (n/a; a.b/v1, Kind=A): .status.phase: field not declared in schema",
        ] {
            assert!(of(message), "{message}");
        }
        for message in [
            "Internal error occurred: failed calling webhook \"a.b.c\"",
            "etcdserver: leader changed",
            "failed to convert new object (n/a; a.b/v1, Kind=A) to proper version: conversion webhook for a.b/v2, Kind=A failed",
            "failed to create typed patch object (n/a; a.b/v1, Kind=A): no corresponding type for a.b/v1, Kind=A",
            "",
        ] {
            assert!(!of(message), "{message}");
        }
    }

    #[test]
    fn r05_denial_by_a_webhook_is_a_rejection_whatever_its_code_and_keeps_its_text() {
        let denied = r#"admission webhook "a.b.c" denied the request: you cannot change web"#;
        for (code, reason) in [(404, "NotFound"), (409, "Conflict"), (409, "AlreadyExists"), (403, "Forbidden")] {
            let text =
                serde_json::json!({"code": code, "reason": reason, "message": denied, "details": {"name": "web"}});
            let error = status(text);
            assert!(!error.already_exists());
            let WriteProblem::Rejected { message, rejection, .. } = error.problem() else { panic!("{error:?}") };
            assert_eq!((&*message, rejection), (denied, Rejection::Other));
        }
        let modified = r#"Operation cannot be fulfilled on configmaps "a": the object has been modified"#;
        assert_eq!(error(409, modified).problem(), WriteProblem::Outdated);
    }

    #[test]
    fn r11_fields_that_cannot_change_are_recognized_in_built_in_kinds_and_transition_rules() {
        for message in [
            r#"RoleBinding.rbac.authorization.k8s.io "a" is invalid: roleRef: Invalid value: {"kind":"Role"}: cannot change roleRef"#,
            r#"Echo.my-operator.dev "a" is invalid: spec.size: Invalid value: "integer": failed rule: self == oldSelf"#,
            r#"Job.batch "a" is invalid: spec.template: Invalid value: {}: field is immutable"#,
        ] {
            let problem = error(422, message).problem();
            let is_recognized = matches!(problem, WriteProblem::Rejected { rejection: Rejection::ImmutableField, .. });
            assert!(is_recognized, "{problem:?}");
        }
    }

    #[test]
    fn r14_terminating_namespace_is_distinguished_from_a_missing_permission() {
        let message = r#"jobs.batch "clean" is forbidden: unable to create new content in namespace a because it is being terminated"#;
        assert_eq!(error(403, message).problem(), WriteProblem::NamespaceTerminating);
        let status = r#"{"code": 403, "message": "no", "details": {"causes": [
            {"reason": "NamespaceTerminating", "message": "namespace a is being terminated", "field": "metadata.namespace"}]}}"#;
        let status = serde_json::from_str(status).expect("JSON");
        assert_eq!(self::status(status).problem(), WriteProblem::NamespaceTerminating);
        let lacking = error(403, r#"jobs.batch is forbidden: User "x" cannot create resource "jobs""#).problem();
        assert!(matches!(lacking, WriteProblem::Rejected { code: 403, .. }), "{lacking:?}");
    }

    #[test]
    fn r06_patch_that_does_not_apply_is_a_race_and_a_denied_patch_is_not() {
        let generic = "the server rejected our request due to an error in our request";
        assert!(error(422, generic).does_not_fit());
        let denied = r#"pods "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"#;
        assert!(!error(422, denied).does_not_fit());
        assert!(
            !error(422, r#"Pod "a" is invalid: spec: Forbidden: pod updates may not change fields"#).does_not_fit()
        );
        assert!(!error(400, generic).does_not_fit());
    }

    #[test]
    fn r06_only_conflicts_with_update_managers_are_drift() {
        assert!(is_drift(r#"conflict with "kubectl-edit" using v1"#));
        assert!(is_drift(r#"conflict with "kubectl-patch" using apps/v1 at 2026-01-01T00:00:00Z"#));
        assert!(!is_drift(r#"conflict with "helm""#), "an applier");
        assert!(!is_drift(r#"conflict with "hpa" with subresource "scale" using apps/v1"#), "an autoscaler");
        assert!(!is_drift(r#"conflict with "a "using" b""#), "an applier with an odd name");
    }
}
