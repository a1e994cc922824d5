//! A child that the API server refuses, because another one that it replaces is in its way.

use super::*;
use crate::contract::desired::{self, Desired};
use crate::contract::{ChildOptions, ChildRef, Limits, Response, UpdateStrategy};
use crate::fixtures::{grants_with, parent_ref, response};

/// The desired state of one Service with this node port, which replaces another one.
fn service(name: &str, port: u16, replaces: Option<&str>) -> Desired {
    let kind = Gvk::from_api_version("v1", "Service");
    let replaces = replaces.map(|name| ChildRef { kind, namespace: None, name: name.to_owned() });
    let options = Some([ChildOptions { replaces, ..ChildOptions::default() }].into());
    let child = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"nodePort": port}]}});
    let response = Response { options, ..response(&[child]) };
    desired::validate(&response, &parent_ref(), &grants_with(&UpdateStrategy::Apply), &Limits::default())
        .expect("valid")
}

/// Creates the Service `new`, which replaces `old`, with these responses. Returns what was sent, and what came of it.
async fn renamed(responses: impl IntoIterator<Item = Result<Ack, Refused>>) -> (Vec<String>, Applied) {
    let live = created(&service("old", 30_000, None).children[0]);
    let snapshot = snapshot(&[live]);
    let plan = plan(&snapshot, &service("new", 30_000, Some("old")));
    let script = Script::new(responses);
    let applied = carry_out(&script, &snapshot, plan).await;
    assert!(script.responses.lock().is_empty(), "every response was asked for");
    (script.sent.into_inner(), applied)
}

fn invalid() -> Result<Ack, Refused> {
    invalid_in("spec.ports[0].nodePort")
}

fn invalid_in(field: &str) -> Result<Ack, Refused> {
    let details = json!({"causes": [{"reason": "FieldValueInvalid", "message": "no", "field": field}]});
    let message = "provided port is already allocated";
    refused(json!({"code": 422, "reason": "Invalid", "message": message, "details": details}))
}

#[tokio::test]
async fn r10_child_is_deleted_for_the_one_that_replaces_it_only_if_that_one_is_refused_beside_it_alone() {
    let (sent, applied) = renamed([invalid(), Ok(acked(8)), Ok(acked(9))]).await;
    assert_eq!(sent, ["create", "try out", "delete 7"]);
    assert_eq!((applied.problems.len(), applied.making_room.len(), applied.changes.deleted.len()), (0, 1, 1));

    let (sent, applied) = renamed([Ok(acked(8)), Ok(acked(9))]).await;
    assert_eq!(sent, ["create", "delete 7"], "nothing was in the way: the old one goes last, as any other");
    assert_eq!(applied.making_room, []);

    let (sent, applied) = renamed([invalid(), invalid()]).await;
    assert_eq!(sent, ["create", "try out"], "the new one is invalid in the place of the old one as well");
    let [(_, WriteProblem::Rejected { message, .. })] = &*applied.problems else { panic!("{applied:?}") };
    assert!(
        message.contains("It would not be accepted in the place of Service default/old either: provided port"),
        "{message}"
    );
    assert_eq!(applied.kept_from_pruning, 1);
}

#[tokio::test]
async fn r10_child_stays_for_the_one_that_replaces_it_if_its_name_is_taken_or_its_outcome_unknown() {
    let exists = refused(json!({"code": 409, "reason": "AlreadyExists", "message": "exists"}));
    let lost = || Err(Refused::NoResponse("the connection was cut".to_owned()));
    let (sent, applied) = renamed([exists]).await;
    assert_eq!((sent, applied.problems.len()), (vec!["create".to_owned(), "read".to_owned()], 1));
    let (sent, _) = renamed([lost()]).await;
    assert_eq!(sent, ["create"]);
    let (sent, applied) = renamed([invalid(), lost()]).await;
    assert_eq!(sent, ["create", "try out"]);
    assert!(!applied.problems[0].1.is_refusal(), "it is tried again");
    let forbidden = refused(json!({"code": 403, "reason": "Forbidden", "message": "denied"}));
    for about_itself in [invalid_in("metadata.name"), invalid_in("metadata.labels"), forbidden] {
        let (sent, applied) = renamed([about_itself]).await;
        assert_eq!((sent, applied.problems.len()), (vec!["create".to_owned()], 1));
    }
}
