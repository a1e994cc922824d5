//! The untyped contract 0.1, which the SDK does not speak any more: types and traits generated from `wit/0.1`.
#![allow(unsafe_code, missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]

wit_bindgen::generate!({
    path: "../../wit/0.1",
    world: "plugin",
    additional_derives: [PartialEq, Clone],
    export_macro_name: "export_component",
    pub_export_macro: true,
});

pub use windlass::plugin::{host, types::*};
