use serde_json::json;

use super::*;
use crate::contract::{Event, EventType, Failure, Response};
use crate::digest::Digest;
use crate::fixtures::{object, snapshot};
use crate::masking::Masker;
use crate::recent::{Call, Decision, KeptResult, Reconciled};
use crate::snapshot::Served;

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
        phase: crate::contract::Phase::Sync,
        hash: Digest::of(b"call"),
        component: Digest::of(b"component"),
        contract: "0.1.0".to_owned(),
        now: Timestamp::UNIX_EPOCH,
        limits: crate::contract::Limits::default(),
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
        repeated: 0,
    }
}

fn exported(reconciled: &Reconciled) -> RecordedCall {
    export(reconciled, &mut Masker::new([3; 32])).expect("few values")
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
    assert_eq!(&*request.parent, call.request.parent.get().as_bytes());
    assert_eq!((&*request.related[0].id, &*request.related[0].objects[0].name), ("password", "db"));
    assert_ne!(call.seed().expect("a seed"), *Digest::of(b"call").as_bytes());
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
fn results_differ_by_the_parts_that_differ() {
    let result = |replicas| exported(&reconciled("correct-horse-battery", replicas)).call.expect("a call").result;
    let found = result(1).differences(&result(2));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].subject, "child Pod hello-0");
    let failed = RecordedResult::Failed("no".to_owned());
    assert!(result(1).differences(&failed).iter().any(|change| change.subject == "failure"));
    assert!(result(1).differences(&result(1)).is_empty());
}

#[test]
fn digest_of_a_result_covers_every_part() {
    let base = Response { children: vec![b"{}".to_vec()], ..Response::default() };
    let others = [
        Response { children: vec![b"{ }".to_vec()], ..base.clone() },
        Response { children: vec![b"{}".to_vec(); 2], ..base.clone() },
        Response { status: Some(b"{}".to_vec()), ..base.clone() },
        Response { status: Some(Vec::new()), ..base.clone() },
        Response { requeue: Some(0), ..base.clone() },
        Response { finalized: true, ..base.clone() },
    ];
    let mut digests: Vec<_> = others.into_iter().chain([base]).map(|response| digest(&Ok(Ok(response)))).collect();
    digests.push(digest(&Ok(Err(Failure::Failed("a".into())))));
    digests.push(digest(&Ok(Err(Failure::Invalid("a".into())))));
    digests.push(digest(&Err(crate::contract::CallFailure::StackOverflow)));
    let count = digests.len();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), count);
}
