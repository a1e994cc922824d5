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

pub use self::admission::exports::windlass::plugin::admission::{AdmissionRequest, Operation, Verdict};
pub use windlass::plugin::types::*;

/// The optional export `admission`: a world of its own, so that a plugin without it does not speak of it.
pub mod admission {
    wit_bindgen::generate!({
        inline: "package windlass:sdk; world admission { export windlass:plugin/admission@0.1.0; }",
        path: "../../wit",
        world: "windlass:sdk/admission",
        with: { "windlass:plugin/types@0.1.0": crate::raw::windlass::plugin::types },
        additional_derives: [PartialEq, Clone],
        export_macro_name: "export_admission_component",
        pub_export_macro: true,
    });
}
