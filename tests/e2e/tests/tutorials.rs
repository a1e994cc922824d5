//! The tutorials, followed as their readers do: each page from an empty folder to a plugin that is changed, runs, and is removed.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::panic)]

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use windlass_book::{Block, Mark};
use windlass_e2e::{Env, Reader, path_with_go};
use windlass_testbed::tools;
use windlass_testbed::tools::wasm_compiler::WasmCompiler;

/// Follows a page on a cluster with a host.
fn follow(path_of_page: &str, variables_to_build: Vec<(OsString, OsString)>) {
    let page = windlass_book::page(Path::new(path_of_page)).expect("a page");
    let folder = tempfile::tempdir().expect("an empty folder");
    let env = Env::start();
    let _host = env.start_host();
    // A second run of the test finds the dependencies compiled.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tutorials");
    let variables = [("PATH".into(), path_with_go()), ("CARGO_TARGET_DIR".into(), target.into_os_string())];
    let reader = Reader::new(&env, folder.path().to_owned());
    let mut reader = reader.with_variables(variables).with_variables_to_build(variables_to_build);
    let mut printed = None;
    for block in &page.blocks {
        let place = format!("{path_of_page}:{}", block.line);
        let read = |file: &Path| {
            fs::read_to_string(reader.file(file)).unwrap_or_else(|error| panic!("{place}: {}: {error}", file.display()))
        };
        match &block.mark {
            Some(Mark::Run) => printed = Some(reader.run(&page, block)),
            Some(Mark::Prints) => {
                let printed = printed.as_deref().expect("commands before the output");
                assert!(is_printed(printed, &block.text), "{place}: expected\n{}\nfound\n{printed}", block.text);
            }
            Some(Mark::Content(file)) => {
                assert_eq!(read(file).trim(), block.text.trim(), "{place}: {}", file.display());
            }
            Some(Mark::Part(file)) => {
                let (_, part) = sides(block);
                assert!(read(file).contains(&part), "{place}: {} does not have this part:\n{part}", file.display());
            }
            Some(Mark::Write(file)) => fs::write(reader.file(file), &block.text).expect("written"),
            Some(Mark::Apply(file)) => {
                let (old, new) = sides(block);
                let text = read(file);
                assert_eq!(text.matches(&old).count(), 1, "{place}: {} has these lines once:\n{old}", file.display());
                fs::write(reader.file(file), text.replace(&old, &new)).expect("written");
            }
            Some(Mark::RunBy { .. } | Mark::NotRun { .. } | Mark::NotChecked(_)) => {}
            Some(Mark::Unknown(_)) | None => panic!("{place}: a block without a mark; see tests/book/src/lib.rs"),
        }
    }
}

/// The lines of a diff before and after the change; those of another block.
fn sides(block: &Block) -> (String, String) {
    if block.language != "diff" {
        return (block.text.clone(), block.text.clone());
    }
    let side = |other: char| -> String {
        let lines = block.text.split_inclusive('\n').filter(|line| !line.starts_with(other));
        lines.map(|line| if line == "\n" { line } else { line.get(1..).unwrap_or_default() }).collect()
    };
    (side('+'), side('-'))
}

/// Whether the expected lines were printed, and no others. A line `…` stands for any number of lines, and `…` within a line for any
/// text in that line.
fn is_printed(printed: &str, expected: &str) -> bool {
    let (printed, expected): (Vec<_>, Vec<_>) = (printed.lines().collect(), expected.lines().collect());
    are_lines_printed(&printed, &expected)
}

fn are_lines_printed(printed: &[&str], expected: &[&str]) -> bool {
    match (printed, expected) {
        (printed, []) => printed.is_empty(),
        (printed, ["…", expected @ ..]) => {
            (0..=printed.len()).any(|skipped| are_lines_printed(printed.get(skipped..).unwrap_or_default(), expected))
        }
        ([], _) => false,
        ([line, printed @ ..], [pattern, expected @ ..]) => {
            is_like(line, pattern) && are_lines_printed(printed, expected)
        }
    }
}

fn is_like(line: &str, pattern: &str) -> bool {
    let Some((before, after)) = pattern.split_once('…') else { return line == pattern };
    let Some(rest) = line.strip_prefix(before) else { return false };
    (0..=rest.len()).filter_map(|at| rest.get(at..)).any(|rest| is_like(rest, after))
}

#[test]
fn tutorial_for_rust_leads_to_a_plugin_that_is_changed_runs_and_is_removed() {
    let compiler = WasmCompiler::find(&tools::stderr).expect("a compiler for wasm");
    let variables = compiler.environment().into_iter().map(|(name, value)| (name.into(), value));
    follow("docs/tutorial.md", variables.collect());
}

#[test]
fn tutorial_for_go_leads_to_a_plugin_that_is_changed_runs_and_is_removed() {
    follow("docs/tutorial-go.md", Vec::new());
}

#[test]
fn tutorial_for_javascript_leads_to_a_plugin_that_is_changed_runs_and_is_removed() {
    follow("docs/tutorial-js.md", Vec::new());
}

#[test]
fn tutorial_for_python_leads_to_a_plugin_that_is_changed_runs_and_is_removed() {
    follow("docs/tutorial-python.md", Vec::new());
}

#[test]
fn dots_in_expected_output_stand_for_any_text() {
    let printed = "created a\ndigest: sha256:12 ok\nb\nc\n";
    for expected in [
        "…\nb\nc\n",
        "created a\n…",
        "created a\ndigest: sha256:… ok\nb\nc",
        "…\ndigest: …\n…\nc",
        "created a\n…\ndigest: …\n…",
        "…",
    ] {
        assert!(is_printed(printed, expected), "{expected}");
    }
    for expected in ["", "created a", "created a\n…\nd", "…\nb", "b\nc", "created a\nb\nc", "…\nok\nb\nc", "…\n…: b\n…"]
    {
        assert!(!is_printed(printed, expected), "{expected}");
    }
}
