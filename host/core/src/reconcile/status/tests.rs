use serde_json::{Value as Json, json};

use super::*;
use crate::contract::{CallFailure, Failure};
use crate::fixtures::{parent_with, parent_with_host_owned_status};
use crate::guard::deletions::BlockReason;
use crate::object::child::ChildId;
use crate::reconcile::not_ready::NotReady;
use crate::reconcile::outcome::Problem;
use crate::value::ids::{Gvk, ObjectKey};
use crate::value::json;

const ALL: StatusShape = StatusShape { subresource: true, observed_generation: true, conditions: true };

fn now() -> Timestamp {
    "2026-01-02T03:04:05.678Z".parse().expect("a time")
}

fn part(value: &Json) -> Map {
    match json::parse(value.to_string().as_bytes(), 64) {
        Ok(Value::Object(map)) => map,
        other => panic!("{other:?}"),
    }
}

fn to_json(map: &Map) -> Json {
    serde_json::from_str(&Value::Object(map.clone()).to_string()).expect("JSON")
}

fn applied() -> Outcome {
    Outcome::applied(3, None)
}

fn failed() -> Outcome {
    Outcome::from(&Problem::Call(CallFailure::Deadline(std::time::Duration::from_secs(1))))
}

/// The stored status after this outcome.
fn after(before: &Json, own: Option<&Json>, outcome: &Outcome) -> Option<Json> {
    next(&parent_with(before), own.map(part).as_ref(), outcome, ALL, now()).map(|map| to_json(&map))
}

fn condition_of<'a>(status: &'a Json, kind: &str) -> &'a Json {
    let list = status["conditions"].as_array().expect("conditions");
    list.iter().find(|condition| condition["type"] == kind).expect(kind)
}

fn types(status: &Json) -> Vec<&str> {
    let list = status["conditions"].as_array().expect("conditions");
    list.iter().map(|condition| condition["type"].as_str().expect("a type")).collect()
}

