//! Guests that try every way to read a Secret of another namespace. They write all data that they receive to the host's log
//! and to their parents' statuses (tests/guests/src/spy.rs), so the tests see whatever reaches them.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing, clippy::too_many_lines)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_e2e::{
    AuditEvent, Env, HOST_USER, Host, HostOptions, Mark, Namespace, Puppet, SYSTEM_NAMESPACE, condition, guest, is_done,
};

/// A value that no guest may ever receive.
const LOOT: &str = "crown-jewels-5c1e7b";
/// A value that a guest may receive.
const PENNY: &str = "a-penny-of-its-own-93d0";

/// How the host handles an attempt.
enum Outcome {
    /// `Ready=False` for this reason (host/core/src/object/reason.rs), with these words in the message.
    Refused(&'static str, &'static str),
    /// The guest receives no object.
    Nothing,
}

use Outcome::{Nothing, Refused};

/// One attempt to read the Secret: the parent's script and the expected outcome.
struct Attempt {
    name: String,
    script: Value,
    outcome: Outcome,
}

/// Applies a Secret whose value is also in an annotation, without base64.
fn secret(ns: &Namespace, name: &str, value: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": name, "namespace": ns.name(), "labels": { name: "yes" }, "annotations": { "value": value },
        },
        "stringData": { "value": value },
    });
    ns.env().apply(&secret.to_string());
}

/// Whether a text contains a Secret's value, as plain text or in base64.
fn contains_value(text: &str, value: &str) -> bool {
    text.contains(value) || text.contains(&STANDARD.encode(value))
}

/// A requirement of this kind, with the fields `rest` (`name` or `labels`, `namespace`).
fn requirement(api_version: &str, kind: &str, rest: Value) -> Value {
    let mut wanted = json!({ "id": "loot", "apiVersion": api_version, "kind": kind });
    let Value::Object(rest) = rest else { panic!("{rest} is not a part of a requirement") };
    wanted.as_object_mut().expect("an object").extend(rest);
    wanted
}

/// The size of the related objects that the plugin received for a parent, in bytes.
fn bytes(parent: &Value) -> u64 {
    parent["status"]["bytes"].as_u64().unwrap_or_else(|| panic!("the plugin did not respond: {parent:#}"))
}

/// Waits until the newest generation is not Ready for this reason, with these words in the message. The status has nothing
/// from the guest then.
#[track_caller]
fn wait_refused(parent: &Puppet, reason: &str, words: &str) {
    let refused = parent.wait(|parent| {
        let ready = condition(parent, "Ready");
        ready.is_false(reason) && ready.observed_generation == parent["metadata"]["generation"].as_i64()
    });
    let message = condition(&refused, "Ready").message;
    assert!(message.contains(words), "{words:?} is not in {message:?}");
}

/// A cluster with live guests, and a host whose environment contains the secret value.
fn stage(plugins: &[&str]) -> (Env, Host) {
    let env = Env::with_bodies();
    let host = env.start_host_with(HostOptions {
        env: vec![("CROWN_JEWELS".to_owned(), LOOT.to_owned())],
        ..HostOptions::default()
    });
    for plugin in plugins {
        env.push(&guest(&format!("spies/{plugin}")), plugin, &[]);
    }
    for plugin in plugins {
        env.wait_live(plugin, &guest(&format!("spies/{plugin}")));
    }
    (env, host)
}

/// The Secret's value is in no log line and no request, and only the host's watch of all Secrets read it.
#[track_caller]
fn assert_kept(env: &Env, host: &Host, since: Mark) {
    for line in host.log().lines() {
        assert!(!contains_value(line, LOOT), "a guest received the Secret's value: {line}");
    }
    let asked = env.audit().since(since).expect("a readable audit log").by_user(HOST_USER);
    for request in asked.iter() {
        let sent = request.request_object.as_ref().map(Value::to_string).unwrap_or_default();
        assert!(!contains_value(&sent, LOOT) && !contains_value(&request.uri, LOOT), "{request:#?}");
    }
    let shared_watch = |request: &AuditEvent| {
        request.impersonated.is_none()
            && ["list", "watch"].contains(&request.verb.as_str())
            && request.namespace.is_empty()
            && request.name.is_empty()
    };
    let reads = asked.resource("secrets").filter(|request| !request.asks_to_write() && !shared_watch(request));
    assert_eq!(reads.to_vec(), [], "the host read no Secret for a plugin");
}

