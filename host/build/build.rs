//! Embeds the SDKs and the templates of projects: `windlass new` needs no other file than the program.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Files and folders that tools leave behind, and tests of the SDKs themselves.
const SKIPPED: [&str; 8] =
    ["__pycache__", "build", "node_modules", "package-lock.json", "target", "test", "testdata", "tests"];
/// The sources of what `js/dist` has compiled.
const SOURCES: [&str; 2] = ["js/src", "js/tsconfig.json"];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut code = String::new();
    for (name, folder) in [("SDKS", here.join("../../sdk")), ("TEMPLATES", here.join("templates"))] {
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files = Vec::new();
        collect(&folder.canonicalize()?, Path::new(""), &mut files)?;
        files.sort();
        let _ = writeln!(code, "static {name}: &[(&str, &str)] = &[");
        for (path, file) in files {
            let _ = writeln!(code, "    ({path:?}, include_str!({file:?})),");
        }
        code.push_str("];\n");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("files.rs"), code)
}

/// Collects the files below a folder: their paths within it, and in the file system.
fn collect(folder: &Path, within: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        let (text, within) = (name.to_string_lossy(), within.join(&name));
        let is_source = folder.ends_with("sdk/js") && SOURCES.iter().any(|source| within.as_os_str() == *source);
        let is_skipped = is_source
            || SKIPPED.contains(&&*text)
            || text.starts_with('.') && text != ".gitignore"
            || [".egg-info", "_test.go", ".test.js", ".tsbuildinfo", ".pyc"].iter().any(|end| text.ends_with(end));
        if is_skipped {
            continue;
        }
        if path.is_dir() {
            collect(&path, &within, files)?;
        } else {
            files.push((within, path));
        }
    }
    Ok(())
}
