//! The documentation's links resolve, its pages are in the book, its commands are run or say why not, and each reason of a
//! condition is explained.

#![allow(clippy::expect_used, clippy::panic, reason = "a test ends by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use windlass_book::{Mark, SUMMARY, listed, page, pages, root};
use windlass_core::object::reason::{ParentReason, PluginReason};

#[test]
fn every_relative_link_and_anchor_resolves() {
    let mut broken = Vec::new();
    let mut links = 0;
    for from in pages().expect("readable pages") {
        for link in from.relative_links() {
            links += 1;
            let (file, anchor) = from.target(link);
            let is_good = root().join(&file).exists()
                && anchor.is_none_or(|anchor| page(&file).is_ok_and(|to| to.anchors.contains(&anchor)));
            if !is_good {
                broken.push(format!("{}: {link}", from.path.display()));
            }
        }
    }
    assert!(links > 300, "too few links found: {links}");
    assert_eq!(broken, Vec::<String>::new(), "these links lead nowhere");
}

#[test]
fn every_page_in_docs_is_in_the_table_of_contents() {
    let listed = listed().expect("a table of contents");
    let pages = pages().expect("readable pages");
    let in_docs = pages.iter().map(|page| &page.path).filter(|path| path.starts_with("docs"));
    let missing: Vec<_> = in_docs.filter(|path| *path != Path::new(SUMMARY) && !listed.contains(*path)).collect();
    assert_eq!(missing, Vec::<&PathBuf>::new(), "{SUMMARY} does not list these pages");
}

#[test]
fn code_in_the_readme_is_that_of_the_plugin() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect(path);
    let (readme, plugin) = (read("README.md"), read("plugins/echo/python/echo.py"));
    let shown =
        readme.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```")).expect("a block in Python").0;
    let method = shown.lines().map(|line| format!("    {line}\n").replace("    \n", "\n")).collect::<String>();
    assert!(plugin.ends_with(&method), "README.md shows another function than plugins/echo/python/echo.py");
}

/// A forge shows folders and every page of the repository; the book has only what its table of contents lists.
#[test]
fn links_of_the_books_pages_lead_to_pages_of_the_book_or_to_other_files() {
    let listed = listed().expect("a table of contents");
    let mut outside = Vec::new();
    for path in &listed {
        let from = page(path).expect("a page");
        for link in from.relative_links() {
            let (file, _) = from.target(link);
            let is_page = file.extension().is_some_and(|extension| extension == "md");
            if (is_page && !listed.contains(&file)) || root().join(&file).is_dir() {
                outside.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert_eq!(outside, Vec::<String>::new(), "{SUMMARY} does not list these pages, or these are folders");
}

#[test]
fn every_block_of_commands_is_run_by_a_test_or_gives_the_reason_why_not() {
    let mut unmarked = Vec::new();
    let mut blocks = 0;
    for page in pages().expect("readable pages") {
        for block in page.commands() {
            blocks += 1;
            let is_good = match &block.mark {
                // Each of these tests follows the pages that it names.
                Some(Mark::Run) => ["book", "tutorials"].iter().any(|test| {
                    let file = Path::new("tests/e2e/tests").join(test).with_extension("rs");
                    is_in(&file, &format!("\"{}\"", page.path.display()))
                }),
                Some(Mark::RunBy { file, test }) => is_in(file, &format!("fn {test}(")),
                Some(Mark::NotRun { .. }) => true,
                Some(_) | None => false,
            };
            if !is_good {
                unmarked.push(format!("{}:{}: {:?}", page.path.display(), block.line, block.mark));
            }
        }
    }
    assert!(blocks > 40, "too few blocks found: {blocks}");
    assert_eq!(
        unmarked,
        Vec::<String>::new(),
        "the line before a block of commands is a mark (see tests/book/src/lib.rs), and a named test exists"
    );
}

#[test]
fn every_mark_of_a_block_is_a_known_one() {
    let pages = pages().expect("readable pages");
    let blocks = pages.iter().flat_map(|page| page.blocks.iter().map(move |block| (page, block)));
    let unknown = blocks.filter_map(|(page, block)| match &block.mark {
        Some(Mark::Unknown(comment)) => Some(format!("{}:{}: {comment}", page.path.display(), block.line)),
        _ => None,
    });
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<String>::new(), "see tests/book/src/lib.rs");
}

fn is_in(file: &Path, text: &str) -> bool {
    fs::read_to_string(root().join(file)).is_ok_and(|source| source.contains(text))
}

#[test]
fn every_reason_of_a_condition_has_a_section_in_troubleshooting() {
    let plugins: Vec<_> = PluginReason::ALL.iter().map(|reason| reason.as_str()).collect();
    let parents: Vec<_> = ParentReason::ALL.iter().map(|reason| reason.as_str()).collect();
    for (file, reasons) in [("plugins", plugins), ("parents", parents)] {
        let page = page(&Path::new("docs/troubleshooting").join(file).with_extension("md")).expect("a page");
        let sections: Vec<_> = page.text.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        for reason in &reasons {
            assert!(sections.contains(reason), "{} has no section {reason}", page.path.display());
            // Other pages and messages link to it.
            assert!(page.anchors.contains(&reason.to_lowercase()), "{} has no anchor {reason}", page.path.display());
        }
        for section in sections {
            let path = page.path.display();
            assert!(reasons.contains(&section), "{path} has a section {section}, but no condition has this reason");
        }
    }
}

/// The text of a file of the repository.
fn file(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The version of a crate in Cargo.lock.
fn locked(name: &str) -> String {
    let lock = file("Cargo.lock");
    let (_, entry) = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).expect("a locked crate");
    entry.split_once('"').expect("a version").0.to_owned()
}

/// What SECURITY.md promises about wasmtime is true of the requirement, the locked version and the scheduled workflow.
#[test]
fn wasmtime_is_of_the_series_that_the_security_policy_names_and_is_checked_every_day() {
    let policy = file("SECURITY.md");
    let (_, series) = policy.split_once("from its long-term support series ").expect("the series");
    let series = series.split_once('.').expect("the end of the sentence").0;
    let manifest = file("Cargo.toml");
    for name in ["wasmtime", "wasmtime-wasi"] {
        let requirement = manifest.lines().find(|line| line.starts_with(&format!("{name} = "))).expect("a requirement");
        // A caret requirement: a patch release needs no change of the manifest, and another series does.
        assert!(requirement.contains(&format!("version = \"{series}.")), "{requirement}");
        assert!(locked(name).starts_with(&format!("{series}.")), "{name} {}", locked(name));
    }
    assert_eq!(locked("wasmtime"), locked("wasmtime-wasi"));
    let (_, listed) = policy.split_once("This version contains wasmtime ").expect("the version");
    assert!(
        listed.starts_with(&format!("{}. ", locked("wasmtime"))),
        "SECURITY.md lists the advisories of another version"
    );

    let workflow = file(".github/workflows/advisories.yaml");
    for part in ["schedule:", "cargo deny", "wasmtime-is-newest", "issues: write", "gh issue create"] {
        assert!(workflow.contains(part), "the workflow lacks {part}");
    }
    let uses = workflow.lines().filter_map(|line| line.trim().strip_prefix("- uses: "));
    for action in uses {
        let (_, version) = action.split_once('@').expect("a version");
        let commit: String = version.chars().take_while(char::is_ascii_hexdigit).collect();
        assert_eq!(commit.len(), 40, "{action} is not pinned by a commit");
    }
    // The script asks for releases that Cargo.toml allows, and for no change.
    assert!(file(".github/scripts/wasmtime-is-newest").contains("cargo update --dry-run"));
}
