//! Calls a plugin in a plain test, without wasm and without a cluster. The call goes through the same bytes as in the host.
//!
//! The program `windlass` tells which live objects are ready, and fails the test if the host would refuse the response: it is found in
//! `PATH`, or by the environment variable `WINDLASS`.
//!
//! ```
//! # use windlass_plugin::{*, kinds::Pod, testing};
//! # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Spec { replicas: u32 }
//! # struct Echo;
//! # impl Reconciler for Echo {
//! #     type Spec = Spec;
//! #     type Status = ();
//! #     fn descriptor() -> Descriptor {
//! #         Descriptor::new("echo", "1.0.0", CustomResource::namespaced::<Self>("e.dev", "v1", "Echo")).child::<Pod>()
//! #     }
//! #     fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
//! #         log::info("seen");
//! #         let pods = request.children_of::<Pod>().count();
//! #         if pods > 1 { return Err(Failure::invalid_field("spec.replicas", "is too small")); }
//! #         let pod = |index| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("web-{index}") } });
//! #         Ok(Response::new().children((0..request.spec.replicas).map(pod)))
//! #     }
//! # }
//! let echo = || testing::request::<Echo>(json!({ "metadata": { "name": "web" }, "spec": { "replicas": 2 } }));
//! let pod = |name| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name } });
//!
//! let response = echo().child(pod("web-0")).call()?;
//! assert_eq!(response.children.len(), 2);
//! assert_eq!(response.logs, ["seen"]);
//!
//! let failure = echo().child(pod("web-0")).child(pod("web-1")).call();
//! assert_eq!(failure, Err(Failure::invalid_field("spec.replicas", "is too small")));
//! # Ok::<(), Failure>(())
//! ```

#[cfg(feature = "golden")]
pub mod golden;
pub(crate) mod harness;
pub(crate) mod host;
mod written;

use std::{
    marker::PhantomData,
    time::{Duration, SystemTime},
};

pub use serde_json::Value;
use serde_json::json;

use self::host::Input;
pub use self::host::{HostCalls, Measurement};
use crate::{
    Adapter, Admission, AdmissionResponse, ChildOptions, ChildRef, Failure, FinalizeCause, Kind, LeftOut, Operation,
    Readiness, Reconciler,
    failure::milliseconds,
    kinds,
    raw::{self, Finalizing, Keep, Phase, exports::windlass::plugin::reconciler::Guest},
    response::since_epoch,
};

/// Prepares a call with this parent. A missing `metadata.name` becomes `name`, and a missing `metadata.uid` becomes `uid`. All optional kinds of the descriptor exist.
pub fn request<R: Reconciler>(mut parent: Value) -> Call<R> {
    let metadata =
        parent.as_object_mut().and_then(|parent| parent.entry("metadata").or_insert_with(|| json!({})).as_object_mut());
    if let Some(metadata) = metadata {
        for field in ["name", "uid"] {
            metadata.entry(field).or_insert_with(|| field.into());
        }
    }
    let raw::Descriptor { children, related, clock, .. } = R::descriptor().into_raw();
    let children = children.into_iter().filter(|rule| rule.optional).map(|rule| rule.kind);
    let related = related.into_iter().filter(|rule| rule.optional).map(|rule| rule.kind);
    let input = Input::default();
    Call {
        request: raw::Request {
            phase: Phase::Sync,
            parent_kind: kind_of(&parent),
            parent: parent.to_string().into_bytes(),
            children: Vec::new(),
            left_out: Vec::new(),
            related: Vec::new(),
            http: Vec::new(),
            config: None,
            kinds: children.chain(related).collect(),
            now: clock.then(|| since_epoch(input.now)),
            capabilities: raw::Capabilities { features: Vec::new(), closed_namespaces: Vec::new() },
            extensions: Vec::new(),
        },
        input,
        plugin: PhantomData,
    }
}

/// Calls the plugin's admission with a write of an object by the user `user`: `object` is the object after the write, `old` the
/// object before it.
pub fn review<R: Admission>(operation: Operation, object: Option<&Value>, old: Option<&Value>) -> AdmissionResponse {
    let bytes = |object: Option<&Value>| object.map(|object| object.to_string().into_bytes());
    let either = object.or(old).map(observed);
    crate::admission::review::<R>(raw::AdmissionRequest {
        operation,
        kind: kind_of(object.or(old).unwrap_or(&Value::Null)),
        subresource: None,
        namespace: either.as_ref().and_then(|object| object.namespace.clone()),
        namespace_labels: Vec::new(),
        name: either.map(|object| object.name),
        object: bytes(object),
        old_object: bytes(old),
        dry_run: false,
        username: "user".to_owned(),
        groups: Vec::new(),
        config: None,
    })
}

