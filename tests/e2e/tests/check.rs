//! `windlass run --check` on a sound set-up and on broken ones: each problem has a sentence that says what to do.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::panic)]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use windlass_e2e::{Env, HostOptions, SYSTEM_NAMESPACE, windlass};
use windlass_testbed::tools;

/// A set-up that a test breaks.
struct Setup<'a> {
    env: &'a Env,
    kubeconfig: PathBuf,
    cache_dir: PathBuf,
    args: Vec<String>,
    variables: Vec<(&'static str, String)>,
}

impl<'a> Setup<'a> {
    fn sound(env: &'a Env) -> Self {
        let kubeconfig = env.cluster().service_account_kubeconfig(SYSTEM_NAMESPACE, "windlass").expect("a kubeconfig");
        let cache_dir = env.cluster().dir().join("check-cache");
        Self { env, kubeconfig, cache_dir, args: Vec::new(), variables: Vec::new() }
    }

    fn with_args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(ToString::to_string));
        self
    }

    /// The exit code, and everything that the command printed.
    fn check(&self) -> (Option<i32>, String) {
        let mark = self.env.mark();
        let mut command = windlass();
        command.args(["run", "--check"]);
        command.env("WINDLASS_HEALTH_ADDR", "127.0.0.1:0").env("WINDLASS_METRICS_ADDR", "127.0.0.1:0");
        command.env("WINDLASS_DEBUG_ADDR", "127.0.0.1:0");
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir").arg(&self.cache_dir).args(&self.args);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let output = command.output().expect("windlass starts");
        let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert_eq!(self.env.host_requests(mark).attempted_writes().to_vec(), [], "it writes nothing");
        (output.status.code(), out + &error)
    }

    /// Asserts that the command finds one problem, and prints these words about it.
    #[track_caller]
    fn assert_problem(&self, what: &str, words: &[&str]) {
        let (code, text) = self.check();
        assert_eq!(code, Some(1), "{text}");
        let problems: Vec<_> = text.lines().filter(|line| line.starts_with("PROBLEM")).collect();
        let [problem] = problems[..] else { panic!("not one problem:\n{text}") };
        assert!(problem.starts_with(&format!("PROBLEM  {what} ")), "{text}");
        for word in words {
            assert!(problem.contains(word), "no {word:?} in:\n{text}");
        }
        assert!(text.contains("checks found a problem"), "{text}");
    }
}

fn edited(config: &Path, edit: impl Fn(&str) -> String, name: &str) -> PathBuf {
    let path = config.with_file_name(name);
    fs::copy(config, &path).expect("a file in the cluster's folder");
    fs::write(&path, edit(&fs::read_to_string(config).expect("a kubeconfig"))).expect("a file in the cluster's folder");
    path
}

