//! Makes a component of the core module that a compiler built.

use std::path::Path;

use anyhow::Context as _;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::contract::{ADMITTING_WORLD, WORLD};

/// The component of a module that Rust built. The module contains the description of its imports and exports.
///
/// # Errors
/// If the module does not export a plugin.
pub fn of_rust(module: &[u8]) -> anyhow::Result<Vec<u8>> {
    ComponentEncoder::default().module(module)?.encode().context("the module is not a plugin; does it call `export!`?")
}

/// The component of a module that Go built for WASI's first version, with bindings for the contract in the folder `wit`.
///
/// # Errors
/// If the module does not export a plugin.
pub fn of_go(mut module: Vec<u8>, wit: &Path) -> anyhow::Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit)?;
    // What the bindings of a plugin with admission export, beside the reconciler.
    let admission = resolve.id_of_name(package, "admission") + "#review";
    let admits = module.windows(admission.len()).any(|bytes| bytes == admission.as_bytes());
    let world = resolve.select_world(&[package], Some(if admits { ADMITTING_WORLD } else { WORLD }))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default()
        .module(&module)?
        .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?
        .encode()
        .context("the module is not a plugin; does it call `windlass.Register`?")
}
