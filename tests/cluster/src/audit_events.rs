//! Requests as the audit log contains them, and filters for tests.

use std::collections::HashMap;
use std::ops::Deref;

use serde::Deserialize;
use serde_json::Value;

/// One request, as the audit log contains it (audit.k8s.io/v1 `Event`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditEvent {
    /// `ResponseComplete`, `Panic`, or `ResponseStarted` for a watch that has not ended.
    pub stage: String,
    /// get, list, watch, create, update, patch, delete, deletecollection; or an HTTP method if the request is not about
    /// a resource.
    pub verb: String,
    /// The user who sent the request.
    pub user: String,
    /// The user whom the request impersonated, if any.
    pub impersonated: Option<String>,
    /// The credential that the request was sent with: `JTI=…` for a ServiceAccount's token; empty if it has no id.
    pub credential: String,
    /// The Pod that the ServiceAccount's token belongs to; empty if it belongs to none.
    pub pod: String,
    /// The user agent that the client named.
    pub user_agent: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name, such as `configmaps`; empty if the request is not about a resource.
    pub resource: String,
    /// Such as `status`; empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty for a list, and for a create that was rejected before its object was read.
    pub name: String,
    /// The HTTP status code; 0 if the request ended without one.
    pub code: u16,
    /// The time at which the request arrived, RFC 3339 with microseconds.
    pub timestamp: String,
    /// The time at which the response ended, or, for a watch that has not ended, at which it started.
    pub ended: String,
    /// Path and query.
    pub uri: String,
    /// The request's body, from `AuditLevel::Request` on.
    pub request_object: Option<Value>,
    /// The response's body, with `AuditLevel::RequestResponse`.
    pub response_object: Option<Value>,
}

impl AuditEvent {
    /// Whether the request asked to change a stored object. Dry runs do not, nor do access reviews and token requests,
    /// which are creates that store nothing.
    pub fn asks_to_write(&self) -> bool {
        let writes = ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str());
        let virtual_group = ["authentication.k8s.io", "authorization.k8s.io"].contains(&self.group.as_str());
        let token = self.resource == "serviceaccounts" && self.subresource == "token";
        self.stage != "ResponseStarted" && writes && !virtual_group && !token && self.query("dryRun").is_none()
    }

    /// Whether the request succeeded: a status code below 400.
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
    /// The requests that satisfy `condition`.
    #[must_use]
    pub fn filter(mut self, condition: impl Fn(&AuditEvent) -> bool) -> Self {
        self.0.retain(|event| condition(event));
        self
    }

    /// The requests that this user sent, whomever it impersonated.
    #[must_use]
    pub fn by_user(self, user: &str) -> Self {
        self.filter(|event| event.user == user)
    }

    /// The requests that were sent with this credential, whomever they impersonated.
    #[must_use]
    pub fn with_credential(self, id: &str) -> Self {
        self.filter(|event| event.credential == id)
    }

    /// The requests that the API server authorized by this user's permissions: the user sent them for itself, or
    /// another user impersonated it.
    #[must_use]
    pub fn on_behalf_of(self, user: &str) -> Self {
        self.filter(|event| event.impersonated.as_ref().unwrap_or(&event.user) == user)
    }

    /// The writes that succeeded (see [`AuditEvent::asks_to_write`]), also applies that changed nothing.
    #[must_use]
    pub fn writes(self) -> Self {
        self.filter(|event| event.asks_to_write() && event.succeeded())
    }

    /// The writes that were tried, also those that failed.
    #[must_use]
    pub fn attempted_writes(self) -> Self {
        self.filter(AuditEvent::asks_to_write)
    }

    /// The requests that are not about Leases of leader election or of nodes.
    #[must_use]
    pub fn except_leases(self) -> Self {
        self.filter(|event| event.group != "coordination.k8s.io" || event.resource != "leases")
    }

    /// The requests for one resource, by its plural name.
    #[must_use]
    pub fn resource(self, plural: &str) -> Self {
        self.filter(|event| event.resource == plural)
    }

    /// The requests in one namespace.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.filter(|event| event.namespace == namespace)
    }

    /// The requests for objects of one name.
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
        let extra = |key: &str| line.user.extra.get(key).and_then(|values| values.first().cloned()).unwrap_or_default();
        Self {
            stage: line.stage,
            verb: line.verb,
            credential: extra(CREDENTIAL),
            pod: extra(POD),
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
            ended: line.stage_timestamp,
            uri: line.request_uri,
            request_object: line.request_object,
            response_object: line.response_object,
        }
    }
}

/// The fields of a line that this module reads.
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
    #[serde(default)]
    stage_timestamp: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    request_object: Option<Value>,
    response_object: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
    extra: HashMap<String, Vec<String>>,
}

/// The keys of a credential's id, and of the Pod that it belongs to, in a user's extra information.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";
const POD: &str = "authentication.kubernetes.io/pod-name";

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
