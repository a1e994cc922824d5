//! Child kinds that a Plugin grants, and children of kinds that it no longer grants.

// A test fails by a panic.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeSet;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_e2e::{Env, Namespace, SYSTEM_NAMESPACE, TIMEOUT, condition, guest, text, wait};

const PUPPET: &str = "puppets/puppet";
/// A version of it whose only child kind is ConfigMap.
const NARROW: &str = "puppets/puppet-narrow";

fn child(kind: &str, name: &str, value: &str) -> Value {
    let value = if kind == "Secret" { STANDARD.encode(value) } else { value.to_owned() };
    json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name }, "data": { "value": value } })
}

fn children(value: &str) -> Value {
    json!({ "children": [child("ConfigMap", "open", value), child("Secret", "shut", value)] })
}

fn uid(ns: &Namespace, secret: &str) -> String {
    text(&ns.get("secrets", secret).expect("a Secret"), "/metadata/uid")
}

/// Pushes a Plugin whose component has all grants that it requires.
fn live_puppet(env: &Env) {
    env.push(&guest(PUPPET), "puppet", &[]);
    env.wait_live("puppet", &guest(PUPPET));
    env.patch_plugin("puppet", &json!({ "grants": { "related": [{ "apiVersion": "v1", "kind": "Namespace" }] } }));
    env.push(&guest(PUPPET), "puppet", &[]);
    env.wait_plugin("puppet", |plugin| condition(plugin, "Granted").is_true());
}

