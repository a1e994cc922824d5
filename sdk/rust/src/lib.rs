//! Write a Kubernetes operator as one function.
//!
//! A Windlass plugin is a function from a custom resource and the live objects to the desired state. The host does everything
//! else: it watches, caches and queues, applies the desired children, deletes the others, writes the status, retries and traces.
//! With this crate the input and the output of the function are Rust types, and the CustomResourceDefinition comes from them.
//!
//! # A whole plugin
//!
#![cfg_attr(feature = "k8s-openapi", doc = "```")]
#![cfg_attr(not(feature = "k8s-openapi"), doc = "```ignore")]
//! use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use windlass_plugin::{CustomResource, Descriptor, Failure, Reconciler, Request, Response, json};
//!
//! /// The fields that a user writes under `spec`. `kubectl explain` shows this sentence.
//! #[derive(Deserialize, JsonSchema)]
//! struct GreetingSpec {
//!     /// The name to greet.
//!     #[schemars(length(min = 1))]
//!     name: String,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! #[serde(rename_all = "camelCase")]
//! struct GreetingStatus {
//!     config_maps: usize,
//! }
//!
//! struct Greeting;
//!
//! impl Reconciler for Greeting {
//!     type Spec = GreetingSpec;
//!     type Status = GreetingStatus;
//!
//!     fn descriptor() -> Descriptor {
//!         let kind = CustomResource::namespaced::<Self>("example.com", "v1", "Greeting").column("Name", "string", ".spec.name");
//!         Descriptor::new("greeting", env!("CARGO_PKG_VERSION"), kind).child::<ConfigMap>()
//!     }
//!
//!     fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
//!         if request.spec.name.contains('\n') {
//!             return Err(Failure::invalid_field("spec.name", "must be one line"));
//!         }
//!         let config_map = ConfigMap {
//!             metadata: ObjectMeta { name: Some(request.name().to_owned()), ..ObjectMeta::default() },
//!             data: Some([("greeting".to_owned(), format!("Hello, {}!", request.spec.name))].into()),
//!             ..ConfigMap::default()
//!         };
//!         let config_maps = request.children_of::<ConfigMap>().count();
//!         Ok(Response::new().child(config_map).status(GreetingStatus { config_maps }))
//!     }
//! }
//!
//! windlass_plugin::export!(Greeting);
//!
//! // A test needs neither wasm nor a cluster:
//! use windlass_plugin::testing;
//!
//! let response = testing::request::<Greeting>(json!({ "metadata": { "name": "hi" }, "spec": { "name": "Ada" } })).call()?;
//! assert_eq!(response.children[0]["data"]["greeting"], "Hello, Ada!");
//! # Ok::<(), Failure>(())
//! ```
//!
//! # Rules
//!
//! - The response lists **all** desired children. The host deletes a live child that is missing.
//! - A call depends on its [`Request`] alone, and returns the same response for the same request. There is no network, no
//!   file, and no memory of the last call.
//! - The host sets ownerReferences, namespaces and its labels: leave them out of children.
//! - The host sets `status.observedGeneration` and the conditions `Reconciling` and `Stalled`, and `Ready` unless the plugin
//!   sets it ([`Response::condition`]).
//! - After a failure or a panic the host writes and deletes nothing.
//!
//! # Children
//!
//! Write children with the types of [k8s-openapi](https://docs.rs/k8s-openapi), as above: the compiler checks names and types of
//! fields. Turn on feature `k8s-openapi`, and depend on the same version of the crate with the feature of a Kubernetes version.
//! [`Object::read`] reads live objects into these types.
//!
//! `json!` is the light alternative. Nothing checks its fields before the API server does, but it needs no feature, and the
//! names of kinds come from [`kinds`]:
//!
//! ```
//! # use windlass_plugin::{Reconciler, Request, Response, json};
//! # fn example<R: Reconciler>(request: Request<R>) -> Response<R> {
//! Response::new().child(json!({
//!     "apiVersion": "v1",
//!     "kind": "ConfigMap",
//!     "metadata": { "name": request.name() },
//!     "data": { "greeting": "Hello!" },
//! }))
//! # }
//! ```
//!
//! The types cost code, and reading a type costs more than writing it. A plugin with a ConfigMap, a Deployment and a Service as
//! children has these sizes, compressed with `zstd -19`, as ConfigMaps store components:
//!
//! | children | live Deployment | component | compressed |
//! |---|---|---|---|
//! | `json!` | `Object::get` | 200 KB | 66 KB |
//! | k8s-openapi | `Object::get` | 680 KB | 155 KB |
//! | k8s-openapi | `Object::read` | 1117 KB | 242 KB |
//!
//! All are far below the 1 MiB that a compressed component may have to fit one ConfigMap.
//!
//! # What the SDK offers
//!
//! - [`Object::get`] and [`Object::at`] read single fields of live objects by JSON pointers, [`Object::readiness`] tells whether an
//!   object is ready, [`Object::matches`] whether a child has the desired state, [`Object::rollout`] how many Pods of a
//!   Deployment are of which state, and [`Object::failure_message`] why a Pod does not run.
//! - [`Response::phase_status`] writes a status with a [`Phase`], the condition `Ready`, an event when the phase changes, and
//!   a time that moves only when another field does.
//! - [`Reconciler::finalize`] cleans up before a parent's deletion, also if the parent's spec is invalid.
//! - [`Response::child_if`] and [`Response::children`] add optional children; [`ChildOptions`] let a child wait for others, keep
//!   it when its parent is deleted, or create it once. [`Descriptor::optional_child`] declares a kind that a cluster may lack.
//! - [`Response::waiting`] says what the plugin waits for; [`Response::keep`] and [`Response::wait`] leave live children as they are.
//! - [`Request::generated`] keeps a generated value, as a password, in a Secret; [`checksum()`] restarts Pods when their config changes.
//! - [`schedule`] tells the times of a cron schedule in a time zone, and which is due.
//! - [`checks`] validate a spec with messages that name the field; [`spec`] and [`Quantity`] are types for specs.
//! - [`testing`] calls the plugin in a plain test, and `testing::golden` calls it with a folder of requests.
//! - [`Admission`] validates and defaults parents before they are stored. The host does not serve it yet: nothing calls it in
//!   a cluster.
//!
//! # Building
//!
//! A plugin is a library crate of type `cdylib`. `windlass new NAME --lang rust` makes one with its tests, and `windlass build`
//! builds it for `wasm32-unknown-unknown` and makes the component (in Windlass' own repository: `cargo xtask guests`). A CRD that
//! is made from types in the component costs a hundred kilobytes and more; [`crd!`] embeds the finished CRD instead.
//!
//! # Features
//!
//! - `k8s-openapi`: its types are [`Kind`]s.
//! - `clock`: module `clock`, the host's clocks, and the time of the last change in [`PhaseStatus`]. A call that reads the
//!   wall clock is impure: the host does not reuse its response. [`Request::now`] needs no feature.
//! - `random`: module `random`, random bytes from the host, the same for the same request as long as the Secret
//!   `windlass-rng-key` in the host's namespace exists.
//! - `allocator` (on by default): an allocator whose first memory exists when a call begins. A plugin with a global allocator
//!   of its own turns the feature off; a library for plugins depends on this crate without it.
//! - `golden`: module `testing::golden`, for tests.