#[test]
fn r12_first_success_sets_ready_and_the_observed_generation() {
    let status = after(&json!({}), Some(&json!({"currentReplicas": 0})), &applied()).expect("differs");
    expect_test::expect![[r#"
        {
          "conditions": [
            {
              "lastTransitionTime": "2026-01-02T03:04:05Z",
              "message": "3 children applied",
              "observedGeneration": 3,
              "reason": "Succeeded",
              "status": "True",
              "type": "Ready"
            }
          ],
          "currentReplicas": 0,
          "observedGeneration": 3
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&status).expect("JSON"));
}

#[test]
fn r12_unchanged_status_is_not_written() {
    let own = json!({"currentReplicas": 2});
    let status = after(&json!({}), Some(&own), &applied()).expect("differs");
    assert_eq!(after(&status, Some(&own), &applied()), None);
    let mut older = status.clone();
    for condition in older["conditions"].as_array_mut().expect("conditions") {
        condition["lastTransitionTime"] = json!("2020-01-01T00:00:00Z");
    }
    assert_eq!(after(&older, Some(&own), &applied()), None, "a transition time alone is not a difference");
}

#[test]
fn r12_failed_call_keeps_the_plugins_fields_and_the_observed_generation() {
    let before = json!({"currentReplicas": 2, "observedGeneration": 2});
    let status = after(&before, None, &failed()).expect("differs");
    assert_eq!((&status["currentReplicas"], &status["observedGeneration"]), (&json!(2), &json!(2)));
    let ready = condition_of(&status, "Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("DeadlineExceeded")));
    assert_eq!(ready["message"], json!("The plugin's call failed: no response within 1000 ms"));
    let reconciling = condition_of(&status, "Reconciling");
    assert_eq!((&reconciling["status"], &reconciling["message"]), (&json!("True"), &ready["message"]));
}

#[test]
fn r12_reconciling_and_stalled_are_present_only_while_they_are_true() {
    let invalid = Outcome::from(&Problem::Plugin(Failure::Invalid("no".to_owned())));
    let mut status = json!({});
    for (outcome, shown) in [
        (failed(), vec!["Ready", "Reconciling"]),
        (invalid, vec!["Ready", "Stalled"]),
        (failed(), vec!["Ready", "Reconciling"]),
        (applied(), vec!["Ready"]),
    ] {
        let parent = parent_with_host_owned_status(&status);
        status = next(&parent, None, &outcome, ALL, now()).map(|map| to_json(&map)).expect("differs");
        assert_eq!(types(&status), shown);
    }
    assert_eq!(next(&parent_with_host_owned_status(&status), None, &applied(), ALL, now()), None);
}

#[test]
fn r12_response_replaces_the_plugins_fields() {
    let status = after(&json!({"old": 1}), Some(&json!({"new": 1})), &applied()).expect("differs");
    assert_eq!((&status["old"], &status["new"]), (&json!(null), &json!(1)));
    // Conditions alone are a status whose other fields are all absent.
    let conditions = json!({"conditions": [{"type": "Scaled", "status": "True"}]});
    let status = after(&json!({"old": 1}), Some(&conditions), &applied()).expect("differs");
    assert_eq!((&status["old"], types(&status)), (&json!(null), vec!["Ready", "Scaled"]));
}

#[test]
fn r12_invalid_spec_sets_stalled_and_the_observed_generation() {
    let outcome = Outcome::from(&Problem::Plugin(Failure::Invalid("replicas: too many".to_owned())));
    let status = after(&json!({}), None, &outcome).expect("differs");
    let stalled = condition_of(&status, "Stalled");
    assert_eq!((&stalled["status"], &stalled["reason"]), (&json!("True"), &json!("InvalidSpec")));
    assert_eq!(stalled["message"], json!("replicas: too many"));
    assert_eq!((&status["observedGeneration"], types(&status)), (&json!(3), vec!["Ready", "Stalled"]));
}

#[test]
fn r12_plugins_ready_condition_is_used_only_if_all_children_are_applied() {
    let own = json!({"conditions": [
        {"type": "Ready", "status": "False", "reason": "Starting", "message": "1/3"},
        {"type": "Reconciling", "status": "True", "reason": "Nonsense"},
        {"type": "Scaled", "status": "True"},
    ]});
    let status = after(&json!({}), Some(&own), &applied()).expect("differs");
    assert_eq!(condition_of(&status, "Ready")["reason"], json!("Starting"));
    assert_eq!(types(&status), ["Ready", "Scaled"], "only the host sets the conditions of kstatus");
    assert_eq!(condition_of(&status, "Scaled")["reason"], json!("Reported"));
    let status = after(&json!({}), Some(&own), &failed()).expect("differs");
    assert_eq!(condition_of(&status, "Ready")["reason"], json!("DeadlineExceeded"));
}

#[test]
fn r12_last_transition_time_changes_only_with_the_conditions_status() {
    let status = after(&json!({}), None, &applied()).expect("differs");
    let mut before = status.clone();
    before["conditions"][0]["lastTransitionTime"] = json!("2020-01-01T00:00:00Z");
    let same = after(&before, None, &Outcome::applied(4, None)).expect("the message differs");
    assert_eq!(condition_of(&same, "Ready")["lastTransitionTime"], json!("2020-01-01T00:00:00Z"));
    let changed = after(&before, None, &failed()).expect("differs");
    assert_eq!(condition_of(&changed, "Ready")["lastTransitionTime"], json!("2026-01-02T03:04:05Z"));
}

#[test]
fn r12_status_fields_of_other_writers_cause_no_write() {
    let own = json!({"currentReplicas": 2});
    let mut status = after(&json!({}), Some(&own), &applied()).expect("differs");
    status["theirs"] = json!({"a": 1});
    status["conditions"].as_array_mut().expect("a list").insert(0, json!({"type": "Theirs", "status": "True"}));
    assert_eq!(after(&status, Some(&own), &applied()), None);
}

#[test]
fn r12_status_fields_that_the_plugin_no_longer_returns_are_removed() {
    let returned = json!({"gone": 1, "stays": {"a": 1, "b": 2}, "conditions": [{"type": "Scaled", "status": "True"}]});
    let status = after(&json!({}), Some(&returned), &applied()).expect("differs");
    let next_of = |own: &Json| next(&parent_with_host_owned_status(&status), Some(&part(own)), &applied(), ALL, now());
    assert_eq!(next_of(&returned), None, "the plugin returns the same status again");
    let less = |change: fn(&mut Json)| {
        let mut own = returned.clone();
        change(&mut own);
        next_of(&own).map(|map| to_json(&map))
    };
    assert!(less(|own| drop(own.as_object_mut().expect("a map").remove("gone"))).is_some());
    assert!(less(|own| drop(own["stays"].as_object_mut().expect("a map").remove("b"))).is_some());
    let dropped = less(|own| own["conditions"] = json!([])).expect("differs");
    assert!(dropped["conditions"].as_array().expect("a list").iter().all(|condition| condition["type"] != "Scaled"));
}

#[test]
fn r12_status_fields_that_the_schema_would_prune_are_not_sent() {
    let shape = StatusShape { subresource: true, observed_generation: false, conditions: false };
    let parent = parent_with(&json!({"a": 1}));
    assert_eq!(next(&parent, Some(&part(&json!({"a": 1}))), &applied(), shape, now()), None);
    let none = StatusShape { subresource: false, ..ALL };
    assert_eq!(next(&parent, Some(&part(&json!({"a": 2}))), &applied(), none, now()), None);
}

#[test]
fn r12_condition_of_blocked_deletions_ends_with_the_block_in_every_kind_of_list() {
    let blocked = Outcome { blocked: Some(BlockReason::Inputs), ..failed() };
    let status = after(&json!({}), None, &blocked).expect("differs");
    assert_eq!(types(&status), ["Ready", "Reconciling", "DeletionsBlocked"]);
    assert_eq!(condition_of(&status, "DeletionsBlocked")["reason"], "SpecUnchanged");
    assert_eq!(after(&status, None, &blocked), None, "nothing changes while it lasts");

    // The host owns the item: without it, the next apply removes it.
    let parent = parent_with_host_owned_status(&status);
    let next_of_owned = next(&parent, None, &failed(), ALL, now()).map(|map| to_json(&map)).expect("differs");
    assert_eq!(types(&next_of_owned), ["Ready", "Reconciling"]);

    // Nobody owns the items of an atomic list, and an item may be another manager's: such an item becomes False.
    let over = after(&status, None, &failed()).expect("differs");
    assert_eq!(condition_of(&over, "DeletionsBlocked")["status"], "False");
    assert_eq!(after(&over, None, &failed()), None);
}

#[test]
fn r22_parent_whose_children_are_not_ready_is_reconciling_and_one_with_a_failed_child_is_stalled() {
    let pod = ChildId { kind: std::sync::Arc::new(Gvk::from_api_version("v1", "Pod")), key: ObjectKey::new(None, "a") };
    for (is_failed, condition, reason) in [(false, "Reconciling", "WaitingForReady"), (true, "Stalled", "ChildFailed")]
    {
        let not_ready = NotReady { child: pod.clone(), why: "why".into(), is_failed };
        let status = after(&json!({}), None, &Outcome::not_ready(&[not_ready], None)).expect("differs");
        assert_eq!(types(&status), ["Ready", condition]);
        assert_eq!(
            (&condition_of(&status, "Ready")["status"], &condition_of(&status, "Ready")["reason"]),
            (&json!("False"), &json!(reason))
        );
        assert_eq!(status["observedGeneration"], 3, "everything is applied");
        let ready = after(&status, None, &applied()).expect("differs");
        assert_eq!(types(&ready), ["Ready"]);
    }
}

#[test]
fn r22_condition_ready_that_is_left_to_the_plugin_is_the_hosts_only_while_it_cannot_carry_out_the_response() {
    let left = || Outcome { leaves_ready: true, ..applied() };
    let own = json!({"conditions": [{"type": "Ready", "status": "False", "reason": "Starting"}]});
    assert_eq!(types(&after(&json!({}), Some(&json!({"a": 1})), &left()).expect("differs")), [""; 0]);
    let status = after(&json!({}), Some(&own), &left()).expect("differs");
    assert_eq!(condition_of(&status, "Ready")["reason"], "Starting");
    assert_eq!(after(&status, None, &left()), None, "a response without a status leaves it as it is");
    let broken = after(&status, None, &failed()).expect("differs");
    assert_eq!(condition_of(&broken, "Ready")["reason"], "DeadlineExceeded");
    let parent = parent_with_host_owned_status(&broken);
    let over = next(&parent, None, &left(), ALL, now()).map(|map| to_json(&map)).expect("differs");
    assert_eq!(types(&over), [""; 0], "the failure is over");
    let like_ours = json!({"conditions": [{"type": "Ready", "status": "False", "reason": "Waiting"}]});
    let status = after(&json!({}), Some(&like_ours), &left()).expect("differs");
    assert_eq!(next(&parent_with_host_owned_status(&status), None, &left(), ALL, now()), None, "the plugin's stays");
}
