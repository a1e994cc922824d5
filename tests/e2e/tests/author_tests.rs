//! `windlass test`: it finds the bug of each faulty plugin, and none in the plugins that ship with Windlass.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

use std::fs;
use std::path::{Path, PathBuf};

use windlass_e2e::{guest, run_offline};

/// One row for each file in tests/guests/faulty: the check that finds its bug, and words of the reason.
const FAULTY: &[(&str, &str, &str)] = &[
    ("faulty/copies-annotations", "valid-labels", "is not a valid value of the label"),
    ("faulty/fails-on-valid", "valid-parents", "the text is too long"),
    ("faulty/forgets-scale-down", "edit-like-new", "is only in the first response"),
    ("faulty/growing-status", "status-stable", "grows in every round"),
    ("faulty/missing-field", "optional-fields", "without the optional field spec.color"),
    ("faulty/never-finalizes", "finalizes", "not finalized after"),
    ("faulty/order-dependent", "order-irrelevant", "data.leader"),
    ("faulty/random-name", "converges", "the children still change"),
    ("faulty/rejects-everything", "some-accepted", "is odd or even"),
    ("faulty/status-beyond-schema", "status-schema", "status.replicas"),
    ("faulty/timestamp-in-child", "converges", "data.at"),
    ("faulty/trap-on-zero", "no-trap", "divide by zero"),
    ("faulty/undeclared-kind", "response-accepted", "is of kind Secret"),
];

/// Faulty plugins that also fail a case of `--conformance`, the case, and words of the reason.
const NOT_CONFORMING: &[(&str, &str, &str)] = &[
    ("faulty/copies-annotations", "any/metadata", "valid-labels: "),
    ("faulty/fails-on-valid", "any/texts", "valid-parents: the plugin failed: the text is too long"),
    ("faulty/missing-field", "any/fields-required", "no-trap: "),
    ("faulty/never-finalizes", "any/deleted-without-fields", "finalizes: not finalized after"),
    ("faulty/status-beyond-schema", "any/fields-required", "status-schema: "),
    ("faulty/trap-on-zero", "any/numbers", "no-trap: "),
    ("faulty/undeclared-kind", "any/fields-all", "response-accepted: "),
];

/// The probes of the SDKs, and the one without an SDK.
const PROBES: [&str; 5] =
    ["probe", "languages/probe-go", "languages/probe-js", "languages/probe-python", "languages/probe-zig"];

/// The ports of Echo to other languages.
const ECHOES: [&str; 4] = ["languages/echo-go", "languages/echo-js", "languages/echo-python", "languages/echo-zig"];

/// The plugins that ship with Windlass: their components.
const SHIPPED: [&str; 6] = ["echo", "myapp", "application", "mysqlcluster", "namespaceguard", "languages/postgres-go"];

fn path(name: &str) -> String {
    guest(name).to_string_lossy().into_owned()
}

fn cases(component: &str) -> PathBuf {
    let plugin = if component == "languages/postgres-go" { "postgres" } else { component };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins").join(plugin).join("cases")
}

/// Runs `windlass test` with a folder for failing cases.
fn test(component: &str, save: &Path, more: &[&str]) -> (i32, String, String) {
    let (component, save) = (path(component), save.to_string_lossy());
    run_offline(&[&["test", &component, "--save", &save][..], more].concat())
}

/// The checks that failed, with their reasons.
fn failed(output: &str) -> Vec<(&str, &str)> {
    let failed = output.lines().filter_map(|line| line.strip_prefix("FAIL  "));
    failed.map(|line| line.split_once(' ').expect("a reason")).collect()
}

#[test]
fn the_bug_of_each_faulty_plugin_is_found_and_saved_as_a_case_that_replays() {
    for (component, check, words) in FAULTY {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (code, output, stderr) = test(component, folder.path(), &["--runs", "24", "--seed", "1"]);
        assert_eq!(code, 1, "{component}: {output}{stderr}");
        let found = failed(&output);
        // A plugin that traps on a valid parent may do so on an invalid one.
        let others = found.iter().map(|(name, _)| *name).filter(|name| name != check && *name != "invalid-parents");
        assert_eq!(others.collect::<Vec<_>>(), [""; 0], "{component}: {output}");
        let reason = found.iter().find(|(name, _)| name == check).expect(&output).1;
        assert!(reason.contains(words), "{component}: {output}");
        // The case is small: the annotations matter to one plugin only.
        let case = fs::read_to_string(folder.path().join(check).with_extension("yaml")).expect("a saved case");
        assert_eq!(case.contains("annotations:"), *check == "valid-labels", "{component}: {case}");
        assert!(output.contains(case.trim_end()), "{component}: the case is printed: {output}");

        let saved = folder.path().to_string_lossy().into_owned();
        let (code, again, stderr) = test(component, folder.path(), &["--cases", &saved]);
        assert_eq!(code, 1, "{component}: {again}{stderr}");
        let reason = failed(&again).into_iter().find(|(name, _)| name == check).expect(&again).1;
        assert!(reason.contains(words), "{component}: {again}");
    }
}

