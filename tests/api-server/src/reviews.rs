//! Reviews: who the caller is, and what an account may do.

use serde_json::{Value, json};

use super::{ApiServer, Call, Response, Target};

impl ApiServer {
    /// The response to a review; none if the request is something else.
    pub(super) fn review(&self, target: &Target, call: &Call) -> Option<Response> {
        let mut body = call.body.clone().unwrap_or_else(|| json!({}));
        let status = match (&*target.group, &*target.plural) {
            ("authentication.k8s.io", "selfsubjectreviews") => json!({ "userInfo": { "username": call.user } }),
            ("authorization.k8s.io", "subjectaccessreviews") => {
                json!({ "allowed": self.is_allowed(body.pointer("/spec").unwrap_or(&Value::Null)) })
            }
            _ => return None,
        };
        body.as_object_mut()?.insert("status".to_owned(), status);
        Some(Response::created(body))
    }

    fn is_allowed(&self, spec: &Value) -> bool {
        let text = |at: &str| spec.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let asked = Target {
            group: text("/resourceAttributes/group"),
            version: String::new(),
            plural: text("/resourceAttributes/resource"),
            namespace: text("/resourceAttributes/namespace"),
            name: text("/resourceAttributes/name"),
            subresource: text("/resourceAttributes/subresource"),
        };
        !self.is_denied(&text("/user"), &text("/resourceAttributes/verb"), &asked)
    }
}
