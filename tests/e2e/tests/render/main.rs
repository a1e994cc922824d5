//! Commands that show what a component would do, without a cluster and against one.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod diff;
mod yaml;

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use windlass_e2e::{guest, run_offline, shared, text, windlass};

/// The path of a guest, as an argument.
fn path(name: &str) -> String {
    guest(name).to_string_lossy().into_owned()
}

/// Writes a parent to a file.
fn file(folder: &tempfile::TempDir, parent: &Value) -> String {
    let path = folder.path().join("parent.json");
    std::fs::write(&path, parent.to_string()).expect("a temporary file");
    path.to_string_lossy().into_owned()
}

fn render(component: &str, parent: &Value) -> (i32, Value) {
    render_with(component, parent, &[])
}

fn render_with(component: &str, parent: &Value, more: &[&str]) -> (i32, Value) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, parent) = (path(component), file(&folder, parent));
    let args = ["render", &path, "-f", &parent, "--full", "-o", "json"];
    let (code, printed, stderr) = run_offline(&[&args[..], more].concat());
    (code, serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}{stderr}")))
}

fn echo(replicas: u32, image: &str) -> Value {
    json!({
        "apiVersion": "my-operator.dev/v1", "kind": "Echo", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": replicas, "image": image},
    })
}

fn by_name(mut bodies: Vec<Value>) -> Vec<Value> {
    bodies.sort_by_key(|body| text(body, "/metadata/name"));
    bodies
}

/// Checks that an object has all fields of a body; the API server may have added more.
#[track_caller]
fn assert_has(object: &Value, body: &Value, path: &str) {
    match body {
        Value::Object(fields) => {
            for (name, field) in fields {
                assert_has(&object[name], field, &format!("{path}.{name}"));
            }
        }
        Value::Array(items) => {
            assert_eq!(object.as_array().map(Vec::len), Some(items.len()), "{path}");
            for (at, item) in items.iter().enumerate() {
                assert_has(&object[at], item, &format!("{path}[{at}]"));
            }
        }
        value => assert_eq!(object, value, "{path}"),
    }
}

#[test]
fn render_prints_the_children_that_the_cluster_got() {
    const APPLIED: &str = "windlass.dev/applied";
    let ns = shared().env.namespace("render");
    ns.echo("web", 3, "nginx:1");
    let parent = ns.wait_settled("web");
    let pods = by_name(ns.pods());
    assert_eq!(pods.len(), 3);
    let bodies = |rendered: &Value| by_name(rendered["children"].as_array().expect("children").clone());

    // From the live parent: render prints exactly the bodies that the host sent.
    let (code, rendered) = render("echo", &parent);
    assert_eq!((code, bodies(&rendered).len()), (0, 3));
    for (pod, body) in pods.iter().zip(bodies(&rendered)) {
        assert!(text(&body, "/metadata/annotations/windlass.dev~1applied").starts_with("1:"), "{body:#}");
        assert_has(pod, &body, "pod");
    }

    // From the user's manifest: the bodies differ only in the uid and in hashes that depend on it.
    let (code, offline) = render("echo", &ns.echo_manifest("web", 3, "nginx:1"));
    assert_eq!(code, 0);
    let uid = text(&parent, "/metadata/uid");
    let offline = offline.to_string().replace("00000000-0000-0000-0000-000000000000", &uid);
    let offline = bodies(&serde_json::from_str(&offline).expect("JSON"));
    let unhashed = |mut body: Value| {
        body["metadata"]["annotations"].as_object_mut().expect("annotations").remove(APPLIED);
        body
    };
    let offline: Vec<_> = offline.into_iter().map(unhashed).collect();
    let live: Vec<_> = bodies(&rendered).into_iter().map(unhashed).collect();
    assert_eq!(offline, live);
}

