//! Call a plugin in a plain test: no wasm, no cluster. The call goes through the same bytes as in the host.
//!
//! ```
//! # use windlass_plugin::{*, kinds::Pod, testing};
//! # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Spec { replicas: u32 }
//! # struct Echo;
//! # impl Reconciler for Echo {
//! #     type Spec = Spec;
//! #     type Status = ();
//! #     fn descriptor() -> Descriptor { Descriptor::new("echo", "1.0.0", CustomResource::namespaced::<Self>("e.dev", "v1", "Echo")) }
//! #     fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
//! #         log::info("seen");
//! #         let pods = request.children_of::<Pod>().count();
//! #         if pods > 1 { return Err(Failure::invalid("spec.replicas is too small")); }
//! #         Ok(Response::new().children((0..request.spec.replicas).map(|_| json!({}))))
//! #     }
//! # }
//! let echo = || testing::request::<Echo>(json!({ "metadata": { "name": "web" }, "spec": { "replicas": 2 } }));
//! let pod = |name| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name } });
//!
//! let answer = echo().child(pod("web-0")).call()?;
//! assert_eq!(answer.children.len(), 2);
//! assert_eq!(answer.logs, ["seen"]);
//!
//! let failure = echo().child(pod("web-0")).child(pod("web-1")).call();
//! assert_eq!(failure, Err(Failure::invalid("spec.replicas is too small")));
//! # Ok::<(), Failure>(())
//! ```

#[cfg(feature = "golden")]
pub mod golden;
pub(crate) mod sink;

use std::{
    marker::PhantomData,
    time::{Duration, SystemTime},
};

pub use serde_json::Value;
use serde_json::json;

use self::sink::World;
pub use self::sink::{Measurement, Told};
use crate::{
    Adapter, Admission, Failure, Operation, Phase, Reconciler, Verdict,
    raw::{self, exports::windlass::plugin::reconciler::Guest},
};

/// Starts a request about this parent. `metadata.uid`, where it is missing, is `uid`.
pub fn request<R: Reconciler>(mut parent: Value) -> Call<R> {
    let metadata =
        parent.as_object_mut().and_then(|parent| parent.entry("metadata").or_insert_with(|| json!({})).as_object_mut());
    if let Some(metadata) = metadata {
        metadata.entry("uid").or_insert_with(|| "uid".into());
    }
    Call {
        request: raw::Request {
            phase: Phase::Sync,
            parent: parent.to_string().into_bytes(),
            children: Vec::new(),
            related: Vec::new(),
            config: None,
            extensions: Vec::new(),
        },
        world: World::default(),
        plugin: PhantomData,
    }
}

/// What the plugin says to an object that somebody wants to write: `old` is what it was, for a change.
pub fn review<R: Admission>(operation: Operation, object: Option<&Value>, old: Option<&Value>) -> Verdict {
    let bytes = |object: Option<&Value>| object.map(|object| object.to_string().into_bytes());
    crate::admission::judge::<R>(raw::AdmissionRequest {
        operation,
        object: bytes(object),
        old_object: bytes(old),
        username: "user".to_owned(),
        config: None,
    })
}

/// The plugin's CustomResourceDefinition; null for a plugin on an existing kind.
pub fn crd<R: Reconciler>() -> Value {
    match R::descriptor().into_raw().parent {
        raw::Parent::Custom(definition) => json_of(&definition),
        raw::Parent::Existing(_) => Value::Null,
    }
}

/// What the plugin tells the host about itself.
pub fn descriptor<R: Reconciler>() -> raw::Descriptor {
    Adapter::<R>::describe()
}

/// A call in preparation.
#[derive(Debug)]
#[must_use]
pub struct Call<R> {
    request: raw::Request,
    world: World,
    plugin: PhantomData<R>,
}

/// By hand: derived, it would ask that the plugin can be cloned.
impl<R> Clone for Call<R> {
    fn clone(&self) -> Self {
        Self { request: self.request.clone(), world: self.world.clone(), plugin: PhantomData }
    }
}

