//! Responses of the model, with the words of the API server's errors.

use serde_json::{Value, json};

use super::target::Target;

/// The response to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// HTTP status.
    pub code: u16,
    /// The object, list or `Status`.
    pub body: Value,
}

impl Response {
    /// An object or a list.
    pub fn ok(body: Value) -> Self {
        Self { code: 200, body }
    }

    /// A new object.
    pub fn created(body: Value) -> Self {
        Self { code: 201, body }
    }

    /// A `Status` of a failure about an object.
    pub fn refused(code: u16, reason: &str, message: &str, target: &Target) -> Self {
        let details = json!({ "name": target.name, "group": target.group, "kind": target.plural });
        Self::failure(code, reason, message, &details)
    }

    /// A `Status` of a failure; the reason may be empty.
    pub fn failure(code: u16, reason: &str, message: &str, details: &Value) -> Self {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "details": details, "code": code,
        });
        if !reason.is_empty() {
            body["reason"] = reason.into();
        }
        Self { code, body }
    }

    /// The object, or the path, does not exist.
    pub fn not_found(target: &Target) -> Self {
        let message = format!("{} \"{}\" not found", target.resource(), target.name);
        Self::refused(404, "NotFound", &message, target)
    }

    /// The API server does not serve the path.
    pub fn not_served() -> Self {
        let message = "the server could not find the requested resource";
        Self::failure(404, "NotFound", message, &json!({}))
    }

    /// The object is not as the request expects it.
    pub fn conflict(target: &Target, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{}\": {why}", target.resource(), target.name);
        Self::refused(409, "Conflict", &message, target)
    }

    /// The object has changed since the caller read it.
    pub fn outdated(target: &Target) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(target, why)
    }

    /// The name is taken.
    pub fn already_exists(target: &Target) -> Self {
        let message = format!("{} \"{}\" already exists", target.resource(), target.name);
        Self::refused(409, "AlreadyExists", &message, target)
    }

    /// The user may not do this.
    pub fn forbidden(target: &Target, user: &str, verb: &str) -> Self {
        let place = match &*target.namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let resource = match &*target.subresource {
            "" => target.plural.clone(),
            subresource => format!("{}/{subresource}", target.plural),
        };
        let message = format!(
            "{} \"{}\" is forbidden: User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{}\" {place}",
            target.resource(),
            target.name,
            target.group
        );
        Self::refused(403, "Forbidden", &message, target)
    }

    /// The namespace is being deleted.
    pub fn terminating(target: &Target) -> Self {
        let namespace = &target.namespace;
        let message = format!(
            "{} \"{}\" is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
            target.resource(),
            target.name
        );
        let cause = json!({
            "reason": "NamespaceTerminating", "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        });
        let details = json!({ "name": target.name, "group": target.group, "kind": target.plural, "causes": [cause] });
        Self::failure(403, "Forbidden", &message, &details)
    }

    /// The body or the object is not valid.
    pub fn invalid(target: &Target, code: u16, message: &str) -> Self {
        Self::refused(code, if code == 422 { "Invalid" } else { "BadRequest" }, message, target)
    }
}
