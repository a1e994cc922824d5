//! The verb and the object of a request to the API server.

use http::{HeaderMap, Method, Uri, header};
use serde_json::Value;

/// The verb of a request. As in RBAC, except that server-side apply has a verb of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Lists objects.
    List,
    /// Streams events.
    Watch,
    /// `POST`
    Create,
    /// `PUT`
    Update,
    /// `PATCH` that is not a server-side apply.
    Patch,
    /// Server-side apply.
    Apply,
    /// Deletes one object or a collection.
    Delete,
    /// A path that is not a resource: discovery, `/version`, `/readyz`.
    Other,
}

/// A request, as rules and tests see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The verb.
    pub verb: Verb,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural of the kind: `pods`.
    pub resource: String,
    /// `status`, `scale`…; empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped objects and for requests across all namespaces.
    pub namespace: String,
    /// Empty for lists and watches. For a create it is the name in the body.
    pub name: String,
}

impl Call {
    /// Parses a request.
    pub(crate) fn read(method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Self {
        let mut parts = uri.path().trim_matches('/').split('/').filter(|part| !part.is_empty());
        let mut call = Self {
            verb: Verb::Other,
            group: String::new(),
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
        };
        match parts.next() {
            Some("api") => {}
            Some("apis") => parts.next().unwrap_or_default().clone_into(&mut call.group),
            Some(_) | None => return call,
        }
        let _version = parts.next();
        let rest: Vec<&str> = parts.collect();
        let (namespace, rest) = match rest.as_slice() {
            // `namespaces/<name>/status` and `…/finalize` are subresources of the Namespace itself.
            ["namespaces", _, "status" | "finalize"] => ("", rest.as_slice()),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", rest.as_slice()),
        };
        let mut rest = rest.iter().map(|part| (*part).to_owned());
        let Some(resource) = rest.next() else { return call };
        namespace.clone_into(&mut call.namespace);
        call.resource = resource;
        call.name = rest.next().unwrap_or_default();
        call.subresource = rest.next().unwrap_or_default();
        call.verb = match *method {
            Method::GET if is_watch(uri) => Verb::Watch,
            Method::GET if call.name.is_empty() => Verb::List,
            Method::GET => Verb::Get,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH if is_apply(headers) => Verb::Apply,
            Method::PATCH => Verb::Patch,
            Method::DELETE => Verb::Delete,
            _ => Verb::Other,
        };
        if call.verb == Verb::Create && call.name.is_empty() {
            call.name = name_in(body);
        }
        call
    }

    /// Whether this may change an object. Access reviews are created, but change nothing.
    pub fn is_write(&self) -> bool {
        let mutates = match self.verb {
            Verb::Create | Verb::Update | Verb::Patch | Verb::Apply | Verb::Delete => true,
            Verb::Get | Verb::List | Verb::Watch | Verb::Other => false,
        };
        mutates && !self.resource.ends_with("reviews")
    }

    /// Whether the host may send this write at any time: an Event or a Lease.
    pub fn is_background(&self) -> bool {
        self.resource == "events" || self.resource == "leases"
    }
}

fn is_watch(uri: &Uri) -> bool {
    parameters(uri).any(|(name, value)| name == "watch" && (value == "true" || value == "1"))
}

fn is_apply(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.starts_with("application/apply-patch")
}

fn name_in(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The parameters of a query, as they are written.
pub(crate) fn parameters(uri: &Uri) -> impl Iterator<Item = (&str, &str)> {
    let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &Method, path: &str) -> Call {
        let uri: Uri = path.parse().unwrap();
        Call::read(method, &uri, &HeaderMap::new(), br#"{"metadata":{"name":"in-body"}}"#)
    }

    fn summary(call: &Call) -> (Verb, &str, &str, &str, &str, &str) {
        (call.verb, &call.group, &call.namespace, &call.resource, &call.name, &call.subresource)
    }

    #[test]
    fn verb_resource_and_object_are_read_from_the_request() {
        let cases = [
            (Method::GET, "/api/v1/namespaces/a/pods/web", (Verb::Get, "", "a", "pods", "web", "")),
            (Method::GET, "/api/v1/pods?limit=500", (Verb::List, "", "", "pods", "", "")),
            (Method::GET, "/api/v1/pods?watch=true&limit=1", (Verb::Watch, "", "", "pods", "", "")),
            (Method::GET, "/api/v1/namespaces/a", (Verb::Get, "", "", "namespaces", "a", "")),
            (Method::PATCH, "/api/v1/namespaces/a/status", (Verb::Patch, "", "", "namespaces", "a", "status")),
            (Method::POST, "/api/v1/namespaces/a/secrets", (Verb::Create, "", "a", "secrets", "in-body", "")),
            (
                Method::DELETE,
                "/apis/apps/v1/namespaces/a/deployments/w",
                (Verb::Delete, "apps", "a", "deployments", "w", ""),
            ),
            (
                Method::PATCH,
                "/apis/my-operator.dev/v1/namespaces/a/echoes/web/status?fieldManager=windlass",
                (Verb::Patch, "my-operator.dev", "a", "echoes", "web", "status"),
            ),
            (Method::GET, "/version", (Verb::Other, "", "", "", "", "")),
            (Method::GET, "/apis/apps/v1", (Verb::Other, "apps", "", "", "", "")),
        ];
        for (method, path, expected) in cases {
            assert_eq!(summary(&read(&method, path)), expected, "{path}");
        }
    }

    #[test]
    fn server_side_apply_is_a_verb_of_its_own() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "application/apply-patch+yaml".parse().unwrap());
        let uri = "/api/v1/namespaces/a/pods/web".parse().unwrap();
        assert_eq!(Call::read(&Method::PATCH, &uri, &headers, b"").verb, Verb::Apply);
    }

    #[test]
    fn access_reviews_are_not_writes() {
        assert!(!read(&Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews").is_write());
        assert!(read(&Method::POST, "/api/v1/namespaces/a/secrets").is_write());
        assert!(!read(&Method::GET, "/api/v1/pods").is_write());
    }
}