/// Every attempt to read the Secret `crown` of the namespace `vault` by requirements.
fn by_requirement(vault: &str) -> Vec<Attempt> {
    let crown = |namespace: &str| requirement("v1", "Secret", json!({ "namespace": namespace, "name": "crown" }));
    let named = |name: &str| requirement("v1", "Secret", json!({ "name": name }));
    let labelled = |labels: &str| requirement("v1", "Secret", json!({ "labels": labels }));
    let kind =
        |api_version: &str, kind: &str| requirement(api_version, kind, json!({ "namespace": vault, "name": "crown" }));
    let forbidden = |words: &'static str| Refused("ReadForbidden", words);
    let refused = |words: &'static str| Refused("ResponseRejected", words);
    let mut attempts = vec![
        (crown(vault), forbidden("namespace vault")),
        (requirement("v1", "Secret", json!({ "namespace": vault, "labels": "" })), forbidden("namespace vault")),
        (
            requirement("v1", "Secret", json!({ "namespace": vault, "labels": "crown=yes" })),
            forbidden("namespace vault"),
        ),
        // A requirement without a namespace selects only in the parent's namespace.
        (named("crown"), Nothing),
        (crown(""), Nothing),
        (labelled("crown=yes"), Nothing),
        (requirement("v1", "Secret", json!({ "namespace": "", "labels": "crown" })), Nothing),
        (labelled("metadata.namespace"), Nothing),
        (labelled(&format!("kubernetes.io/metadata.name={vault}")), Nothing),
        (labelled("crown=yes&limit=1"), refused("selector")),
        (labelled("metadata.namespace!=a,,b"), refused("selector")),
        // A cluster-scoped kind that the Plugin does not grant.
        (requirement("v1", "Namespace", json!({ "name": vault })), forbidden("Namespace")),
        (requirement("v1", "Namespace", json!({ "namespace": vault, "name": "crown" })), forbidden("Namespace")),
        // An alias of a kind that it may read has the same restrictions.
        (kind("/v1", "Secret"), forbidden("namespace vault")),
    ];
    for namespace in
        ["*", ".", "..", "Vault", "vault,default", "vault/", "default/../vault", "vault%2f", "%76ault", " vault"]
    {
        let namespace = namespace.replace("vault", vault);
        attempts.push((crown(&namespace), refused("which is no valid name")));
    }
    for name in ["", ".", "..", "../crown", "vault/crown", "../../vault/secrets/crown", "..%2fvault%2fcrown", "crown\n"]
    {
        attempts.push((named(&name.replace("vault", vault)), refused("which is not a valid object name")));
    }
    for (api_version, name) in [
        ("v1", "secret"),
        ("v1", "secrets"),
        ("v1", "SecretList"),
        ("v1", "Secret/"),
        ("v1", "Secret/status"),
        ("v1", "secrets/crown"),
        ("v1", "*"),
        ("v1", ""),
        ("V1", "Secret"),
        ("v1 ", "Secret"),
        ("v1/", "Secret"),
        ("v2", "Secret"),
        ("v1beta1", "Secret"),
        ("core/v1", "Secret"),
        ("api/v1", "Secret"),
        ("apps/../v1", "Secret"),
        ("../api/v1", "Secret"),
        ("", "Secret"),
        ("v1", "List"),
        ("v1", "Node"),
        ("v1", "PersistentVolume"),
        ("v1", "ServiceAccount/token"),
        ("authentication.k8s.io/v1", "TokenRequest"),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
        ("windlass.dev/v1alpha1", "Plugin"),
    ] {
        attempts.push((kind(api_version, name), forbidden("may not read")));
    }
    let number = |(at, (wanted, outcome))| Attempt {
        name: format!("requires-{at}"),
        script: json!({ "requirements": [wanted] }),
        outcome,
    };
    let mut attempts: Vec<_> = attempts.into_iter().enumerate().map(number).collect();
    let own = |id: &str| json!({ "id": id, "apiVersion": "v1", "kind": "Secret", "name": "penny" });
    let others = [
        ("beside-a-good-one", json!({ "requirements": [own("good"), crown(vault)] }), forbidden("namespace vault")),
        (
            "in-a-later-round",
            json!({ "requirementRounds": [[own("good")], [crown(vault)]] }),
            forbidden("namespace vault"),
        ),
        ("under-a-good-ones-id", json!({ "requirements": [own("loot"), crown(vault)] }), refused("is twice")),
    ];
    let others = others.map(|(name, script, outcome)| Attempt { name: name.to_owned(), script, outcome });
    attempts.extend(others);
    attempts
}

