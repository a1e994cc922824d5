//! `windlass record`, `replay` and `explain`: the calls of a host, without values of Secrets.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_e2e::{Env, Host, Namespace, TIMEOUT, condition, guest, run_offline, wait};

/// The operators that ship with Windlass.
const OPERATORS: [&str; 5] = ["application", "echo", "myapp", "mysqlcluster", "namespaceguard"];

/// Storage for the samples; no volume is ever bound.
const STORAGE: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: by-hand, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
"#;

struct Stage {
    env: Env,
    host: Host,
}

/// One host with all operators and the puppets, for all tests of this file.
#[track_caller]
fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let env = Env::start();
        env.apply(STORAGE);
        let host = env.start_host();
        for plugin in OPERATORS {
            env.push_granted(&guest(plugin), plugin);
        }
        env.push(&guest("puppets/puppet"), "puppet", &[]);
        for plugin in OPERATORS {
            env.wait_live(plugin, &guest(plugin));
        }
        env.wait_live("puppet", &guest("puppets/puppet"));
        Stage { env, host }
    })
}

impl Stage {
    fn address(&self) -> String {
        wait("the address of the recent calls", TIMEOUT, || self.host.debug_address()).to_string()
    }

    /// What `windlass explain` prints about a parent.
    #[track_caller]
    fn explain(&self, kind: &str, ns: &Namespace, name: &str, more: &[&str]) -> String {
        let (object, address) = (format!("{kind}/{name}"), self.address());
        self.env.windlass(&[&["explain", &object, "-n", ns.name(), "--debug-addr", &address], more].concat())
    }

    /// Waits until `windlass explain` prints some words about the newest reconciles of a parent, and returns its output.
    #[track_caller]
    fn wait_explained(&self, kind: &str, ns: &Namespace, name: &str, words: &str) -> String {
        wait(&format!("an explanation with {words:?}"), TIMEOUT, || {
            let args = ["explain", kind, name, "-n", ns.name(), "--debug-addr", &self.address()];
            let explained = self.env.try_windlass(&args);
            explained.ok().filter(|explained| explained.contains(words))
        })
    }

    /// Records the calls of a plugin that the host still has.
    #[track_caller]
    fn record(&self, plugin: &str, folder: &Path, more: &[&str]) -> String {
        let file = folder.join(format!("{plugin}.calls.jsonl")).to_string_lossy().into_owned();
        let address = self.address();
        let args = ["record", plugin, "--for", "0", "--output-file", &file, "--debug-addr", &address];
        self.env.windlass(&[&args[..], more].concat());
        file
    }
}

/// A sample by its name in `manifests/samples`.
#[track_caller]
fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/samples").join(name).with_extension("yaml");
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The values of all Secrets of a namespace.
#[track_caller]
fn secret_values(ns: &Namespace) -> Vec<Vec<u8>> {
    let secrets = ns.env().list("secrets", ns.name());
    let data = secrets.iter().filter_map(|secret| secret["data"].as_object()).flatten();
    data.map(|(_, value)| STANDARD.decode(value.as_str().expect("text")).expect("base64")).collect()
}