#[test]
fn render_prints_children_as_manifests_and_the_whole_response_with_output_full() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (component, parent) = (path("echo"), file(&folder, &echo(2, "nginx:1")));
    let (code, printed, stderr) = run_offline(&["render", &component, "-f", &parent]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(printed.split("---\n").count(), 2, "there is a document for each Pod: {printed}");
    for document in printed.split("---\n") {
        assert!(document.contains("kind: Pod") && document.contains("name: web-"), "{document}");
    }
    assert!(!printed.contains("requeueMs"), "{printed}");

    let (code, whole, stderr) = run_offline(&["render", &component, "-f", &parent, "--full"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(whole.contains("requeueMs") && whole.contains("currentReplicas: 0"), "{whole}");

    let spec = json!({"waiting": "for the Secret", "keepAll": true, "requeueAt": "2026-01-01T00:00:00Z"});
    let probe =
        json!({"apiVersion": "conformance.example/v1", "kind": "Probe", "metadata": {"name": "a"}, "spec": spec});
    let probe = file(&folder, &probe);
    let (code, whole, stderr) = run_offline(&["render", &path("probe"), "-f", &probe, "--full"]);
    assert_eq!(code, 0, "{stderr}");
    let expected = ["waiting: for the Secret", "keep: all", "requeueAtMs: 1767225600000"];
    assert!(expected.iter().all(|line| whole.contains(line)), "{whole}");

    let wrong = file(&folder, &echo(1001, "nginx:1"));
    let (code, printed, stderr) = run_offline(&["render", &component, "-f", &wrong, "--no-validate"]);
    assert_eq!((code, &*printed), (1, ""), "a failure prints no manifest: {stderr}");
    assert!(stderr.contains("error: ") && stderr.contains("replicas"), "{stderr}");
}

#[test]
fn render_exits_with_1_when_the_plugin_calls_the_spec_invalid() {
    let (code, rendered) = render_with("echo", &echo(1001, "nginx:1"), &["--no-validate"]);
    assert_eq!((code, &rendered["failure"]["kind"]), (1, &json!("invalid")), "{rendered:#}");
    assert!(text(&rendered, "/failure/message").contains("replicas"), "{rendered:#}");
}

#[test]
fn render_exits_with_1_when_the_call_fails_or_the_response_is_rejected() {
    let hostile = |kind: &str| json!({"apiVersion": "hostile.example/v1", "kind": kind, "metadata": {"name": "a", "namespace": "b"}, "spec": {}});
    for (component, kind, failure, words) in [
        ("hostile/trap", "Trap", "call", "unreachable"),
        ("hostile/panic", "Panic", "call", "no such luck"),
        ("hostile/endless-loop", "EndlessLoop", "call", "1000 ms"),
        ("hostile/foreign-kind", "ForeignKind", "refused", "Secret"),
        ("hostile/garbage-json", "GarbageJson", "refused", "JSON"),
    ] {
        let (code, rendered) = render(component, &hostile(kind));
        assert_eq!((code, &rendered["failure"]["kind"]), (1, &json!(failure)), "{component}: {rendered:#}");
        assert!(text(&rendered, "/failure/message").contains(words), "{component}: {rendered:#}");
        assert_eq!(rendered["children"], Value::Null, "{component}");
    }
}

#[test]
fn render_exits_with_3_for_an_unusable_file_and_with_2_for_a_missing_argument() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let parent = file(&folder, &other);
    let component = path("echo");
    for (args, code, words) in [
        (vec!["render", &component, "-f", &parent], 3, "ConfigMap"),
        (vec!["render", &component, "-f", "/nonexistent/echo.yaml"], 3, "/nonexistent/echo.yaml"),
        (vec!["render", "/nonexistent/echo.wasm", "-f", &parent], 3, "/nonexistent/echo.wasm"),
        (vec!["render", &component], 2, "--filename"),
    ] {
        let (found, printed, stderr) = run_offline(&args);
        assert_eq!(found, code, "{args:?}: {stderr}");
        assert!(stderr.contains("error: ") && stderr.contains(words), "{args:?}: {stderr}");
        assert_eq!(printed, "", "{args:?}");
    }
}

#[test]
fn command_whose_output_is_closed_ends_without_a_message() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (component, parent) = (path("echo"), file(&folder, &echo(2, "nginx:1")));
    for args in [vec!["render", &component, "-f", &parent], vec!["inspect", &component], vec!["crd"]] {
        let mut command = windlass();
        command.args(&args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("windlass starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("windlass ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("panicked") && !stderr.contains("error: "), "{args:?}: {stderr}");
    }
}

#[test]
fn r24_render_leaves_out_the_children_of_an_optional_kind_that_a_cluster_lacks() {
    const MONITOR: &str = "Monitor.v1.optional.example";
    let (folder, component) = (tempfile::tempdir().expect("a temporary folder"), path("puppets/puppet-staged"));
    let child =
        |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}});
    let children = [child("v1", "ConfigMap"), child("optional.example/v1", "Monitor")];
    let parent = file(
        &folder,
        &json!({
            "apiVersion": "puppets.example/v1", "kind": "StagedPuppet", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"children": children, "requirements": ["targets"]},
        }),
    );
    let rendered =
        |without: &[&str]| run_offline(&[&["render", &component, "-f", &parent, "-o", "name"], without].concat());
    let (code, all, _) = rendered(&[]);
    assert_eq!((code, all.lines().count()), (0, 2), "{all}");
    let (code, without, stderr) = rendered(&["--without", MONITOR, "--without", "Target.v1.optional.example"]);
    assert_eq!((code, without.lines().count()), (0, 1), "{without}");
    assert!(stderr.contains(&format!("children of {MONITOR} are left out")), "{stderr}");
    assert!(stderr.contains("[] [targets: 0]"), "the plugin is told so, and its requirement is answered: {stderr}");
    let (code, _, stderr) = rendered(&["--without", "ConfigMap.v1"]);
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("ConfigMap.v1 is not optional") && stderr.contains(MONITOR), "{stderr}");
}

