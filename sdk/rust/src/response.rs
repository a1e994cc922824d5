//! The response of a call, typed.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    ConditionStatus, Failure, Kind, Reconciler, Request,
    failure::milliseconds,
    json::{bytes, drop_nulls, object, set},
    kinds, raw,
};

/// The desired state for one parent.
#[derive(Debug)]
#[must_use]
pub struct Response<R: Reconciler> {
    /// All desired children. A live child that is missing here is deleted.
    pub children: Vec<Value>,
    status: Option<R::Status>,
    conditions: Vec<Value>,
    requeue: Option<u64>,
    events: Vec<raw::Event>,
    requirements: Vec<raw::Requirement>,
    finalized: bool,
    /// Builders return no `Result`: a child that cannot be serialized fails the whole response.
    error: Option<Failure>,
}

impl<R: Reconciler> Default for Response<R> {
    fn default() -> Self {
        Self {
            children: Vec::new(),
            status: None,
            conditions: Vec::new(),
            requeue: None,
            events: Vec::new(),
            requirements: Vec::new(),
            finalized: false,
            error: None,
        }
    }
}

/// Options of one child, for [`Response::child_with`]. The host reads them from annotations and removes these.
#[derive(Debug, Clone, Copy, Default)]
#[must_use]
pub struct ChildOptions {
    retain: bool,
    force_ownership: bool,
}

impl ChildOptions {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the child is kept when its parent is deleted, like data. The child gets no ownerReference. A later parent of the
    /// same plugin, kind, namespace and name adopts it. Default: false.
    pub fn retain(mut self, retain: bool) -> Self {
        self.retain = retain;
        self
    }

    /// Whether the host forces ownership of the child's fields that another field manager owns, as an autoscaler owns
    /// `spec.replicas`, once. Default: false, and such a field is a conflict.
    pub fn force_ownership(mut self, force: bool) -> Self {
        self.force_ownership = force;
        self
    }

    /// The annotations of the options that are set.
    fn annotations(self) -> impl Iterator<Item = &'static str> {
        let options = [(self.retain, "windlass.dev/retain"), (self.force_ownership, "windlass.dev/take-over")];
        options.into_iter().filter_map(|(is_set, annotation)| is_set.then_some(annotation))
    }
}

impl<R: Reconciler> Response<R> {
    /// A response without children: all live children are deleted.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a desired child: a k8s-openapi type, `json!`, or a type of your own. It needs `apiVersion`, `kind` and
    /// `metadata.name`. Fields that are null are left out, so an `Option` can be a field of `json!`. A child that cannot be
    /// serialized fails the whole response.
    pub fn child(mut self, child: impl Serialize) -> Self {
        match serde_json::to_value(child) {
            Ok(mut child) => {
                drop_nulls(&mut child);
                self.children.push(child);
            }
            Err(error) => {
                self.error = Some(Failure::failed(format!("a child is not JSON: {error}")));
            }
        }
        self
    }

    /// Adds a desired child if a condition holds; otherwise the live child is deleted.
    pub fn child_if(self, condition: bool, child: impl Serialize) -> Self {
        if condition { self.child(child) } else { self }
    }

    /// Adds a desired child with [`ChildOptions`].
    pub fn child_with(self, child: impl Serialize, options: ChildOptions) -> Self {
        let mut response = self.child(child);
        if let Some(child) = response.children.last_mut() {
            options.annotations().for_each(|annotation| annotate(child, annotation));
        }
        response
    }

    /// Adds several desired children, or an optional one: an `Option` is an iterator too.
    pub fn children<C: Serialize>(self, children: impl IntoIterator<Item = C>) -> Self {
        children.into_iter().fold(self, Self::child)
    }

    /// Adds several desired children, or an optional one, with the same [`ChildOptions`].
    pub fn children_with<C: Serialize>(self, children: impl IntoIterator<Item = C>, options: ChildOptions) -> Self {
        children.into_iter().fold(self, |response, child| response.child_with(child, options))
    }

    /// Sets the plugin's part of the parent's status. Without it and without conditions, the status stays as it is;
    /// conditions alone remove its other fields. Fields that are null are left out.
    pub fn status(mut self, status: R::Status) -> Self {
        self.status = Some(status);
        self
    }

    /// Whether the status of this response differs from the parent's last status.
    pub fn changes_status<S>(&self, request: &Request<R, S>) -> bool
    where
        R::Status: serde::de::DeserializeOwned + PartialEq,
    {
        self.status.is_some() && self.status != request.status()
    }

    /// Adds a condition to the parent's status: its type, its status (a `bool` or a [`ConditionStatus`]), and reason and message.
    /// A condition of type `Ready` replaces the host's when all children are applied. The host sets `lastTransitionTime` and
    /// `observedGeneration`.
    pub fn condition(mut self, type_: &str, status: impl Into<ConditionStatus>, reason: &str, message: &str) -> Self {
        self.conditions.push(object([
            ("type", type_.into()),
            ("status", status.into().as_str().into()),
            ("reason", reason.into()),
            ("message", message.into()),
        ]));
        self
    }

