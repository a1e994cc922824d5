use serde_json::{Value, json};

use super::*;
use crate::contract::grant::{ChildGrant, SpecGrants, Withheld};
use crate::contract::reserved::HostNamespace;
use crate::contract::{ChildRef, Event, EventType, Keep, Until};
use crate::fixtures::{grants_with, parent_ref, pod, response, validate};
use crate::object::OwnerKey;
use crate::object::mark::MarkKey;

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut child = pod("a");
    change(&mut child);
    child
}

fn refusal(children: &[Value]) -> String {
    validate(children).expect_err("refused").to_string()
}

fn text(child: &DesiredChild) -> String {
    Value::Object(serde_json::from_str(&json::Value::Object(child.body.clone()).to_string()).expect("JSON")).to_string()
}

#[test]
fn r04_every_child_gets_one_controller_reference_and_the_hosts_labels() {
    let desired = validate(&[pod("a")]).expect("valid");
    expect_test::expect![[r#"{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"windlass.dev/applied":"1:f31bb7a0de8aa76318ab01c5d78056ff10a1b99a60091b6d54bbe2241332b2e9"},"labels":{"app":"x","windlass.dev/parent-uid":"uid-of-parent","windlass.dev/plugin":"echo"},"name":"a","namespace":"default","ownerReferences":[{"apiVersion":"my-operator.dev/v1","blockOwnerDeletion":true,"controller":true,"kind":"Echo","name":"hello","uid":"uid-of-parent"}]},"spec":{"containers":[{"image":"nginx:1","name":"nginx"}]}}"#]]
        .assert_eq(&text(&desired.children[0]));
}

#[test]
fn r04_a_retained_child_gets_labels_and_no_owner_reference() {
    let desired = validate(&[with(|pod| pod["metadata"]["annotations"] = json!({"windlass.dev/retain": "true"}))])
        .expect("valid");
    let child = &desired.children[0];
    assert_eq!(child.owner, None);
    let meta = child.body.get("metadata").expect("metadata");
    assert_eq!(meta.at(&["ownerReferences"]), None);
    assert_eq!(meta.at(&["annotations", "windlass.dev/retain"]), None, "options are stripped");
    let parent = meta.at(&["annotations", "windlass.dev/retained-for"]).and_then(json::Value::as_str);
    assert_eq!(parent, Some("echo/Echo.my-operator.dev/default/hello"));
}

#[test]
fn empty_fields_of_typed_builders_are_not_desired() {
    let child = with(|pod| {
        pod["metadata"]["creationTimestamp"] = json!(null);
        pod["metadata"]["finalizers"] = json!([]);
        pod["status"] = json!({});
    });
    assert_eq!(validate(&[child]).expect("valid").children, validate(&[pod("a")]).expect("valid").children);
}

#[test]
fn metadata_that_the_api_server_sets_is_ignored_in_a_returned_child() {
    let read = with(|pod| {
        for (field, value) in [
            ("creationTimestamp", json!("2026-01-01T00:00:00Z")),
            ("deletionGracePeriodSeconds", json!(30)),
            ("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            ("generation", json!(2)),
            ("managedFields", json!([{"manager": "x", "operation": "Apply"}])),
            ("resourceVersion", json!("7")),
            ("selfLink", json!("/api/v1/namespaces/default/pods/a")),
            ("uid", json!("uid-of-another")),
        ] {
            pod["metadata"][field] = value;
        }
    });
    assert_eq!(validate(&[read]).expect("valid").children, validate(&[pod("a")]).expect("valid").children);
}

#[test]
fn key_order_and_an_explicit_namespace_do_not_change_the_desired_child() {
    let spelled = br#"{"spec":{"containers":[{"image":"nginx:1","name":"nginx"}]},"kind":"Pod","metadata":{"labels":
        {"app":"x"},"namespace":"default","name":"a"},"apiVersion":"v1"}"#;
    let response = Response { children: vec![spelled.to_vec()], ..Response::default() };
    let grants = grants_with(&UpdateStrategy::Apply);
    let one = validate(&[pod("a")]).expect("valid");
    let other = super::validate(&response, &parent_ref(), &grants, &Limits::default()).expect("valid");
    assert_eq!(one.children, other.children);
}

#[test]
fn r10_children_are_in_install_order_and_within_a_kind_in_the_order_of_the_response() {
    let child = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    let response =
        [child("Pod", "z"), child("Pod", "a"), child("Service", "s"), child("ConfigMap", "c"), child("Pod", "m")];
    let desired = validate(&response).expect("valid");
    let names: Vec<_> = desired.children.iter().map(|child| &*child.key.name).collect();
    assert_eq!(names, ["c", "s", "z", "a", "m"]);
}

#[test]
fn u10_message_about_a_kind_without_grant_names_the_component_or_the_plugin_as_the_cause() {
    let secret = Gvk::from_api_version("v1", "Secret");
    let refused = |grants: &Grants| {
        let child = with(|pod| pod["kind"] = json!("Secret")).to_string().into_bytes();
        let response = Response { children: vec![child], ..Response::default() };
        super::validate(&response, &parent_ref(), grants, &Limits::default()).expect_err("refused").to_string()
    };
    let undeclared = grants_with(&UpdateStrategy::Apply);
    assert!(refused(&undeclared).contains("the component's descriptor does not declare"), "{}", refused(&undeclared));
    let withheld = undeclared.with_withheld(vec![(secret, Withheld::NotNamed)]);
    assert_eq!(refused(&withheld), "child \"a\" is of kind Secret.v1, which is not granted by spec.grants.children");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table: one row for each refusal")]
fn response_with_a_forbidden_child_is_rejected_as_a_whole() {
    let metadata = |field: &str, value: Value| with(|pod| pod["metadata"][field] = value);
    for (child, expected) in [
        (
            with(|pod| pod["kind"] = json!("Secret")),
            "child \"a\" is of kind Secret.v1, which the component's descriptor does not declare: its author must add it to the \
             descriptor's `children`",
        ),
        (
            with(|pod| pod["apiVersion"] = json!("v2")),
            "child \"a\" is of kind Pod.v2, which the component's descriptor does not declare: its author must add it to the \
             descriptor's `children`",
        ),
        (
            with(|pod| pod["apiVersion"] = json!("/v1")),
            "child 1 is not a Kubernetes object: apiVersion \"/v1\" has no group before its slash",
        ),
        (
            metadata("namespace", json!("kube-system")),
            "Pod a is in namespace kube-system; it must be in default, the namespace of its parent",
        ),
        (
            with(|pod| pod["kind"] = json!("PersistentVolume")),
            "PersistentVolume a is cluster-scoped and cannot be the child of a namespaced parent",
        ),
        (
            metadata("ownerReferences", json!([{"uid": "x"}])),
            "Pod default/a sets metadata.ownerReferences, which plugins must not set",
        ),
        (metadata("finalizers", json!(["x/y"])), "Pod default/a sets metadata.finalizers, which plugins must not set"),
        (metadata("generateName", json!("a-")), "Pod default/a sets metadata.generateName, which plugins must not set"),
        (
            metadata("labels", json!({"windlass.dev/plugin": "other"})),
            "Pod default/a sets metadata.labels[windlass.dev/plugin], which plugins must not set",
        ),
        (
            metadata("annotations", json!({"windlass.dev/applied": "1:0"})),
            "Pod default/a sets metadata.annotations[windlass.dev/applied], which plugins must not set",
        ),
        (metadata("labels", json!({"a": 1})), "Pod default/a: metadata.labels[a] is not a string"),
        (
            metadata("name", json!("")),
            "child 1 is not a Kubernetes object: metadata.name \"\" is not a valid name: that of a Pod is a DNS subdomain \
             (RFC 1123)",
        ),
        (
            metadata("name", json!("../b")),
            "child 1 is not a Kubernetes object: metadata.name \"../b\" is not a valid name: that of a Pod is a DNS subdomain \
             (RFC 1123)",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}}),
            "child 1 is not a Kubernetes object: metadata.generateName asks for another name at every reconcile; give the \
             child a metadata.name",
        ),
        (json!([]), "child 1 is not a Kubernetes object: a list instead of an object"),
        (
            json!({"apiVersion": "v1", "kind": "Pod"}),
            "child 1 is not a Kubernetes object: metadata is missing or not an object",
        ),
        (pod("good"), "Pod default/good is twice in the response"),
    ] {
        assert_eq!(refusal(&[pod("good"), child]), expected);
    }
}

