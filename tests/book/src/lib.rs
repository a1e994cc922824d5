//! The documentation as data: pages with their links, anchors and fenced blocks.
//!
//! A block of shell commands (a fence with the language `sh`) has a *mark*: an HTML comment on the line before it.
//!
//! | mark | meaning |
//! |---|---|
//! | `<!-- run -->` | a test that follows the page runs the block: `tests/e2e/tests/{book,tutorials}.rs` |
//! | `<!-- run by: tests/e2e/tests/oci.rs, name_of_a_test -->` | this test runs the same commands |
//! | `<!-- not run: needs a container engine -->` | no test runs the block, for this reason |
//!
//! Other blocks may have a mark, for the test that follows the page:
//!
//! | mark | meaning |
//! |---|---|
//! | `<!-- prints -->` | the commands before it print these lines in this order; `…` stands for any text or any lines |
//! | `<!-- content of: main.go -->` | the file has this content |
//! | `<!-- part of: src/lib.rs -->` | the file has these lines; of a `diff`, those without `-` |
//! | `<!-- write to: cases/shout.yaml -->` | the reader writes this file |
//! | `<!-- apply to: main.go -->` | the reader replaces the lines of this `diff` |
//! | `<!-- not checked: the times differ -->` | the test does nothing with the block, for this reason |

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The table of contents of the book.
pub const SUMMARY: &str = "docs/SUMMARY.md";

/// A page of the documentation.
#[derive(Debug)]
pub struct Page {
    /// Relative to the repository's root.
    pub path: PathBuf,
    /// Its source.
    pub text: String,
    /// Targets of its links, as written.
    pub links: Vec<String>,
    /// Anchors of its headings, as forges and mdBook derive them.
    pub anchors: BTreeSet<String>,
    /// Its fenced blocks.
    pub blocks: Vec<Block>,
    /// Code within its text, such as a command in a sentence.
    pub code: Vec<String>,
}

/// A fenced block.
#[derive(Debug)]
pub struct Block {
    /// The line of its fence, from 1.
    pub line: usize,
    /// Its language: `sh`, `yaml`.
    pub language: String,
    /// What a test does with it; `None` if the block has no mark.
    pub mark: Option<Mark>,
    /// Its text.
    pub text: String,
}

/// What a test does with a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// The test that follows the page runs it.
    Run,
    /// The commands before it print it.
    Prints,
    /// It is the content of this file.
    Content(PathBuf),
    /// It is a part of this file.
    Part(PathBuf),
    /// The reader writes it to this file.
    Write(PathBuf),
    /// The reader changes this file so.
    Apply(PathBuf),
    /// A test runs the same commands.
    RunBy {
        /// Relative to the repository's root.
        file: PathBuf,
        /// The name of the test function.
        test: String,
    },
    /// No test runs it.
    NotRun {
        /// The reason.
        reason: String,
    },
    /// The test that follows the page does nothing with it, for this reason.
    NotChecked(String),
    /// A comment that is no mark: a mistyped one would silently check nothing.
    Unknown(String),
}

impl Mark {
    /// The mark in a comment; none if the text is no comment.
    fn parse(html: &str) -> Option<Self> {
        let comment = html.trim().strip_prefix("<!--")?.strip_suffix("-->")?.trim();
        let (verb, object) = comment.split_once(':').unwrap_or((comment, ""));
        let object = object.trim();
        Some(match (verb, object) {
            ("run", "") => Self::Run,
            ("prints", "") => Self::Prints,
            ("run by", by) if by.contains(',') => {
                let (file, test) = by.split_once(',').unwrap_or_default();
                Self::RunBy { file: file.trim().into(), test: test.trim().to_owned() }
            }
            ("not run", reason) if !reason.is_empty() => Self::NotRun { reason: reason.to_owned() },
            ("not checked", reason) if !reason.is_empty() => Self::NotChecked(reason.to_owned()),
            ("content of", file) if !file.is_empty() => Self::Content(file.into()),
            ("part of", file) if !file.is_empty() => Self::Part(file.into()),
            ("write to", file) if !file.is_empty() => Self::Write(file.into()),
            ("apply to", file) if !file.is_empty() => Self::Apply(file.into()),
            _ => Self::Unknown(comment.to_owned()),
        })
    }
}

