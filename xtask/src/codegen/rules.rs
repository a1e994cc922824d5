//! docs/reconcile-rules.md: lists, below each rule, its tests in the sources.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

/// The page. Its text is written by hand; the lists of tests are generated.
pub const PAGE: &str = "docs/reconcile-rules.md";
/// The folders whose tests are listed.
const SOURCES: [&str; 3] = ["host", "sdk", "tests"];
/// The line before a list. The list ends with the next heading, or with the page.
const MARKER: &str = "<!-- tests -->\n";

/// Tests by the number of their rule and by file.
type Tests = BTreeMap<u32, BTreeMap<String, Vec<String>>>;

/// The page with the current lists.
///
/// # Errors
/// If a rule has no test, or a test names a rule that the page does not have.
pub fn page(root: &Path) -> anyhow::Result<String> {
    let mut tests = Tests::new();
    for folder in SOURCES {
        collect(root, &root.join(folder), &mut tests)?;
    }
    let text = fs::read_to_string(root.join(PAGE)).with_context(|| format!("{PAGE} cannot be read"))?;
    let mut sections = text.split("\n## ");
    let mut page = sections.next().unwrap_or_default().to_owned();
    for section in sections {
        let title = section.lines().next().unwrap_or_default();
        let number = title.split(' ').next().and_then(|name| name.strip_prefix('R')?.parse().ok());
        let number: u32 = number.with_context(|| format!("{PAGE}: \"{title}\" does not begin with a rule's number"))?;
        let Some((rule, _)) = section.split_once(MARKER) else {
            bail!("{PAGE}: R{number} has no line {}", MARKER.trim_end())
        };
        let Some(files) = tests.remove(&number) else { bail!("{PAGE}: R{number} has no test") };
        write!(page, "\n## {rule}{MARKER}")?;
        for (file, names) in files {
            writeln!(page, "- `{file}`: {}", names.join(", "))?;
        }
    }
    if let Some((number, files)) = tests.pop_first() {
        bail!("{PAGE}: there are tests of R{number}, but no such rule: {files:?}");
    }
    Ok(page)
}

fn collect(root: &Path, folder: &Path, tests: &mut Tests) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                collect(root, &path, tests)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let file = path.strip_prefix(root)?.display().to_string();
            for (number, name) in fs::read_to_string(&path)?.lines().filter_map(test) {
                tests.entry(number).or_default().entry(file.clone()).or_default().push(format!("`{name}`"));
            }
        }
    }
    Ok(())
}

/// A function whose name begins with a rule's number, such as `r07_…`.
fn test(line: &str) -> Option<(u32, &str)> {
    let line = line.trim_start();
    let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?.split('(').next()?;
    let (number, _) = name.strip_prefix('r')?.split_once('_')?;
    let number = if number.len() == 2 { number.parse().ok()? } else { return None };
    Some((number, name))
}

#[cfg(test)]
mod tests {
    use super::test;

    #[test]
    fn tests_of_a_rule_are_found_by_the_prefix_of_their_names() {
        assert_eq!(test("    fn r07_nothing_is_sent() {"), Some((7, "r07_nothing_is_sent")));
        assert_eq!(test("    async fn r13_waits() {"), Some((13, "r13_waits")));
        assert_eq!(test("fn ready() {"), None);
        assert_eq!(test("// fn r07_nothing_is_sent() {"), None);
        assert_eq!(test("fn r7_short() {"), None);
    }
}
