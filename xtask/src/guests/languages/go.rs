//! Go, by the Go toolchain itself. A guest on the bare contract gets bindings by wit-bindgen.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use windlass_build::Tools;
use windlass_testbed::tools::{self, Go};
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_go::{Format, Opts};

use super::{Places, WORLD};
use crate::run::run;

/// The crates of this program that have a part in what is built.
const CRATES: [&str; 5] =
    ["wasi-preview1-component-adapter-provider", "wit-bindgen-core", "wit-bindgen-go", "wit-component", "wit-parser"];

/// The toolchain's version, and those of the crates as `Cargo.lock` has them.
pub(super) fn versions(root: &Path) -> Result<String> {
    let crates = super::crates(root, &CRATES)?;
    let go = Go::find(&tools::stderr)?.command().arg("version").output()?;
    ensure!(go.status.success(), "go version: {}", go.status);
    Ok(crates + &String::from_utf8_lossy(&go.stdout))
}

/// The folder of the Go program that other tools of this repository use as well.
pub(super) fn tools(_places: &Places) -> Result<Tools> {
    let go = Go::find(&tools::stderr)?.command();
    let program = Path::new(go.get_program());
    Ok(Tools { folders: program.parent().map(Path::to_owned).into_iter().collect(), ..Tools::default() })
}

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

    windlass_build::of_go(fs::read(module).context("go build made no module")?, &places.wit)
}
