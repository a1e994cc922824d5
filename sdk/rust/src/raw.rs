//! The contract as it is: types and traits generated from `wit/`, for what the typed API does not express.
//!
//! A plugin that goes this way implements [`exports::windlass::plugin::reconciler::Guest`] and exports it with
//! `windlass_plugin::raw::export_component!(MyType with_types_in windlass_plugin::raw)`. Everything is documented in
//! the WIT files themselves.
#![allow(unsafe_code, missing_docs, unused_qualifications, clippy::all, clippy::pedantic, clippy::restriction)]

wit_bindgen::generate!({
    path: "../../wit",
    world: "plugin",
    additional_derives: [PartialEq, Clone],
    export_macro_name: "export_component",
    pub_export_macro: true,
});

pub use windlass::plugin::types::*;
