//! `windlass diff`: what it shows, its exit codes, and that it writes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Value, json};
use windlass_e2e::{Env, Namespace, guest, run_offline, shared, windlass};

/// The result of a diff.
#[derive(Debug)]
struct Diff {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Runs `windlass diff` with a kubeconfig and variables.
fn diff_with(kubeconfig: &Path, component: &str, args: &[&str], variables: &[(&str, &str)]) -> Diff {
    let mut command = windlass();
    command.arg("diff").arg(guest(component)).args(args).arg("--kubeconfig").arg(kubeconfig);
    command.envs(variables.iter().copied());
    let output = command.output().expect("windlass starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().expect("an exit code");
    Diff { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

fn diff(env: &Env, component: &str, args: &[&str]) -> Diff {
    diff_with(env.cluster().kubeconfig(), component, args, &[])
}

/// A kubeconfig of a user who may read and preview parents in a namespace, with the permissions that the command's help
/// names.
fn previewer(ns: &Namespace) -> PathBuf {
    let name = ns.name();
    let subjects = json!([{"kind": "ServiceAccount", "name": "previewer", "namespace": name}]);
    let plugins = format!("{name}-plugins");
    let objects = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "previewer", "namespace": name}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "previewer", "namespace": name}, "rules": [
            {"apiGroups": ["my-operator.dev", "puppets.example"], "resources": ["echoes", "puppets", "finalizingpuppets"], "verbs": ["get", "list"]},
            {"apiGroups": ["", "apps", "batch"], "resources": ["configmaps", "deployments", "jobs", "pods", "secrets", "services"],
                "verbs": ["get", "list", "create", "patch"]}]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "previewer", "namespace": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "previewer"}, "subjects": subjects}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": plugins}, "rules": [
            {"apiGroups": ["windlass.dev"], "resources": ["plugins"], "verbs": ["get", "list"]}]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": plugins},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": plugins}, "subjects": subjects}),
    ];
    for object in objects {
        ns.env().apply(&object.to_string());
    }
    ns.env().cluster().service_account_kubeconfig(name, "previewer").expect("a kubeconfig")
}

#[test]
fn diff_of_the_live_component_is_empty_and_that_of_the_next_one_shows_its_changes_and_neither_writes() {
    let ns = shared().env.namespace("diff");
    ns.echo("web", 2, "nginx:1");
    ns.echo("other", 1, "nginx:1");
    ns.wait_settled("web");
    ns.wait_settled("other");
    let kubeconfig = previewer(&ns);
    let mark = ns.env().mark();

    let same = diff_with(&kubeconfig, "echo", &["-n", ns.name()], &[]);
    assert_eq!((same.code, &*same.stdout), (0, ""), "{same:?}");
    assert!(same.stderr.contains("2 parents, 0 objects differ"), "{same:?}");

    let next = diff_with(&kubeconfig, "echo-v2", &["-n", ns.name()], &[]);
    assert_eq!(next.code, 1, "{next:?}");
    for pod in ["other-0", "web-0", "web-1"] {
        let title = format!("update Pod {}/{pod}\n--- live/v1.Pod.{}.{pod}\n", ns.name(), ns.name());
        assert!(next.stdout.contains(&title), "{pod}: {}", next.stdout);
    }
    let changes: Vec<_> = next.stdout.lines().filter(|line| line.starts_with(['+', '-'])).collect();
    let labels = changes.iter().filter(|line| **line == "+    logic: v2").count();
    assert_eq!((labels, changes.len()), (3, 9), "each Pod gets the label, and nothing else changes: {}", next.stdout);
    assert!(next.stderr.contains("2 parents, 3 objects differ"), "{next:?}");
    assert!(!next.stdout.contains('\u{1b}'), "no colours without a terminal");

    let one = diff_with(&kubeconfig, "echo-v2", &["web", "-n", ns.name(), "--color=always"], &[]);
    assert_eq!(one.code, 1, "{one:?}");
    assert!(one.stderr.contains("1 parent, 2 objects differ") && one.stdout.contains('\u{1b}'), "{one:?}");
    let missing = diff_with(&kubeconfig, "echo-v2", &["missing", "-n", ns.name()], &[]);
    assert_eq!(missing.code, 3, "{missing:?}");
    assert!(missing.stderr.contains("Echo missing does not exist in namespace"), "{missing:?}");

    let user = format!("system:serviceaccount:{}:previewer", ns.name());
    let requests = ns.env().audit().since(mark).expect("an audit log").by_user(&user);
    assert!(requests.iter().any(|request| request.query("dryRun") == Some("All")), "{requests:#?}");
    for request in requests.iter() {
        let is_read = ["get", "list"].contains(&request.verb.as_str());
        assert!(is_read || request.query("dryRun") == Some("All"), "{request:#?}");
    }
}

