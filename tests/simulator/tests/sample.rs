//! A sample of histories by their seeds, and those that were found to end badly once.

#![allow(clippy::expect_used, clippy::panic, reason = "a test ends by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn simulator(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windlass-simulator")).args(args).output().expect("the simulator starts")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn history(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("histories").join(name)
}

/// `WINDLASS_HISTORIES` says how many; `cargo xtask simulate search` looks at as many as one likes, for as long as one likes.
#[test]
fn parents_converge_and_nothing_is_written_in_the_steady_state_whatever_happens_before() {
    let count = std::env::var("WINDLASS_HISTORIES").unwrap_or_else(|_| "6".to_owned());
    let searched = simulator(&["search", "--first", "--count", &count, "--seed", "1"]);
    assert!(searched.status.success(), "{}", text(&searched));
    assert!(text(&searched).contains(&format!("{count} histories")), "{}", text(&searched));
}

#[test]
fn same_seed_has_the_same_trace() {
    let searched = simulator(&["search", "--count", "2", "--seed", "101", "--twice"]);
    assert!(searched.status.success(), "{}", text(&searched));
}

/// The trace of a history that does nothing has the start of a host, and its renewals of the Lease.
#[test]
fn trace_tells_each_request_with_its_time() {
    let run = simulator(&["run", "--seed", "7", "--trace"]);
    let trace = text(&run);
    assert!(
        trace.contains("host 0: POST /apis/coordination.k8s.io/v1/namespaces/windlass-system/leases 201"),
        "{trace}"
    );
    assert!(trace.contains("* Apply"), "{trace}");
}

/// A history that is marked with `fails` shows what is to be mended: once it is, take the mark off.
#[test]
fn histories_that_were_written_down_end_as_they_say() {
    let folder = history("");
    for entry in std::fs::read_dir(&folder).expect("the histories") {
        let file = entry.expect("an entry").path();
        let text_of = std::fs::read_to_string(&file).expect("UTF-8");
        let run = simulator(&["run", "--history", &file.to_string_lossy()]);
        let ends_well = !text_of.contains("\"fails\": true");
        assert_eq!(run.status.success(), ends_well, "{}: {}", file.display(), text(&run));
    }
}