#[test]
fn limits_on_children_events_and_json_depth_are_enforced() {
    let limits = Limits { children: 1, json_depth: 4, ..Limits::default() };
    let check = |children: &[Value]| {
        super::validate(&response(children), &parent_ref(), &grants_with(&UpdateStrategy::Apply), &limits)
            .expect_err("refused")
            .to_string()
    };
    assert_eq!(check(&[pod("a"), pod("b")]), "the response has 2 children, more than the limit of 1");
    let event = Event { event_type: EventType::Normal, reason: "Reported".to_owned(), message: String::new() };
    let two_events = Response { events: vec![event.clone(), event], ..Response::default() };
    let limits = &Limits { events: 1, ..limits.clone() };
    let refusal = super::validate(&two_events, &parent_ref(), &grants_with(&UpdateStrategy::Apply), limits);
    assert_eq!(refusal.expect_err("refused").to_string(), "the response has 2 events, more than the limit of 1");
    let deep = with(|pod| pod["spec"] = json!({"a": {"b": {"c": {}}}}));
    assert!(check(&[deep]).starts_with("child 0 is not valid JSON: nested too deeply"));
}

#[test]
fn memory_for_the_values_of_a_response_is_limited() {
    let limits = Limits { response_bytes: 1024, ..Limits::default() };
    let check = |children: &[Value]| {
        super::validate(&response(children), &parent_ref(), &grants_with(&UpdateStrategy::Apply), &limits)
    };
    assert!(check(&[pod("a"), pod("b"), pod("c")]).is_ok());
    let dense = |items: usize| with(|pod| pod["spec"] = json!(vec![json!([0]); items]));
    assert!(check(&[dense(20)]).is_ok());
    let refused = check(&[pod("a"), dense(200)]).expect_err("refused").to_string();
    assert!(refused.starts_with("child 1 is not valid JSON: values that take more memory"), "{refused}");
}

