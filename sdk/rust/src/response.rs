//! The response of a call, typed.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    ConditionStatus, Failure, Kind, Reconciler, Request,
    failure::milliseconds,
    json::{bytes, drop_nulls, object},
    kinds,
    raw::{self, ChildRef, Create, DesiredChild, Keep, Namespaces, Selection, UpdateStrategy},
};

/// The desired state for one parent.
#[derive(Debug)]
#[must_use]
pub struct Response<R: Reconciler> {
    children: Vec<DesiredChild>,
    keep: Keep,
    status: Option<R::Status>,
    conditions: Vec<Value>,
    waiting: Option<String>,
    requeue: Option<u64>,
    requeue_at: Option<u64>,
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
            keep: Keep::None,
            status: None,
            conditions: Vec::new(),
            waiting: None,
            requeue: None,
            requeue_at: None,
            events: Vec::new(),
            requirements: Vec::new(),
            finalized: false,
            error: None,
        }
    }
}

/// Options of one child, for [`Response::child_with`].
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct ChildOptions(
    /// Without an object.
    DesiredChild,
);

impl Default for ChildOptions {
    fn default() -> Self {
        Self(DesiredChild {
            object: Vec::new(),
            stage: 0,
            retain: false,
            take_over: false,
            create: Create::Always,
            ready: None,
            update: None,
            replaces: None,
        })
    }
}

impl ChildOptions {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// The child is created, and changed after its desired state changed, once all children of lower stages are ready. Default: 0.
    pub fn stage(mut self, stage: u32) -> Self {
        self.0.stage = stage;
        self
    }

    /// Whether the child is kept when its parent is deleted, like data. The child gets no ownerReference. A later parent of the
    /// same plugin, kind, namespace and name adopts it. Default: false.
    pub fn retain(mut self, retain: bool) -> Self {
        self.0.retain = retain;
        self
    }

    /// Whether the host takes fields of the child that another field manager owns, as an autoscaler owns `spec.replicas`, once.
    /// Default: false, and such a field is a conflict.
    pub fn take_over(mut self, take_over: bool) -> Self {
        self.0.take_over = take_over;
        self
    }

    /// The child is created once for each value of this text, as a Job that must not run again after its TTL deleted it. With another
    /// text, it is deleted and created again. Not together with [`retain`](Self::retain). Default: created whenever it is missing.
    pub fn once(mut self, text: impl Into<String>) -> Self {
        self.0.create = Create::Once(text.into());
        self
    }

    /// Whether the child is ready, if the plugin knows better than [`Object::readiness`](crate::Object::readiness).
    pub fn ready(mut self, ready: bool) -> Self {
        self.0.ready = Some(ready);
        self
    }

    /// How the host changes this child. Default: as the descriptor says for its kind.
    pub fn update(mut self, update: UpdateStrategy) -> Self {
        self.0.update = Some(update);
        self
    }

    /// A child of the same kind that is no longer desired and may be in the way of this one, as by a node port that only one can
    /// have: the host deletes it first if the API server refuses this one.
    pub fn replaces(mut self, child: impl Into<ChildRef>) -> Self {
        self.0.replaces = Some(child.into());
        self
    }

    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn of(child: DesiredChild) -> Self {
        Self(DesiredChild { object: Vec::new(), ..child })
    }
}

impl<R: Reconciler> Response<R> {
    /// A response without children: all live children are deleted.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for something, which the message names for users, and changes nothing: all live children stay as they are. The host
    /// calls again after `after`, at least one second, or when something changes: also a related object, if the response still has
    /// its requirement.
    pub fn wait(message: impl Into<String>, after: Duration) -> Self {
        Self::new().keep_all().waiting(message).requeue(after)
    }

    /// Adds a desired child: a k8s-openapi type, `json!`, or a type of your own. It needs `apiVersion`, `kind` and
    /// `metadata.name`. Fields that are null are left out, so an `Option` can be a field of `json!`. A child that cannot be
    /// serialized fails the whole response.
    pub fn child(self, child: impl Serialize) -> Self {
        self.child_with(child, ChildOptions::new())
    }

    /// Adds a desired child if a condition holds; otherwise the live child is deleted.
    pub fn child_if(self, condition: bool, child: impl Serialize) -> Self {
        if condition { self.child(child) } else { self }
    }

    /// Adds a desired child with [`ChildOptions`].
    pub fn child_with(self, child: impl Serialize, options: ChildOptions) -> Self {
        self.serialized(serde_json::to_value(child), options)
    }

    /// Not generic: each type of children would have a copy of this code.
    fn serialized(mut self, child: serde_json::Result<Value>, options: ChildOptions) -> Self {
        match child {
            Ok(child) => self.children.push(DesiredChild { object: without_nulls(child), ..options.0 }),
            Err(error) => self.error = Some(Failure::failed(format!("a child is not JSON: {error}"))),
        }
        self
    }

