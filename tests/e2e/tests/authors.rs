//! `windlass dev`, and `windlass build` without the tools that it needs. The tutorials' tests build in every language.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use windlass_e2e::{Env, TIMEOUT, path_with_go, windlass};

/// Runs a command, and returns its standard output.
#[track_caller]
fn run_command(command: &mut Command) -> String {
    let output = command.output().expect("started");
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{command:?}: {stderr}{stdout}");
    stdout.into_owned()
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
        fs::remove_dir_all(&project).expect("removed");
    }
}

/// A running `windlass dev`. Dropping it kills it.
struct Dev {
    child: Child,
    output: PathBuf,
}

impl Dev {
    fn command(env: &Env, project: &Path) -> Command {
        let mut command = windlass();
        command.arg("dev").arg(project).arg("--cleanup").env("PATH", path_with_go());
        command.env("WINDLASS_KUBECONFIG", Self::kubeconfig(env));
        command.env("WINDLASS_CACHE_DIR", env.cluster().dir().join("dev-cache"));
        command
    }

    fn kubeconfig(env: &Env) -> PathBuf {
        env.cluster().dir().join("dev-kubeconfig")
    }

    fn start(env: &Env, project: &Path) -> Self {
        fs::copy(env.cluster().kubeconfig(), Self::kubeconfig(env)).expect("copied");
        let output = env.cluster().dir().join("dev.log");
        let file = File::create(&output).expect("a file for the output");
        let mut command = Self::command(env, project);
        let child = command.stdout(file.try_clone().expect("a second handle")).stderr(file).spawn().expect("started");
        Self { child, output }
    }

    /// Sends SIGINT, and waits until the command ends.
    #[track_caller]
    fn interrupt(&mut self) -> ExitStatus {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(id, Signal::INT).expect("sent");
        windlass_e2e::wait("windlass dev to end", TIMEOUT, || self.child.try_wait().expect("a state"))
    }

    fn output(&self) -> String {
        fs::read_to_string(&self.output).expect("UTF-8")
    }

    /// Waits until the output has all these texts.
    #[track_caller]
    fn wait_output(&self, texts: &[&str]) {
        windlass_e2e::wait(&format!("{texts:?}"), TIMEOUT, || {
            let output = self.output();
            texts.iter().all(|text| output.contains(text)).then_some(())
        });
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // An error means that the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("windlass dev printed:\n{}", self.output());
        }
    }
}