#[test]
fn number_of_status_conditions_is_limited() {
    let check = |count: usize| {
        let conditions: Vec<_> = (0..count).map(|index| json!({"type": format!("C{index}")})).collect();
        let status = Some(json!({ "conditions": conditions }).to_string().into_bytes());
        let response = Response { status, ..Response::default() };
        super::validate(&response, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default())
    };
    assert!(check(100).is_ok());
    let refused = check(101).expect_err("refused").to_string();
    assert_eq!(refused, "the response has 101 conditions, more than the limit of 100");
}

#[test]
fn child_of_a_cluster_scoped_parent_must_name_its_namespace() {
    let mut parent = parent_ref();
    parent.key.namespace = None;
    let grants = grants_with(&UpdateStrategy::Apply);
    let check = |child: Value| super::validate(&response(&[child]), &parent, &grants, &Limits::default());
    let placed = check(with(|pod| pod["metadata"]["namespace"] = json!("n"))).expect("valid");
    assert_eq!(placed.children[0].key.to_string(), "n/a");
    assert!(check(pod("a")).expect_err("no namespace").to_string().contains("must set one"));
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}});
    assert_eq!(check(volume).expect("valid").children[0].key.to_string(), "a");
}

/// A plugin that owns Secrets, and a parent that is namespaced or cluster-scoped.
fn secret_for(
    namespace: Option<&str>,
    change: impl Fn(&mut Grant),
    child: &Value,
) -> Result<Desired, ResponseRejection> {
    let mut grant = Grant {
        kind: Arc::new(Gvk::from_api_version("v1", "Secret")),
        namespaced: true,
        update: UpdateStrategy::Apply,
        namespaces: None,
        tokens: false,
        presence: Presence::Required,
    };
    change(&mut grant);
    let parent = ParentRef { key: ObjectKey::new(namespace, "hello"), ..parent_ref() };
    let grants = Grants::new(HostNamespace::new("windlass-system"), [grant]);
    super::validate(&response(std::slice::from_ref(child)), &parent, &grants, &Limits::default())
}