#[test]
fn diff_in_all_namespaces_finds_the_parents_of_a_name_and_a_label_selector_finds_those_with_the_label() {
    let env = &shared().env;
    let namespaces = [env.namespace("diff-all"), env.namespace("diff-all")];
    for ns in &namespaces {
        ns.echo("everywhere", 1, "nginx:1");
        ns.wait_settled("everywhere");
    }
    namespaces[0].kubectl(&["label", "echo", "everywhere", "team=blue"]);
    let all = diff(env, "echo-v2", &["everywhere", "-A"]);
    assert_eq!(all.code, 1, "{all:?}");
    assert!(
        namespaces.iter().all(|ns| all.stdout.contains(&format!("update Pod {}/everywhere-0", ns.name()))),
        "{all:?}"
    );
    let blue = diff(env, "echo-v2", &["-A", "-l", "team=blue"]);
    assert!(blue.stderr.contains("1 parent, 1 object differs"), "{blue:?}");
    let red = diff(env, "echo-v2", &["everywhere", "-n", namespaces[0].name(), "-l", "team=red"]);
    assert_eq!(red.code, 0, "{red:?}");
    assert!(red.stderr.contains("is left out: its labels do not match --selector team=red\n"), "{red:?}");
}

#[test]
fn diff_names_the_version_or_the_crd_that_the_cluster_lacks() {
    let env = &shared().env;
    let version = diff(env, "echo-v1beta1", &["-A"]);
    assert_eq!(version.code, 3, "{version:?}");
    assert!(version.stderr.contains("my-operator.dev/v1,"), "{version:?}");
    let crd = diff(env, "hostile/trap", &["-A"]);
    assert_eq!(crd.code, 3, "{crd:?}");
    assert!(crd.stderr.contains("is not installed") && crd.stderr.contains("windlass crd"), "{crd:?}");
}

/// A parent of a guest in a cluster without its Plugin: no host changes what the test writes.
struct Still {
    ns: Namespace<'static>,
    folder: tempfile::TempDir,
    component: &'static str,
    kind: &'static str,
}

impl Still {
    fn new(name: &str) -> Self {
        static INSTALLED: OnceLock<()> = OnceLock::new();
        INSTALLED.get_or_init(|| install("puppets/puppet", "puppets"));
        Self::of(name, "puppets/puppet", "Puppet")
    }

    fn of(name: &str, component: &'static str, kind: &'static str) -> Self {
        let env = &shared().env;
        let ns = env.namespace(name);
        // Pods cannot be created before their namespace has its ServiceAccount.
        env.wait_object("serviceaccounts", ns.name(), "default", |_| true);
        Self { ns, folder: tempfile::tempdir().expect("a temporary folder"), component, kind }
    }

    fn script(&self, children: &[Value]) {
        self.ns.puppet_of(self.kind, "web").apply(&json!({ "children": children }));
    }

