//! Children that are created once (rule R25).

use super::*;
use crate::object::once::{Noted, Once, note};

/// A parent whose plugin returns a Pod that is created once for this text, and whose annotations have a note.
fn once(text: &str, noted: Option<Noted>) -> Model {
    let child =
        ChildId { kind: Arc::new(Gvk::from_api_version("v1", "Pod")), key: ObjectKey::new(Some("default"), "a") };
    let mut parent: Value = serde_json::from_slice(&parent().json.bytes()).expect("JSON");
    if let Some(noted) = noted {
        let note = note(noted, &parent_ref().plugin, &child, CLOCK.date());
        parent["metadata"]["annotations"] =
            json!({Once::of(&parent_ref().plugin, (&child.kind, &child.key), "1").annotation(): note});
    }
    let options = ChildOptions { once: Some(text.to_owned()), ..ChildOptions::default() };
    Model { parent: object(&parent), desired: vec![pod("a")], options: Some([options].into()), ..model() }
}

/// The Pod as it was created for this text.
fn created_for(text: &str, status: &Value) -> Vec<Arc<Object>> {
    let model = once(text, None);
    let response = Response { options: model.options, ..response(&model.desired) };
    let terms = terms();
    let parent = ParentRef::of(&terms.name, &parent(), None);
    let desired = desired::validate(&response, &parent, &terms.grants, &terms.limits).expect("valid");
    let mut live = created(&desired.children[0]);
    live["status"] = status.clone();
    vec![object(&live)]
}

#[test]
fn r25_child_is_created_once_for_each_text_after_the_parent_says_so() {
    let terms = Terms { ready_means: ReadyMeans::Children, ..terms() };
    let did = |mut world: Model| did(&mut world, &terms, &shared()).join(", ");
    let (running, done) = (json!({"phase": "Running"}), json!({"phase": "Succeeded"}));
    let with = |world: Model, children: Vec<Arc<Object>>| Model { children, ..world };
    assert_eq!(did(once("1", None)), "call, note begun of hello, create a, status hello, WaitingForReady");
    let begun = || once("1", Some(Noted::Begun));
    assert_eq!(did(with(begun(), created_for("1", &running))), "call, status hello, WaitingForReady");
    assert_eq!(did(with(begun(), created_for("1", &done))), "call, note ready of hello, status hello, Succeeded");
    let ready = || once("1", Some(Noted::Ready));
    assert_eq!(did(with(ready(), created_for("1", &done))), "call, status hello, Succeeded", "it says so");
    assert_eq!(did(ready()), "call, status hello, Succeeded", "it is gone, and was there");
    assert_eq!(did(begun()), "call, status hello, ChildFailed", "it is gone, and may have failed");
    // Another text.
    let other = || once("2", Some(Noted::Ready));
    let deletes = "call, delete a, status hello, ChildrenTerminating";
    assert_eq!(did(with(other(), created_for("1", &done))), deletes, "the former one goes first");
    assert_eq!(did(other()), "call, note begun of hello, create a, status hello, WaitingForReady");
    // It was created before the plugin said that it is created once.
    let unmarked = vec![object(&created(&validate(&[pod("a")]).expect("valid").children[0]))];
    let marked = "call, patch a, status hello, WaitingForReady";
    assert_eq!(did(with(once("1", None), unmarked)), marked, "its mark comes first");
    assert_eq!(
        did(with(once("1", None), created_for("1", &running))),
        "call, note begun of hello, status hello, WaitingForReady"
    );
    // A mark of another text, although the child was created for this one.
    let edited = "call, patch a, status hello, WaitingForReady";
    assert_eq!(did(with(ready(), created_for("2", &done))), edited, "nothing is deleted that is not created again");
    // It has done its work, and its time to live has passed.
    let mut leaving = created_for("1", &done);
    Arc::make_mut(&mut leaving[0]).deleting = true;
    assert_eq!(did(with(begun(), leaving)), "call, note ready of hello, status hello, ChildrenTerminating");
}

