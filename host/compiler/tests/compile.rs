//! What the compiling child says to people, and to a host of another build.

#![allow(clippy::expect_used, reason = "a test ends by panicking")]

use std::process::{Command, Output, Stdio};

fn compile(args: &[&str], key: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-compile"));
    let Output { status, stderr, .. } =
        command.args(args).env("WINDLASS_COMPILE_KEY", key).stdin(Stdio::null()).output().expect("it starts");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn compiler_says_to_people_that_the_host_starts_it() {
    let (code, said) = compile(&["--help"], "");
    assert_eq!(code, Some(2));
    assert!(said.contains("windlass-host starts it"), "{said}");
}

#[test]
fn compiler_refuses_a_host_of_another_build() {
    let (code, said) = compile(&[], "0.0.9-c0ffee");
    assert_eq!(code, Some(1));
    assert!(said.contains("another build than the host") && said.contains("0.0.9-c0ffee"), "{said}");
}
