//! Responses of the API server to writes.

use std::sync::Arc;
use std::time::Duration;

use kube::core::Status;
use serde::Deserialize;
use windlass_core::ids::Gvk;
use windlass_core::outcome::{Rejection, WriteProblem};
use windlass_core::plan::Delete;

use super::{Subject, Written};

/// The metadata of the written object; a `Status` after a delete has none.
#[derive(Debug, Deserialize)]
pub struct Ack {
    #[serde(default)]
    metadata: AckMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AckMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

impl Ack {
    /// The write of a parent that this response acknowledges.
    pub fn parent(&self) -> Written {
        Written::Parent { resource_version: self.resource_version() }
    }

    /// The write of a child that this response acknowledges.
    pub fn child(&self, kind: &Arc<Gvk>) -> Written {
        Written::Child { kind: kind.clone(), resource_version: self.resource_version() }
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

/// The owners of fields with which an apply conflicted.
pub struct FieldOwners {
    /// The API server's message for each field.
    pub causes: Vec<String>,
    /// Whether all conflicts are with Update managers: no applier, and not through a subresource.
    pub only_drift: bool,
    /// Whether the only conflict is with the entry of the host's own POST.
    pub only_ours: bool,
}

/// The fields and their owners, if the error is a conflict of an apply.
pub fn conflict_of(error: &kube::Error) -> Option<FieldOwners> {
    let causes = &status_of(error).filter(|status| status.code == 409)?.details.as_ref()?.causes;
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

/// How the API server names [`FIELD_MANAGER`](windlass_core::names::FIELD_MANAGER).
const OURS: &str = "conflict with \"windlass\" ";

/// Whether a conflict is with an Update manager. The API server names an Apply manager alone, as in `conflict with
/// "helm"`, and an Update manager with its version and time, as in `conflict with "kubectl-edit" using v1 at …`
/// (apimachinery, managedfields/internal/conflict.go).
fn is_drift(message: &str) -> bool {
    let after_name = message.rsplit_once('"').map_or("", |(_, after)| after);
    after_name.starts_with(" using ") && !message.contains(" with subresource ")
}

/// Whether a create failed because the name is taken.
pub fn already_exists(error: &kube::Error) -> bool {
    status_of(error).is_some_and(|status| status.reason == "AlreadyExists")
}

/// Whether a JSON patch could not be applied to the current object, above all because of a failed `test`. The API
/// server gives the same text for all such failures (apiserver, handlers/patch.go); the status 422 alone can also come
/// from admission policies.
pub fn does_not_fit(error: &kube::Error) -> bool {
    status_of(error).is_some_and(|status| {
        status.code == 422 && status.message == "the server rejected our request due to an error in our request"
    })
}

/// Whether the object does not exist.
pub fn not_found(error: &kube::Error) -> bool {
    status_of(error).is_some_and(|status| status.code == 404)
}

/// Whether it is unknown if a failed write was executed: there was no response, or a server error. With 429 the API
/// server has not started the request.
fn leaves_open(error: &kube::Error) -> bool {
    status_of(error).is_none_or(|status| status.code >= 500)
}

/// The write to record after a failure that leaves open whether it was executed; otherwise none.
pub fn unknown(error: &kube::Error, subject: Subject) -> Option<Written> {
    leaves_open(error).then_some(Written::Unknown(subject))
}

/// The consequence of an error for the object of the write.
pub fn problem_of(error: &kube::Error) -> WriteProblem {
    let Some(status) = status_of(error) else {
        return WriteProblem::Unavailable { message: error.to_string(), retry_after: None };
    };
    match status.code {
        409 => WriteProblem::Outdated,
        403 if is_namespace_terminating(status) => WriteProblem::NamespaceTerminating,
        // An apply with a field that the schema does not have: the API server returns a plain 500, and a retry does not
        // help.
        500 if status.message.contains("field not declared in schema") => rejected(status),
        // etcd's rejection is passed on as a 500, and a retry is not smaller.
        500 if status.message.contains("request is too large") => rejected(status),
        429 | 500..=599 => WriteProblem::Unavailable {
            message: status.message.clone(),
            retry_after: status
                .details
                .as_ref()
                .map(|details| Duration::from_secs(details.retry_after_seconds.into()))
                .filter(|wait| !wait.is_zero()),
        },
        _ => rejected(status),
    }
}

/// A rejection. For these causes the API server gives no reason of its own, only a message.
fn rejected(status: &Status) -> WriteProblem {
    let (code, message) = (status.code, status.message.clone());
    let is_immutable = ["immutable", "may not change", "may not be changed", "updates to "];
    let rejection = match code {
        422 if is_immutable.iter().any(|words| message.contains(words)) => Rejection::ImmutableField,
        403 if message.contains(" cannot impersonate ") => Rejection::Impersonation,
        403 if message.contains(" cannot ") => Rejection::Permission,
        _ => Rejection::Other,
    };
    WriteProblem::Rejected { code, message, rejection }
}

/// Whether admission rejected an object because its namespace is being deleted (apiserver, plugin/namespace/lifecycle).
/// Old API servers do not give the cause.
fn is_namespace_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
        || status.message.contains("because it is being terminated")
}

fn status_of(error: &kube::Error) -> Option<&Status> {
    match error {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status { code, message: message.to_owned(), ..Status::default() }))
    }

    #[test]
    fn write_too_large_for_etcd_is_rejected_and_not_retried() {
        let refused = problem_of(&error(500, "etcdserver: request is too large"));
        assert!(matches!(refused, WriteProblem::Rejected { code: 500, .. }), "{refused:?}");
        let temporary = problem_of(&error(500, "etcdserver: leader changed"));
        assert!(matches!(temporary, WriteProblem::Unavailable { .. }), "{temporary:?}");
    }

    #[test]
    fn r14_terminating_namespace_is_distinguished_from_a_missing_permission() {
        let message = r#"jobs.batch "clean" is forbidden: unable to create new content in namespace a because it is being terminated"#;
        assert_eq!(problem_of(&error(403, message)), WriteProblem::NamespaceTerminating);
        let status = r#"{"code": 403, "message": "no", "details": {"causes": [
            {"reason": "NamespaceTerminating", "message": "namespace a is being terminated", "field": "metadata.namespace"}]}}"#;
        let status: Status = serde_json::from_str(status).expect("a status");
        assert_eq!(problem_of(&kube::Error::Api(Box::new(status))), WriteProblem::NamespaceTerminating);
        let lacking = problem_of(&error(403, r#"jobs.batch is forbidden: User "x" cannot create resource "jobs""#));
        assert!(matches!(lacking, WriteProblem::Rejected { code: 403, .. }), "{lacking:?}");
    }

    #[test]
    fn r06_patch_that_does_not_apply_is_a_race_and_a_denied_patch_is_not() {
        let generic = "the server rejected our request due to an error in our request";
        assert!(does_not_fit(&error(422, generic)));
        let denied = r#"pods "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"#;
        assert!(!does_not_fit(&error(422, denied)));
        assert!(!does_not_fit(&error(
            422,
            r#"Pod "a" is invalid: spec: Forbidden: pod updates may not change fields"#
        )));
        assert!(!does_not_fit(&error(400, generic)));
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