#[test]
fn r25_child_that_may_have_been_lost_is_reported_whatever_ready_means() {
    for ready_means in [ReadyMeans::Applied, ReadyMeans::Plugin] {
        let terms = Terms { ready_means, ..terms() };
        let mut world = Model { waiting: Some("a person"), ..once("1", Some(Noted::Begun)) };
        assert_eq!(did(&mut world, &terms, &shared()).join(", "), "call, status hello, ChildFailed");
    }
}

#[test]
fn r25_child_that_is_created_once_is_not_recreated_for_a_change() {
    let terms = Terms { grants: grants_with(&UpdateStrategy::Recreate), ..terms() };
    let mut world = once("1", Some(Noted::Ready));
    world.children = created_for("1", &json!({"phase": "Succeeded"}));
    world.desired[0]["spec"]["containers"][0]["image"] = json!("nginx:2");
    assert_eq!(did(&mut world, &terms, &shared()).join(", "), "call, status hello, Succeeded");
}

#[test]
fn r25_notes_about_many_children_are_no_thrashing() {
    let (terms, shared) = (terms(), shared());
    let names: Vec<_> = (0..15).map(|at| format!("job-{at}")).collect();
    for name in &names {
        let mut world = once("1", None);
        world.desired = vec![pod(name)];
        let all = did(&mut world, &terms, &shared).join(", ");
        assert!(all.contains("note begun of hello, create job-"), "{all}");
    }
}

/// The refusal of a create for want of quota.
fn exceeds_quota(request: &ApiRequest<'_>) -> Option<Refused> {
    let status = Status { code: 403, message: "exceeded quota".to_owned(), ..Status::default() };
    matches!(request, ApiRequest::Create(_)).then(|| Refused::ByServer(Box::new(status)))
}

#[test]
fn r25_note_about_a_child_that_was_certainly_not_created_is_taken_back() {
    let terms = terms();
    let mut world = Model { refuses: Some(exceeds_quota), ..once("1", None) };
    let all = did(&mut world, &terms, &shared()).join(", ");
    assert_eq!(all, "call, note begun of hello, create a, note nothing of hello, status hello, ChildRejected");
    let cut: fn(&ApiRequest<'_>) -> Option<Refused> =
        |request| matches!(request, ApiRequest::Create(_)).then(|| Refused::NoResponse("cut".to_owned()));
    let mut world = Model { refuses: Some(cut), ..once("1", None) };
    let all = did(&mut world, &terms, &shared()).join(", ");
    assert_eq!(all, "call, note begun of hello, create a, status hello, APIError", "it may exist");
}

#[test]
fn r25_note_that_could_not_be_taken_back_is_taken_back_later_if_it_is_this_hosts() {
    let cut: fn(&ApiRequest<'_>) -> Option<Refused> = |request| match request {
        ApiRequest::Annotations { version: None, .. } => Some(Refused::NoResponse("cut".to_owned())),
        other => exceeds_quota(other),
    };
    let (terms, shared) = (terms(), shared());
    let untaken = |parent: Arc<Object>, world: Model| Model { parent, ..world };
    let mut world = Model { refuses: Some(cut), ..once("1", None) };
    let all = did(&mut world, &terms, &shared).join(", ");
    assert_eq!(all, "call, note begun of hello, create a, note nothing of hello, status hello, ChildRejected");
    let key = &world.parent.key;
    let notes = shared.records.with(key, Record::take_untaken_notes);
    let annotated = |value: &str| {
        let mut parent: Value = serde_json::from_slice(&parent().json.bytes()).expect("JSON");
        parent["metadata"]["annotations"] = json!({&notes[0].0: value});
        object(&parent)
    };
    let with = |value: &str| {
        let shared = self::shared();
        shared.records.with(key, |record| record.put_untaken_notes(notes.clone().into_iter()));
        did(&mut untaken(annotated(value), once("1", None)), &terms, &shared).join(", ")
    };
    assert_eq!(with(&notes[0].1), "note nothing of hello, notes_taken_back");
    assert_eq!(
        with("begun 2026-01-01T00:00:00Z echo Pod default/a"),
        "call, status hello, ChildFailed",
        "another host's"
    );
}