#[test]
fn related_objects_of_all_namespaces_are_rendered_from_the_given_ones() {
    let (folder, component) = (tempfile::tempdir().expect("a temporary folder"), path("puppets/puppet-staged"));
    let parent = json!({
        "apiVersion": "puppets.example/v1", "kind": "StagedPuppet", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"requirements": ["own", "all"]},
    });
    let target = |namespace: &str| json!({"apiVersion": "optional.example/v1", "kind": "Target", "metadata": {"name": "a", "namespace": namespace}});
    let items = ["shop", "bank", "farm"].map(target);
    let targets = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let (parent, related) = (file(&folder, &parent), folder.path().join("related.json"));
    std::fs::write(&related, targets.to_string()).expect("written");
    let (code, _, stderr) =
        run_offline(&["render", &component, "-f", &parent, "--related", &related.to_string_lossy()]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("[own: 1 all: 3]"), "{stderr}");
}

#[test]
fn render_prints_the_plugins_log_on_standard_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let parent = json!({
        "apiVersion": "hostile.example/v1", "kind": "Panic", "metadata": {"name": "a", "namespace": "b"}, "spec": {},
    });
    let (code, printed, stderr) =
        run_offline(&["render", &path("hostile/panic"), "-f", &file(&folder, &parent), "--full", "-o", "json"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("plugin error: ") && stderr.contains("no such luck"), "{stderr}");
    serde_json::from_str::<Value>(&printed).expect("standard output is JSON");
}

#[test]
fn render_exits_with_6_when_the_parent_does_not_match_the_components_crd() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (mut parent, field, value, words) in [
        (echo(1001, "nginx:1"), "replicas", json!(1001), "spec.replicas: 1001 is more than the maximum 1000"),
        (echo(1, "nginx:1"), "repliicas", json!(3), "spec.repliicas: unknown field"),
        (echo(1, "nginx:1"), "image", json!(7), "spec.image: must be of type string"),
    ] {
        parent["spec"][field] = value;
        let (code, printed, stderr) = run_offline(&["render", &path("echo"), "-f", &file(&folder, &parent)]);
        assert_eq!((code, &*printed), (6, ""), "{stderr}");
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
}

#[test]
fn render_returns_children_for_every_sample_of_the_repository() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/samples");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plugin = std::fs::read_to_string(samples.join("namespaceguard-plugin.yaml")).expect("a sample");
    // The Plugin's config, without a YAML parser: the lines below `config:`, less their indentation.
    let (_, config) = plugin.split_once("  config:\n").expect("spec.config");
    let config: Vec<_> = config.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    let sizes = folder.path().join("config.yaml");
    std::fs::write(&sizes, config.join("\n")).expect("a temporary file");
    let sizes = sizes.to_string_lossy().into_owned();
    for (component, sample, more) in [
        ("echo", "echo", vec![]),
        ("echo", "echo-full", vec![]),
        ("myapp", "myapp", vec![]),
        ("myapp", "myapp-full", vec![]),
        ("mysqlcluster", "mysqlcluster", vec![]),
        ("mysqlcluster", "mysqlcluster-full", vec![]),
        ("application", "application", vec![]),
        ("application", "application-full", vec![]),
        ("namespaceguard", "namespaceguard", vec!["--config", &*sizes]),
        ("languages/postgres-go", "postgres", vec![]),
        ("languages/postgres-go", "postgres-full", vec![]),
    ] {
        let sample = samples.join(sample).with_extension("yaml");
        let (component, sample) = (path(component), sample.to_string_lossy().into_owned());
        let args = ["render", &component, "-f", &sample, "--full", "-o", "json"];
        let (code, printed, stderr) = run_offline(&[&args[..], &more].concat());
        assert_eq!(code, 0, "{sample}: {stderr}{printed}");
        let rendered: Value = serde_json::from_str(&printed).expect("JSON");
        assert_ne!(rendered["children"], json!([]), "{sample}: {stderr}");
    }
}

