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

    /// Refuses a binding of a Role that does not exist, unless the user may bind every Role: the API server reads the Role's rules, since
    /// the user must have all that they permit (which is not modelled).
    pub(super) fn check_bound(&self, target: &Target, call: &Call) -> Result<(), Response> {
        let role = call.body.as_ref().and_then(|body| body.pointer("/roleRef/name")?.as_str());
        let Some(role) = role.filter(|_| target.plural == "rolebindings" && call.method != "DELETE") else {
            return Ok(());
        };
        let role = Target { plural: "roles".to_owned(), name: role.to_owned(), ..target.clone() };
        let is_there = self.objects.contains_key(&Self::id(&role)) || !self.is_denied(&call.user, "bind", &role);
        if is_there { Ok(()) } else { Err(Response::not_found(&role)) }
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