fn replace_line(text: &str, key: &str, value: &str) -> String {
    let lines = text.lines().map(|line| match line.find(key) {
        Some(at) => format!("{}{key} {value}", &line[..at]),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn check_of_a_sound_setup_finds_no_problem_and_names_what_is_missing_in_broken_ones() {
    let env = Env::start();
    let (code, text) = Setup::sound(&env).check();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.lines().all(|line| line.starts_with("ok ")), "{text}");
    for what in ["cache folder", "API server", "clock", "CRD", "permissions", "keys", "Lease"] {
        assert!(text.contains(what), "{text}");
    }

    broken_machine(&env);
    broken_access(&env);
    broken_cluster(&env);
}

/// Set-ups with a problem on the host's machine.
fn broken_machine(env: &Env) {
    let open = env.cluster().dir().join("open-cache");
    fs::create_dir(&open).expect("a folder");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("a mode");
    let setup = Setup { cache_dir: open, ..Setup::sound(env) };
    setup
        .assert_problem("cache folder", &["open-cache", "Set --cache-dir to a folder that belongs to the host's user"]);

    let file = env.cluster().dir().join("a-file");
    fs::write(&file, "").expect("a file");
    let setup = Setup { cache_dir: file, ..Setup::sound(env) };
    setup.assert_problem("cache folder", &["a-file", "Set --cache-dir"]);

    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let arg = format!("--metrics-addr={address}");
    let setup = Setup { args: vec![arg], ..Setup::sound(env) };
    setup.assert_problem("addresses", &["--metrics-addr", &address, "in use", "to another port"]);

    let setup = Setup::sound(env).with_args(&["--plugins", "no-such-folder"]);
    setup.assert_problem("plugins", &["--plugins no-such-folder cannot be read"]);

    let library = tools::faketime(&tools::stderr).expect("libfaketime").to_string_lossy().into_owned();
    let clock = [("LD_PRELOAD", library), ("FAKETIME", "+3600".to_owned())];
    let setup = Setup { variables: clock.to_vec(), ..Setup::sound(env) };
    setup.assert_problem("clock", &["s ahead of the API server's", "NTP"]);
}

/// Set-ups with a problem on the way to the API server.
fn broken_access(env: &Env) {
    let sound = Setup::sound(env).kubeconfig;
    let with = |name: &str, key: &str, value: &str| Setup {
        kubeconfig: edited(&sound, |text| replace_line(text, key, value), name),
        ..Setup::sound(env)
    };
    let unreachable = with("no-server", "server:", "https://127.0.0.1:1");
    unreachable.assert_problem("API server", &["cannot be reached", "Connection refused"]);
    let (_, text) = unreachable.check();
    assert!(text.contains("skipped  permissions   not checked: the API server cannot be reached"), "{text}");

    with("no-token", "token:", "invalid")
        .assert_problem("API server", &["401", "Check the credentials in the kubeconfig"]);

    let setup = Setup { kubeconfig: env.cluster().dir().join("no-file"), ..Setup::sound(env) };
    setup.assert_problem("API server", &["no-file cannot be used"]);

    let setup = Setup::sound(env).with_args(&["--namespace", "elsewhere"]);
    let (code, text) = setup.check();
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("impersonate serviceaccounts in namespace elsewhere"), "{text}");
    assert!(text.contains("Apply what `windlass generate rbac --namespace elsewhere` prints"), "{text}");
}

/// Set-ups with a problem in the cluster. The last one leaves the cluster without the CRD.
fn broken_cluster(env: &Env) {
    let rules = json!([{"op": "remove", "path": "/rules/0"}]).to_string();
    env.kubectl(&["-n", SYSTEM_NAMESPACE, "patch", "role", "windlass", "--type=json", "-p", &rules]);
    Setup::sound(env).assert_problem(
        "permissions",
        &["the host may not get configmaps in namespace windlass-system; list configmaps", "windlass generate rbac"],
    );
    env.apply_as("kubectl", &env.windlass(&["generate", "rbac"]));

    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "windlass-rng-key", "namespace": SYSTEM_NAMESPACE},
        "stringData": {"key": "short"},
    });
    env.apply(&secret.to_string());
    Setup::sound(env)
        .assert_problem("keys", &["Secret windlass-rng-key in namespace windlass-system holds no \"key\""]);
    env.kubectl(&["-n", SYSTEM_NAMESPACE, "delete", "secret", "windlass-rng-key"]);

    let leader = env.start_host_with(HostOptions::default());
    let (code, text) = Setup::sound(env).check();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("this host would stand by"), "{text}");
    assert!(leader.terminate().success());
    // Another node's host, whose clock is ahead: a holder of this machine's name might be an earlier process of it.
    let lease = json!({"spec": {
        "holderIdentity": "another-node_1", "leaseDurationSeconds": 15, "renewTime": "2099-01-01T00:00:00.000000Z",
    }});
    env.kubectl(&["-n", SYSTEM_NAMESPACE, "patch", "lease", "windlass", "--type=merge", "-p", &lease.to_string()]);
    let setup = Setup::sound(env).with_args(&["--leader-elect=false"]);
    setup.assert_problem("Lease", &["is held by another-node_1", "start this one with --leader-elect"]);

    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/suspend";
    let narrower = json!([{"op": "remove", "path": path}]).to_string();
    env.kubectl(&["patch", "crd", "plugins.windlass.dev", "--type=json", "-p", &narrower]);
    Setup::sound(env).assert_problem("CRD", &["is older than this host", "suspend", "windlass crd | kubectl apply"]);
    env.kubectl(&["delete", "crd", "plugins.windlass.dev"]);
    Setup::sound(env).assert_problem("CRD", &["is not installed", "windlass crd | kubectl apply"]);
}
