//! Requests as the audit log tells them, and the filters that tests ask them with.

use std::ops::Deref;

use serde::Deserialize;
use serde_json::Value;

/// One request, as the audit log holds it (audit.k8s.io/v1 `Event`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditEvent {
    /// `ResponseComplete`, `Panic`, or `ResponseStarted` for a watch that goes on.
    pub stage: String,
    /// get, list, watch, create, update, patch, delete, deletecollection; or an HTTP method for what is no resource.
    pub verb: String,
    /// Who sent the request.
    pub user: String,
    /// On whose behalf, when the request impersonated somebody.
    pub impersonated: Option<String>,
    /// What the client says it is.
    pub user_agent: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name, such as `configmaps`; empty for what is no resource.
    pub resource: String,
    /// Such as `status`; empty for the object itself.
    pub subresource: String,
    /// Empty for what is in no namespace.
    pub namespace: String,
    /// Empty for a list, and for a create that was refused before its object was read.
    pub name: String,
    /// The HTTP status code; 0 when the request ended without one.
    pub code: u16,
    /// When the request came in, RFC 3339 with microseconds.
    pub timestamp: String,
    /// Path and query.
    pub uri: String,
    /// What was sent, from `AuditLevel::Request` on.
    pub request_object: Option<Value>,
    /// What was answered, with `AuditLevel::RequestResponse`.
    pub response_object: Option<Value>,
}

impl AuditEvent {
    /// Whether the request asked to change what is stored. Dry runs do not, nor do reviews and tokens, which are created
    /// in name only.
    pub fn asks_to_write(&self) -> bool {
        let writes = ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str());
        let virtual_group = ["authentication.k8s.io", "authorization.k8s.io"].contains(&self.group.as_str());
        let token = self.resource == "serviceaccounts" && self.subresource == "token";
        self.stage != "ResponseStarted" && writes && !virtual_group && !token && self.query("dryRun").is_none()
    }

    /// Whether the request was granted: a status code below 400.
    pub fn succeeded(&self) -> bool {
        (100..400).contains(&self.code)
    }

    /// A parameter of the query, such as `fieldManager`, as it was sent (percent-encoded).
    pub fn query(&self, parameter: &str) -> Option<&str> {
        let (_, query) = self.uri.split_once('?')?;
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(name, _)| *name == parameter)
            .map(|(_, value)| value)
    }
}

/// Requests, with filters that can be chained.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditEvents(pub Vec<AuditEvent>);

impl AuditEvents {
    /// Those for which `condition` holds.
    #[must_use]
    pub fn filter(mut self, condition: impl Fn(&AuditEvent) -> bool) -> Self {
        self.0.retain(|event| condition(event));
        self
    }

    /// Those that this user sent, whomever it impersonated.
    #[must_use]
    pub fn by_user(self, user: &str) -> Self {
        self.filter(|event| event.user == user)
    }

    /// Requests that the API server authorized by this user's permissions: sent by it for itself, or by another user that impersonates it.
    #[must_use]
    pub fn on_behalf_of(self, user: &str) -> Self {
        self.filter(|event| event.impersonated.as_ref().unwrap_or(&event.user) == user)
    }

    /// Writes that were done (see [`AuditEvent::asks_to_write`]); an apply that changed nothing is among them.
    #[must_use]
    pub fn writes(self) -> Self {
        self.filter(|event| event.asks_to_write() && event.succeeded())
    }

    /// Writes that were asked for, also those that were refused.
    #[must_use]
    pub fn attempted_writes(self) -> Self {
        self.filter(AuditEvent::asks_to_write)
    }

    /// Without the Leases of leader election and of nodes.
    #[must_use]
    pub fn except_leases(self) -> Self {
        self.filter(|event| event.group != "coordination.k8s.io" || event.resource != "leases")
    }

    /// Those about one kind of resource, by its plural name.
    #[must_use]
    pub fn resource(self, plural: &str) -> Self {
        self.filter(|event| event.resource == plural)
    }

    /// Those in one namespace.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.filter(|event| event.namespace == namespace)
    }

    /// Those about objects of one name.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        self.filter(|event| event.name == name)
    }
}

impl Deref for AuditEvents {
    type Target = [AuditEvent];

    fn deref(&self) -> &[AuditEvent] {
        &self.0
    }
}

impl IntoIterator for AuditEvents {
    type Item = AuditEvent;
    type IntoIter = std::vec::IntoIter<AuditEvent>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl From<Line> for AuditEvent {
    fn from(line: Line) -> Self {
        let object = line.object_ref.unwrap_or_default();
        Self {
            stage: line.stage,
            verb: line.verb,
            user: line.user.username,
            impersonated: line.impersonated_user.map(|user| user.username),
            user_agent: line.user_agent,
            group: object.api_group,
            resource: object.resource,
            subresource: object.subresource,
            namespace: object.namespace,
            name: object.name,
            code: line.response_status.map_or(0, |status| status.code),
            timestamp: line.request_received_timestamp,
            uri: line.request_uri,
            request_object: line.request_object,
            response_object: line.response_object,
        }
    }
}

/// One line of the log, as far as it is read here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    stage: String,
    verb: String,
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    user_agent: String,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    request_object: Option<Value>,
    response_object: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: &str, group: &str, resource: &str, code: u16, uri: &str) -> AuditEvent {
        AuditEvent {
            stage: "ResponseComplete".into(),
            verb: verb.into(),
            group: group.into(),
            resource: resource.into(),
            code,
            uri: uri.into(),
            ..AuditEvent::default()
        }
    }

    #[test]
    fn writes_are_requests_that_can_change_stored_objects() {
        let apply = "/api/v1/namespaces/a/configmaps/b?fieldManager=windlass&force=true";
        let dry = "/api/v1/namespaces/a/configmaps/b?dryRun=All&fieldManager=windlass";
        let events = AuditEvents(vec![
            request("patch", "", "configmaps", 200, apply),
            request("patch", "", "configmaps", 200, dry),
            request("patch", "", "configmaps", 403, apply),
            request("get", "", "configmaps", 200, apply),
            request("create", "authorization.k8s.io", "selfsubjectaccessreviews", 201, ""),
        ]);
        assert_eq!(events.clone().writes().len(), 1);
        assert_eq!(events.attempted_writes().len(), 2);
        let event = request("patch", "", "configmaps", 200, apply);
        assert_eq!(event.query("fieldManager"), Some("windlass"));
        assert_eq!(event.query("dryRun"), None);
    }
}