    /// Sets the time until the next reconcile, at least one second. Without a call, it is the resync interval. Changes of the
    /// parent, its children and its related objects reconcile earlier.
    pub fn requeue(mut self, after: Duration) -> Self {
        self.requeue = Some(milliseconds(after));
        self
    }

    /// Adds an event on the parent.
    pub fn event(mut self, event: Event) -> Self {
        self.events.push(event.0);
        self
    }

    /// Adds several events on the parent.
    pub fn events(self, events: impl IntoIterator<Item = Event>) -> Self {
        events.into_iter().fold(self, Self::event)
    }

    /// Adds a requirement: related objects that the response depends on. Every response has all of them, also those that the host
    /// has served.
    pub fn require(mut self, requirement: Requirement) -> Self {
        self.requirements.push(requirement.0);
        self
    }

    /// Ends a finalizing parent: all is cleaned up, and the host removes the finalizer
    /// ([`Request::is_finalizing`](crate::Request::is_finalizing)).
    pub fn finalized(mut self) -> Self {
        self.finalized = true;
        self
    }

    pub(crate) fn into_raw(self) -> Result<raw::Response, Failure> {
        if let Some(error) = self.error {
            return Err(error);
        }
        Ok(raw::Response {
            children: self.children.into_iter().map(|child| bytes(&child)).collect(),
            status: status_json(self.status, self.conditions)?,
            requeue: self.requeue,
            events: self.events,
            requirements: self.requirements,
            finalized: self.finalized,
            extensions: Vec::new(),
        })
    }
}

/// Sets an annotation of a child to `true`.
fn annotate(child: &mut Value, annotation: &str) {
    if let Some(Value::Object(metadata)) = child.get_mut("metadata") {
        set(metadata.entry("annotations").or_insert_with(|| object([])), annotation, "true".into());
    }
}

fn status_json(status: Option<impl Serialize>, conditions: Vec<Value>) -> Result<Option<Vec<u8>>, Failure> {
    if status.is_none() && conditions.is_empty() {
        return Ok(None);
    }
    let status =
        serde_json::to_value(status).map_err(|error| Failure::failed(format!("the status is not JSON: {error}")))?;
    let mut fields = match status {
        Value::Object(fields) => fields,
        Value::Null => Map::new(),
        _ => return Err(Failure::failed("the status is not a JSON object")),
    };
    if !conditions.is_empty() {
        fields.insert("conditions".to_owned(), Value::Array(conditions));
    }
    let mut status = Value::Object(fields);
    drop_nulls(&mut status);
    Ok(Some(bytes(&status)))
}

/// A Kubernetes event on the parent, about a change that users want to know. An event in every call is noise.
#[derive(Debug, Clone)]
pub struct Event(raw::Event);

impl Event {
    /// An expected change. The reason is in CamelCase: `ScaledUp`.
    pub fn normal(reason: &str, message: impl Into<String>) -> Self {
        Self::new(raw::EventType::Normal, reason, message.into())
    }

    /// A change that may need action. The reason is in CamelCase: `ScaleFailed`.
    pub fn warning(reason: &str, message: impl Into<String>) -> Self {
        Self::new(raw::EventType::Warning, reason, message.into())
    }

    fn new(event_type: raw::EventType, reason: &str, message: String) -> Self {
        Self(raw::Event { event_type, reason: reason.to_owned(), message })
    }
}

/// Related objects that a response depends on, without owning them. [`Request::related`](crate::Request::related) reads them. The
/// host watches them, and reconciles the parent when they change.
#[derive(Debug, Clone)]
#[must_use]
pub struct Requirement(raw::Requirement);

impl Requirement {
    /// The object of this name in the parent's namespace. The plugin chooses the id, which is unique in one response.
    pub fn named<K: Kind>(id: &str, name: &str) -> Self {
        Self::new::<K>(id, raw::Selection::Name(name.to_owned()))
    }

    /// The objects in the parent's namespace that match a label selector in kubectl's syntax.
    pub fn labelled<K: Kind>(id: &str, selector: &str) -> Self {
        Self::new::<K>(id, raw::Selection::Labels(selector.to_owned()))
    }

    /// Objects of a kind that is not known when the plugin is compiled, because a spec or a configuration names it. The
    /// descriptor must still list the kind as related. [`Request::raw`](crate::Request::raw) has the objects.
    pub fn dynamic(id: &str, api_version: &str, kind: &str, select: raw::Selection) -> Self {
        let kind = raw::Kind { api_version: api_version.to_owned(), name: kind.to_owned() };
        Self(raw::Requirement { id: id.to_owned(), kind, namespace: None, select })
    }

    /// Selects in this namespace instead of the parent's. A cluster-scoped parent must name one for namespaced kinds.
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.0.namespace = Some(namespace.to_owned());
        self
    }

    fn new<K: Kind>(id: &str, select: raw::Selection) -> Self {
        Self(raw::Requirement { id: id.to_owned(), kind: kinds::raw::<K>(), namespace: None, select })
    }
}