/// The repository's root.
pub fn root() -> PathBuf {
    normal(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

/// All pages of the documentation: those in `docs`, and those that [`SUMMARY`] lists.
///
/// # Errors
/// If a file cannot be read.
pub fn pages() -> anyhow::Result<Vec<Page>> {
    let mut paths = listed()?;
    collect(Path::new("docs"), &mut paths)?;
    paths.iter().map(|path| page(path)).collect()
}

fn collect(folder: &Path, found: &mut BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(root().join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.insert(path);
        }
    }
    Ok(())
}

/// The pages of the book: those that [`SUMMARY`] lists.
///
/// # Errors
/// If the table of contents cannot be read.
pub fn listed() -> anyhow::Result<BTreeSet<PathBuf>> {
    let summary = page(Path::new(SUMMARY))?;
    Ok(summary.links.iter().map(|link| summary.target(link).0).collect())
}

/// One page.
///
/// # Errors
/// If the file cannot be read.
pub fn page(path: &Path) -> anyhow::Result<Page> {
    let text = fs::read_to_string(root().join(path)).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(Page::parse(path.to_owned(), text))
}

impl Page {
    /// Reads a page from its text.
    pub fn parse(path: PathBuf, text: String) -> Self {
        let mut page =
            Self { path, text, links: Vec::new(), anchors: BTreeSet::new(), blocks: Vec::new(), code: Vec::new() };
        let mut used = HashMap::new();
        let mut heading: Option<String> = None;
        // The mark is the HTML block that ends where a fence begins.
        let mut comment = (String::new(), 0);
        let mut is_in_block = false;
        for (event, range) in Parser::new_ext(&page.text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    page.anchors.extend(heading.take().map(|text| unique(slug(&text), &mut used)));
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                    let before = page.text.get(..range.start).unwrap_or_default();
                    let is_above = before.get(comment.1..).is_some_and(|gap| gap.trim().is_empty());
                    let mark = if is_above { Mark::parse(&comment.0) } else { None };
                    let line = before.matches('\n').count() + 1;
                    page.blocks.push(Block { line, language: language.into_string(), mark, text: String::new() });
                    is_in_block = true;
                }
                Event::End(TagEnd::CodeBlock) => is_in_block = false,
                Event::Html(html) => comment = (html.into_string(), range.end),
                Event::Text(ref text) | Event::Code(ref text) => {
                    if matches!(event, Event::Code(_)) {
                        page.code.push(text.to_string());
                    }
                    if let Some(heading) = &mut heading {
                        heading.push_str(text);
                    }
                    if let (true, Some(block)) = (is_in_block, page.blocks.last_mut()) {
                        block.text.push_str(text);
                    }
                }
                _ => {}
            }
        }
        page
    }

    /// Its blocks of shell commands.
    pub fn commands(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(|block| block.language == "sh")
    }

    /// The file that a relative link leads to, relative to the repository's root, and the anchor in that file.
    pub fn target(&self, link: &str) -> (PathBuf, Option<String>) {
        let (file, anchor) = match link.split_once('#') {
            Some((file, anchor)) => (file, Some(anchor.to_owned())),
            None => (link, None),
        };
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let file = if file.is_empty() { self.path.clone() } else { normal(&folder.join(file)) };
        (file, anchor)
    }

    /// Links to files of the repository and to anchors of this page.
    pub fn relative_links(&self) -> impl Iterator<Item = &str> {
        let is_relative = |link: &&str| !link.contains("://") && !link.starts_with("mailto:");
        self.links.iter().map(String::as_str).filter(is_relative)
    }
}

/// The anchor of a heading.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || matches!(char, '-' | '_' | ' '));
    kept.map(|char| if char == ' ' { '-' } else { char }).collect::<String>().to_lowercase()
}

/// The anchor with a number if the page has it already.
fn unique(anchor: String, used: &mut HashMap<String, usize>) -> String {
    let number = used.entry(anchor.clone()).or_default();
    *number += 1;
    if *number == 1 { anchor } else { format!("{anchor}-{}", *number - 1) }
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = normal.pop(),
            _ => normal.push(component),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_links_and_anchors_of_a_page_are_found() {
        let text = "# A `Plugin`, again\n\n## Twice\n\n## Twice\n\nSee [b](../b.md#here).\n\n<!-- not run: too slow -->\n\
                    ```sh\nkubectl get pods\n```\n\ntext\n\n```sh\nls\n```\n\n<!-- write to: a.yaml -->\n```yaml\na: 1\n```\n\n- item\n\n  <!-- run -->\n  ```sh\n  true\n  ```\n";
        let page = Page::parse("docs/a/a.md".into(), text.to_owned());
        assert_eq!(page.anchors, ["a-plugin-again", "twice", "twice-1"].map(str::to_owned).into());
        assert_eq!(page.target("../b.md#here"), ("docs/b.md".into(), Some("here".to_owned())));
        assert_eq!(page.target("#twice"), ("docs/a/a.md".into(), Some("twice".to_owned())));
        assert_eq!(page.relative_links().collect::<Vec<_>>(), ["../b.md#here"]);
        let marks: Vec<_> = page.commands().map(|block| (block.line, block.mark.clone(), &*block.text)).collect();
        let not_run = Mark::NotRun { reason: "too slow".to_owned() };
        let expected = [(10, Some(not_run), "kubectl get pods\n"), (16, None, "ls\n"), (28, Some(Mark::Run), "true\n")];
        assert_eq!(marks, expected);
        let yaml = &page.blocks[2];
        assert_eq!((&*yaml.language, &yaml.mark, &*yaml.text), ("yaml", &Some(Mark::Write("a.yaml".into())), "a: 1\n"));
        let by = Mark::RunBy { file: "tests/x.rs".into(), test: "it_works".to_owned() };
        assert_eq!(Mark::parse("<!-- run by: tests/x.rs, it_works -->"), Some(by));
        for mistyped in ["not run:", "print", "contents of: main.go", "run by: tests/x.rs"] {
            assert_eq!(Mark::parse(&format!("<!-- {mistyped} -->")), Some(Mark::Unknown(mistyped.to_owned())));
        }
        assert_eq!(Mark::parse("text"), None);
    }
}