fn former(plugin: &Value) -> Vec<&str> {
    plugin["status"]["formerChildKinds"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Waits until the Plugin's status lists Secrets, and only Secrets, as a former child kind.
#[track_caller]
fn wait_secrets_left(env: &Env, reason: &str) -> Value {
    let plugin = env.wait_plugin("puppet", |plugin| {
        let granted = condition(plugin, "Granted");
        granted.is_false(reason)
            && granted.message.contains("There are children of Secret.v1, ")
            && former(plugin) == ["Secret.v1"]
    });
    assert!(condition(&plugin, "Available").is_true(), "{plugin:#}");
    plugin
}

#[test]
fn children_of_a_kind_that_loses_its_grant_are_left_alone_and_readopted_with_a_new_grant() {
    let env = Env::start();
    let host = env.start_host();
    live_puppet(&env);
    let ns = env.namespace("narrowed");
    let puppet = ns.puppet("web");
    puppet.play(&children("1"));
    let before = uid(&ns, "shut");

    let mark = env.mark();
    env.patch_plugin("puppet", &json!({ "grants": { "children": [{ "apiVersion": "v1", "kind": "ConfigMap" }] } }));
    let plugin = wait_secrets_left(&env, "ChildrenLeft");
    let message = condition(&plugin, "Granted").message;
    assert!(
        message.contains("Secret.v1, Deployment.v1.apps, Pod.v1, Service.v1, which spec.grants.children does not"),
        "{message}"
    );
    assert_eq!(plugin["status"]["childKinds"], json!(["ConfigMap.v1"]));
    puppet.wait_reason("ResponseRejected");

    // The Secrets stay unchanged when parents return changed, fewer or more Secrets.
    puppet.apply(&children("2"));
    puppet.wait(|puppet| {
        let ready = condition(puppet, "Ready");
        ready.is_false("ResponseRejected") && ready.observed_generation == puppet["metadata"]["generation"].as_i64()
    });
    puppet.play(&json!({ "children": [child("ConfigMap", "open", "3")] }));
    let other = ns.puppet("other");
    other.apply(&json!({ "children": [child("Secret", "new", "1")] }));
    other.wait_reason("ResponseRejected");
    // A restarted host still knows the former child kind.
    assert!(host.terminate().success());
    let _host = env.start_host();
    env.patch_plugin("puppet", &json!({ "resync": "9m" }));
    wait_secrets_left(&env, "ChildrenLeft");
    puppet.apply(&children("4"));
    puppet.wait_reason("ResponseRejected");
    assert_eq!(env.host_requests(mark).attempted_writes().resource("secrets").to_vec(), []);
    assert_eq!(uid(&ns, "shut"), before);

    env.patch_plugin("puppet", &json!({ "grants": { "children": null } }));
    let plugin = env.wait_plugin("puppet", |plugin| condition(plugin, "Granted").is_true());
    assert_eq!(former(&plugin), [""; 0], "{plugin:#}");
    puppet.wait_done();
    other.wait_done();
    let secret = ns.get("secrets", "shut").expect("a Secret");
    assert_eq!((text(&secret, "/metadata/uid"), text(&secret, "/data/value")), (before, "NA==".to_owned()));
    assert!(ns.get("secrets", "new").is_some());
}

#[test]
fn children_of_a_dropped_kind_are_left_alone_and_deleted_with_a_plugin_of_policy_delete() {
    let env = Env::start();
    let host = env.start_host();
    live_puppet(&env);
    let ns = env.namespace("dropped");
    let (puppet, spare) = (ns.puppet("web"), ns.puppet("spare"));
    puppet.play(&children("1"));
    spare.play(&json!({ "children": [child("Secret", "spare", "1")] }));
    let before = uid(&ns, "shut");

    let mark = env.mark();
    env.push(&guest(NARROW), "puppet", &[]);
    env.wait_live("puppet", &guest(NARROW));
    wait_secrets_left(&env, "ChildrenLeft");
    puppet.play(&json!({ "children": [child("ConfigMap", "open", "2")] }));
    assert!(host.terminate().success());
    let _host = env.start_host();
    wait_secrets_left(&env, "ChildrenLeft");
    assert_eq!(env.host_requests(mark).attempted_writes().resource("secrets").to_vec(), []);
    assert_eq!(uid(&ns, "shut"), before);

    // After the last former child is deleted, the condition is True again.
    ns.kubectl(&["delete", "secret", "shut", "spare"]);
    env.patch_plugin("puppet", &json!({ "resync": "9m" }));
    let plugin = env.wait_plugin("puppet", |plugin| condition(plugin, "Granted").is_true());
    assert_eq!(former(&plugin), [""; 0], "{plugin:#}");

    // A component that declares the kind owns it again. The next one leaves the children until the Plugin is deleted.
    env.push(&guest(PUPPET), "puppet", &[]);
    env.wait_live("puppet", &guest(PUPPET));
    puppet.play(&children("3"));
    env.patch_plugin("puppet", &json!({ "deletionPolicy": "Delete" }));
    env.push(&guest(NARROW), "puppet", &[]);
    env.wait_live("puppet", &guest(NARROW));
    wait_secrets_left(&env, "ChildrenLeft");
    // The push of the narrow component kept the permissions that a rollback needs.
    env.kubectl(&["annotate", "plugins.windlass.dev", "puppet", "windlass.dev/rollback=true"]);
    env.wait_live("puppet", &guest(PUPPET));
    puppet.play(&children("4"));
    assert_eq!(text(&ns.get("secrets", "shut").expect("a Secret"), "/data/value"), "NA==");
    env.kubectl(&["annotate", "plugins.windlass.dev", "puppet", "windlass.dev/rollback-"]);
    env.wait_live("puppet", &guest(NARROW));
    wait_secrets_left(&env, "ChildrenLeft");
    let mark = env.mark();
    env.kubectl(&["delete", "plugins.windlass.dev", "puppet", "--wait=true", "--timeout=180s"]);
    assert!(ns.get("secrets", "shut").is_none() && ns.get("configmaps", "open").is_none());
    let deleted = env.host_writes(mark).resource("secrets");
    assert!(deleted.iter().all(|write| write.verb == "delete"), "{deleted:#?}");
    let mut names: Vec<_> = deleted.iter().map(|write| write.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["shut", "spare"]);
}

/// The rules of a `ClusterRole`, each as resources and verbs.
fn rules(env: &Env, role: &str) -> Vec<String> {
    let role = env.get("clusterroles", "", role).expect("a ClusterRole");
    let words = |list: &Value| {
        let words: Vec<_> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        words.join(",")
    };
    let rules = role["rules"].as_array().expect("rules").iter();
    rules.map(|rule| format!("{} {}", words(&rule["resources"]), words(&rule["verbs"]))).collect()
}

#[test]
fn grant_is_taken_back_also_while_the_source_has_no_component() {
    let env = Env::start();
    let _host = env.start_host();
    live_puppet(&env);
    let ns = env.namespace("taken-back");
    ns.puppet("web").play(&json!({ "children": [child("ConfigMap", "open", "1")] }));

    env.kubectl(&["delete", "configmap", "puppet", "-n", SYSTEM_NAMESPACE]);
    env.wait_plugin("puppet", |plugin| condition(plugin, "Fetched").is_false("SourceNotFound"));
    let mark = env.mark();
    env.patch_plugin("puppet", &json!({ "grants": { "children": [{ "apiVersion": "v1", "kind": "ConfigMap" }] } }));
    let plugin = env.wait_plugin("puppet", |plugin| plugin["status"]["childKinds"] == json!(["ConfigMap.v1"]));
    assert!(condition(&plugin, "Available").is_true(), "{plugin:#}");
    assert!(condition(&plugin, "Fetched").is_false("SourceNotFound"), "{plugin:#}");

    // It goes on with the kind that is left.
    let other = ns.puppet("other");
    other.apply(&json!({ "children": [child("Secret", "shut", "1")] }));
    other.wait_reason("ResponseRejected");
    other.play(&json!({ "children": [child("ConfigMap", "another", "1")] }));
    assert_eq!(env.host_requests(mark).attempted_writes().resource("secrets").to_vec(), []);
}

#[test]
fn push_writes_no_permissions_beyond_the_plugins_grants() {
    let env = Env::start();
    let host_role = |name: &str| rules(&env, &format!("windlass-plugin-{name}"));
    let account_role = |name: &str| rules(&env, &format!("windlass-plugin-{name}:account"));

    // It declares RoleBindings and Plugins as child kinds, which spec.grants does not name.
    env.push(&guest("hostile/rights-seeker"), "rights-seeker", &[]);
    let written = [host_role("rights-seeker"), account_role("rights-seeker")].concat();
    assert!(written.iter().any(|rule| rule.starts_with("configmaps ")), "{written:?}");
    let of_kind = |kind: &str| written.iter().any(|rule| rule.starts_with(kind));
    assert!(!of_kind("rolebindings ") && !of_kind("plugins "), "{written:?}");

    // No read permission is written for Nodes or Namespaces that spec.grants does not name.
    env.push(&guest(PUPPET), "puppet", &[]);
    assert!(!account_role("puppet").iter().any(|rule| rule.starts_with("namespaces ")));
    let spec = json!({ "spec": {
        "grants": {
            "children": [{ "apiVersion": "v1", "kind": "ConfigMap" }],
            "related": [{ "apiVersion": "v1", "kind": "Namespace" }],
        },
    }});
    env.kubectl(&["patch", "plugins.windlass.dev", "puppet", "--type=merge", "-p", &spec.to_string()]);
    env.push(&guest(PUPPET), "puppet", &[]);
    let account = account_role("puppet");
    let expected = [
        "puppets/finalizers update",
        "puppets get,list",
        "configmaps get,create,patch,delete",
        "configmaps get,list",
        "secrets get,list",
        "namespaces get,list",
    ];
    assert_eq!(account, expected);
    assert!(!host_role("puppet").iter().any(|rule| rule.starts_with("services ")));
}

#[test]
fn user_with_the_role_edit_in_a_namespace_may_write_parents_there_and_one_with_view_may_read_them() {
    let env = Env::start();
    let _host = env.start_host();
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let ns = env.namespace("tenant");
    for role in ["view", "edit"] {
        ns.kubectl(&["create", "rolebinding", role, &format!("--clusterrole={role}"), &format!("--user={role}")]);
    }
    let may = |user: &str, verb: &str, resource: &str, namespace: &str| {
        env.try_kubectl(&["auth", "can-i", verb, resource, "--as", user, "--namespace", namespace]).is_ok()
    };
    let echoes = "echoes.my-operator.dev";
    wait("Kubernetes to aggregate the roles", TIMEOUT, || {
        (may("view", "watch", echoes, ns.name()) && may("edit", "deletecollection", echoes, ns.name())).then_some(())
    });
    assert!(may("edit", "list", echoes, ns.name()));
    assert!(!may("view", "create", echoes, ns.name()) && !may("nobody", "get", echoes, ns.name()));
    assert!(!may("edit", "get", echoes, "default"), "the user has the role in one namespace");
    assert!(!may("edit", "create", "plugins.windlass.dev", ns.name()), "a Plugin chooses what runs with which account");

    env.windlass(&["remove", "echo"]);
    for role in ["view", "edit"] {
        assert_eq!(env.get("clusterroles", "", &format!("windlass-plugin-echo:{role}")), None);
    }
}

/// The kubeconfig of a ServiceAccount in the namespace `ci` that has these roles of a pusher, as `windlass` reads it.
fn pusher(env: &Env, roles: &str) -> [(String, String); 1] {
    env.apply(&env.windlass(&["generate", roles]));
    let role = format!("windlass-{roles}");
    env.kubectl(&["create", "serviceaccount", roles, "-n", "ci"]);
    let account = format!("--serviceaccount=ci:{roles}");
    env.kubectl(&["create", "clusterrolebinding", &role, &format!("--clusterrole={role}"), &account]);
    env.kubectl(&["create", "rolebinding", &role, "-n", SYSTEM_NAMESPACE, &format!("--role={role}"), &account]);
    let config = env.cluster().service_account_kubeconfig("ci", roles).expect("a kubeconfig");
    [("WINDLASS_KUBECONFIG".to_owned(), config.display().to_string())]
}

#[test]
fn ci_with_the_role_of_a_pusher_updates_a_component_and_writes_no_permissions() {
    let env = Env::start();
    let _host = env.start_host();
    env.kubectl(&["create", "namespace", "ci"]);
    let ci = pusher(&env, "pusher");
    let push = |component: &Path, name: &str, more: &[&str], ci: &[(String, String)]| {
        let component = component.to_string_lossy();
        env.try_windlass_with(&[&["push", &component, "--name", name], more].concat(), ci)
    };
    // An administrator grants the permissions with the first push.
    env.push(&guest("echo"), "echo", &[]);
    env.wait_live("echo", &guest("echo"));
    let next = env.variant(&guest("echo"), "next");
    let mark = env.mark();
    let pushed = push(&next, "echo", &[], &ci).expect("the CI may push");
    assert!(pushed.contains("Plugin echo: Ready"), "{pushed}");
    env.wait_live("echo", &next);
    let user = "system:serviceaccount:ci:pusher";
    let written: BTreeSet<_> = env
        .audit()
        .since(mark)
        .expect("an audit log")
        .by_user(user)
        .writes()
        .iter()
        .map(|write| write.resource.clone())
        .collect();
    assert!(written.is_subset(&["configmaps", "plugins"].map(str::to_owned).into()), "{written:?}");

    let mark = env.mark();
    let refused = push(&guest("echo-v2"), "echo", &["--create-rbac"], &ci).expect_err("it may write no role");
    assert!(refused.contains("windlass-plugin-echo") && refused.contains("forbidden"), "{refused}");
    assert!(env.audit().since(mark).expect("an audit log").by_user(user).writes().is_empty(), "nothing was written");
    let may = |verb: &str, resource: &str, namespace: &str| {
        env.try_kubectl(&["auth", "can-i", verb, resource, "--as", user, "--namespace", namespace]).is_ok()
    };
    assert!(may("create", "configmaps", SYSTEM_NAMESPACE) && !may("create", "configmaps", "default"));
    for (verb, resource) in
        [("get", "secrets"), ("create", "serviceaccounts/token"), ("delete", "plugins.windlass.dev")]
    {
        assert!(!may(verb, resource, SYSTEM_NAMESPACE), "{verb} {resource}");
    }

    // The names of the Plugins that it may push.
    let names = json!([{ "op": "add", "path": "/rules/0/resourceNames", "value": ["echo"] }]).to_string();
    env.kubectl(&["patch", "clusterrole", "windlass-pusher", "--type=json", "-p", &names]);
    wait("the permission to be narrowed", TIMEOUT, || {
        (!may("patch", "plugins.windlass.dev/other", "") && may("patch", "plugins.windlass.dev/echo", "")).then_some(())
    });
    push(&guest("echo"), "echo", &[], &ci).expect("the CI may push this Plugin");
    let refused = push(&guest("echo"), "other", &[], &ci).expect_err("and no other");
    assert!(refused.contains("other") && refused.contains("forbidden"), "{refused}");

    let ci = pusher(&env, "pusher-with-rbac");
    let pushed = push(&guest(PUPPET), "puppet", &["--create-rbac", "--no-wait"], &ci).expect("the CI may grant");
    assert!(pushed.contains("as Plugin puppet"), "{pushed}");
    env.wait_live("puppet", &guest(PUPPET));
}

#[test]
fn missing_read_permission_is_reported_in_granted_and_does_not_prevent_activation() {
    let env = Env::start();
    let _host = env.start_host();
    live_puppet(&env);
    let role = "windlass-plugin-puppet:account";
    let mut written = env.get("clusterroles", "", role).expect("a ClusterRole");
    written["rules"].as_array_mut().expect("rules").retain(|rule| rule["verbs"] != json!(["get", "list"]));
    written["metadata"] = json!({ "name": role });
    env.apply_as("windlass-push", &written.to_string());
    let user = "--as=system:serviceaccount:windlass-system:windlass-plugin-puppet";
    wait("the permission to be revoked", TIMEOUT, || {
        env.try_kubectl(&["auth", "can-i", "list", "secrets", "-A", user]).is_err().then_some(())
    });
    let ns = env.namespace("unread");
    ns.puppet("web").play(&json!({ "children": [child("ConfigMap", "open", "1")] }));

    // Another component becomes live nevertheless.
    let other = env.variant(&guest(PUPPET), "other");
    env.windlass(&["push", &other.to_string_lossy(), "--name", "puppet", "--no-wait"]);
    env.wait_live("puppet", &other);
    let plugin = env.wait_plugin("puppet", |plugin| condition(plugin, "Granted").is_false("Forbidden"));
    let message = condition(&plugin, "Granted").message;
    // The message names missing permissions for children and for related objects.
    for words in ["; list Secret.v1 in any namespace of its parents", "get, list Namespace.v1 cluster-wide"] {
        assert!(message.contains(words), "{words:?} is not in {message}");
    }
    env.push(&other, "puppet", &[]);
    env.wait_plugin("puppet", |plugin| condition(plugin, "Granted").is_true());
}

#[test]
fn existing_parent_kind_is_reconciled_only_while_the_plugin_grants_it() {
    let env = Env::start();
    let _host = env.start_host();
    let decorator = guest("puppets/decorator");
    let file = decorator.to_string_lossy().into_owned();
    let refused = env.try_windlass(&["push", &file, "--name", "decorator", "--create-rbac"]).expect_err("no grant");
    assert!(
        refused.contains("push again with --grant Namespace") && refused.contains("nothing was written"),
        "{refused}"
    );
    assert!(env.get("plugins.windlass.dev", "", "decorator").is_none());
    assert!(env.get("clusterroles", "", "windlass-plugin-decorator").is_none());

    // Written by hand, such a Plugin is not reconciled either.
    env.push_granted(&decorator, "decorator");
    env.wait_live("decorator", &decorator);
    let ns = env.namespace("decorated");
    env.kubectl(&["label", "namespace", ns.name(), "puppets.example/decorate=true"]);
    env.wait_object("networkpolicies", ns.name(), "decoration", |_| true);
    env.patch_plugin("decorator", &json!({ "grants": null }));
    let plugin = env.wait_plugin("decorator", |plugin| condition(plugin, "Granted").is_false("NotGranted"));
    assert!(condition(&plugin, "Granted").message.contains("set spec.grants.parent to apiVersion v1, kind Namespace"));
    assert!(condition(&plugin, "Available").is_false("NotGranted"), "{plugin:#}");
    let mark = env.mark();
    env.kubectl(&["annotate", "namespace", ns.name(), "puppets.example/deny=Egress"]);

    // The host has seen a later change, and wrote nothing.
    env.patch_plugin("decorator", &json!({ "resync": "9m" }));
    assert_eq!(env.host_requests(mark).attempted_writes().resource("networkpolicies").to_vec(), []);
    env.patch_plugin("decorator", &json!({ "grants": { "parent": { "apiVersion": "v1", "kind": "Namespace" } } }));
    env.wait_live("decorator", &decorator);
    let changed = |policy: &Value| policy["spec"]["policyTypes"] == json!(["Egress"]);
    env.wait_object("networkpolicies", ns.name(), "decoration", changed);
}

#[test]
fn roles_are_granted_by_a_flag_of_push_and_may_have_any_name_of_rbac() {
    let env = Env::start();
    let _host = env.start_host();
    let puppet = guest("puppets/puppet-rbac");
    env.push(&puppet, "puppet-rbac", &[]);
    env.wait_live("puppet-rbac", &puppet);
    env.wait_plugin("puppet-rbac", |plugin| condition(plugin, "Granted").is_false("NotGranted"));

    env.push(&puppet, "puppet-rbac", &["--grant", "Role", "--grant", "RoleBinding", "--grant", "Namespace"]);
    let plugin = env.wait_plugin("puppet-rbac", |plugin| condition(plugin, "Granted").is_true());
    let kinds: Vec<_> =
        plugin["status"]["childKinds"].as_array().expect("kinds").iter().map(|kind| text(kind, "")).collect();
    let (role, binding) = ("Role.v1.rbac.authorization.k8s.io", "RoleBinding.v1.rbac.authorization.k8s.io");
    assert_eq!(kinds, ["ConfigMap.v1", role, binding]);

    // The account may read ConfigMaps itself, so it may write a Role that allows it.
    let ns = env.namespace("rbac");
    let parent = ns.puppet_of("RbacPuppet", "web");
    let object = |verb: &str| {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "app:reader" },
            "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": [verb] }],
        });
        json!({ "children": [role] })
    };
    parent.play(&object("get"));
    parent.play(&object("create"));
    let verbs = |role: Value| role["rules"][0]["verbs"].clone();
    assert_eq!(ns.get("roles", "app:reader").map(verbs), Some(json!(["create"])));
    parent.play(&json!({ "children": [] }));
    assert!(ns.get("roles", "app:reader").is_none());

    // A binding is created once its role is there, although the response has it first.
    let mark = env.mark();
    let group = "rbac.authorization.k8s.io";
    let bound = json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": { "name": "app:reader" },
        "roleRef": { "apiGroup": group, "kind": "Role", "name": "app:reader" }, "subjects": [],
    });
    parent.play(&json!({ "children": [bound, object("get")["children"][0]] }));
    let mut created =
        env.host_requests(mark).attempted_writes().namespace(ns.name()).filter(|event| event.verb == "create");
    created.0.retain(|event| event.resource != "events");
    created.0.sort_by(|one, other| one.timestamp.cmp(&other.timestamp));
    assert_eq!(created.first().map(|event| event.resource.as_str()), Some("roles"));
    assert!(ns.get("rolebindings", "app:reader").is_some());
    assert_eq!(condition(&parent.get().expect("the parent"), "Ready").reason, "Succeeded");
    parent.play(&json!({ "children": [] }));

    // A role with a permission that the account lacks is refused, with the API server's text.
    parent.apply(&object("deletecollection"));
    parent.wait(|parent| {
        condition(parent, "Ready").message.contains("is attempting to grant RBAC permissions not currently held")
    });

    // A push without the flags keeps the grants; a list of the user that leaves kinds out keeps the Plugin Ready.
    env.push(&env.variant(&puppet, "next"), "puppet-rbac", &[]);
    env.wait_plugin("puppet-rbac", |plugin| {
        condition(plugin, "Granted").is_true() && plugin["status"]["childKinds"][1] == *role
    });
    env.patch_plugin(
        "puppet-rbac",
        &json!({ "grants": { "children": [{ "apiVersion": "v1", "kind": "ConfigMap" }] } }),
    );
    let plugin = env.wait_plugin("puppet-rbac", |plugin| condition(plugin, "Granted").message.contains(role));
    assert!(condition(&plugin, "Granted").is_true() && condition(&plugin, "Ready").is_true(), "{plugin:#}");
}
