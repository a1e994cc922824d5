//! The untyped contract: types and traits generated from `wit/`, for plugins that need more than the typed API has.
//!
//! Such a plugin implements [`exports::windlass::plugin::reconciler::Guest`] and exports it with
//! `windlass_plugin::raw::export_component!(MyType with_types_in windlass_plugin::raw)`. The WIT files have the
//! documentation.
#![allow(unsafe_code, missing_docs, unused_qualifications, clippy::all, clippy::pedantic, clippy::restriction)]

wit_bindgen::generate!({
    path: "wit",
    world: "plugin",
    additional_derives: [PartialEq, Clone],
    export_macro_name: "export_component",
    pub_export_macro: true,
});

pub use self::admission::exports::windlass::plugin::admission::{AdmissionRequest, Decision, Operation, Verdict};
pub use windlass::plugin::types::*;

/// The optional export `admission`: a world of its own, so that components without it do not mention it.
pub mod admission {
    wit_bindgen::generate!({
        inline: "package windlass:sdk; world admission { export windlass:plugin/admission@0.2.0-rc.1; }",
        path: "wit",
        world: "windlass:sdk/admission",
        with: { "windlass:plugin/types@0.2.0-rc.1": crate::raw::windlass::plugin::types },
        additional_derives: [PartialEq, Clone],
        export_macro_name: "export_admission_component",
        pub_export_macro: true,
    });
}