/// The plugin's CRD; null for a plugin on an existing kind.
pub fn crd<R: Reconciler>() -> Value {
    match R::descriptor().into_raw().parent {
        raw::Parent::Custom(parent) => json_of(&parent.definition),
        raw::Parent::Existing(_) => Value::Null,
    }
}

/// The plugin's description of itself.
pub fn descriptor<R: Reconciler>() -> raw::Descriptor {
    Adapter::<R>::describe()
}

/// A prepared call.
#[derive(Debug)]
#[must_use]
pub struct Call<R> {
    request: raw::Request,
    input: Input,
    plugin: PhantomData<R>,
}

/// Not derived: a derived `Clone` would require that the plugin is `Clone`.
impl<R> Clone for Call<R> {
    fn clone(&self) -> Self {
        Self { request: self.request.clone(), input: self.input.clone(), plugin: PhantomData }
    }
}

impl<R: Reconciler> Call<R> {
    /// Adds a live child, as ready as the host sees it. Children are ordered as the host orders them.
    pub fn child(self, object: Value) -> Self {
        self.child_with(object, Readiness::Unknown)
    }

    /// Adds a live child with this [readiness](crate::Object::readiness); `Unknown` is what the host sees.
    #[allow(clippy::needless_pass_by_value, reason = "the argument is mostly a `json!`")]
    pub fn child_with(mut self, object: Value, readiness: Readiness) -> Self {
        self.request.children.push(raw::Observed { readiness, ..observed(&object) });
        self.request.children.sort_by(|a, b| key(a).cmp(&key(b)));
        self
    }

    /// Adds several live children: those of an earlier response, for example.
    pub fn children(self, objects: impl IntoIterator<Item = Value>) -> Self {
        objects.into_iter().fold(self, Self::child)
    }

    /// Leaves out a child of this size in bytes ([`Request::left_out`](crate::Request::left_out)).
    pub fn left_out(mut self, child: ChildRef, size: u64) -> Self {
        self.request.left_out.push(LeftOut { child, size });
        self
    }

    /// Serves the requirement of this id with these objects, as ready as the host sees them.
    pub fn related(mut self, id: &str, objects: impl IntoIterator<Item = Value>) -> Self {
        let objects = objects.into_iter().map(|object| observed(&object)).collect();
        self.request.related.push(raw::Related { id: id.to_owned(), objects });
        self
    }

    /// Sets the Plugin's `spec.config`.
    pub fn config(mut self, config: &Value) -> Self {
        self.request.config = Some(config.to_string().into_bytes());
        self
    }

    /// Lets the cluster lack an optional kind ([`Request::has_kind`](crate::Request::has_kind)).
    pub fn without_kind<K: Kind>(mut self) -> Self {
        self.request.kinds.retain(|kind| *kind != kinds::raw::<K>());
        self
    }

