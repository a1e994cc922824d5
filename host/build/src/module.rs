//! Makes a component of the core module that a compiler built.

use anyhow::Context as _;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::contract::{ADMITTING_WORLD, V0_1, WORLD, write_wit};

/// What the bindings of a plugin with admission export, beside the reconciler.
const ADMISSION_EXPORT: &[u8] = b"windlass:plugin/admission@0.1.0#review";

/// The component of a module that Rust built. The module contains the description of its imports and exports.
///
/// # Errors
/// If the module does not export a plugin.
pub fn of_rust(module: &[u8]) -> anyhow::Result<Vec<u8>> {
    ComponentEncoder::default().module(module)?.encode().context("the module is not a plugin; does it call `export!`?")
}

/// The component of a module that Go built for WASI's first version. `folder` is for files.
///
/// # Errors
/// If the module does not export a plugin.
pub fn of_go(mut module: Vec<u8>, folder: &std::path::Path) -> anyhow::Result<Vec<u8>> {
    let wit = folder.join("wit");
    write_wit(&V0_1, &wit)?;
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(&wit)?;
    let admits = module.windows(ADMISSION_EXPORT.len()).any(|bytes| bytes == ADMISSION_EXPORT);
    let world = resolve.select_world(&[package], Some(if admits { ADMITTING_WORLD } else { WORLD }))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default()
        .module(&module)?
        .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?
        .encode()
        .context("the module is not a plugin; does it call `windlass.Register`?")
}
