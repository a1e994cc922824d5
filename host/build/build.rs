//! Embeds the SDKs and the templates of projects: `windlass new` needs no other file than the program.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Files and folders that tools leave behind.
const LEFTOVERS: [&str; 5] = ["__pycache__", "build", "node_modules", "package-lock.json", "target"];
/// Tests of the SDKs themselves, and the sources of what `js/dist` has compiled.
const LEFT_OUT: [&str; 7] =
    ["js/src", "js/test", "js/tsconfig.json", "python/tests", "rust/tests", "_test.go", "testdata"];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut code = String::new();
    for (name, folder, left_out) in
        [("SDKS", here.join("../../sdk"), &LEFT_OUT[..]), ("TEMPLATES", here.join("templates"), &[])]
    {
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files = Vec::new();
        collect(&folder.canonicalize()?, Path::new(""), &mut files)?;
        files.retain(|(path, _)| {
            let path = path.to_string_lossy();
            !left_out.iter().any(|part| path.ends_with(part) || path.contains(&format!("{part}/")))
        });
        files.sort();
        let _ = writeln!(code, "static {name}: &[(&str, &str)] = &[");
        for (path, file) in files {
            let [path, file] = [path, file].map(|path| path.to_string_lossy().into_owned());
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
        let is_skipped = LEFTOVERS.contains(&&*text)
            || text.starts_with('.') && text != ".gitignore"
            || [".egg-info", ".tsbuildinfo", ".pyc"].iter().any(|end| text.ends_with(end));
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
