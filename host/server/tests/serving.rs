//! The serving binary: what it is made of, and what it says.

#![allow(clippy::expect_used, clippy::panic, reason = "a test ends by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const HOST: &str = env!("CARGO_BIN_EXE_windlass-host");

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// The test's own build shares the features of the whole workspace, so the dependencies of the package alone are looked at.
#[test]
fn host_is_built_without_the_compiler_and_what_only_commands_need() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates_of = |package: &str| {
        let mut tree = Command::new(env!("CARGO"));
        tree.args(["tree", "--locked", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
        let output = tree.args(["--package", package]).current_dir(&root).output().expect("cargo");
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let left_out = [
        "cranelift-codegen ",
        "wasmtime-internal-cranelift ",
        "seccompiler ",
        "similar ",
        "tokio-tungstenite ",
        "windlass-build ",
    ];
    let (host, command) = (crates_of("windlass-host"), crates_of("windlass"));
    for name in left_out {
        assert!(!host.lines().any(|line| line.starts_with(name)), "{name} is in the host:\n{host}");
        assert!(command.lines().any(|line| line.starts_with(name)), "the command has {name}: is the name right?");
    }
    assert!(host.lines().any(|line| line.starts_with("wasmtime ")), "{host}");
}

#[test]
fn host_without_its_compiler_does_not_start_and_names_the_file() {
    // Linked, not copied: another test's child could still hold a file that was written, and such a file does not start.
    let built = Path::new(HOST).parent().expect("a folder");
    let folder = tempfile::tempdir_in(built).expect("a folder");
    let alone = folder.path().join("windlass-host");
    fs::hard_link(HOST, &alone).expect("linked");
    let output = Command::new(&alone).output().expect("it starts");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(&folder.path().join("windlass-compile").display().to_string()), "{said}");
}

#[test]
fn help_of_the_host_shows_flags_and_no_command() {
    let help = text(&Command::new(HOST).arg("--help").output().expect("it starts"));
    assert!(help.contains("--check") && help.contains("Exit codes:") && !help.contains("Commands:"), "{help}");
}
