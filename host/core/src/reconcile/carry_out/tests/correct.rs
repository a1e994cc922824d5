//! What an apply corrects first, so that the child becomes the object that a create would give (rule R21).

use super::*;

/// Carries out the change of a Service's spec. The host has applied the Service; `users` are the fields that a user set in it, `fresh` is the
/// spec of the object that a create would give. A read finds version 8, in which the host owns all that users do not.
async fn changed_service(
    specs: [serde_json::Value; 3],
    users: serde_json::Value,
    fresh: Option<serde_json::Value>,
    responses: Vec<Result<Ack, Refused>>,
) -> (Vec<String>, Applied) {
    changed_if_found(true, specs, users, fresh, responses).await
}

async fn changed_if_found(
    is_found: bool,
    [before, live, after]: [serde_json::Value; 3],
    users: serde_json::Value,
    fresh: Option<serde_json::Value>,
    responses: Vec<Result<Ack, Refused>>,
) -> (Vec<String>, Applied) {
    let service = |spec: &serde_json::Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec});
    let mut present = created(&validate(&[service(&before)]).expect("valid").children[0]);
    present["spec"] = live;
    let entries = present["metadata"]["managedFields"].as_array_mut().expect("entries");
    entries[0]["operation"] = "Apply".into();
    let users = if users == json!({}) { json!({"f:other": {}}) } else { users };
    let ours = entries[0]["fieldsV1"]["f:spec"].as_object_mut().expect("fields");
    // A map in which the user has set fields stays the host's.
    let is_ours = |field: &str| users.get(field).is_none_or(|below| *below != json!({}));
    ours.retain(|field, _| is_ours(field));
    let edited =
        json!({"manager": "editor", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:spec": &users}});
    entries.push(edited);
    let snapshot = snapshot(std::slice::from_ref(&present));
    let plan = plan(&snapshot, &validate(&[service(&after)]).expect("valid"));
    let mut script = Script::new(responses);
    present["metadata"]["resourceVersion"] = "8".into();
    let fields = present["spec"].as_object().expect("fields").keys().map(|field| format!("f:{field}"));
    let owned: serde_json::Map<_, _> = fields.filter(|field| is_ours(field)).map(|field| (field, json!({}))).collect();
    present["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"] = owned.into();
    script.found = is_found.then(|| Object::clone(&object(&present)));
    script.fresh = fresh.map(|spec| match json::parse(service(&spec).to_string().as_bytes(), json::OBJECT_DEPTH) {
        Ok(json::Value::Object(fresh)) => fresh,
        other => panic!("{other:?}"),
    });
    let applied = carry_out(&script, &snapshot, plan).await;
    assert!(script.responses.lock().is_empty(), "every response was asked for");
    (script.sent.into_inner(), applied)
}

#[tokio::test]
async fn r21_changed_child_is_compared_with_a_fresh_one_only_if_it_has_more_than_what_is_desired() {
    let (before, after) = (json!({"type": "x"}), json!({"type": "y"}));
    let of = async |live: serde_json::Value, fresh, responses| {
        changed_service([before.clone(), live, after.clone()], json!({}), fresh, responses).await.0
    };
    assert_eq!(of(before.clone(), None, vec![Ok(acked(8))]).await, ["apply to 7, force No"]);
    let defaulted = json!({"type": "x", "of-x": 1});
    let stale = of(defaulted.clone(), Some(after.clone()), vec![Ok(acked(8)), Ok(acked(9))]).await;
    assert_eq!(stale, ["fresh", "prepare", "apply to 8, force No"]);
    let same = of(defaulted.clone(), Some(json!({"type": "y", "of-x": 1})), vec![Ok(acked(8))]).await;
    assert_eq!(same, ["fresh", "apply to 7, force No"]);
    let other = of(defaulted.clone(), Some(json!({"type": "y", "of-x": 2})), vec![Ok(acked(8))]).await;
    assert_eq!(other, ["fresh", "apply to 7, force No"]);
    let without_response = of(defaulted, None, vec![]).await;
    assert_eq!(without_response, ["fresh"], "in doubt, nothing is written");
}

/// The refusal of an apply because this field has an invalid value.
fn invalid(field: &str) -> Result<Ack, Refused> {
    refused(json!({"code": 422, "reason": "Invalid", "message": "no", "details": {"causes": [{"field": field}]}}))
}

#[tokio::test]
async fn r21_edit_that_makes_the_desired_child_invalid_is_taken_away_and_other_edits_stay() {
    let desired = json!({"type": "x"});
    let of = async |field: &str, responses: Vec<_>| {
        let live = json!({"type": "y", "of-y": 1});
        let all = std::iter::once(invalid(field)).chain(responses).collect();
        changed_service(
            [desired.clone(), live, desired.clone()],
            json!({"f:type": {}, "f:of-y": {}}),
            Some(desired.clone()),
            all,
        )
        .await
    };
    let (sent, applied) = of("spec.of-y", vec![Ok(acked(8)), Ok(acked(8)), Ok(acked(9))]).await;
    let take = r#"prepare, leave {"f:spec":{"f:type":{}}}"#;
    assert_eq!(sent, ["apply to 7, force No", "fresh", "try out", take, "apply to 8, force Yes"]);
    assert_eq!((applied.changes.restored.len(), applied.problems.len()), (1, 0));
    let (sent, applied) = of("spec.of-y.inside", vec![invalid("spec.of-y")]).await;
    assert_eq!(sent, ["apply to 7, force No", "fresh", "try out"], "nothing is taken in vain");
    assert_eq!(applied.problems.len(), 1);
    let again = [outdated(), invalid("spec.of-y"), Ok(acked(8)), Ok(acked(9)), Ok(acked(10))];
    let (sent, applied) = of("spec.of-y", again.into()).await;
    let first = ["apply to 7, force No", "fresh", "try out", "read"];
    let second = ["apply to 8, force No", "try out", take, "apply to 9, force Yes"];
    assert_eq!(sent, [first, second].concat(), "another writer changed the child before the dry run");
    assert_eq!(applied.problems, []);
    assert_eq!(of("", vec![]).await.0, ["apply to 7, force No"], "a policy names no field");
    let (sent, applied) = of("spec.elsewhere.type", vec![]).await;
    assert_eq!(sent, ["apply to 7, force No", "fresh"]);
    assert_eq!(applied.problems.len(), 1);
}

#[tokio::test]
async fn r21_edit_in_a_map_that_the_host_desired_as_empty_is_taken_away() {
    let specs = [json!({"empty": {}}), json!({"empty": {"edit": 1}}), json!({"type": "y"})];
    let responses = vec![invalid("spec.empty.edit"), Ok(acked(8)), Ok(acked(8)), Ok(acked(9))];
    let users = json!({"f:empty": {"f:edit": {}}});
    let (sent, applied) = changed_service(specs.clone(), users, Some(specs[2].clone()), responses).await;
    assert_eq!(sent, ["fresh", "apply to 7, force No", "try out", "prepare, leave {}", "apply to 8, force Yes"]);
    assert_eq!(applied.problems, []);
}

#[tokio::test]
async fn r21_map_that_an_apply_would_make_null_is_emptied_before_it() {
    let of = async |users: serde_json::Value, responses: Vec<_>| {
        let full = json!({"type": "x", "map": {"a": 1, "b": 1}});
        let after = json!({"type": "x", "map": {}});
        changed_service([full.clone(), full, after.clone()], users, Some(after), responses).await
    };
    let (sent, applied) = of(json!({}), vec![invalid("spec.map"), Ok(acked(8)), Ok(acked(8)), Ok(acked(9))]).await;
    assert_eq!(sent, ["fresh", "apply to 7, force No", "try out", "prepare, empty /spec/map", "apply to 8, force Yes"]);
    assert_eq!(applied.problems, []);
    let (sent, _) = of(json!({}), vec![invalid("spec.map"), invalid("spec.version")]).await;
    assert_eq!(sent, ["fresh", "apply to 7, force No", "try out"], "the rest of the child is not valid");
    for named in ["spec.map", "spec.map.b"] {
        let responses = vec![invalid(named), Ok(acked(8)), Ok(acked(8)), Ok(acked(9))];
        let (sent, applied) = of(json!({"f:map": {"f:b": {}}}), responses).await;
        assert_eq!(sent[3], "prepare, leave {}, empty /spec/map", "a user's field there is taken first");
        assert_eq!(applied.problems, []);
    }
}

#[tokio::test]
async fn r21_edit_that_shows_as_invalid_only_once_a_map_is_no_null_is_taken_away_as_well() {
    let (before, after) = (json!({"type": "x", "map": {"a": 1}}), json!({"type": "x", "map": {}}));
    let live = json!({"type": "x", "map": {"a": 1}, "edit": 1});
    let written = [Ok(acked(8)), Ok(acked(8)), Ok(acked(9))];
    let responses = [invalid("spec.map"), invalid("spec.edit")].into_iter().chain(written).collect();
    let specs = [before, live, after.clone()];
    let (sent, applied) = changed_service(specs, json!({"f:edit": {}}), Some(after), responses).await;
    let prepare = "prepare, leave {}, empty /spec/map";
    assert_eq!(sent, ["fresh", "apply to 7, force No", "try out", "try out", prepare, "apply to 8, force Yes"]);
    assert_eq!(applied.problems, []);
}

#[tokio::test]
async fn r21_edit_that_makes_a_changed_child_invalid_is_taken_away_in_the_same_reconcile() {
    let specs = [json!({"type": "x"}), json!({"type": "x", "of-x": 1, "edit": 1}), json!({"type": "y"})];
    let changed = async |responses: Vec<_>| {
        changed_service(specs.clone(), json!({"f:edit": {}}), Some(specs[2].clone()), responses).await
    };
    let again = [Ok(acked(8)), invalid("spec.edit"), invalid("spec.edit"), Ok(acked(8)), Ok(acked(9))];
    let (sent, applied) = changed(again.into_iter().chain([Ok(acked(10))]).collect()).await;
    let first = ["fresh", "prepare", "apply to 8, force No"];
    assert_eq!(
        sent,
        [&first[..], &["read", "apply to 8, force No", "try out", "prepare, leave {}", "apply to 9, force Yes"]]
            .concat()
    );
    assert_eq!(applied.problems, []);
    let (sent, applied) = changed(vec![Ok(acked(8)), invalid("spec.y"), invalid("spec.y")]).await;
    assert_eq!(sent, [&first[..], &["read", "apply to 8, force No"]].concat());
    assert!(matches!(applied.problems[0].1, WriteProblem::Rejected { code: 422, .. }), "the refusal is reported");
    let responses = vec![Ok(acked(8)), invalid("spec.edit")];
    let (sent, applied) =
        changed_if_found(false, specs.clone(), json!({"f:edit": {}}), Some(specs[2].clone()), responses).await;
    assert_eq!(sent, [&first[..], &["read"]].concat());
    assert!(matches!(applied.problems[0].1, WriteProblem::Rejected { code: 422, .. }), "it says more than the read");
}