    fn file(&self, name: &str, content: &Value) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, content.to_string()).expect("a temporary file");
        path.to_string_lossy().into_owned()
    }

    /// Creates these children as a host would: with the host's bodies, by POST, under the host's field manager.
    fn create(&self, children: &[Value]) {
        self.create_of("web", children);
    }

    /// Creates the children of this parent.
    fn create_of(&self, parent: &str, children: &[Value]) {
        let puppet = self.ns.puppet_of(self.kind, parent);
        puppet.apply(&json!({ "children": children }));
        let parent = self.file("parent.json", &puppet.get().expect("a parent"));
        let component = guest(self.component);
        let (code, rendered, stderr) = run_offline(&[
            "render",
            &component.to_string_lossy(),
            "-f",
            &parent,
            "--full",
            "-o",
            "json",
            "--show-secrets",
        ]);
        assert_eq!(code, 0, "{stderr}");
        let rendered: Value = serde_json::from_str(&rendered).expect("JSON");
        for child in rendered["children"].as_array().expect("children") {
            let file = self.file("child.json", child);
            self.ns.kubectl(&["create", "--field-manager=windlass", "-f", &file]);
        }
    }

    fn diff(&self, args: &[&str]) -> Diff {
        diff(self.ns.env(), self.component, &[&["-n", self.ns.name()], args].concat())
    }
}

/// Installs the CRD of a guest.
fn install(component: &str, plural: &str) {
    let env = &shared().env;
    env.apply(&env.windlass(&["crd", &guest(component).to_string_lossy()]));
    env.kubectl(&["wait", "--for=condition=Established", &format!("crd/{plural}.puppets.example"), "--timeout=180s"]);
}

fn map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn secret(value: &str) -> Value {
    let encoded = |text: &str| match text {
        "before" => "YmVmb3Jl",
        _ => "YWZ0ZXI=",
    };
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "data": {"password": encoded(value)}})
}

fn pod(image: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"},
        "spec": {"containers": [{"name": "main", "image": image}]}})
}

#[test]
fn diff_shows_creations_updates_recreations_and_deletions() {
    let still = Still::new("diff-verbs");
    let before = [map("kept", &json!({"a": "1"})), map("dropped", &json!({})), pod("nginx:1")];
    still.script(&before);
    let created = still.diff(&[]);
    assert_eq!(created.code, 1, "{created:?}");
    assert_eq!(created.stdout.matches("\n--- /dev/null\n").count(), 3, "{}", created.stdout);
    assert!(created.stderr.contains("note: Plugin puppet does not exist"), "{created:?}");

    still.create(&before);
    let same = still.diff(&[]);
    assert_eq!((same.code, &*same.stdout), (0, ""), "{same:?}");

    still.script(&[map("kept", &json!({"a": "2"})), map("new", &json!({})), pod("nginx:2")]);
    let changed = still.diff(&[]);
    assert_eq!(changed.code, 1, "{changed:?}");
    let ns = still.ns.name();
    for (title, lines) in [
        (format!("update ConfigMap {ns}/kept"), [("-", "a: '1'"), ("+", "a: '2'")]),
        (format!("create ConfigMap {ns}/new"), [("---", "/dev/null"), ("+", "kind: ConfigMap")]),
        (format!("delete ConfigMap {ns}/dropped"), [("+++", "/dev/null"), ("-", "kind: ConfigMap")]),
        (format!("recreate Pod {ns}/one"), [("-", "image: nginx:1"), ("+", "image: nginx:2")]),
    ] {
        let part = changed.stdout.split("# ").find(|part| part.contains(&title));
        let part = part.unwrap_or_else(|| panic!("{title}: {}", changed.stdout)).replace('"', "'");
        let has = |(sign, text): (&str, &str)| part.lines().any(|line| line.starts_with(sign) && line.contains(text));
        assert!(lines.into_iter().all(has), "{lines:?}: {part}");
    }
    assert!(changed.stderr.contains("1 parent, 4 objects differ"), "{changed:?}");
}

#[test]
fn diff_shows_fields_that_the_next_apply_removes_from_a_child_that_was_never_applied() {
    let still = Still::new("diff-dropped");
    still.create(&[map("one", &json!({"a": "1", "old": "2"}))]);
    still.script(&[map("one", &json!({"a": "1"}))]);
    let dropped = diff_with(&previewer(&still.ns), "puppets/puppet", &["-n", still.ns.name()], &[]);
    assert_eq!(dropped.code, 1, "{dropped:?}");
    let changes: Vec<_> =
        dropped.stdout.lines().filter(|line| line.starts_with(['+', '-']) && !line.contains("ConfigMap")).collect();
    assert_eq!(changes.len(), 1, "{}", dropped.stdout);
    assert!(changes[0].starts_with("-  old: "), "{}", dropped.stdout);
}