#[test]
fn render_refuses_a_config_that_does_not_fit_the_components_schema() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/samples/namespaceguard.yaml");
    let (component, sample) = (path("namespaceguard"), sample.to_string_lossy().into_owned());
    let config = file(&folder, &json!({ "qouta": { "pods": "10" }, "network": { "allowDns": "yes" } }));
    let (code, printed, stderr) = run_offline(&["render", &component, "-f", &sample, "--config", &config]);
    assert_eq!((code, &*printed), (3, ""), "{stderr}");
    for words in [
        "spec.config.qouta: unknown field; known are container, network, quota",
        "spec.config.network.allowDns: must be of type boolean, and is a string",
    ] {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
    // A component without a schema takes no config.
    let other = tempfile::tempdir().expect("a temporary folder");
    let echo = file(&other, &echo(1, "nginx:1"));
    let (code, _, stderr) = run_offline(&["render", &path("echo"), "-f", &echo, "--config", &config]);
    assert!(code == 3 && stderr.contains("the component takes no configuration"), "{code}: {stderr}");
}

/// Renders these parents from one file, and returns the exit code, standard output and standard error.
fn render_several(parents: &[Value], more: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (component, parents) = (path("echo"), file(&folder, &json!(parents)));
    run_offline(&[&["render", &component, "-f", &parents][..], more].concat())
}

fn named(name: &str, replicas: u32) -> Value {
    let mut echo = echo(replicas, "nginx:1");
    echo["metadata"]["name"] = json!(name);
    echo
}

#[test]
fn render_prints_the_children_of_several_parents_in_their_order() {
    let (code, printed, stderr) = render_several(&[named("b", 2), named("a", 1)], &[]);
    assert_eq!(code, 0, "{stderr}");
    let names: Vec<_> = printed.lines().filter_map(|line| line.strip_prefix("  name: ")).collect();
    assert_eq!(names, ["b-0", "b-1", "a-0"], "{printed}");

    let folder = tempfile::tempdir().expect("a temporary folder");
    let (component, first) = (path("echo"), file(&folder, &named("b", 1)));
    let second = folder.path().join("second.json");
    std::fs::write(&second, named("a", 1).to_string()).expect("a temporary file");
    let (code, printed, stderr) =
        run_offline(&["render", &component, "-f", &first, "-f", &second.to_string_lossy(), "--full", "-o", "json"]);
    assert_eq!(code, 0, "{stderr}");
    let list: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(list["kind"], "List");
    let parents: Vec<_> =
        list["items"].as_array().expect("items").iter().map(|one| text(one, "/parent/name")).collect();
    assert_eq!(parents, ["b", "a"], "{list:#}");
}