impl<R: Reconciler> Call<R> {
    #[allow(clippy::needless_pass_by_value, reason = "it is mostly a `json!` on the spot")]
    /// A child that exists. The host keeps children ordered, so this does too.
    pub fn child(mut self, object: Value) -> Self {
        self.request.children.push(observed(&object));
        self.request.children.sort_by(|a, b| key(a).cmp(&key(b)));
        self
    }

    /// Several children that exist: also the children of an earlier answer.
    pub fn children(self, objects: impl IntoIterator<Item = Value>) -> Self {
        objects.into_iter().fold(self, Self::child)
    }

    /// What the requirement of this id found.
    pub fn related(mut self, id: &str, objects: impl IntoIterator<Item = Value>) -> Self {
        let objects = objects.into_iter().map(|object| observed(&object)).collect();
        self.request.related.push(raw::Related { id: id.to_owned(), objects });
        self
    }

    /// The Plugin's `spec.config`.
    pub fn config(mut self, config: &Value) -> Self {
        self.request.config = Some(config.to_string().into_bytes());
        self
    }

    /// The parent is being deleted.
    pub fn finalize(mut self) -> Self {
        self.request.phase = Phase::Finalize;
        self
    }

    /// The wall clock, so long after 1970. Without it, it is the first second of 2026.
    pub fn at(mut self, since_epoch: Duration) -> Self {
        self.world.now = SystemTime::UNIX_EPOCH + since_epoch;
        self
    }

    /// The random bytes that the plugin gets, in their order. Without them, they are the same ones in every call.
    pub fn random(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.world.random = Some(bytes.into());
        self
    }

    /// The request as the contract carries it.
    pub fn request(&self) -> &raw::Request {
        &self.request
    }

    /// Calls the plugin, for the answer as the contract carries it, or the failure; and what it told meanwhile.
    pub fn call_raw(self) -> (Result<raw::Response, Failure>, Told) {
        sink::begin(self.world);
        let answer = Adapter::<R>::reconcile(self.request);
        (answer, sink::take())
    }

    /// Calls the plugin.
    ///
    /// # Errors
    ///
    /// The plugin's failure, or that of a spec which is not a `Reconciler::Spec`.
    pub fn call(self) -> Result<Answer, Failure> {
        let (response, told) = self.call_raw();
        let response = response?;
        Ok(Answer {
            children: response.children.iter().map(|child| json_of(child)).collect(),
            status: response.status.as_deref().map(json_of),
            requeue: response.requeue,
            events: response.events,
            requirements: response.requirements,
            finalized: response.finalized,
            logs: told.logs,
            measurements: told.measurements,
            span_attributes: told.span_attributes,
            span_events: told.span_events,
        })
    }
}

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

pub(crate) fn observed(object: &Value) -> raw::Observed {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
    raw::Observed {
        kind: raw::Kind {
            api_version: text("/apiVersion").unwrap_or_default(),
            name: text("/kind").unwrap_or_default(),
        },
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name").unwrap_or_default(),
        object: object.to_string().into_bytes(),
    }
}

fn key(observed: &raw::Observed) -> (&str, &str, Option<&str>, &str) {
    (&observed.kind.api_version, &observed.kind.name, observed.namespace.as_deref(), &observed.name)
}

/// What the plugin answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// All children that should exist, in the plugin's order.
    pub children: Vec<Value>,
    /// The plugin's part of the status.
    pub status: Option<Value>,
    /// Milliseconds until the next reconcile.
    pub requeue: Option<u64>,
    /// Events on the parent.
    pub events: Vec<raw::Event>,
    /// Related objects that the answer depends on.
    pub requirements: Vec<raw::Requirement>,
    /// The finalizer may go.
    pub finalized: bool,
    /// Messages of the lines logged.
    pub logs: Vec<String>,
    /// What was measured.
    pub measurements: Vec<Measurement>,
    /// Attributes of the call's span.
    pub span_attributes: Vec<(String, String)>,
    /// Names of the span's events.
    pub span_events: Vec<String>,
}