fn secret(namespace: Option<&str>, kind: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": "a", "namespace": namespace}})
}

#[test]
fn no_child_is_placed_in_the_hosts_namespace_whatever_is_granted() {
    let named = |grant: &mut Grant| grant.namespaces = Some(["windlass-system".into(), "shop".into()].into());
    for (parent, namespace) in [
        (None, Some("windlass-system")),
        (Some("windlass-system"), Some("windlass-system")),
        (Some("windlass-system"), None),
    ] {
        let refusal = secret_for(parent, named, &secret(namespace, "Opaque")).expect_err("refused").to_string();
        assert!(refusal.contains("namespace windlass-system, which is the host's own"), "{refusal}");
    }
    assert!(secret_for(None, named, &secret(Some("shop"), "Opaque")).is_ok());
}

#[test]
fn cluster_scoped_parent_has_children_in_a_system_namespace_only_if_the_plugin_grants_it() {
    let any = |_: &mut Grant| {};
    for namespace in SYSTEM_NAMESPACES {
        let refusal = secret_for(None, any, &secret(Some(namespace), "Opaque")).expect_err("refused").to_string();
        assert!(refusal.contains("spec.grants.children") && refusal.contains(namespace), "{refusal}");
        let named = |grant: &mut Grant| grant.namespaces = Some([namespace.into()].into());
        assert!(secret_for(None, named, &secret(Some(namespace), "Opaque")).is_ok());
        assert!(
            secret_for(None, named, &secret(Some("shop"), "Opaque")).is_err(),
            "only the granted namespaces are permitted"
        );
        assert!(
            secret_for(Some(namespace), any, &secret(None, "Opaque")).is_ok(),
            "a namespaced parent may have children in its own namespace"
        );
    }
}

#[test]
fn service_account_token_secret_is_rejected_unless_the_plugin_grants_it() {
    for parent in [None, Some("shop")] {
        for secret_type in ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"] {
            let token = secret(Some("shop"), secret_type);
            let refusal = secret_for(parent, |_| {}, &token).expect_err("refused").to_string();
            assert!(refusal.contains("serviceAccountTokens: true") && refusal.contains(secret_type), "{refusal}");
            assert!(secret_for(parent, |grant| grant.tokens = true, &token).is_ok());
        }
        assert!(secret_for(parent, |_| {}, &secret(Some("shop"), "kubernetes.io/tls")).is_ok());
    }
}