#[test]
fn r21_diff_shows_that_a_default_goes_which_another_choice_of_the_plugin_excludes() {
    let still = Still::new("diff-default");
    let deployment = |strategy: &Value| {
        let labels = json!({"app": "one"});
        let container = json!({"name": "main", "image": "nginx:1"});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "one"}, "spec": {"strategy": strategy,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}})
    };
    still.create(&[deployment(&json!({}))]);
    still.ns.kubectl(&["scale", "deployment", "one", "--replicas=5"]);
    still.script(&[deployment(&json!({"type": "Recreate"}))]);
    let changed = still.diff(&[]);
    assert_eq!(changed.code, 1, "{changed:?}");
    let has = |line: &str| changed.stdout.lines().any(|found| found.split_whitespace().collect::<String>() == line);
    assert!(has("-rollingUpdate:") && has("+type:Recreate") && has("-type:RollingUpdate"), "{}", changed.stdout);
    assert!(!has("-replicas:5") && !has("+replicas:1"), "the replicas are another manager's: {}", changed.stdout);
}

#[test]
fn diff_shows_the_status_of_the_parent_on_request_and_leaves_out_a_suspended_parent() {
    let still = Still::new("diff-status");
    still.ns.puppet("web").apply(&json!({"status": {"phase": "Odd"}}));
    assert_eq!(still.diff(&[]).code, 0);
    let shown = still.diff(&["--status"]);
    assert_eq!(shown.code, 1, "{shown:?}");
    assert!(shown.stdout.contains(": the parent itself\n") && shown.stdout.contains("\n+  phase: Odd\n"), "{shown:?}");
    still.ns.puppet("web").kubectl("annotate", &["windlass.dev/suspend=true"]);
    let suspended = still.diff(&["--status"]);
    assert_eq!((suspended.code, &*suspended.stdout), (0, ""), "{suspended:?}");
    assert!(suspended.stderr.contains("it is suspended"), "{suspended:?}");
}

#[test]
fn diff_masks_secrets_so_that_a_change_stays_visible() {
    let still = Still::new("diff-secret");
    still.create(&[secret("before")]);
    still.script(&[secret("after")]);
    let masked = still.diff(&[]);
    assert_eq!(masked.code, 1, "{masked:?}");
    assert!(masked.stdout.contains("*** (before)") && masked.stdout.contains("*** (after)"), "{masked:?}");
    assert!(!masked.stdout.contains("YmVmb3Jl") && !masked.stdout.contains("YWZ0ZXI="), "{masked:?}");
    let shown = still.diff(&["--show-secrets"]);
    assert!(shown.stdout.contains("YmVmb3Jl") && shown.stdout.contains("YWZ0ZXI="), "{shown:?}");
}

#[test]
fn r09_diff_marks_deletions_that_the_host_would_block() {
    let still = Still::new("diff-blocked");
    let maps: Vec<_> = ["a", "b", "c", "d"].iter().map(|name| map(name, &json!({}))).collect();
    still.create(&maps);
    let config = still.file("config.json", &json!({"keepChildren": 1}));
    let blocked = still.diff(&["--config", &config]);
    assert_eq!(blocked.code, 1, "{blocked:?}");
    assert_eq!(blocked.stdout.matches("(blocked until a user allows it)").count(), 3, "{blocked:?}");
    assert!(
        blocked.stderr.contains("3 deletions blocked") && blocked.stderr.contains("Blocked: 3 of 4"),
        "{blocked:?}"
    );
    let config = still.file("config.json", &json!({"keepChildren": 2}));
    let allowed = still.diff(&["--config", &config]);
    assert!(allowed.stderr.contains("1 parent, 2 objects differ\n"), "{allowed:?}");
}