#[test]
fn render_of_several_parents_prints_the_others_if_one_fails_and_exits_with_the_largest_code() {
    let (code, printed, stderr) = render_several(&[named("bad", 1001), named("good", 1)], &["--no-validate"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(printed.contains("name: good-0"), "{printed}");
    assert!(stderr.contains("error: Echo shop/bad in "), "{stderr}");

    let mut invalid = named("invalid", 1);
    invalid["spec"]["image"] = json!(7);
    let (code, printed, stderr) = render_several(&[invalid, named("good", 1)], &["--full", "-o", "json"]);
    assert_eq!(code, 6, "{stderr}");
    assert!(stderr.contains("error: Echo shop/invalid in ") && stderr.contains("spec.image"), "{stderr}");
    let list: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(list["items"][0]["failure"]["kind"], "schema", "{list:#}");
    assert_eq!(list["items"][1]["children"].as_array().map(Vec::len), Some(1), "{list:#}");
}

#[test]
fn inspect_prints_digest_descriptor_imports_and_exports_of_a_component() {
    let (code, printed, stderr) = run_offline(&["inspect", &path("echo"), "-o", "json"]);
    assert_eq!(code, 0, "{stderr}");
    let found: Value = serde_json::from_str(&printed).expect("JSON");
    let bytes = std::fs::read(guest("echo")).expect("the component");
    assert_eq!(found["size"], bytes.len());
    assert_eq!(found["digest"], format!("sha256:{}", hex::encode(<sha2::Sha256 as sha2::Digest>::digest(&bytes))));
    assert_eq!(found["contract"], "0.2.0-rc.1");
    assert_eq!(
        found["descriptor"],
        json!({
            "name": "echo", "version": "0.1.0", "description": "Runs the desired number of Pods of an image",
            "parent": {"customResourceDefinition": "echoes.my-operator.dev"},
            "children": [{"kind": "Pod.v1", "update": "apply"}],
            "related": [], "optional": [], "finalizes": false, "orderedDeletion": false, "readyMeans": "applied", "clock": false,
            "resyncMs": 300_000, "metrics": [],
        })
    );
    assert_eq!(found["exports"], json!(["windlass:plugin/reconciler@0.2.0-rc.1"]));
    assert_eq!(found["unknownImports"], json!([]));

    let (code, _, stderr) = run_offline(&["inspect", &path("echo-broken")]);
    assert_eq!(code, 3);
    assert!(stderr.contains("describe"), "{stderr}");
}

#[test]
fn push_dry_run_prints_the_same_manifests_each_time_without_a_cluster() {
    let component = path("echo");
    let push = |more: &[&str]| {
        let (code, printed, stderr) =
            run_offline(&[&["push", &component, "--name", "echo", "--dry-run=client"], more].concat());
        assert_eq!(code, 0, "{stderr}");
        printed
    };
    let manifests = push(&[]);
    assert_eq!(manifests, push(&[]), "the manifests do not depend on the time");
    assert!(manifests.contains("kind: Plugin") && !manifests.contains("pushed-at"), "{manifests}");
    assert_eq!(push(&["-o", "name"]), "configmap/echo\nplugin.windlass.dev/echo\n");
    let roles = push(&["-o", "name", "--create-rbac"]);
    assert!(roles.contains("clusterrole.rbac.authorization.k8s.io/windlass-plugin-echo:account\n"), "{roles}");
}

#[test]
fn r25_host_may_note_on_parents_which_children_a_component_of_contract_0_2_creates_once() {
    let patches = |component: &str, parents: &str| {
        let component = path(component);
        let args = ["push", &component, "--name", "x", "--dry-run=client", "--create-rbac", "-o", "json"];
        let (code, printed, stderr) = run_offline(&args);
        assert_eq!(code, 0, "{stderr}");
        let all: Value = serde_json::from_str(&printed).expect("JSON");
        let mut items = all["items"].as_array().expect("a list").iter();
        let role = items.find(|one| one["metadata"]["name"] == "windlass-plugin-x").expect("the host's role");
        let rules = role["rules"].as_array().expect("rules").iter();
        let mut of_parents = rules.filter(|rule| rule["resources"] == json!([parents]));
        of_parents.any(|rule| rule["verbs"].as_array().expect("verbs").contains(&json!("patch")))
    };
    assert!(patches("puppets/puppet-scheduled", "scheduledpuppets"), "it sets no finalizer");
    assert!(!patches("contract/older", "echoes"), "contract 0.1");
}

#[test]
fn completion_prints_the_commands_for_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, stderr) = run_offline(&["completion", shell]);
        assert_eq!(code, 0, "{stderr}");
        for word in ["render", "push", "kubeconfig"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert!(!script.contains("compile-child"), "{shell}: hidden commands are not completed");
    }
}

#[test]
fn crd_prints_the_crd_that_a_component_carries() {
    let (code, printed, stderr) = run_offline(&["crd", &path("echo")]);
    assert_eq!(code, 0, "{stderr}");
    for line in ["kind: CustomResourceDefinition", "name: echoes.my-operator.dev", "kind: Echo"] {
        assert!(printed.contains(line), "{line:?} is not in\n{printed}");
    }
    let (code, own, stderr) = run_offline(&["crd"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(own.contains("name: plugins.windlass.dev"), "{own}");
}