#[test]
fn s02_child_of_a_cluster_scoped_parent_is_marked_and_plugins_cannot_set_the_mark() {
    let key = MarkKey::new([7; MarkKey::LENGTH]);
    let grant = Grant {
        kind: Arc::new(Gvk::from_api_version("v1", "Pod")),
        namespaced: true,
        update: UpdateStrategy::Apply,
        namespaces: None,
        tokens: false,
        presence: Presence::Required,
    };
    let grants = Grants::new(HostNamespace::new("windlass-system"), [grant]);
    let parent = ParentRef { key: ObjectKey::new(None, "hello"), mark_key: Some(key.clone()), ..parent_ref() };
    let marked = |change: fn(&mut Value)| {
        let mut child = pod("a");
        child["metadata"]["namespace"] = json!("shop");
        change(&mut child["metadata"]["annotations"]);
        super::validate(&response(&[child]), &parent, &grants, &Limits::default())
    };
    let kind = Gvk::from_api_version("v1", "Pod").group_kind();
    let place = ObjectKey::new(Some("shop"), "a");
    for (retain, owner) in [(false, OwnerKey::Uid(parent.uid.clone())), (true, parent.retained_key())] {
        let change = if retain {
            |annotations: &mut Value| annotations["windlass.dev/retain"] = json!("true")
        } else {
            |_: &mut Value| {}
        };
        let desired = marked(change).expect("valid");
        let mark = key.mark("echo", &owner, &kind, &place);
        let body = text(&desired.children[0]);
        assert!(body.contains(&format!(r#""windlass.dev/mark":"{mark}""#)), "retained: {retain}, {body}");
    }
    let forged = marked(|annotations| annotations["windlass.dev/mark"] = json!("1:00")).expect_err("refused");
    assert!(forged.to_string().contains("windlass.dev/mark"), "{forged}");
    let unmarked = validate(&[pod("a")]).expect("valid");
    assert!(
        !text(&unmarked.children[0]).contains("windlass.dev/mark"),
        "the child of a namespaced parent needs no mark"
    );
}

/// Grants of one namespaced kind.
fn grants_of(api_version: &str, kind: &str) -> Grants {
    let kind = Arc::new(Gvk::from_api_version(api_version, kind));
    let grant = Grant {
        kind,
        namespaced: true,
        update: UpdateStrategy::Apply,
        namespaces: None,
        tokens: false,
        presence: Presence::Required,
    };
    Grants::new(HostNamespace::default(), [grant])
}

#[test]
fn grants_are_held_by_a_plugin_that_grants_no_less() {
    let grant = |namespaces: Option<&[&str]>, tokens| ChildGrant {
        kind: Gvk::from_api_version("v1", "Secret"),
        namespaces: namespaces.map(|names| names.iter().map(|name| Arc::from(*name)).collect()),
        tokens,
    };
    let before = |namespaces, tokens| {
        let ChildGrant { kind, namespaces, tokens } = grant(namespaces, tokens);
        let update = UpdateStrategy::Apply;
        Grants::new(
            HostNamespace::default(),
            [Grant {
                kind: Arc::new(kind),
                namespaced: true,
                update,
                namespaces,
                tokens,
                presence: Presence::Required,
            }],
        )
    };
    let held = |before: &Grants, now: Option<ChildGrant>| {
        let children = Some(now.into_iter().collect());
        before.are_held_by(&SpecGrants { children, ..SpecGrants::default() })
    };
    let all = before(None, false);
    assert!(all.are_held_by(&SpecGrants::default()), "every kind that the component declares");
    assert!(held(&all, Some(grant(None, true))));
    assert!(!held(&all, None), "no Secrets");
    assert!(!held(&all, Some(grant(Some(&["a"]), false))), "one namespace only");
    assert!(!held(&before(None, true), Some(grant(None, false))), "no tokens");
    let two = before(Some(&["a", "b"]), false);
    assert!(held(&two, Some(grant(Some(&["b", "c", "a"]), false))));
    assert!(held(&two, Some(grant(None, false))));
    assert!(!held(&two, Some(grant(Some(&["a"]), false))));
    assert!(
        !held(&before(Some(&["kube-system"]), false), Some(grant(None, false))),
        "a namespace of the control plane"
    );
}

#[test]
fn name_is_checked_by_the_rule_of_the_childs_kind() {
    let named = |api_version: &str, kind: &str, name: &str| {
        let child = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        let grants = grants_of(api_version, kind);
        super::validate(&response(&[child]), &parent_ref(), &grants, &Limits::default())
            .map(|desired| desired.children[0].key.to_string())
    };
    let role = named("rbac.authorization.k8s.io/v1", "Role", "app:reader");
    assert_eq!(role, Ok("default/app:reader".to_owned()));
    for (api_version, kind, name) in [
        ("v1", "ConfigMap", "app:reader"),
        ("v1", "Service", "a.b"),
        ("rbac.authorization.k8s.io/v1", "Role", "a/b"),
        ("rbac.authorization.k8s.io/v1", "Role", ".."),
        ("rbac.authorization.k8s.io/v1", "Role", "a%2fb"),
    ] {
        let refused = named(api_version, kind, name).expect_err(name).to_string();
        assert!(refused.contains("is not a valid name: that of a"), "{refused}");
    }
}

#[test]
fn job_with_a_time_to_live_expires() {
    let job = |spec: Value| {
        let body = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec});
        let grants = grants_of("batch/v1", "Job");
        let desired = super::validate(&response(&[body]), &parent_ref(), &grants, &Limits::default()).expect("valid");
        desired.children[0].expires()
    };
    assert!(job(json!({"ttlSecondsAfterFinished": 0})));
    assert!(!job(json!({"ttlSecondsAfterFinished": null})) && !job(json!({})));
    assert!(
        !validate(&[with(|pod| pod["spec"]["ttlSecondsAfterFinished"] = json!(1))]).expect("valid").children[0]
            .expires()
    );
}

#[test]
fn options_of_contract_0_2_are_those_of_the_annotations_of_0_1_which_it_rejects() {
    let of = |child: Value, options: Option<ChildOptions>| {
        let response = Response { options: options.map(|options| [options].into()), ..response(&[child]) };
        super::validate(&response, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default())
    };
    let annotated = |key: &str| with(|pod| pod["metadata"]["annotations"] = json!({key: "true"}));
    let (retain, take_over) = ("windlass.dev/retain", "windlass.dev/take-over");
    let retained = ChildOptions { retain: true, ..ChildOptions::default() };
    let taken = ChildOptions { take_over: true, ..ChildOptions::default() };
    for (annotation, options) in [(retain, retained), (take_over, taken)] {
        let (before, now) = (of(annotated(annotation), None), of(pod("a"), Some(options)));
        assert_eq!(before.expect("valid").children, now.expect("valid").children);
        let message = of(annotated(annotation), Some(ChildOptions::default())).expect_err("refused").to_string();
        assert!(message.contains("since contract 0.2 this is a field of the child"), "{message}");
    }
    let update = Some(UpdateStrategy::OnDelete);
    let child = of(pod("a"), Some(ChildOptions { update, ready: Some(false), stage: 3, ..ChildOptions::default() }));
    let child = &child.expect("valid").children[0];
    assert_eq!((&child.update, child.ready, child.stage), (&UpdateStrategy::OnDelete, Some(false), 3));
    let long = UpdateStrategy::Rolling { recreate: false, until: Until::Conditions(vec!["C".repeat(400)].into()) };
    let message =
        of(pod("a"), Some(ChildOptions { update: Some(long), ..ChildOptions::default() })).expect_err("refused");
    assert!(message.to_string().contains("is longer than 316 bytes"), "{message}");
    let two = Response { options: Some(vec![ChildOptions::default(); 2].into()), ..response(&[pod("a")]) };
    let message = super::validate(&two, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default());
    assert_eq!(message.expect_err("refused").to_string(), "the response has 1 children and options for 2");
}

#[test]
fn namespaces_of_the_control_plane_are_closed_unless_a_grant_names_them_and_the_hosts_always() {
    let grants = |namespaces: Option<&[&str]>| {
        let namespaces = namespaces.map(|names| names.iter().map(|name| Arc::from(*name)).collect());
        let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
        let grant = Grant {
            kind,
            namespaced: true,
            update: UpdateStrategy::Apply,
            namespaces,
            tokens: false,
            presence: Presence::Required,
        };
        Grants::new(HostNamespace::new("windlass-system"), [grant]).closed_namespaces().join(" ")
    };
    assert_eq!(grants(None), "windlass-system kube-system kube-public kube-node-lease");
    assert_eq!(grants(Some(&["a", "kube-system"])), "windlass-system kube-public kube-node-lease");
}

#[test]
fn r08_kept_children_are_those_of_the_plugin_that_the_response_does_not_return() {
    let kept = |api_version: &str, kind: &str, namespace: Option<&str>, name: &str| ChildRef {
        kind: Gvk::from_api_version(api_version, kind),
        namespace: namespace.map(ToOwned::to_owned),
        name: name.to_owned(),
    };
    let of = |children: Vec<ChildRef>, finalized| {
        let response = Response { keep: Keep::These(children.into()), finalized, ..response(&[pod("a")]) };
        super::validate(&response, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default())
    };
    let desired =
        of(vec![kept("v1", "Pod", None, "b"), kept("v1", "ConfigMap", Some("default"), "a")], false).expect("valid");
    let Kept::These(these) = desired.kept else { panic!("{:?}", desired.kept) };
    let mut names: Vec<_> = these.iter().map(|(kind, key)| format!("{} {key}", kind.kind)).collect();
    names.sort();
    assert_eq!(names, ["ConfigMap default/a", "Pod default/b"]);
    let refused = |children, finalized| of(children, finalized).expect_err("refused").to_string();
    let both = refused(vec![kept("v1", "Pod", None, "a")], false);
    assert!(both.contains("returns Pod default/a and keeps it as it is"), "{both}");
    let foreign = refused(vec![kept("v1", "Secret", None, "a")], false);
    assert!(foreign.contains("the plugin may have no children of Secret.v1"), "{foreign}");
    let last = refused(Vec::new(), true);
    assert!(last.contains("the clean-up is complete"), "{last}");
}

#[test]
fn child_that_replaces_a_kept_one_is_rejected() {
    let old = ChildRef { kind: Gvk::from_api_version("v1", "Pod"), namespace: None, name: "old".to_owned() };
    let options = ChildOptions { replaces: Some(old.clone()), ..ChildOptions::default() };
    for (keep, is_rejected) in [(Keep::All, true), (Keep::These([old].into()), true), (Keep::None, false)] {
        let response = Response { options: Some([options.clone()].into()), keep, ..response(&[pod("a")]) };
        let result =
            super::validate(&response, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default());
        assert_eq!(result.is_err_and(|error| error.to_string().contains("replaces a child that")), is_rejected);
    }
}

#[test]
fn r24_child_of_an_absent_optional_kind_is_left_out_and_its_grant_decides_like_that_of_a_served_one() {
    let kind = Arc::new(Gvk::from_api_version("monitoring.example/v1", "Monitor"));
    let grants = |presence, namespaced| {
        let update = UpdateStrategy::Apply;
        let optional = Grant { kind: kind.clone(), namespaced, update, namespaces: None, tokens: false, presence };
        let others = grants_with(&UpdateStrategy::Apply);
        Grants::new(HostNamespace::default(), others.iter().cloned().chain([optional]))
    };
    let monitor = json!({"apiVersion": "monitoring.example/v1", "kind": "Monitor", "metadata": {"name": "web"}});
    let of = |presence| {
        let response = response(&[monitor.clone(), pod("a"), monitor.clone()]);
        super::validate(&response, &parent_ref(), &grants(presence, true), &Limits::default())
    };
    let left_out = of(Presence::Absent).expect("valid");
    assert_eq!((left_out.children.len(), &*left_out.absent), (1, &[kind.clone()][..]), "each kind is named once");
    assert!(of(Presence::Served).is_err_and(|error| error.to_string().contains("twice")));

    let [absent, served] = [grants(Presence::Absent, false), grants(Presence::Served, true)];
    assert!(absent.are_like(&served), "whether the kind is served is no change of the plugin");
    assert!(!served.are_like(&grants(Presence::Required, true)));
    let present = |grants: &Grants| grants.optional_kinds().cloned().collect::<Vec<_>>();
    assert_eq!((present(&absent), present(&served)), (Vec::new(), vec![kind.clone()]));
}
