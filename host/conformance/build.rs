//! Embeds the cases: `windlass test --conformance` needs no other file than the program.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut code = String::new();
    for (name, folder) in [("ANY", "any"), ("PROBE", "probe/cases")] {
        println!("cargo::rerun-if-changed={folder}");
        let _ = writeln!(code, "static {name}: &[(&str, &str)] = &[");
        for file in files(&here.join(folder))? {
            let stem = file.file_stem().unwrap_or_default().to_string_lossy();
            let file = file.to_string_lossy();
            let _ = writeln!(code, "    ({stem:?}, include_str!({file:?})),");
        }
        code.push_str("];\n");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("files.rs"), code)
}

/// The files of a folder, sorted.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}
