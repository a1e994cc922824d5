use serde_json::json;

use super::*;
use crate::contract::snapshot::Served;
use crate::contract::{CallFailure, Event, EventType, Failure, Namespaces, Requirement, Response, Selection};
use crate::fixtures::{object, snapshot};
use crate::object::child::ChildId;
use crate::object::masking::{Masker, hidden};
use crate::reconcile::outcome::{Rejection, WriteProblem};
use crate::reconcile::recent::{Call, Decision, KeptResult, Reconciled};
use crate::value::digest::Digest;
use crate::value::ids::{Gvk, ObjectKey};

/// A call whose Secret has this password, which the plugin puts into a child, an event and the status.
fn reconciled(password: &str, replicas: u64) -> Reconciled {
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, password);
    let secret = object(&json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": encoded},
        "metadata": {"name": "db", "namespace": "default", "uid": "s", "resourceVersion": "9"}}));
    let mut snapshot = snapshot(&[]);
    snapshot.related = vec![Served::new("password".into(), vec![secret])];
    let child = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hello-0"}, "env": format!("pw={password}"),
        "replicas": replicas});
    let response = Response {
        children: vec![child.to_string().into_bytes(), b"\xff not JSON".to_vec()],
        status: Some(json!({"url": format!("mysql://root:{password}@db")}).to_string().into_bytes()),
        events: vec![Event { event_type: EventType::Normal, reason: "A".into(), message: password.into() }],
        ..Response::default()
    };
    let call = Call {
        snapshot,
        phase: Phase::Sync,
        hash: Digest::of(b"call"),
        component: Digest::of(b"component"),
        contract: "0.1.0".into(),
        now: Timestamp::UNIX_EPOCH,
        limits: Limits::default(),
        result: KeptResult::new(&Ok(Ok(response))),
        guest_time_us: 1,
        memory_peak: 1,
        is_impure: false,
    };
    let message = format!("the password is {password}");
    Reconciled {
        number: 1,
        parent: call.snapshot.parent_ref.clone(),
        plural: "echoes".into(),
        at: Timestamp::UNIX_EPOCH,
        trigger: "event",
        duration: std::time::Duration::ZERO,
        trace: None,
        call: Some(call),
        is_call_omitted: false,
        decision: Decision { outcome: "PluginFailed", message, ..Decision::default() },
        next: None,
        repeated: 0,
    }
}

fn exported(reconciled: &Reconciled) -> RecordedCall {
    export(reconciled, &mut Masker::new([3; 32])).expect("few values")
}