#[test]
fn r09_diff_blocks_deletions_of_several_parents_together() {
    let still = Still::new("diff-rollout");
    let maps = |parent: &str| ["a", "b", "c"].map(|name| map(&format!("{parent}-{name}"), &json!({})));
    for parent in ["one", "two"] {
        still.create_of(parent, &maps(parent));
    }
    let config = still.file("config.json", &json!({"keepChildren": 1}));
    let blocked = still.diff(&["--config", &config]);
    assert_eq!(blocked.code, 1, "{blocked:?}");
    assert_eq!(blocked.stdout.matches("(blocked until a user allows it)").count(), 4, "{blocked:?}");
    for words in ["4 deletions blocked", "Blocked: 4 of 6 children", "at the Plugin until a user allows them"] {
        assert!(blocked.stderr.contains(words), "{words}: {blocked:?}");
    }
}

#[test]
fn r09_diff_of_a_new_component_shows_recreations_that_a_rollout_allows() {
    let still = Still::new("diff-recreated");
    let pods = |parent: &str, image: &str| {
        [("a", image), ("b", "nginx:1"), ("c", "nginx:1")].map(|(name, image)| {
            let mut pod = pod(image);
            pod["metadata"]["name"] = format!("{parent}-{name}").into();
            pod
        })
    };
    for parent in ["one", "two"] {
        still.create_of(parent, &pods(parent, "nginx:1"));
        still.ns.puppet(parent).apply(&json!({"children": pods(parent, "nginx:2")}));
    }
    let found = still.diff(&[]);
    assert_eq!(found.stdout.matches(": recreate Pod ").count(), 2, "{found:?}");
    assert!(found.stderr.contains("2 parents, 2 objects differ\n"), "2 of 6 are not too many: {found:?}");
}

#[test]
fn diff_shows_what_later_reconciles_come_to() {
    let env = &shared().env;
    install("puppets/puppet-finalizes", "finalizingpuppets");
    install("puppets/puppet-rbac", "rbacpuppets");
    let ns = env.namespace("diff-later");
    let children = json!({"children": [map("one", &json!({}))]});
    ns.puppet_of("FinalizingPuppet", "web").apply(&children);
    let finalized = diff(env, "puppets/puppet-finalizes", &["-n", ns.name()]);
    assert_eq!(finalized.code, 1, "{finalized:?}");
    let has = |words: &str| assert!(finalized.stdout.contains(words), "{words}: {finalized:?}");
    has(": the parent itself\n");
    has("+  finalizers:");
    has(&format!("create ConfigMap {}/one", ns.name()));
    let refused = diff_with(&previewer(&ns), "puppets/puppet-finalizes", &["-n", ns.name()], &[]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.stderr.contains(": the parent itself: ") && refused.stderr.contains("cannot patch"), "{refused:?}");
    assert!(refused.stdout.contains(&format!("create ConfigMap {}/one", ns.name())), "{refused:?}");

    let rbac = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "one"});
    let role = json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata, "rules": []});
    let binding = json!({"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "one"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": ns.name()}]});
    ns.puppet_of("RbacPuppet", "web").apply(&json!({"children": [binding, role]}));
    let granted = |kind: &str| json!({"apiVersion": format!("{rbac}/v1"), "kind": kind});
    // No component has this name, so the host reconciles nothing.
    let spec = json!({"source": {"configMap": {"namespace": ns.name(), "name": "none"}}, "grants": {"children": [granted("Role"), granted("RoleBinding")]}});
    let plugin = json!({"apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": "puppet-rbac"}, "spec": spec});
    env.apply(&plugin.to_string());
    let bound = diff(env, "puppets/puppet-rbac", &["-n", ns.name()]);
    assert!(bound.stderr.contains("1 parent, 2 objects differ\n"), "the binding needs the new Role: {bound:?}");
}

