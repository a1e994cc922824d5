//! Writes components, and makes a guest of WebAssembly text.

use std::{fs, io, path::Path};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use wasmparser::{Validator, WasmFeatures};

use super::Guest;

/// Wraps a module, which contains the description of its imports and exports.
pub(super) fn make(module: &Path, path: &Path) -> Result<Guest> {
    let bytes = fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    let component = windlass_build::of_rust(&bytes)?;
    check(&component)?;
    write(&component, path)
}

/// Validates a component with the features that the host supports.
pub(super) fn check(component: &[u8]) -> Result<()> {
    // Threads, garbage collection and relaxed SIMD are off, as in the host's engine. Python's libraries need extended
    // constant expressions.
    let features = WasmFeatures::WASM2 | WasmFeatures::EXTENDED_CONST | WasmFeatures::COMPONENT_MODEL;
    Validator::new_with_features(features).validate_all(component)?;
    Ok(())
}

/// Assembles WebAssembly text. The result need not be a valid component: the host must find that out.
pub(super) fn assemble(text: &Path, path: &Path) -> Result<Guest> {
    write(&wat::parse_file(text)?, path)
}

/// Writes a guest if its bytes changed: an unchanged file keeps its time, so that no host reloads it.
pub(super) fn write(bytes: &[u8], path: &Path) -> Result<Guest> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if existing(path)?.as_deref() != Some(bytes) {
        // The rename is atomic: a host that watches the folder never reads an incomplete component.
        let part = path.with_extension("part");
        fs::write(&part, bytes)?;
        fs::rename(&part, path)?;
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let digest = format!("sha256:{}", hex::encode(Sha256::digest(bytes)));
    Ok(Guest { name, path: path.to_owned(), size: bytes.len() as u64, digest })
}

fn existing(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
