//! The client's errors, as what the core makes of a response.

use kube::core::Status;
use kube::core::response::StatusCause;
use windlass_core::reconcile::api_response::{self, Cause, Details, Refused};

/// The failure of a request.
pub fn refused(error: &kube::Error) -> Refused {
    match error {
        kube::Error::Api(status) => Refused::ByServer(Box::new(of(status))),
        other => Refused::NoResponse(other.to_string()),
    }
}

fn of(status: &Status) -> api_response::Status {
    let Status { code, reason, message, details, .. } = status;
    let cause = |StatusCause { reason, message, field }: &StatusCause| Cause {
        reason: reason.clone(),
        message: message.clone(),
        field: field.clone(),
    };
    let details = details.as_ref().map(|details| Details {
        name: details.name.clone(),
        kind: details.kind.clone(),
        uid: details.uid.clone(),
        causes: details.causes.iter().map(cause).collect(),
        retry_after_seconds: details.retry_after_seconds,
    });
    api_response::Status { code: *code, reason: reason.clone(), message: message.clone(), details }
}