/// Tests the code of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod adapter;
mod admission;
#[cfg(all(target_arch = "wasm32", feature = "allocator"))]
mod allocator;
pub mod checks;
mod checksum;
#[doc(hidden)]
pub mod compact;
mod custom_resource;
mod descriptor;
mod failure;
mod host;
mod json;
mod json_path;
pub mod kinds;
mod matches;
mod pod;
mod quantity;
pub mod raw;
mod request;
mod response;
mod rollout;
pub mod schedule;
mod schema;
pub mod spec;
mod status;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
mod volume_claim;

#[cfg(feature = "clock")]
pub mod clock;
#[cfg(feature = "random")]
pub mod random;

pub use adapter::Adapter;
pub use admission::{Admission, AdmissionRequest, AdmissionResponse, Decision, Operation};
pub use checksum::checksum;
pub use custom_resource::CustomResource;
pub use descriptor::{Descriptor, Metric, Parent};
pub use host::{log, measure, span};
pub use kinds::Kind;
pub use quantity::{ParseQuantityError, Quantity};
pub use raw::{ChildRef, Failure, FinalizeCause, Invalid, LeftOut, Readiness, ReadyMeans, UpdateStrategy};
pub use request::{Metadata, Object, Request, Unread};
pub use response::{ChildOptions, Event, Requirement, Response};
pub use rollout::{Rollout, RolloutState};
pub use serde_json::{Value, json};
pub use status::{Condition, ConditionStatus, Phase, PhaseStatus, StatusPhase};

