//! The API references of the SDKs, each made by the documentation tool of its language from the comments in the source.
//!
//! A public name without a comment is an error in every language: clippy checks it in Rust (`missing_docs`), `doc_test.go` in Go,
//! `TypeDoc` in JavaScript, and `test_reference.py` in Python.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use windlass_testbed::tools::{self, Go};

use crate::run::{cargo, run};
use crate::{npm, sdks};

/// What the book links to as a file of an SDK's source, and what takes its place in the built book: the reference.
pub const PAGES: [(&str, &str); 4] = [
    ("sdk/rust/src/lib.rs", "reference/rust/windlass_plugin/index.html"),
    ("sdk/go/doc.go", "reference/go/windlass.html"),
    ("sdk/js/src/index.ts", "reference/js/index.html"),
    ("sdk/python/src/windlass_plugin/__init__.py", "reference/python/windlass_plugin.html"),
];

/// Modules of the SDK for Python. pdoc finds those that `__all__` of the first one names.
const PYTHON: [&str; 5] = [
    "windlass_plugin",
    "windlass_plugin.admission",
    "windlass_plugin.types",
    "windlass_plugin.testing",
    "windlass_plugin.testing.golden",
];

/// Entry points of the SDK for JavaScript, as `exports` of its `package.json` has them.
const JAVASCRIPT: [&str; 3] = ["index.ts", "component.ts", "testing/index.ts"];

/// Writes the reference of the SDK for Go into a folder, as pages for the book. Returns their names; the first is that of the
/// package that every plugin imports.
///
/// # Errors
/// If there is no Go, or the source cannot be parsed.
pub fn go(root: &Path, out: &Path) -> Result<Vec<String>> {
    let go = Go::find(&tools::stderr)?;
    let program = root.join("target/tools/go-reference");
    run(go.command().arg("build").arg("-o").arg(&program).arg(".").current_dir(root.join("xtask/src/references/go")))?;
    run(Command::new(program).arg(out).arg(go.path()).current_dir(root.join("sdk/go")))?;
    let mut pages = fs::read_dir(out)?
        .map(|entry| Ok(entry?.path().file_stem().unwrap_or_default().to_string_lossy().into_owned()))
        .collect::<Result<Vec<_>>>()?;
    pages.sort_by_key(|page| (page != "windlass", page.clone()));
    Ok(pages)
}

/// Writes the references of the other SDKs into a folder of HTML.
///
/// # Errors
/// If a tool is missing or reports a problem.
pub fn html(root: &Path, out: &Path) -> Result<()> {
    rust(root, &out.join("rust"))?;
    run(typedoc(root)?.arg("--out").arg(out.join("js")))?;
    let mut pdoc = Command::new(sdks::python(root)?.join("pdoc"));
    pdoc.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", root.join("sdk/python/src"));
    run(pdoc.arg("--output-directory").arg(out.join("python")).args(PYTHON))
}

/// Documents the crate alone, so that its search finds nothing else. Compiled dependencies are those of the workspace.
fn rust(root: &Path, out: &Path) -> Result<()> {
    let compiled = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let documented = root.join("target/book/rustdoc");
    if documented.exists() {
        fs::remove_dir_all(&documented)?;
    }
    let mut doc = cargo();
    doc.args(["doc", "--quiet", "--locked", "--package", "windlass-plugin", "--no-deps"]).current_dir(root);
    doc.args(["--all-features", "--features", "k8s-openapi/v1_33"]);
    doc.env("CARGO_TARGET_DIR", &documented).env("CARGO_BUILD_BUILD_DIR", compiled);
    run(doc.env("RUSTDOCFLAGS", "--deny warnings"))?;
    fs::create_dir_all(out.parent().unwrap_or(out))?;
    fs::rename(documented.join("doc"), out).context("cargo doc wrote no documentation")
}

/// Fails if a public name of the SDK for JavaScript has no comment, or a comment links to nothing.
///
/// # Errors
/// If `TypeDoc` cannot be installed, or reports a problem.
pub fn check_javascript(root: &Path) -> Result<()> {
    run(typedoc(root)?.args(["--emit", "none"]))
}

/// `TypeDoc` for the SDK for JavaScript. `TypeDoc` needs a compiler of its own: it is written for the one in JavaScript.
fn typedoc(root: &Path) -> Result<Command> {
    let sdk = root.join("sdk/js");
    npm::install(&sdk)?;
    let (package, lock) = (include_str!("js/package.json"), include_str!("js/package-lock.json"));
    let programs = npm::with(&root.join("target/tools/typedoc"), package, lock)?;
    let mut typedoc = Command::new(programs.join("typedoc"));
    typedoc.arg("--options").arg(root.join("xtask/src/references/js/typedoc.json")).current_dir(&sdk);
    typedoc.args(JAVASCRIPT.map(|entry| format!("src/{entry}")));
    Ok(typedoc)
}
