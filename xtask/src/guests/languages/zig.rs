//! Zig, on the bindings that wit-bindgen makes for C: for every language that can call C functions, the contract is a header.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use wit_bindgen_c::Opts;
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;

use super::{Places, WORLD};
use crate::{run::run, venv};

/// The folder of the contract. It is here, and not with the list of languages, so that a change of it rebuilds the guests.
pub(super) const CONTRACT: &str = "wit/0.2";
/// The compiler with its C library, and its version.
pub(super) const REQUIREMENTS: &str = include_str!("zig/requirements.txt");

/// The versions of the crates that make the bindings and the component, as `Cargo.lock` has them.
pub(super) fn versions(root: &Path) -> Result<String> {
    super::crates(root, &["wit-bindgen-c", "wit-bindgen-core", "wit-component", "wit-parser"])
}

pub(super) fn build(places: &Places) -> Result<Vec<u8>> {
    write_bindings(places)?;
    let zig = Zig { python: venv::with(&places.tools.join("ziglang"), REQUIREMENTS)?.join("python3"), places };

    let mut translate = zig.command("translate-c");
    translate.args(["-target", TARGET, "-lc", "plugin.h"]);
    let bindings = crate::run::output(&mut translate)?;
    fs::write(places.source.join("bindings.zig"), bindings)?;

    let module = places.work.join("module.wasm");
    let mut build = zig.command("build-exe");
    build.args(["-target", TARGET, "-lc", "-mexec-model=reactor", "-OReleaseSmall", "-fstrip"]);
    build.args(["plugin.c", "plugin_component_type.o", "main.zig"]).arg(format!("-femit-bin={}", module.display()));
    run(&mut build)?;
    windlass_build::of_rust(&fs::read(module).context("zig made no module")?)
}

const TARGET: &str = "wasm32-wasi";

/// Writes `plugin.h`, `plugin.c`, and an object file that describes the module's imports and exports, next to the source.
fn write_bindings(places: &Places) -> Result<()> {
    let mut resolve = Resolve::default();
    let (mut package, _) = resolve.push_path(&places.wit)?;
    // A guest that imports more than the contract has a world of its own.
    let own = places.source.join(WORLD).with_extension("wit");
    if own.is_file() {
        package = resolve.push_path(own)?.0;
    }
    let world = resolve.select_world(&[package], Some(WORLD))?;
    let mut bindings = Files::default();
    Opts::default().build().generate(&mut resolve, world, &mut bindings)?;
    for (name, content) in bindings.iter() {
        fs::write(places.source.join(name), content)?;
    }
    Ok(())
}

struct Zig<'a> {
    python: PathBuf,
    places: &'a Places,
}

impl Zig<'_> {
    fn command(&self, command: &str) -> Command {
        let mut zig = Command::new(&self.python);
        zig.args(["-m", "ziglang", command]).current_dir(&self.places.source);
        // Only the C library, which takes seconds to build, is the same for the next guest.
        zig.env("ZIG_GLOBAL_CACHE_DIR", self.places.tools.join("ziglang/cache"));
        zig.env("ZIG_LOCAL_CACHE_DIR", self.places.work.join("cache"));
        zig
    }
}