#[test]
fn dev_rebuilds_a_changed_project_and_reconciles_with_it_without_a_restart() {
    let folder = tempfile::tempdir().expect("an empty folder");
    run_command(windlass().current_dir(folder.path()).args(["new", "greeting", "--lang", "go"]));
    let project = folder.path().join("greeting");
    let source = project.join("main.go");
    let original = fs::read_to_string(&source).expect("a source");
    let with_prefix = |prefix: &str| {
        let changed = original.replace(r#"{"message": message}"#, &format!(r#"{{"message": "{prefix}" + message}}"#));
        assert_ne!(changed, original);
        changed
    };
    let env = Env::empty();
    env.kubectl(&["create", "-n", "default", "configmap", "before"]);
    let sample = project.join("sample.yaml");
    let objects =
        fs::read_to_string(&sample).expect("a sample") + &managed_by_others("before") + &managed_by_others("own");
    fs::write(&sample, &objects).expect("written");
    let mut dev = Dev::start(&env, &project);
    let wait_message = |expected: &str| {
        env.wait(expected, TIMEOUT, || {
            let args = ["get", "-n", "default", "configmap", "hello", "-o", "jsonpath={.data.message}"];
            env.try_kubectl(&args).ok().filter(|message| message == expected)
        });
    };
    wait_message("Hello, world!");
    env.kubectl(&["wait", "-n", "default", "--for=condition=Ready", "greeting/hello", "--timeout=60s"]);
    dev.wait_output(&[
        "CustomResourceDefinition plugins.windlass.dev installed",
        "Greeting default/hello: appeared → plugin called in ",
        " → created ConfigMap hello",
        "ConfigMap default/before (existed before; --cleanup keeps it), ConfigMap default/own",
        "waiting for changes",
    ]);
    second_run_is_refused(&env, &project);

    fs::write(&sample, objects.replace("Hello, world!", "Hello, all!")).expect("written");
    fs::write(&source, with_prefix("One: ")).expect("written");
    wait_message("One: Hello, all!");
    dev.wait_output(&["changed: main.go", "Greeting default/hello: new component → plugin called in "]);

    fs::write(&source, with_prefix("Two: ") + "func broken( {\n").expect("written");
    dev.wait_output(&["main.go:", "syntax error", "; the last good component stays live"]);
    let patch = r#"{"spec":{"message":"Hi"}}"#;
    env.kubectl(&["patch", "-n", "default", "greeting", "hello", "--type=merge", "-p", patch]);
    wait_message("One: Hi");
    dev.wait_output(&["Greeting default/hello: spec.message changed → plugin called in ", "updated ConfigMap hello"]);

    fs::write(&source, with_prefix("Three: ")).expect("written");
    wait_message("Three: Hi");
    assert!(dev.child.try_wait().expect("a state").is_none(), "the same process");

    // Without it, the controller of namespaces would remove the Namespace 5 s after its deletion, whether or not the next run waits.
    hold_namespace(&env, &["test.example.com/hold"]);
    // The command keeps to the cluster that it has checked.
    fs::write(Dev::kubeconfig(&env), "").expect("written");
    let status = dev.interrupt();
    assert!(status.success(), "{status}: {}", dev.output());
    everything_that_dev_created_is_gone(&env);
    next_run_waits_for_the_deletions(&env, &project);
    fs::write(&source, "broken").expect("written");
    cleanup_without_a_host_fails_if_there_is_a_plugin(&env, &project);
}

/// A ConfigMap whose label names another tool, as a document of a sample.
fn managed_by_others(name: &str) -> String {
    let labels = json!({"app.kubernetes.io/managed-by": "others"});
    let metadata = json!({"name": name, "namespace": "default", "labels": labels});
    format!("---\n{}\n", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
}

fn second_run_is_refused(env: &Env, project: &Path) {
    let refused = Dev::command(env, project).output().expect("started");
    let printed = String::from_utf8_lossy(&refused.stderr);
    assert!(printed.contains("another `windlass dev` uses namespace windlass-dev"), "{printed}");
    assert_eq!((refused.status.code(), &*String::from_utf8_lossy(&refused.stdout)), (Some(7), ""), "before any work");
}

fn everything_that_dev_created_is_gone(env: &Env) {
    for resource in ["crd/plugins.windlass.dev", "crd/greetings.example.com", "clusterrole/windlass-plugin-greeting"] {
        env.wait(&format!("{resource} to be gone"), TIMEOUT, || {
            env.try_kubectl(&["get", resource]).err()?.contains("NotFound").then_some(())
        });
    }
    let deleted = env.kubectl(&["get", "namespace/windlass-dev", "-o", "jsonpath={.metadata.deletionTimestamp}"]);
    assert_ne!(deleted, "");
    assert!(env.get("configmaps", "default", "own").is_none(), "created by the command");
    assert!(env.get("configmaps", "default", "before").is_some(), "existed before");
}

fn next_run_waits_for_the_deletions(env: &Env, project: &Path) {
    let dev = Dev::start(env, project);
    dev.wait_output(&["waiting: Namespace windlass-dev is being deleted"]);
    hold_namespace(env, &[]);
    dev.wait_output(&["Namespace windlass-dev created", "live: version", "waiting for changes"]);
}

/// Keeps the Namespace of `windlass dev` in the cluster after its deletion, as long as there are finalizers.
fn hold_namespace(env: &Env, finalizers: &[&str]) {
    let patch = json!({"metadata": {"finalizers": finalizers}}).to_string();
    env.kubectl(&["patch", "namespace", "windlass-dev", "--type=merge", "-p", &patch]);
}

/// The last run was killed. The Lease seems to be held, but not by another host.
fn cleanup_without_a_host_fails_if_there_is_a_plugin(env: &Env, project: &Path) {
    let mut dev = Dev::start(env, project);
    dev.wait_output(&["was not built", "waiting for changes"]);
    let status = dev.interrupt();
    dev.wait_output(&["nothing was deleted: there are Plugins (greeting)"]);
    assert_eq!(status.code(), Some(3));
}

#[test]
fn dev_refuses_a_cluster_on_which_windlass_is_installed() {
    let folder = tempfile::tempdir().expect("an empty folder");
    run_command(windlass().current_dir(folder.path()).args(["new", "greeting", "--lang", "go"]));
    let project = folder.path().join("greeting");
    let env = Env::start();
    let refused = env.try_windlass(&["dev", &project.to_string_lossy()]).expect_err("refused");
    assert!(
        refused.contains("exit status: 3") && refused.contains("is installed in namespace windlass-system"),
        "{refused}"
    );
    assert!(env.get("namespaces", "", "windlass-dev").is_none(), "nothing was written");
}