    /// Closes these namespaces ([`Request::closed_namespaces`](crate::Request::closed_namespaces)).
    pub fn closed_namespaces<'a>(mut self, namespaces: impl IntoIterator<Item = &'a str>) -> Self {
        self.request.capabilities.closed_namespaces = namespaces.into_iter().map(str::to_owned).collect();
        self
    }

    /// Makes this a call to clean up, because the parent is deleted ([`Request::is_finalizing`](crate::Request::is_finalizing)).
    pub fn finalize(self) -> Self {
        self.finalize_with(FinalizeCause::Deleted, false)
    }

    /// Makes this a call to clean up for this cause, in a namespace that may be being deleted.
    pub fn finalize_with(mut self, cause: FinalizeCause, namespace_terminating: bool) -> Self {
        self.request.phase = Phase::Finalize(Finalizing { cause, namespace_terminating });
        self
    }

    /// Sets the time, as time since 1970: that of [`Request::now`](crate::Request::now), if the descriptor asks for it, and that of
    /// the wall clock. The default is the first second of 2026.
    pub fn at(mut self, since_epoch: Duration) -> Self {
        self.input.now = SystemTime::UNIX_EPOCH + since_epoch;
        self.request.now = self.request.now.map(|_| milliseconds(since_epoch));
        self
    }

    /// Sets the random bytes that the plugin reads, in this order. By default they are the same in every call.
    pub fn random(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input.random = Some(bytes.into());
        self
    }

    /// The untyped request of the contract.
    pub fn request(&self) -> &raw::Request {
        &self.request
    }

    /// Lets the host complete the request: with the defaults of the parent, and the readiness of objects that the test has not set. Returns
    /// the failure of the call if the parent does not fit the schema of its CRD, or else the sentence with which the host refuses the
    /// descriptor or the config.
    fn seen(mut self) -> Result<Result<Self, Failure>, String> {
        let mut answer = harness::ask(descriptor::<R>(), &self.request, None)?;
        if let Some(invalid) = answer.invalid.take() {
            return Ok(Err(match invalid.split_once(": ") {
                Some((field, message)) => Failure::invalid_field(field, message),
                None => Failure::invalid(invalid),
            }));
        }
        answer.complete(&mut self.request);
        Ok(Ok(self))
    }

    fn run(self) -> Outcome {
        host::begin(self.input);
        let response = Adapter::<R>::reconcile(self.request);
        (response, host::take())
    }

    /// Calls the plugin. Or else returns the sentence with which the host refuses the response.
    fn checked(self) -> Result<Outcome, String> {
        let request = self.request.clone();
        let answer = self.run();
        if let Ok(response) = &answer.0 {
            harness::ask(descriptor::<R>(), &request, Some(response))?;
        }
        Ok(answer)
    }

    /// Calls the plugin. Returns the untyped response of the contract or the failure, and the calls of the host's functions.
    ///
    /// # Panics
    ///
    /// With the host's sentence, if the host refuses the descriptor, the config or the response; and if there is no `windlass`.
    #[track_caller]
    pub fn call_raw(self) -> (Result<raw::Response, Failure>, HostCalls) {
        #![allow(clippy::panic, reason = "a test fails by panicking")]
        let uncalled = |failure| Ok((Err(failure), HostCalls::default()));
        match self.seen().and_then(|seen| seen.map_or_else(uncalled, Self::checked)) {
            Ok(answer) => answer,
            Err(refused) => panic!("{refused}"),
        }
    }

    /// Calls the plugin.
    ///
    /// # Errors
    ///
    /// The plugin's failure; or [`Failure::Invalid`] if the parent does not fit the schema of its CRD, with the host's sentence.
    ///
    /// # Panics
    ///
    /// As [`call_raw`](Self::call_raw).
    #[track_caller]
    pub fn call(self) -> Result<Response, Failure> {
        let (response, calls) = self.call_raw();
        let response = response?;
        Ok(Response {
            children: response.children.iter().map(|child| json_of(&child.object)).collect(),
            options: response.children.into_iter().map(ChildOptions::of).collect(),
            keep: response.keep,
            waiting: response.waiting,
            status: response.status.as_deref().map(json_of),
            requeue: response.requeue.map(Duration::from_millis),
            requeue_at: response.requeue_at.map(|at| SystemTime::UNIX_EPOCH + Duration::from_millis(at)),
            events: response.events,
            requirements: response.requirements,
            finalized: response.finalized,
            logs: calls.logs,
            measurements: calls.measurements,
            span_attributes: calls.span_attributes,
            span_events: calls.span_events,
        })
    }
}

/// What a plugin returned, and its calls of the host's functions.
type Outcome = (Result<raw::Response, Failure>, HostCalls);

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

fn text(object: &Value, path: &str) -> Option<String> {
    object.pointer(path).and_then(Value::as_str).map(str::to_owned)
}

fn kind_of(object: &Value) -> raw::Kind {
    let text = |path| text(object, path).unwrap_or_default();
    raw::Kind { api_version: text("/apiVersion"), name: text("/kind") }
}

pub(crate) fn observed(object: &Value) -> raw::Observed {
    raw::Observed {
        kind: kind_of(object),
        namespace: text(object, "/metadata/namespace"),
        name: text(object, "/metadata/name").unwrap_or_default(),
        object: object.to_string().into_bytes(),
        readiness: Readiness::Unknown,
    }
}

fn key(observed: &raw::Observed) -> (&str, &str, Option<&str>, &str) {
    (&observed.kind.api_version, &observed.kind.name, observed.namespace.as_deref(), &observed.name)
}

/// The response of a plugin with parsed JSON, and the calls of the host's functions.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// All desired children, in the plugin's order.
    pub children: Vec<Value>,
    /// The options of each child.
    pub options: Vec<ChildOptions>,
    /// The live children that stay as they are.
    pub keep: Keep,
    /// What the plugin waits for.
    pub waiting: Option<String>,
    /// The plugin's part of the status.
    pub status: Option<Value>,
    /// Time until the next reconcile.
    pub requeue: Option<Duration>,
    /// The time of the next reconcile.
    pub requeue_at: Option<SystemTime>,
    /// Events on the parent.
    pub events: Vec<raw::Event>,
    /// Related objects that the response depends on.
    pub requirements: Vec<raw::Requirement>,
    /// Whether the host may remove the finalizer.
    pub finalized: bool,
    /// Messages of log lines.
    pub logs: Vec<String>,
    /// Measurements.
    pub measurements: Vec<Measurement>,
    /// Attributes of the call's span, as pairs of name and value.
    pub span_attributes: Vec<(String, String)>,
    /// Names of events of the call's span.
    pub span_events: Vec<String>,
}