#[test]
fn recorded_object_may_nest_deeper_than_serde_reads_into_values() {
    let (open, close) = ("[".repeat(200), "]".repeat(200));
    let child =
        format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a","namespace":"n"}},"spec":{open}{close}}}"#);
    let parent = child.replace("Pod", "Echo");
    let text = format!(r#"{{"phase":"sync","parent":{parent},"children":[{child}]}}"#);
    let request = serde_json::from_str::<RecordedRequest>(&text).expect("a request").request().expect("a child");
    let [read] = &request.children[..] else { panic!("{:?}", request.children) };
    assert_eq!((read.kind.to_string(), read.namespace.as_deref(), &*read.name), ("Pod.v1".to_owned(), Some("n"), "a"));
}

#[test]
fn child_is_recorded_as_its_version_kind_namespace_and_name() {
    for (namespace, text) in [
        (Some("n"), r#"{"apiVersion":"apps/v1","kind":"Deployment","namespace":"n","name":"a"}"#),
        (None, r#"{"apiVersion":"apps/v1","kind":"Deployment","name":"a"}"#),
    ] {
        let kind = Gvk::from_api_version("apps/v1", "Deployment").into();
        let child = ChildId { kind, key: ObjectKey::new(namespace, "a") };
        assert_eq!(serde_json::to_string(&child).expect("JSON"), text);
        assert_eq!(serde_json::from_str::<ChildId>(text).expect("a child"), child);
    }
}

#[test]
fn recorded_call_has_no_value_of_a_secret_and_survives_the_way_through_a_file() {
    let password = "correct-horse-battery";
    let line = serde_json::to_string(&exported(&reconciled(password, 1))).expect("JSON");
    assert!(!line.contains(password) && !line.contains("correct"), "{line}");
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD_NO_PAD, password);
    assert!(!line.contains(&encoded), "{line}");
    assert!(!line.contains('\n'));
    let read: RecordedCall = serde_json::from_str(&line).expect("a call");
    assert_eq!(serde_json::to_string(&read).expect("JSON"), line);
    let call = read.call.expect("a call");
    let request = call.request.request().expect("a request");
    assert_eq!(&*request.parent.object, call.request.parent.get().as_bytes());
    assert_eq!((&*request.related[0].id, &*request.related[0].objects[0].name), ("password", "db"));
    assert_ne!(call.seed().expect("a seed"), *Digest::of(b"call").as_bytes());
}

#[test]
fn messages_of_a_call_that_was_not_kept_are_not_shown() {
    let mut omitted = reconciled("correct-horse-battery", 1);
    omitted.call = None;
    omitted.is_call_omitted = true;
    let child = ChildId { kind: omitted.parent.kind.clone(), key: omitted.parent.key.clone() };
    let rejected = WriteProblem::Rejected {
        code: 422,
        message: "invalid: correct-horse-battery".to_owned(),
        rejection: Rejection::Other,
    };
    omitted.decision.failed = vec![(child, rejected)];
    let shown = exported(&omitted).decision;
    for message in [&shown.message, &shown.failed[0].message] {
        assert!(message.starts_with("not shown"), "{message}");
    }
    omitted.decision.message.clear();
    assert_eq!(exported(&omitted).decision.message, "");
}

#[test]
fn values_are_replaced_where_a_message_is_cut_and_if_their_secret_is_not_in_the_request() {
    let mut cut = reconciled("correct-horse-battery", 1);
    cut.decision.message = "the password is correct-hor…se-battery".to_owned();
    let call = cut.call.as_mut().expect("a call");
    let trap = CallFailure::Trap("no login with tr0ub4dor-and-three… (unreachable)".to_owned());
    call.result = KeptResult::new(&Err(trap));
    call.snapshot.left_out = vec![object(&json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"other": "tr0ub4dor-and-three-and-four"},
        "metadata": {"name": "large", "namespace": "default", "uid": "l", "resourceVersion": "9"},
    }))];
    let line = serde_json::to_string(&exported(&cut)).expect("JSON");
    assert!(!line.contains("corr") && !line.contains("battery") && !line.contains("tr0u"), "{line}");
}

#[test]
fn malformed_child_that_may_be_a_secret_is_not_shown() {
    let child = br#"{"kind": "Secret", "stringData": {"pin": "1234"}"#;
    let response = Response { children: vec![child.to_vec()], ..Response::default() };
    let RecordedResult::Response(shown) = export_result(&Ok(Ok(response))) else { panic!("a response") };
    assert_eq!(shown.children[0].get(), json!(hidden(child.len())).to_string());
}

#[test]
fn calls_with_many_secrets_are_masked_by_one_finder() {
    let all: Vec<_> = (0..100).map(|at| reconciled(&format!("correct-horse-battery-{at:03}"), 1)).collect();
    let mut masker = Masker::new([3; 32]);
    let shown = export_all(all.iter().rev(), &mut masker).expect("few values");
    assert_eq!((shown.len(), masker.builds), (100, 1));
}

