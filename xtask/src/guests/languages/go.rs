//! Go, by the Go toolchain itself: bindings by wit-bindgen, a module for WASI's first version, and an adapter that
//! makes a component of it.

use std::fs;

use anyhow::{Context, Result};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use windlass_testbed::tools::{self, Go};
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_go::{Format, Opts};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

use super::{Places, WORLD};
use crate::run::run;

pub(super) fn build(places: &Places) -> Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(&places.wit)?;
    let world = resolve.select_world(&[package], Some(WORLD))?;

    let mut bindings = Files::default();
    Opts { format: Format::False, ..Opts::default() }.build().generate(&mut resolve, world, &mut bindings)?;
    for (name, content) in bindings.iter() {
        let path = places.source.join(name);
        // The guest's own go.mod pins what this one would have.
        if !path.exists() {
            fs::create_dir_all(path.parent().unwrap_or(&places.source))?;
            fs::write(&path, content)?;
        }
    }

    let module = places.work.join("module.wasm");
    let mut go = Go::find(&tools::stderr)?.command();
    go.env("GOOS", "wasip1").env("GOARCH", "wasm").current_dir(&places.source);
    go.args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-buildmode=c-shared"]);
    // The bindings' runtime takes memory from Go's own, which its linker refuses by default.
    go.args(["-ldflags=-s -w -checklinkname=0", "-o"]).arg(&module).arg(".");
    run(&mut go)?;

    let mut module = fs::read(module).context("go build made no module")?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default()
        .module(&module)?
        .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?
        .encode()
}