use serde::{Serialize, de::DeserializeOwned};

/// An operator: its description, and the function that returns the desired state.
pub trait Reconciler: Sized + 'static {
    /// The parent's `spec`. For a custom resource it also derives `JsonSchema`, and the schema of the CRD comes from it.
    type Spec: DeserializeOwned;

    /// The plugin's part of the parent's `status`; `()` for none. [`Request::status`] needs `Deserialize` as well.
    type Status: Serialize;

    /// Describes the plugin. Must return the same value in every call.
    fn descriptor() -> Descriptor;

    /// Returns the desired state for one parent.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`] and [`Failure::invalid_field`] if the user's spec is invalid, [`Failure::failed`] for all other failures.
    /// The host then writes and deletes nothing. To wait for something is no failure: [`Response::wait`].
    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure>;

    /// Cleans up after one parent ([`Descriptor::finalizes`]), whose spec may be invalid: an older version of the CRD may have
    /// accepted it. By default the spec is read, and [`reconcile`](Self::reconcile) is called. A plugin that cleans up by the
    /// parent's name and its live children implements this function, so that an invalid spec does not block the deletion.
    ///
    /// # Errors
    ///
    /// As [`reconcile`](Self::reconcile), and the error of [`Request::read_spec`]. The host calls again with backoff.
    fn finalize(request: Request<Self, Unread>) -> Result<Response<Self>, Failure> {
        Self::reconcile(request.read_spec()?)
    }
}

/// Makes a [`Reconciler`] the plugin of this crate; once in a crate. Outside wasm it expands to nothing, so that plain `cargo
/// test` works.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Plugin = $crate::Adapter<$plugin>;
    $crate::raw::export_component!(Plugin with_types_in $crate::raw);
        };
    };
}

/// A [`CustomResource`] whose CRD is a file. The component embeds the file instead of the code that makes the CRD from types,
/// which is a hundred kilobytes and more. Outside wasm the CRD comes from the types, so that a test can compare both.
///
/// The file is JSON, its path is relative to the source file, and `testing::golden::crd` (feature `golden`) writes and checks it.
///
/// ```ignore
/// Descriptor::new("greeting", env!("CARGO_PKG_VERSION"), windlass_plugin::crd!("../crd.json", kind()))
/// ```
#[macro_export]
macro_rules! crd {
    ($file:literal, $kind:expr) => {
        if cfg!(target_family = "wasm") {
            const FILE: &[u8] = include_bytes!($file);
            static CRD: [u8; $crate::compact::size(FILE)] = $crate::compact::bytes(FILE);
            $crate::Parent::from_crd(&CRD)
        } else {
            $crate::Parent::from($kind)
        }
    };
}

/// Makes an [`Admission`] the admission of this crate's plugin; once in a crate, beside [`export!`]. The host does not serve
/// admission yet: the component exports it, and nothing calls it in a cluster.
#[macro_export]
macro_rules! export_admission {
    ($plugin:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            type Plugin = $crate::Adapter<$plugin>;
    $crate::raw::admission::export_admission_component!(Plugin with_types_in $crate::raw::admission);
        };
    };
}
