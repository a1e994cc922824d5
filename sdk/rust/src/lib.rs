//! Write a Kubernetes operator as one function.
//!
//! A Windlass plugin answers one question: *given this custom resource and what exists now, what should exist?* The
//! host does the rest: it watches, caches, queues, applies, deletes what is no longer wanted, writes the status,
//! retries and traces. This crate lets the question and its answer be Rust types, and makes the
//! CustomResourceDefinition out of them.
//!
//! # A whole plugin
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use windlass_plugin::{CustomResource, Descriptor, Failure, Reconciler, Request, Response, json, kinds::ConfigMap};
//!
//! /// What a user writes under `spec`; this sentence ends up in `kubectl explain`.
//! #[derive(Deserialize, JsonSchema)]
//! struct GreetingSpec {
//!     /// Whom to greet.
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
//!             return Err(Failure::invalid("spec.name must be one line"));
//!         }
//!         Ok(Response::new()
//!             .child(json!({
//!                 "apiVersion": "v1",
//!                 "kind": "ConfigMap",
//!                 "metadata": { "name": request.name() },
//!                 "data": { "greeting": format!("Hello, {}!", request.spec.name) },
//!             }))
//!             .status(GreetingStatus { config_maps: request.children_of::<ConfigMap>().count() }))
//!     }
//! }
//!
//! windlass_plugin::export!(Greeting);
//!
//! // And its test, which needs neither wasm nor a cluster:
//! use windlass_plugin::testing;
//!
//! let answer = testing::request::<Greeting>(json!({ "metadata": { "name": "hi" }, "spec": { "name": "Ada" } })).call()?;
//! assert_eq!(answer.children[0]["data"]["greeting"], "Hello, Ada!");
//! # Ok::<(), Failure>(())
//! ```
//!
//! # The rules
//!
//! - The answer lists **all** children that should exist. One that is left out is deleted.
//! - A call depends on its [`Request`] alone and gives the same answer for the same request. There is no network, no
//!   file, no memory of the last call.
//! - Ownership, namespace and labels of ownership are the host's: leave them out of children.
//! - `status.observedGeneration` and the conditions `Reconciling` and `Stalled` are the host's too, and so is `Ready`
//!   unless the plugin gives one ([`Response::condition`]).
//! - A failure or a panic writes and deletes nothing.
//!
//! # Comfort
//!
//! - [`checks`] say what is wrong with a spec and name the field; [`Quantity`] reads, compares and passes on `100m` and `1.5Gi`.
//! - [`Request::child`] and [`Request::children_of`] find what exists, [`Object::get`] and [`Object::at`] read one field of it; [`Object::rollout`] says how far a Deployment is, and
//!   [`Object::trouble`] what keeps a Pod from running.
//! - [`Response::child_if`] and [`Response::children`] add optional children; [`ChildOptions`] keep a child when its parent is deleted,
//!   or force ownership of its fields; `clock::steady` keeps a time in the status that moves only when something else does.
//! - [`testing`] calls the plugin in a plain test, and `testing::golden` asks it a folder of questions.
//! - [`Admission`] judges parents before they are stored. The host does not serve it yet: nothing calls it in a cluster.
//!
//! # Building
//!
//! A plugin is a library crate of type `cdylib`, built for `wasm32-unknown-unknown` and made a component by
//! `wasm-tools component new` (in Windlass' own repository: `cargo xtask guests`). Use `json!` or small types of your
//! own for children: feature `k8s-openapi` makes that crate's types usable, at the price of a much larger component. So does
//! a definition that is made from types in the component: [`definition!`] puts the finished one in its place.
//!
//! # Features
//!
//! - `clock`: module `clock`, the host's clocks. Reading the wall clock makes a call impure: not memoised.
//! - `random`: module `random`, a repeatable stream of random bytes.
//! - `allocator` (on by default): an allocator whose first memory is there when a call begins. A plugin that brings a
//!   global allocator of its own turns it off; a library for plugins depends on this crate without it.
//! - `k8s-openapi`: its types are [`Kind`]s.
//! - `golden`: module `testing::golden`, for tests.

mod adapter;
mod admission;
#[cfg(all(target_arch = "wasm32", feature = "allocator"))]
mod allocator;
pub mod checks;
mod claim;
#[doc(hidden)]
pub mod compact;
mod custom_resource;
mod descriptor;
mod failure;
mod host;
mod json;
mod json_path;
pub mod kinds;
mod pod;
mod quantity;
pub mod raw;
mod request;
mod response;
mod rollout;
mod schema;
mod status;
#[cfg(not(target_family = "wasm"))]
pub mod testing;

#[cfg(feature = "clock")]
pub mod clock;
#[cfg(feature = "random")]
pub mod random;

pub use adapter::Adapter;
pub use admission::{Admission, Operation, Review, Verdict};
pub use claim::Claimed;
pub use custom_resource::CustomResource;
pub use descriptor::{Descriptor, Existing, Metric, Parent};
pub use host::{log, measure, span};
pub use kinds::Kind;
pub use quantity::{NotAQuantity, Quantity};
pub use raw::{Failure, Phase, UpdateStrategy};
pub use request::{Metadata, Object, Request};
pub use response::{ChildOptions, Event, Requirement, Response};
pub use rollout::{Rollout, Stage};
pub use serde_json::{Value, json};
pub use status::{Condition, ConditionStatus};

use serde::{Serialize, de::DeserializeOwned};

/// An operator: what it is, and what it wants.
pub trait Reconciler: Sized + 'static {
    /// The parent's `spec`. For a custom resource it also derives `JsonSchema`, and the CRD's schema comes from it.
    type Spec: DeserializeOwned;

    /// The plugin's part of the parent's `status`; `()` for none.
    type Status: Serialize;

    /// Says what the plugin is. Always the same answer.
    fn descriptor() -> Descriptor;

    /// Says what should exist because of one parent.
    ///
    /// # Errors
    ///
    /// [`Failure::invalid`] when the user's spec is wrong, [`Failure::retry`] when it is too early,
    /// [`Failure::failed`] for all else. Then nothing is written and nothing deleted.
    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure>;
}

/// Makes a [`Reconciler`] the plugin that this crate is, once in a crate. Outside wasm it is nothing, so that plain
/// `cargo test` works.
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

/// A [`CustomResource`] whose definition was made before: natively it is made from the types, and a component carries the
/// file instead of the code that makes it, which is a hundred kilobytes and more.
///
/// The file is JSON, lies where the path says (beside this source file, if it says nothing) and is written and checked by
/// `testing::golden::definition` (feature `golden`).
///
/// ```ignore
/// Descriptor::new("greeting", env!("CARGO_PKG_VERSION"), windlass_plugin::definition!("../crd.json", kind()))
/// ```
#[macro_export]
macro_rules! definition {
    ($file:literal, $kind:expr) => {
        if cfg!(target_family = "wasm") {
            const FILE: &[u8] = include_bytes!($file);
            static DEFINITION: [u8; $crate::compact::size(FILE)] = $crate::compact::bytes(FILE);
            $crate::Parent::defined_by(&DEFINITION)
        } else {
            $crate::Parent::from($kind)
        }
    };
}

/// Makes an [`Admission`] the judge of its parents, too, once in a crate and beside [`export!`]. The host does not serve
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
