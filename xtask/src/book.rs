//! `cargo xtask book`: builds the book from `docs/SUMMARY.md` with mdBook, and the API references of the SDKs, to which it links.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use windlass_book::{Page, SUMMARY};

use crate::references;
use crate::run::{cargo, root, run};

/// The version of mdBook.
const VERSION: &str = "0.5.4";

/// Where the summary lists the SDK for Go. Below it, the book has the pages of its reference.
const GO: &str = "(sdk/go/README.md)";

/// Builds the book into `target/book/html`.
///
/// # Errors
/// If a tool cannot be installed, if the book or a reference does not build, or if a public name of an SDK has no documentation.
pub fn main() -> anyhow::Result<()> {
    let root = root()?;
    let installed = Command::new("mdbook").arg("--version").output();
    if !installed.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(VERSION)) {
        println!("book: installing mdBook {VERSION} (once a machine, a minute)");
        run(cargo()
            // Not optimised: the tool runs for a few seconds, and its build is shorter.
            .args(["install", "--debug", "--locked", "--quiet", "mdbook", "--version", VERSION])
            .args(["--no-default-features", "--features", "search"])
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            // Not in the repository, whose toolchain and target folder are its own.
            .current_dir(std::env::temp_dir()))?;
    }
    let (source, html) = (root.join("target/book/source"), root.join("target/book/html"));
    copy_sources(&root, &source)?;
    run(Command::new("mdbook").arg("build").arg(&root))?;
    // mdBook empties the folder, so these come later.
    references::html(&root, &html.join("reference"))?;
    for (_, page) in references::PAGES {
        ensure!(html.join(page).is_file(), "the book links to {page}, and no tool wrote it");
    }
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
    // After all copies: a page may be what another one links to.
    for path in windlass_book::listed()? {
        fs::write(folder.join(&path), with_references(&windlass_book::page(&path)?))?;
    }
    // mdBook expects the table of contents in the root of the source.
    let summary = windlass_book::page(Path::new(SUMMARY))?;
    let mut text = summary.text.clone();
    for link in &summary.links {
        text = text.replace(&format!("]({link})"), &format!("]({})", summary.target(link).0.display()));
    }
    let packages = references::go(root, &folder.join("reference/go"))?;
    let text = with_packages(&text, &packages).context("docs/SUMMARY.md does not list the SDK for Go")?;
    fs::write(folder.join("SUMMARY.md"), text)?;
    Ok(())
}

/// The text of a page whose links to the source of an SDK lead to its reference instead.
fn with_references(page: &Page) -> String {
    let up = "../".repeat(page.path.components().count().saturating_sub(1));
    let mut text = page.text.clone();
    for link in page.relative_links() {
        let (file, _) = page.target(link);
        if let Some((_, reference)) = references::PAGES.iter().find(|(source, _)| file == Path::new(source)) {
            text = text.replace(&format!("]({link})"), &format!("]({up}{reference})"));
        }
    }
    text
}

/// The table of contents with the packages of the SDK for Go, in this order.
fn with_packages(summary: &str, packages: &[String]) -> Option<String> {
    let line = summary.lines().find(|line| line.contains(GO))?;
    let indent = line.len() - line.trim_start().len();
    let mut lines = vec![line.to_owned()];
    lines.extend(packages.iter().map(|name| format!("{:indent$}  - [Package {name}](reference/go/{name}.md)", "")));
    Some(summary.replace(line, &lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_the_source_of_an_sdk_lead_to_its_reference() {
        let page = Page::parse(
            "docs/tutorial.md".into(),
            "[a](../sdk/rust/src/lib.rs) [b](../sdk/rust/src/failure.rs)".into(),
        );
        let expected = "[a](../reference/rust/windlass_plugin/index.html) [b](../sdk/rust/src/failure.rs)";
        assert_eq!(with_references(&page), expected);
    }

    #[test]
    fn packages_are_listed_below_the_sdk_for_go() {
        let summary = "- [SDKs](docs/sdks.md)\n  - [Go](sdk/go/README.md)\n- [End](docs/end.md)\n";
        let expected = "- [SDKs](docs/sdks.md)\n  - [Go](sdk/go/README.md)\n    - [Package log](reference/go/log.md)\n- [End](docs/end.md)\n";
        assert_eq!(with_packages(summary, &["log".to_owned()]).as_deref(), Some(expected));
        assert_eq!(with_packages("", &[]), None);
    }
}
