//! A model of the API server: objects and their versions, writes, watches, discovery and access reviews. It has no clock, no chance
//! and no connection: the same requests at the same times have the same responses.
//!
//! It models what the engine builds on. The README of `tests/simulator` lists what it has, and what it has not.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a model of a test ends by panicking"
)]

mod collector;
mod delete;
mod discovery;
mod kinds;
mod list;
mod response;
mod reviews;
mod target;
mod validate;
mod watch;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_core::object::selector::{Labels, Selector};

use collector::Collector;

pub use kinds::Served;
pub use response::Response;
pub use target::{Query, Target};
pub use watch::Cursor;

/// Identifies an object: resource with group, namespace, name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// As in `deployments.apps`.
    pub resource: String,
    /// Empty for a cluster-scoped kind.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl Id {
    /// The object of this resource, namespace and name.
    pub fn new(resource: &str, namespace: &str, name: &str) -> Self {
        Self { resource: resource.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.resource, self.namespace, self.name)
    }
}

/// A request, decoded.
#[derive(Debug, Clone)]
pub struct Call {
    /// HTTP method.
    pub method: String,
    /// Path.
    pub path: String,
    /// Query.
    pub query: String,
    /// `Content-Type`, which tells patches apart.
    pub content_type: String,
    /// Whether the caller asks for metadata only.
    pub metadata_only: bool,
    /// The user who sends the request, after impersonation.
    pub user: String,
    /// The body.
    pub body: Option<Value>,
    /// Now.
    pub now: Timestamp,
}

/// A change of an object.
#[derive(Debug, Clone)]
pub struct Change {
    /// The object.
    pub id: Id,
    /// resourceVersion of the change.
    pub version: u64,
    /// When.
    pub at: Timestamp,
    /// The object before it; none if it was created.
    pub before: Option<Arc<Value>>,
    /// The object after it; none if it was removed.
    pub after: Option<Arc<Value>>,
}

/// The model.
#[derive(Clone)]
pub struct ApiServer {
    kinds: Vec<Served>,
    objects: BTreeMap<Id, Arc<Value>>,
    log: Vec<Change>,
    version: u64,
    /// Watches cannot begin at versions before this one.
    oldest: u64,
    uids: u64,
    /// What users may not do, as `USER VERB RESOURCE`, with the subresource after a slash.
    denied: BTreeSet<String>,
    collector: Collector,
}

impl Default for ApiServer {
    fn default() -> Self {
        let (objects, log, denied) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        let collector = Collector::default();
        Self { kinds: kinds::built_in(), objects, log, version: 100, oldest: 0, uids: 0, denied, collector }
    }
}

impl ApiServer {
    /// Responds to a request that is no watch.
    pub fn respond(&mut self, call: &Call) -> Response {
        if call.method == "GET"
            && let Some(response) = self.discover(&call.path)
        {
            return response;
        }
        let Some(target) = Target::of(&call.path) else { return Response::not_served() };
        if call.method == "POST"
            && let Some(response) = self.review(&target, call)
        {
            return response;
        }
        if let Some(verb) = verb_of(call, &target)
            && self.is_denied(&call.user, verb, &target)
        {
            return Response::forbidden(&target, &call.user, verb);
        }
        let Some(kind) = self.kind_of(&target).cloned() else { return Response::not_served() };
        if !matches!((&*target.subresource, kind.has_status), ("", _) | ("status", true)) {
            return Response::not_served();
        }
        let response = match &*call.method {
            "GET" if target.name.is_empty() => self.list(&kind, &target, call),
            "GET" => self.get(&kind, &target).map(|found| Response::ok((*found).clone())),
            _ => self.write(&kind, &target, call),
        };
        let response = response.unwrap_or_else(|refused| refused);
        if call.metadata_only { metadata_of(response) } else { response }
    }

    /// The object.
    pub fn object(&self, id: &Id) -> Option<&Arc<Value>> {
        self.objects.get(id)
    }

    /// All objects of a resource.
    pub fn objects_of<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = (&'a Id, &'a Arc<Value>)> {
        self.objects.iter().filter(move |(id, _)| id.resource == resource)
    }

    /// The changes so far, in order.
    pub fn changes(&self) -> &[Change] {
        &self.log
    }