/// Attempts by children: in the Secret's namespace, or of kinds that would read it.
fn by_children(vault: &str) -> Vec<Attempt> {
    let child = |api_version: &str, kind: &str, metadata: Value, rest: Value| {
        let mut child = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "${name}" } });
        let Value::Object(metadata) = metadata else { panic!("{metadata} is not an object") };
        child["metadata"].as_object_mut().expect("an object").extend(metadata);
        let Value::Object(rest) = rest else { panic!("{rest} is not a part of a child") };
        child.as_object_mut().expect("an object").extend(rest);
        child
    };
    let there = json!({ "namespace": vault });
    let pod = json!({ "spec": {
        "containers": [{
            "name": "main", "image": "thief:1",
            "env": [{ "name": "LOOT", "valueFrom": { "secretKeyRef": { "name": "crown", "key": "value" } } }],
        }],
        "volumes": [{ "name": "loot", "secret": { "secretName": "crown" } }],
    }});
    let owner = json!({ "ownerReferences": [{
        "apiVersion": "v1", "kind": "Secret", "name": "crown", "uid": "00000000-0000-0000-0000-000000000000",
    }]});
    let crown = json!({ "name": "crown", "namespace": vault });
    let attempts = [
        ("config-map-there", child("v1", "ConfigMap", there.clone(), json!({})), Refused("ResponseRejected", "vault")),
        ("pod-there", child("v1", "Pod", there.clone(), pod.clone()), Refused("ResponseRejected", "vault")),
        ("the-secret-itself", child("v1", "Secret", crown, json!({})), Refused("ResponseRejected", "Secret")),
        ("owned-by-it", child("v1", "ConfigMap", owner, json!({})), Refused("ResponseRejected", "ownerReferences")),
        ("token", child("v1", "TokenRequest", json!({}), json!({})), Refused("ResponseRejected", "TokenRequest")),
        ("subresource", child("v1", "Pod/exec", json!({}), json!({})), Refused("ResponseRejected", "Pod/exec")),
        // The Pod mounts a Secret of its own namespace, where there is no such Secret.
        ("pod-here", child("v1", "Pod", json!({}), pod), Nothing),
    ];
    let attempt = |(name, child, outcome)| {
        let script = json!({ "children": [child] });
        Attempt { name: String::from(name), script, outcome }
    };
    attempts.into_iter().map(attempt).collect()
}

