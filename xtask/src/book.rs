//! `cargo xtask book`: builds the book from `docs/SUMMARY.md` with mdBook.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use windlass_book::SUMMARY;

use crate::run::{cargo, root, run};

/// The version of mdBook. `cargo install` builds it in a minute on two cores.
const VERSION: &str = "0.5.4";

/// Builds the book into `target/book/html`.
///
/// # Errors
/// If mdBook cannot be installed, or the book does not build.
pub fn main() -> anyhow::Result<()> {
    let root = root()?;
    let installed = Command::new("mdbook").arg("--version").output();
    if !installed.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(VERSION)) {
        println!("book: installing mdBook {VERSION} (once a machine, a minute)");
        run(cargo()
            .args(["install", "--locked", "--quiet", "mdbook", "--version", VERSION])
            .args(["--no-default-features", "--features", "search"])
            // Not in the repository, whose toolchain and target folder are its own.
            .current_dir(std::env::temp_dir()))?;
    }
    copy_sources(&root, &root.join("target/book/source"))?;
    run(Command::new("mdbook").arg("build").arg(&root))?;
    println!("book: target/book/html/index.html");
    Ok(())
}

/// Copies the pages of the book, and the files that they link to, to the same places in another folder.
fn copy_sources(root: &Path, folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    for path in windlass_book::listed()? {
        let page = windlass_book::page(&path)?;
        let linked = page.relative_links().map(|link| page.target(link).0).collect::<Vec<_>>();
        for file in linked.iter().chain([&path]).filter(|file| root.join(file).is_file()) {
            let to = folder.join(file);
            fs::create_dir_all(to.parent().context("a file in a folder")?)?;
            fs::copy(root.join(file), to).with_context(|| file.display().to_string())?;
        }
    }
    // mdBook expects the table of contents in the root of the source.
    let summary = windlass_book::page(Path::new(SUMMARY))?;
    let mut text = summary.text.clone();
    for link in &summary.links {
        text = text.replace(&format!("]({link})"), &format!("]({})", summary.target(link).0.display()));
    }
    fs::write(folder.join("SUMMARY.md"), text)?;
    Ok(())
}