#[test]
fn request_that_changed_is_described_field_by_field_without_noise() {
    let before = exported(&reconciled("correct-horse-battery", 1)).call.expect("a call");
    let mut changed = reconciled("another-horse-battery", 1);
    if let Some(call) = &mut changed.call {
        call.snapshot.children = vec![object(&json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "hello-0", "namespace": "default", "uid": "p", "resourceVersion": "10"}}))];
    }
    let after = exported(&changed).call.expect("a call");
    let found = changes(&before, &after);
    let subjects: Vec<_> = found.iter().map(|change| &*change.subject).collect();
    assert_eq!(subjects, ["related object (requirement password) Secret default/db", "child Pod default/hello-0"]);
    assert_eq!(found[1].change, Changed::Added);
    let Changed::Fields(fields) = &found[0].change else { panic!("{found:?}") };
    assert_eq!(fields[0].path, "data.password");
    assert!(changes(&before, &before).is_empty());
}

#[test]
fn hosts_own_mark_on_a_child_is_no_change() {
    let with = |applied: &str, label: &str| {
        let mut reconcile = reconciled("correct-horse-battery", 1);
        if let Some(call) = &mut reconcile.call {
            call.snapshot.children = vec![object(&json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "hello-0", "namespace": "default", "uid": "p", "resourceVersion": "10", "labels": {"app": label},
                    "annotations": {"windlass.dev/applied": applied}}}))];
        }
        exported(&reconcile).call.expect("a call")
    };
    assert!(changes(&with("1:a", "x"), &with("2:b", "x")).is_empty());
    let found = changes(&with("1:a", "x"), &with("2:b", "y"));
    let [Change { change: Changed::Fields(fields), .. }] = &*found else { panic!("{found:?}") };
    assert_eq!(fields.iter().map(|field| &*field.path).collect::<Vec<_>>(), ["metadata.labels.app"]);
}

#[test]
fn objects_of_equal_kinds_in_different_groups_are_compared_apart() {
    let with = |api_version: &str, replicas: u64| {
        let child = |api_version: &str, replicas: u64| {
            let meta = json!({"name": "a"});
            json!({"apiVersion": api_version, "kind": "Scaler", "metadata": meta, "replicas": replicas})
        };
        let children = [child("one.dev/v1", 1), child(api_version, replicas)];
        let children = children.iter().map(|child| child.to_string().into_bytes()).collect();
        export_result(&Ok(Ok(Response { children, ..Response::default() })))
    };
    let subject = |found: &[Change]| found.iter().map(|change| change.subject.clone()).collect::<Vec<_>>();
    let two_groups = |replicas| with("two.dev/v1", replicas);
    assert_eq!(subject(&two_groups(1).differences(&two_groups(2))), ["child Scaler.two.dev a"]);
    // The host rejects a response with the same child twice, but a recording may have one.
    let twice = |replicas| with("one.dev/v1", replicas);
    assert_eq!(subject(&twice(1).differences(&twice(2))), ["child Scaler.one.dev a (2)"]);
}

#[test]
fn results_differ_by_the_parts_that_differ() {
    let result = |replicas| exported(&reconciled("correct-horse-battery", replicas)).call.expect("a call").result;
    let found = result(1).differences(&result(2));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].subject, "child Pod hello-0");
    let failed = RecordedResult::Failed("no".to_owned());
    assert!(result(1).differences(&failed).iter().any(|change| change.subject == "failure"));
    assert!(result(1).differences(&result(1)).is_empty());
    let with_generation = |generation: u64| {
        let child = json!({"kind": "Pod", "metadata": {"name": "a", "generation": generation}}).to_string();
        export_result(&Ok(Ok(Response { children: vec![child.into_bytes()], ..Response::default() })))
    };
    assert_eq!(with_generation(1).differences(&with_generation(2)).len(), 1, "a plugin may return such a field");
    let retry = |after_ms| RecordedResult::Retry { message: "later".to_owned(), after_ms };
    assert_eq!(retry(1).differences(&retry(2))[0].subject, "retryAfterMs");
}