    /// Denies a user a verb on a resource, such as `delete` on `configmaps`; or permits it again.
    pub fn deny(&mut self, user: &str, verb: &str, resource: &str, is_denied: bool) {
        let entry = format!("{user} {verb} {resource}");
        if is_denied {
            self.denied.insert(entry);
        } else {
            self.denied.remove(&entry);
        }
    }

    /// Permits again whatever was denied.
    pub fn permit_all(&mut self) {
        self.denied.clear();
    }

    /// Forgets the changes so far: watches that begin at a version before now are refused as too old.
    pub fn compact(&mut self) {
        self.oldest = self.version;
    }

    fn kind_of(&self, target: &Target) -> Option<&Served> {
        let is_it = |kind: &&Served| {
            kind.group == target.group && kind.version == target.version && kind.plural == target.plural
        };
        self.kinds.iter().find(is_it)
    }

    fn is_denied(&self, user: &str, verb: &str, target: &Target) -> bool {
        let resource = match &*target.subresource {
            "" => target.resource(),
            subresource => format!("{}/{subresource}", target.resource()),
        };
        self.denied.contains(&format!("{user} {verb} {resource}"))
    }

    fn id(target: &Target) -> Id {
        Id { resource: target.resource(), namespace: target.namespace.clone(), name: target.name.clone() }
    }

    fn get(&self, kind: &Served, target: &Target) -> Result<Arc<Value>, Response> {
        if kind.namespaced == target.namespace.is_empty() {
            return Err(Response::not_served());
        }
        self.objects.get(&Self::id(target)).cloned().ok_or_else(|| Response::not_found(target))
    }
}

/// Which objects a list or a watch shows.
#[derive(Debug, Clone)]
struct Filter {
    resource: String,
    namespace: String,
    name: Option<String>,
    labels: Option<Selector>,
}

impl Filter {
    fn of(kind: &Served, target: &Target, query: &Query) -> Result<Self, Response> {
        let wanted = query.get("labelSelector").filter(|text| !text.is_empty());
        let labels = wanted.map(str::parse).transpose();
        let invalid = |error: &dyn std::fmt::Display| {
            Response::invalid(target, 400, &format!("unable to parse requirement: {error}"))
        };
        let name = query.get("fieldSelector").and_then(|field| field.strip_prefix("metadata.name="));
        Ok(Self {
            resource: target::resource(&kind.plural, &kind.group),
            namespace: target.namespace.clone(),
            name: name.or((!target.name.is_empty()).then_some(&*target.name)).map(str::to_owned),
            labels: labels.map_err(|error: windlass_core::object::selector::InvalidSelector| invalid(&error))?,
        })
    }

    fn is_about(&self, id: &Id) -> bool {
        id.resource == self.resource
            && (self.namespace.is_empty() || id.namespace == self.namespace)
            && self.name.as_ref().is_none_or(|name| *name == id.name)
    }

    fn selects(&self, id: &Id, object: &Value) -> bool {
        self.is_about(id) && self.labels.as_ref().is_none_or(|selector| matches(selector, object))
    }
}

fn matches(selector: &Selector, object: &Value) -> bool {
    let labels = json!({ "metadata": { "labels": object.pointer("/metadata/labels") } }).to_string();
    selector.matches(&Labels::of(labels.as_bytes()))
}

/// The verb that a request needs, as RBAC names it.
fn verb_of(call: &Call, target: &Target) -> Option<&'static str> {
    Some(match (&*call.method, target.name.is_empty()) {
        ("GET", true) if Query::of(Some(&call.query)).is("watch") => "watch",
        ("GET", true) => "list",
        ("GET", false) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", _) => "delete",
        _ => return None,
    })
}

/// The metadata of the objects in a response.
fn metadata_of(response: Response) -> Response {
    let body = match response.body.get("items").and_then(Value::as_array) {
        _ if response.body.get("kind") == Some(&Value::from("Status")) => response.body,
        Some(items) => {
            let items: Vec<_> = items.iter().map(metadata_alone).collect();
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": response.body.get("metadata"), "items": items,
            })
        }
        None => metadata_alone(&response.body),
    };
    Response { code: response.code, body }
}

/// An object without everything but its metadata.
fn metadata_alone(object: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object.get("metadata") })
}
