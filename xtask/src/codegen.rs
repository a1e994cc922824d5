//! `cargo xtask codegen`: files that are generated from the code and committed.

use std::fs;
use std::process::Command;

use anyhow::{Context, bail};

use crate::run::{output, root, windlass};

/// Flags.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Change nothing; fail if a file differs from what would be generated
    #[arg(long)]
    check: bool,
}

/// The files, and the `windlass` arguments that print each.
const GENERATED: [(&str, &[&str]); 3] = [
    ("manifests/crds.yaml", &["crd"]),
    ("manifests/kustomize/rbac.yaml", &["generate", "rbac"]),
    ("docs/cli.md", &["generate", "cli-reference"]),
];

/// Writes or checks them.
pub fn main(args: &Args) -> anyhow::Result<()> {
    let root = root()?;
    let windlass = windlass()?;
    let mut stale = Vec::new();
    for (file, arguments) in GENERATED {
        // No setting of the caller's may end up in the files.
        let text = output(Command::new(&windlass).args(arguments).env_clear())?;
        let path = root.join(file);
        if fs::read_to_string(&path).is_ok_and(|found| found == text) {
            continue;
        }
        stale.push(file);
        if !args.check {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&path, text).with_context(|| format!("{file} cannot be written"))?;
            println!("wrote {file}");
        }
    }
    if args.check && !stale.is_empty() {
        bail!("not up to date: {}; run `cargo xtask codegen` and commit", stale.join(", "));
    }
    Ok(())
}