#[test]
fn digest_of_a_result_covers_every_part() {
    let base = Response { children: vec![b"{}".to_vec()], ..Response::default() };
    let event = |event_type, reason: &str, message: &str| Response {
        events: vec![Event { event_type, reason: reason.to_owned(), message: message.to_owned() }],
        ..base.clone()
    };
    let requirement = |id: &str, kind: &str, namespaces, select| Response {
        requirements: vec![Requirement {
            id: id.to_owned(),
            kind: Gvk::from_api_version("v1", kind),
            namespaces,
            select,
            metadata_only: false,
        }],
        ..base.clone()
    };
    let name = |name: &str| Selection::Name(name.to_owned());
    let in_these = |names: &[&str]| Namespaces::Named(names.iter().map(|name| (*name).to_owned()).collect());
    let own = || Namespaces::OfParent;
    let others = [
        Response { children: vec![b"{ }".to_vec()], ..base.clone() },
        Response { children: vec![b"{}".to_vec(); 2], ..base.clone() },
        Response { status: Some(b"{}".to_vec()), ..base.clone() },
        Response { status: Some(Vec::new()), ..base.clone() },
        Response { requeue: Some(0), ..base.clone() },
        Response { finalized: true, ..base.clone() },
        event(EventType::Normal, "A", "b"),
        event(EventType::Warning, "A", "b"),
        event(EventType::Normal, "B", "b"),
        event(EventType::Normal, "A", "a"),
        requirement("id", "Secret", own(), name("a")),
        requirement("other", "Secret", own(), name("a")),
        requirement("id", "ConfigMap", own(), name("a")),
        requirement("id", "Secret", in_these(&[]), name("a")),
        requirement("id", "Secret", in_these(&[""]), name("a")),
        requirement("id", "Secret", in_these(&["shop", "bank"]), name("a")),
        requirement("id", "Secret", in_these(&["bank"]), name("a")),
        requirement("id", "Secret", in_these(&["shop"]), name("a")),
        requirement("id", "Secret", Namespaces::All, name("a")),
        requirement("id", "Secret", own(), name("b")),
        requirement("id", "Secret", own(), Selection::Labels("a".to_owned())),
    ];
    let mut digests: Vec<_> =
        others.into_iter().chain([base.clone()]).map(|response| digest(&Ok(Ok(response)))).collect();
    let retry = |message: &str, after| Failure::Retry { message: message.to_owned(), after };
    let failures =
        [Failure::Failed("a".into()), Failure::Invalid("a".into()), retry("a", 1), retry("b", 1), retry("a", 2)];
    digests.extend(failures.map(|failure| digest(&Ok(Err(failure)))));
    digests.push(digest(&Err(CallFailure::StackOverflow)));
    let count = digests.len();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), count);
    // Another digest of the same result needs another `FORMAT`: a replay compares the digests.
    let both = format!("{FORMAT} {}", digest(&Ok(Ok(event(EventType::Warning, "A", "b")))));
    expect_test::expect!["2 sha256:6bbc779cae4284c673efe3ff7a8579869b7b5b13234cde35b69c3fc6bb176ee0"].assert_eq(&both);
}

#[test]
fn requirement_in_one_namespace_is_recorded_as_in_contract_0_1_and_in_several_as_a_list_and_in_all_as_a_word() {
    let in_these = |names: &[&str]| Namespaces::Named(names.iter().map(|name| (*name).to_owned()).collect());
    for (namespaces, metadata_only, rest) in [
        (Namespaces::OfParent, false, r#""name":"x"}"#),
        (in_these(&["shop"]), false, r#""namespace":"shop","name":"x"}"#),
        (in_these(&["a", "b"]), false, r#""namespaces":["a","b"],"name":"x"}"#),
        (Namespaces::All, true, r#""namespaces":"all","name":"x","metadataOnly":true}"#),
    ] {
        let text = format!(r#"{{"id":"a","apiVersion":"v1","kind":"Secret",{rest}"#);
        let requirement = Requirement {
            id: "a".to_owned(),
            kind: Gvk::from_api_version("v1", "Secret"),
            namespaces,
            select: Selection::Name("x".to_owned()),
            metadata_only,
        };
        assert_eq!(serde_json::to_string(&requirement).expect("JSON"), text);
        assert_eq!(serde_json::from_str::<Requirement>(&text).expect("a requirement"), requirement);
    }
}