#[test]
fn r23_diff_shows_what_waits_for_a_lower_stage_and_what_makes_room_for_another_child() {
    install("puppets/puppet-staged", "stagedpuppets");
    shared().env.serve_kind("Doll", "dolls.puppets.example");
    let still = Still::of("diff-stages", "puppets/puppet-staged", "StagedPuppet");
    let with = |mut child: Value, options: Value| {
        child["options"] = options;
        child
    };
    let service = |name: &str, replaces: Option<&str>| {
        let spec = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_778}]});
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
        with(service, json!({ "replaces": replaces }))
    };
    let above = |name: &str| with(map(name, &json!({})), json!({"stage": 1}));
    still.create(&[service("before", None), above("old")]);
    still.script(&[service("after", Some("before")), pod("nginx:1"), above("new")]);
    let found = still.diff(&[]);
    let ns = still.ns.name();
    for title in ["create Pod {}/one", "create ConfigMap {}/new", "delete ConfigMap {}/old"]
        .into_iter()
        .chain(["delete Service {}/before", "create Service {}/after"])
    {
        let title = title.replace("{}", ns);
        assert!(found.stdout.contains(&title), "{title}: {found:?}");
    }
    assert!(found.stderr.contains("1 parent, 6 objects differ\n"), "{found:?}");
    assert!(found.stderr.contains("the host deletes the live object first"), "{found:?}");
}

#[test]
fn diff_reports_objects_that_cannot_be_written_and_shows_the_others() {
    let still = Still::new("diff-errors");
    still.ns.kubectl(&["create", "configmap", "foreign", "--from-literal=a=b"]);
    let invalid =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "invalid"}, "spec": {"containers": []}});
    still.script(&[map("foreign", &json!({})), invalid, map("good", &json!({}))]);
    let errors = still.diff(&[]);
    assert_eq!(errors.code, 3, "{errors:?}");
    let ns = still.ns.name();
    for words in [
        format!("error: Puppet {ns}/web: ConfigMap {ns}/foreign: exists already and is not a child"),
        format!("error: Puppet {ns}/web: Pod {ns}/invalid: "),
        "spec.containers: Required value".to_owned(),
        "1 parent, 1 object differs, 2 errors".to_owned(),
    ] {
        assert!(errors.stderr.contains(&words), "{words}: {errors:?}");
    }
    assert!(errors.stdout.contains(&format!("create ConfigMap {ns}/good")), "{errors:?}");

    still.ns.puppet("web").apply(&json!({"fail": {"invalid": "spec.children is odd"}}));
    let failed = still.diff(&[]);
    assert_eq!(failed.code, 3, "{failed:?}");
    assert!(failed.stderr.contains(&format!("error: Puppet {ns}/web: spec.children is odd")), "{failed:?}");
}

#[test]
fn diff_passes_required_objects_to_the_plugin() {
    let still = Still::new("diff-related");
    still.ns.kubectl(&["create", "configmap", "source", "--from-literal=red=1", "--from-literal=blue=2"]);
    let requirement = json!({"id": "source", "apiVersion": "v1", "kind": "ConfigMap", "name": "source"});
    still.ns.puppet("web").apply(&json!({"childrenFrom": "source", "requirements": [requirement]}));
    let found = still.diff(&[]);
    assert_eq!(found.code, 1, "{found:?}");
    let ns = still.ns.name();
    for key in ["red", "blue"] {
        assert!(found.stdout.contains(&format!("create ConfigMap {ns}/web-{key}")), "{found:?}");
    }
}

#[test]
fn diff_calls_the_external_program_that_kubectl_calls() {
    let still = Still::new("diff-external");
    still.script(&[map("one", &json!({}))]);
    let external = |program: &str| {
        let args = ["-n", still.ns.name()];
        let kubeconfig = still.ns.env().cluster().kubeconfig();
        diff_with(kubeconfig, "puppets/puppet", &args, &[("KUBECTL_EXTERNAL_DIFF", program)])
    };
    let found = external("diff -r -N -q");
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.stdout.contains(&format!("v1.ConfigMap.{}.one", still.ns.name())), "{found:?}");
    assert_eq!(external("true").code, 0, "the program finds no difference");
    assert_eq!(external("false --no").code, 1);
    let missing = external("/nonexistent/diff");
    assert_eq!(missing.code, 3, "{missing:?}");
    assert!(missing.stderr.contains("KUBECTL_EXTERNAL_DIFF"), "{missing:?}");
}