#[test]
fn secret_of_another_namespace_reaches_no_guest_by_any_known_attempt() {
    let (env, host) = stage(&["mole"]);
    // The plugin's ServiceAccount may read every Secret of the cluster: only the Plugin's grants restrict it.
    let (ns, vault) = (env.namespace("mole"), env.namespace("vault"));
    secret(&vault, "crown", LOOT);
    secret(&ns, "penny", PENNY);
    let reference = json!({ "name": "crown", "namespace": vault.name(), "key": "value" });
    let config = json!({
        "password": { "valueFrom": { "secretKeyRef": reference } },
        "$(CROWN_JEWELS)": "${CROWN_JEWELS}",
        "file": "@/proc/self/environ",
    });
    env.patch_plugin("mole", &json!({ "config": config }));
    let mark = env.mark();

    let own = ns.puppet_of("Mole", "own");
    let penny = requirement("v1", "Secret", json!({ "name": "penny" }));
    let reported = own.play(&json!({ "requirements": [penny] }));
    assert!(
        bytes(&reported) > 0 && contains_value(&reported["status"].to_string(), PENNY),
        "the guest reports a Secret that it may read: {reported:#}"
    );
    assert!(contains_value(&host.log(), PENNY), "the guest logs a Secret that it may read");

    let mut attempts = by_requirement(vault.name());
    attempts.extend(by_children(vault.name()));
    let apply = |attempt: &Attempt| ns.puppet_of("Mole", &attempt.name).apply(&attempt.script);
    attempts.iter().for_each(apply);
    for Attempt { name, outcome, .. } in &attempts {
        let parent = ns.puppet_of("Mole", name);
        match outcome {
            Refused(reason, words) => wait_refused(&parent, reason, &words.replace("vault", vault.name())),
            Nothing => {
                let reported = parent.wait(|parent| is_done(parent) && parent["status"]["bytes"].is_u64());
                assert_eq!(bytes(&reported), 0, "{reported:#}");
            }
        }
    }
    // The guest has no environment, arguments, files or input, and references in the config are not resolved.
    let around = json!({ "environment": [], "arguments": [], "files": [], "input": "" });
    assert_eq!(reported["status"]["around"], around);
    let handed: Value = serde_json::from_str(&windlass_e2e::text(&reported, "/status/config")).expect("JSON");
    assert_eq!(handed, config);
    for (import, words) in [("sockets", "wasi:sockets/"), ("http", "wasi:http/")] {
        let parent = ns.puppet_of("Mole", import);
        parent.play(&json!({}));
        parent.kubectl("annotate", &[&format!("puppets.example/reach={import}")]);
        let ready = parent.wait_reason("Trapped");
        assert!(ready.message.contains(words), "{ready:?}");
        parent.kubectl("delete", &[]);
    }

    assert!(
        attempts.iter().all(|attempt| ns.puppet_of("Mole", &attempt.name).calls() > 0),
        "the plugin was called for every attempt"
    );
    let handed = |line: &String| !line.contains(r#""bytes":0,"#);
    let handed: Vec<_> = env.host_log_lines("spy called:").into_iter().filter(handed).collect();
    assert!(!handed.is_empty() && handed.iter().all(|line| contains_value(line, PENNY)), "{handed:#?}");
    assert_kept(&env, &host, mark);
    let tried = env.host_requests(mark).attempted_writes();
    let elsewhere = |write: &AuditEvent| {
        let is_plugin = write.resource == "plugins" || write.resource == "customresourcedefinitions";
        write.namespace != ns.name() && !is_plugin
    };
    assert_eq!(tried.filter(elsewhere).to_vec(), [], "the host writes only in the parents' namespace");
}

/// A `ServiceAccount` in the host's namespace that may write the children of a mole, and read one Secret by its name.
fn reader(env: &Env, account: &str, ns: &Namespace) {
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({ "name": account, "namespace": ns.name() });
    let read = json!({ "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["crown"], "verbs": ["get"] });
    let write = json!({
        "apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["get", "create", "patch", "delete"],
    });
    let subject = json!({ "kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE });
    let objects = json!([
        { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": account, "namespace": SYSTEM_NAMESPACE } },
        { "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata, "rules": [read] },
        { "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
          "roleRef": { "apiGroup": group, "kind": "Role", "name": account }, "subjects": [subject] },
        { "apiVersion": format!("{group}/v1"), "kind": "ClusterRole", "metadata": { "name": account }, "rules": [write] },
        { "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": account },
          "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": account }, "subjects": [subject] },
    ]);
    env.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string());
}

#[test]
fn secret_of_another_namespace_is_delivered_only_with_both_a_grant_and_rbac() {
    let (env, host) = stage(&["mole", "mole-cluster"]);
    let (ns, open, closed) = (env.namespace("mole"), env.namespace("open"), env.namespace("closed"));
    secret(&open, "crown", PENNY);
    secret(&closed, "crown", LOOT);
    let account = "windlass-plugin-mole-reader";
    reader(&env, account, &open);
    let mark = env.mark();
    let grant = |plugin: &str, namespaces: &[&Namespace]| {
        let names: Vec<_> = namespaces.iter().map(|ns| ns.name()).collect();
        let related = json!([{ "apiVersion": "v1", "kind": "Secret", "namespaces": names }]);
        env.patch_plugin(plugin, &json!({ "grants": { "related": related }, "serviceAccountName": account }));
    };
    let crown = |of: &Namespace| json!({ "requirements": [requirement("v1", "Secret", json!({ "namespace": of.name(), "name": "crown" }))] });
    let all =
        json!({ "requirements": [requirement("v1", "Secret", json!({ "namespace": open.name(), "labels": "" }))] });

    // RBAC alone is not enough, and neither is a grant.
    grant("mole", &[&closed]);
    let (permitted, granted) = (ns.puppet_of("Mole", "right"), ns.puppet_of("Mole", "granted"));
    permitted.apply(&crown(&open));
    granted.apply(&crown(&closed));
    wait_refused(&permitted, "ReadForbidden", &format!("in namespace {}, which is not the parent's", open.name()));
    wait_refused(&granted, "ReadForbidden", account);

    // Both together are enough; but permission for one Secret does not allow listing all.
    grant("mole", &[&open, &closed]);
    let reported = permitted.wait_done();
    assert!(bytes(&reported) > 0 && contains_value(&reported["status"].to_string(), PENNY), "{reported:#}");
    let list = ns.puppet_of("Mole", "list");
    list.apply(&all);
    wait_refused(&list, "ReadForbidden", "may not list Secret");

    // After the grant is removed, the object is not followed any more.
    grant("mole", &[&closed]);
    wait_refused(&permitted, "ReadForbidden", open.name());
    secret(&open, "crown", LOOT);
    permitted.kubectl("annotate", &["touched=yes"]);
    ns.puppet_of("Mole", "barrier").play(&json!({}));
    wait_refused(&permitted, "ReadForbidden", open.name());

    // A cluster-scoped parent may require objects of the namespaces that the Plugin grants, or of any if it names none, as
    // far as RBAC allows.
    let shared = Puppet::new(&env, "ClusterMole", "", "mole");
    grant("mole-cluster", &[&open]);
    shared.apply(&crown(&closed));
    wait_refused(&shared, "ReadForbidden", closed.name());
    env.patch_plugin("mole-cluster", &json!({ "grants": { "related": null } }));
    wait_refused(&shared, "ReadForbidden", account);
    assert_kept(&env, &host, mark);

    secret(&open, "crown", PENNY);
    shared.apply(&crown(&open));
    shared.wait(|reported| is_done(reported) && contains_value(&reported["status"].to_string(), PENNY));
}

/// A user who may write the component's ConfigMap chooses the component, but not which objects it may read: a new component
/// whose parents are Secrets gets none, unless the Plugin grants the kind; and then only those that the ServiceAccount may
/// read.
#[test]
fn component_whose_parents_are_secrets_gets_none_that_its_service_account_may_not_read() {
    let (env, host) = stage(&["mole"]);
    let (open, vault) = (env.namespace("open"), env.namespace("vault"));
    secret(&vault, "crown", LOOT);
    let account = "windlass-plugin-mole-reader";
    reader(&env, account, &open);
    env.patch_plugin("mole", &json!({ "serviceAccountName": account }));
    let mark = env.mark();

    let turned = guest("spies/mole-turned");
    let turned = turned.to_string_lossy();
    let inspected = env.windlass(&["inspect", &turned]);
    let refused = env.try_windlass(&["push", &turned, "--name", "mole", "--no-wait"]).expect_err("Secrets as parents");
    assert!(refused.contains("nothing was written") && refused.contains("--grant Secret"), "{refused}");
    let printed = env.windlass(&["push", &turned, "--name", "mole", "--dry-run=client", "-o", "json"]);
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    let is_map = |object: &&Value| object["kind"] == "ConfigMap";
    let maps = printed["items"].as_array().into_iter().flatten().filter(is_map);
    maps.for_each(|map| env.apply_as("windlass-push", &map.to_string()));
    let granted = |plugin: &Value| condition(plugin, "Granted");
    let plugin =
        env.wait_plugin("mole", |plugin| granted(plugin).message.contains("Secret.v1, which is reconciled only if"));
    assert!(granted(&plugin).is_false("NotGranted") && condition(&plugin, "Available").is_true(), "{plugin:#}");
    assert_kept(&env, &host, mark);

    env.patch_plugin("mole", &json!({ "grants": { "parent": { "apiVersion": "v1", "kind": "Secret" } } }));
    let is = |plugin: &Value, field: &str| plugin["status"][field].as_str().is_some_and(|is| inspected.contains(is));
    let plugin =
        env.wait_plugin("mole", |plugin| is(plugin, "activeDigest") || granted(plugin).message.contains(account));
    assert!(!is(&plugin, "activeDigest"), "live, though {account} may not list Secrets: {}", plugin["status"]);
    assert!(condition(&plugin, "Granted").message.contains(account), "{plugin:#}");
    assert_kept(&env, &host, mark);
}

/// The same with a CRD that a user installed: a component does not own a kind because it carries its CRD.
#[test]
fn component_that_carries_a_crd_of_another_owner_gets_none_of_its_objects() {
    let env = Env::with_bodies();
    let mole = guest("spies/mole");
    env.apply(&env.windlass(&["crd", &mole.to_string_lossy()]));
    let ns = env.namespace("vault");
    let theirs = ns.puppet_of("Mole", "theirs");
    theirs.apply(&json!({}));
    theirs.kubectl("annotate", &[&format!("value={LOOT}")]);
    let host = env.start_host();
    let mark = env.mark();

    let account = "windlass-plugin-mole-reader";
    reader(&env, account, &ns);
    let args = ["push", &mole.to_string_lossy(), "--name", "mole", "--create-rbac", "--dry-run=server", "-o", "json"];
    let mut list: Value = serde_json::from_str(&env.windlass(&args)).expect("JSON");
    for object in list["items"].as_array_mut().expect("a list") {
        if object["kind"] == "Plugin" {
            object["spec"]["serviceAccountName"] = account.into();
        }
        env.apply(&object.to_string());
    }
    let plugin = env.wait_plugin("mole", |plugin| condition(plugin, "Granted").is_false("Forbidden"));
    let message = condition(&plugin, "Granted").message;
    assert!(message.contains(account) && message.contains("list Mole"), "{message}");
    assert_kept(&env, &host, mark);

    // With the permission, the plugin reconciles them as any other kind.
    env.patch_plugin("mole", &json!({ "serviceAccountName": null }));
    env.wait_live("mole", &mole);
    // Their status needs a separate permission, because the Plugin did not install the CRD.
    env.kubectl(&["create", "clusterrole", "mole-status", "--verb=patch", "--resource=moles.puppets.example/status"]);
    let account = windlass_e2e::account("mole").replacen("system:serviceaccount:", "--serviceaccount=", 1);
    env.kubectl(&["create", "clusterrolebinding", "mole-status", "--clusterrole=mole-status", &account]);
    env.patch_plugin("mole", &json!({ "config": {} }));
    theirs.wait(is_done);
}
