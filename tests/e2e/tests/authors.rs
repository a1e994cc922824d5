//! `windlass new`, `windlass build` and `windlass push`: from an empty folder to a reconciled parent, in every language, by the
//! commands of the new project's README.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use windlass_e2e::{Env, windlass};
use windlass_testbed::tools::wasm_compiler::WasmCompiler;
use windlass_testbed::tools::{self, Go};

/// A language: how its tools are installed in a project, and how its tests are run.
struct Language {
    name: &'static str,
    install: &'static [&'static str],
    test: &'static str,
}

const RUST: Language = Language { name: "rust", install: &[], test: "cargo test --quiet" };
const GO: Language = Language { name: "go", install: &[], test: "go test ./..." };
const JS: Language = Language {
    name: "js",
    install: &["npm install --no-audit --no-fund --ignore-scripts --loglevel=error"],
    test: "npm test",
};
const PYTHON: Language = Language {
    name: "python",
    install: &["python3 -m venv .venv", ".venv/bin/pip install --quiet -r requirements.txt"],
    test: ".venv/bin/python -m unittest",
};

/// Runs a command, and returns its standard output.
#[track_caller]
fn run_command(command: &mut Command) -> String {
    let output = command.output().expect("started");
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{command:?}: {stderr}{stdout}");
    stdout.into_owned()
}

/// `PATH` with the Go of the testbed, which may be the only one.
fn path() -> std::ffi::OsString {
    let go = Go::find(&tools::stderr).expect("Go");
    let folders = env::var_os("PATH").unwrap_or_default();
    let own = go.path().parent().map(Path::to_owned).into_iter();
    env::join_paths(own.filter(|folder| folder.is_absolute()).chain(env::split_paths(&folders))).expect("a PATH")
}

/// Makes a project, tests and builds it, and runs it on a cluster until its parent is Ready.
fn becomes_ready(language: &Language) {
    let folder = tempfile::tempdir().expect("an empty folder");
    let name = "greeting";
    run_command(windlass().current_dir(folder.path()).args(["new", name, "--lang", language.name]));
    let project = folder.path().join(name);
    let in_project = |mut command: Command| {
        for (variable, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO")) {
            command.env_remove(variable);
        }
        // A second run of the test finds the dependencies compiled.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors");
        run_command(command.current_dir(&project).env("PATH", path()).env("CARGO_TARGET_DIR", target))
    };
    let shell = |line: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        in_project(command)
    };
    language.install.iter().chain([&language.test]).for_each(|line| {
        shell(line);
    });
    let mut build = windlass();
    build.arg("build");
    if language.name == RUST.name {
        build.envs(WasmCompiler::find(&tools::stderr).expect("a compiler for wasm").environment());
    }
    in_project(build);
    let component = project.join("build").join(name).with_extension("wasm");
    let rendered = run_command(windlass().arg("render").arg(&component).arg("-f").arg(project.join("sample.yaml")));
    assert!(rendered.contains("message: Hello, world!"), "{rendered}");
    let mut test = windlass();
    test.arg("test").arg(&component).args(["--cases", "cases", "--conformance", "--runs", "30", "--seed", "1"]);
    let tested = in_project(test);
    assert!(tested.contains("ok    any/children-1000"), "{tested}");

    let env = Env::start();
    let _host = env.start_host();
    // The default limits are enough in every language.
    env.push(&component, name, &[]);
    env.wait_live(name, &component);
    env.kubectl(&["apply", "-n", "default", "-f", &sample(&project)]);
    env.kubectl(&["wait", "-n", "default", "--for=condition=Ready", "greeting/hello", "--timeout=60s"]);
    let message = env.kubectl(&["get", "-n", "default", "configmap", "hello", "-o", "jsonpath={.data.message}"]);
    assert_eq!(message, "Hello, world!");
}

fn sample(project: &Path) -> String {
    let sample: PathBuf = project.join("sample.yaml");
    sample.to_str().expect("UTF-8").to_owned()
}

#[test]
fn new_project_in_rust_becomes_a_ready_parent() {
    becomes_ready(&RUST);
}

#[test]
fn new_project_in_go_becomes_a_ready_parent() {
    becomes_ready(&GO);
}

#[test]
fn new_project_in_javascript_becomes_a_ready_parent() {
    becomes_ready(&JS);
}

#[test]
fn new_project_in_python_becomes_a_ready_parent() {
    becomes_ready(&PYTHON);
}

#[test]
fn build_without_the_languages_tools_says_how_to_get_them() {
    let folder = tempfile::tempdir().expect("an empty folder");
    let project = folder.path().join("greeting");
    for (language, advice) in [
        ("rust", "cargo is missing; install Rust with rustup"),
        ("go", "go is missing; install Go 1.26 or newer"),
        ("js", "esbuild is missing; run `npm install` in the project"),
        ("python", "componentize-py is missing; run `python3 -m venv .venv`"),
    ] {
        run_command(windlass().current_dir(folder.path()).args(["new", "greeting", "--lang", language]));
        let output = windlass().arg("build").arg(&project).env("PATH", folder.path()).output().expect("started");
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(3) && printed.contains(advice), "{language}: {printed}");
        std::fs::remove_dir_all(&project).expect("removed");
    }
}