#[test]
fn recorded_calls_of_all_operators_replay_byte_for_byte_and_contain_no_value_of_a_secret() {
    let stage = stage();
    let ns = &stage.env.namespace("recorded");
    for name in ["application", "echo", "myapp", "mysqlcluster", "mysqlcluster-full"] {
        let args = ["apply", "-n", ns.name(), "-f", "-"];
        stage.env.cluster().kubectl_with_input(&args, &sample(name)).expect("applied");
    }
    stage.env.apply(&sample("namespaceguard"));
    ns.wait_settled("hello");
    for (resource, name) in
        [("deployments", "shop"), ("deployments", "portal"), ("services", "orders"), ("services", "reports")]
    {
        stage.env.wait_object(resource, ns.name(), name, |_| true);
    }
    stage.env.wait_object("resourcequotas", "team-a", "guard", |_| true);
    // The plugin gets the password that it has generated back in the next call.
    wait("a call with the generated password", TIMEOUT, || {
        let explained = stage.explain("mysqlcluster", ns, "orders", &["-o", "json"]);
        let explained: Vec<Value> = serde_json::from_str(&explained).expect("JSON");
        let secret = explained.iter().find_map(|one| {
            let children = one.pointer("/reconcile/call/request/children")?.as_array()?;
            children.iter().find(|child| child["kind"] == "Secret").cloned()
        });
        secret.filter(|secret| secret["data"].as_object().is_some_and(|data| !data.is_empty()))
    });
    let values = secret_values(ns);
    assert!(values.len() >= 2 && values.iter().any(|value| value == b"change-me"), "a given and a generated password");

    let folder = tempfile::tempdir().expect("a folder");
    let mut written: Vec<_> =
        ["orders", "reports"].iter().map(|name| stage.explain("mysqlcluster", ns, name, &["-o", "json"])).collect();
    let only_hello = ["--parent", "hello", "-n", ns.name()];
    for plugin in OPERATORS {
        // Other tests of this file have parents of this plugin.
        let is_echo = plugin == "echo";
        let file = stage.record(plugin, folder.path(), if is_echo { &only_hello[..] } else { &[] });
        let recording = fs::read_to_string(&file).expect("a recording");
        assert!(recording.lines().count() > 1, "{plugin}: no call");
        let mut calls = recording.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        assert!(!is_echo || calls.all(|call| call["parent"]["name"] == "hello"), "{recording}");
        written.extend(recording.lines().skip(1).map(str::to_owned));
        let (code, printed, errors) = run_offline(&["replay", &file]);
        assert_eq!(code, 0, "{plugin}: {printed}{errors}");
        assert!(printed.contains(": equal (") && printed.contains("all results are equal"), "{printed}");
    }
    let all = written.concat();
    for value in values.iter().filter(|value| value.len() >= 6) {
        let plain = String::from_utf8_lossy(value);
        let encoded = STANDARD.encode(value);
        assert!(!all.contains(&*plain), "the value of a Secret is in a recording");
        assert!(!all.contains(encoded.trim_end_matches('=')), "the value of a Secret is in a recording in base64");
    }

    // Another component gives other results.
    let other = guest("echo-v2").to_string_lossy().into_owned();
    let file = folder.path().join("echo.calls.jsonl").to_string_lossy().into_owned();
    let (code, printed, errors) = run_offline(&["replay", &file, "--with", &other]);
    assert_eq!(code, 1, "{printed}{errors}");
    assert!(printed.contains("DIFFERENT") && printed.contains(r#"metadata.labels.logic: added "v2""#), "{printed}");
    let (code, printed, _) = run_offline(&["replay", &file, "--with", &other, "-o", "json"]);
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!((code, printed["calls"][0]["isEqual"] == false), (1, true), "{printed:#}");
}

#[test]
fn explanation_names_the_changed_field_and_what_was_written() {
    let stage = stage();
    let ns = &stage.env.namespace("explained");
    ns.echo("web", 2, "nginx:1");
    ns.wait_settled("web");
    let created = stage.explain("echo", ns, "web", &[]);
    let first = created.rsplit("\n\n").next().expect("the oldest reconcile comes last");
    assert!(first.contains("no earlier call to compare with"), "{created}");
    assert!(created.contains(&format!("created Pod {}/web-0", ns.name())), "{created}");

    ns.echo("web", 3, "nginx:1");
    ns.wait_settled("web");
    let scaled = stage.wait_explained("Echo.v1.my-operator.dev", ns, "web", "parent: spec.replicas: 2 → 3");
    for words in
        [&format!("created Pod {}/web-2", ns.name()), "desires 3 children: Pod web-0", "the other 2 are as desired"]
    {
        assert!(scaled.contains(words), "no {words:?} in\n{scaled}");
    }
}

#[test]
fn explanation_of_blocked_deletions_has_the_command_that_allows_them() {
    let stage = stage();
    let ns = &stage.env.namespace("blocked");
    let input = |keys: &[&str]| {
        let data: serde_json::Map<_, _> = keys.iter().map(|key| ((*key).to_owned(), json!("1"))).collect();
        let meta = json!({"name": "input", "namespace": ns.name()});
        stage.env.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}).to_string());
    };
    input(&["a", "b", "c", "d", "e", "f"]);
    let puppet = ns.puppet("web");
    let requirement = json!({"id": "in", "apiVersion": "v1", "kind": "ConfigMap", "name": "input"});
    puppet.play(&json!({"requirements": [requirement], "childrenFrom": "in"}));
    input(&["a"]);
    puppet.wait_reason("DeletionBlocked");
    let explained = stage.wait_explained("puppet", ns, "web", "blocked:");
    let name = ns.name();
    for words in [
        format!("related object (requirement in) ConfigMap {name}/input: data.b: removed \"1\""),
        "5 of 6 children would be deleted although the spec did not change".to_owned(),
        "windlass.dev/allow-deletion=".to_owned(),
    ] {
        assert!(explained.contains(&words), "no {words:?} in\n{explained}");
    }
}

#[test]
fn explanation_of_a_failed_call_has_its_message_and_counts_equal_ones() {
    let stage = stage();
    let ns = &stage.env.namespace("trapped");
    let puppet = ns.puppet("web");
    puppet.apply(&json!({"fail": "trap"}));
    puppet.wait(|puppet| condition(puppet, "Ready").is_false("Trapped"));
    let explained = stage.wait_explained("puppets", ns, "web", "times before");
    assert!(
        explained.contains("the call was aborted: trap") && explained.contains("Trapped (reconciling)"),
        "{explained}"
    );
}

#[test]
fn r05_parent_whose_child_has_a_taken_name_is_reconciled_once_the_name_is_free() {
    let stage = stage();
    let ns = &stage.env.namespace("taken");
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}});
    ns.puppet("first").play(&json!({"children": [config_map]}));
    let (mark, second) = (stage.env.mark(), ns.puppet("second"));
    second.apply(&json!({"children": [config_map]}));
    // After four attempts, the next one is some seconds away.
    stage.env.wait("attempts to create the ConfigMap", TIMEOUT, || {
        let creates = stage.env.host_requests(mark).namespace(ns.name()).resource("configmaps");
        (creates.filter(|event| event.code == 409).len() >= 4).then_some(())
    });
    ns.puppet("first").kubectl("delete", &[]);
    second.wait_done();
    let explained = stage.explain("puppets", ns, "second", &["-o", "json"]);
    let explained: Vec<Value> = serde_json::from_str(&explained).expect("JSON");
    let created =
        explained.iter().find(|one| one.pointer("/reconcile/decision/written/0/verb") == Some(&json!("created")));
    let trigger = created.and_then(|one| one.pointer("/reconcile/trigger"));
    assert_eq!(trigger, Some(&json!("changed")), "the end of a backoff would be a retry: {explained:#?}");
}

#[test]
fn unknown_parent_is_an_error_that_says_what_to_do() {
    let stage = stage();
    let error = stage.env.try_windlass(&["explain", "echo/web", "-n", "nowhere", "--debug-addr", &stage.address()]);
    let error = error.expect_err("there is no such parent");
    assert!(error.contains("exit status: 1"), "{error}");
    for words in ["no recent reconcile of echo/web in namespace nowhere", "kubectl get echo web -n nowhere"] {
        assert!(error.contains(words), "{error}");
    }
}