    /// Adds several desired children, or an optional one: an `Option` is an iterator too.
    pub fn children<C: Serialize>(self, children: impl IntoIterator<Item = C>) -> Self {
        children.into_iter().fold(self, Self::child)
    }

    /// Adds several desired children, or an optional one, with the same [`ChildOptions`].
    pub fn children_with<C: Serialize>(self, children: impl IntoIterator<Item = C>, options: &ChildOptions) -> Self {
        children.into_iter().fold(self, |response, child| response.child_with(child, options.clone()))
    }

    /// Leaves these live children as they are, although the response does not desire them: live objects, or [`ChildRef`]s. Not
    /// together with [`finalized`](Self::finalized).
    pub fn keep<C: Into<ChildRef>>(mut self, children: impl IntoIterator<Item = C>) -> Self {
        let more = children.into_iter().map(Into::into);
        match &mut self.keep {
            Keep::None => self.keep = Keep::These(more.collect()),
            Keep::These(children) => children.extend(more),
            Keep::All => {}
        }
        self
    }

    /// Leaves all live children as they are that the response does not desire.
    pub fn keep_all(mut self) -> Self {
        self.keep = Keep::All;
        self
    }

    /// Says what the plugin waits for, for users. The parent gets the reason `Waiting`; everything else in the response is carried
    /// out.
    pub fn waiting(mut self, message: impl Into<String>) -> Self {
        self.waiting = Some(message.into());
        self
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

    /// Sets the time of the next reconcile; together with [`requeue`](Self::requeue), the earlier of both counts.
    pub fn requeue_at(mut self, at: SystemTime) -> Self {
        self.requeue_at = Some(since_epoch(at));
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
            children: self.children,
            keep: self.keep,
            status: status_json(self.status, self.conditions)?,
            waiting: self.waiting,
            requeue: self.requeue,
            requeue_at: self.requeue_at,
            events: self.events,
            requirements: self.requirements,
            http: Vec::new(),
            finalized: self.finalized,
            extensions: Vec::new(),
        })
    }
}

/// Milliseconds since 1970; a time before it counts as 1970.
pub(crate) fn since_epoch(time: SystemTime) -> u64 {
    milliseconds(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

fn without_nulls(mut value: Value) -> Vec<u8> {
    drop_nulls(&mut value);
    bytes(&value)
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
    Ok(Some(without_nulls(Value::Object(fields))))
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
        Self::new(id, kinds::raw::<K>(), Selection::Name(name.to_owned()))
    }

    /// The objects in the parent's namespace that match a label selector in kubectl's syntax.
    pub fn labelled<K: Kind>(id: &str, selector: &str) -> Self {
        Self::new(id, kinds::raw::<K>(), Selection::Labels(selector.to_owned()))
    }

    /// The objects in the parent's namespace that match a `LabelSelector` (`matchLabels`, `matchExpressions`), as a field of the
    /// parent's spec has it. An empty one matches all.
    pub fn matching<K: Kind>(id: &str, selector: impl Serialize) -> Self {
        // What is no JSON becomes null, which the host refuses as no selector.
        let selector = serde_json::to_value(selector).unwrap_or_default();
        Self::new(id, kinds::raw::<K>(), Selection::LabelSelector(without_nulls(selector)))
    }

    /// Objects of a kind that is not known when the plugin is compiled, because a spec or a configuration names it. The
    /// descriptor must still list the kind as related. [`Request::raw`](crate::Request::raw) has the objects.
    pub fn dynamic(id: &str, api_version: &str, kind: &str, select: Selection) -> Self {
        Self::new(id, raw::Kind { api_version: api_version.to_owned(), name: kind.to_owned() }, select)
    }

    /// Selects in this namespace instead of the parent's.
    pub fn in_namespace(self, namespace: &str) -> Self {
        self.in_namespaces([namespace])
    }

    /// Selects in these namespaces instead of the parent's.
    pub fn in_namespaces<'a>(mut self, namespaces: impl IntoIterator<Item = &'a str>) -> Self {
        self.0.namespaces = Namespaces::Named(namespaces.into_iter().map(str::to_owned).collect());
        self
    }

    /// Selects in all namespaces that the Plugin grants.
    pub fn in_all_namespaces(mut self) -> Self {
        self.0.namespaces = Namespaces::All;
        self
    }

    /// Serves only `apiVersion`, `kind` and `metadata` of the objects, which costs the host less memory, and fewer calls.
    pub fn metadata_only(mut self) -> Self {
        self.0.metadata_only = true;
        self
    }

    fn new(id: &str, kind: raw::Kind, select: Selection) -> Self {
        let namespaces = Namespaces::OfParent;
        Self(raw::Requirement { id: id.to_owned(), kind, namespaces, select, metadata_only: false })
    }
}