#[test]
fn a_saved_case_passes_once_the_bug_is_gone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (code, ..) = test("faulty/trap-on-zero", folder.path(), &["--runs", "24", "--seed", "1"]);
    assert_eq!(code, 1);
    let saved = folder.path().to_string_lossy().into_owned();
    let file = folder.path().join("no-trap.yaml");
    let case = fs::read_to_string(&file).expect("a saved case").replace("TrapOnZero", "FailsOnValid");
    fs::write(&file, case).expect("written");
    let (code, output, stderr) = test("faulty/fails-on-valid", folder.path(), &["--cases", &saved]);
    assert_eq!(code, 0, "{output}{stderr}");
}

#[test]
fn shipped_plugins_pass_all_checks_and_their_golden_cases() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for plugin in SHIPPED {
        let cases = cases(plugin).to_string_lossy().into_owned();
        let (code, output, stderr) = test(plugin, folder.path(), &["--cases", &cases, "--runs", "16", "--seed", "1"]);
        assert_eq!(code, 0, "{plugin}: {output}{stderr}");
        assert!(output.lines().count() > 15, "{plugin}: {output}");
    }
}

#[test]
fn plugins_in_all_languages_pass_the_conformance_cases() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let echo = cases("echo").to_string_lossy().into_owned();
    let plugins = SHIPPED.map(|plugin| (plugin, vec![]));
    let echoes = ECHOES.map(|plugin| (plugin, vec!["--cases", echo.as_str(), "--shared"]));
    for (plugin, more) in plugins.into_iter().chain(echoes) {
        let (code, output, stderr) = test(plugin, folder.path(), &[&["--conformance"][..], &more].concat());
        assert_eq!(code, 0, "{plugin}: {output}{stderr}");
        let passed = output.lines().filter(|line| line.starts_with("ok    any/")).count();
        assert!(passed > 6 && output.contains("ok    descriptor"), "{plugin}: {output}");
    }
}

#[test]
fn all_probes_behave_alike() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for probe in PROBES {
        let (code, output, stderr) = test(probe, folder.path(), &["--conformance"]);
        assert_eq!(code, 0, "{probe}: {output}{stderr}");
        assert!(!output.contains("skip  "), "{probe}: {output}");
        assert!(output.lines().filter(|line| line.starts_with("ok    probe/")).count() > 40, "{probe}: {output}");
    }
}

#[test]
fn faulty_plugins_fail_the_conformance_case_for_their_bug() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (component, case, words) in NOT_CONFORMING {
        let (code, output, stderr) = test(component, folder.path(), &["--conformance"]);
        assert_eq!(code, 1, "{component}: {output}{stderr}");
        let found = failed(&output);
        let reason = found.iter().find(|(name, _)| name == case).unwrap_or_else(|| panic!("{component}: {output}")).1;
        assert!(reason.trim_start().starts_with(words), "{component}: {output}");
    }
}

#[test]
fn a_wrong_response_fails_its_golden_case() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for file in fs::read_dir(cases("echo")).expect("cases") {
        let file = file.expect("a file").path();
        let text = fs::read_to_string(&file).expect("a case");
        let name = file.file_name().expect("a name");
        fs::write(folder.path().join(name), text.replace("currentReplicas: 2", "currentReplicas: 7")).expect("written");
    }
    let cases = folder.path().to_string_lossy().into_owned();
    let (code, output, stderr) = test("echo", folder.path(), &["--cases", &cases]);
    assert_eq!(code, 1, "{output}{stderr}");
    let found = failed(&output);
    assert!(!found.is_empty(), "{output}");
    for (name, reason) in found {
        assert!(reason.contains("status.currentReplicas: expected 7, and found 2"), "{name}: {reason}");
    }
}

#[test]
fn junit_report_names_each_test_and_the_exit_code_tells_how_the_command_ended() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("report.xml");
    let args = ["--runs", "8", "--seed", "1", "-o", "json", "--junit", &file.to_string_lossy()];
    let (code, printed, stderr) = test("faulty/timestamp-in-child", folder.path(), &args);
    assert_eq!(code, 1, "{printed}{stderr}");
    let printed: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let converges = printed["tests"].as_array().into_iter().flatten().find(|test| test["name"] == "converges");
    assert!(converges.is_some_and(|test| test["outcome"] == "failed" && test["suite"] == "properties"), "{printed:#}");
    let report = fs::read_to_string(&file).expect("the report");
    assert!(report.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>"), "{report}");
    assert!(report.contains("tests=\"15\"") && report.contains("failures=\"1\""), "{report}");
    assert!(report.contains("<testcase name=\"converges\""), "{report}");

    let echo = path("echo");
    for (args, expected, words) in [
        (vec!["test"], 2, "COMPONENT"),
        (vec!["test", &echo, "--runs", "many"], 2, "--runs"),
        (vec!["test", "/nonexistent/echo.wasm"], 3, "/nonexistent/echo.wasm"),
        (vec!["test", &echo, "--cases", "/nonexistent"], 3, "/nonexistent"),
    ] {
        let (code, _, stderr) = run_offline(&args);
        assert_eq!(code, expected, "{args:?}: {stderr}");
        assert!(stderr.contains(words), "{args:?}: {stderr}");
    }
}
