//! Writes whose responses are scripted.

mod correct;
mod replace;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::fixtures::{created, object, parent, plan, pod, snapshot, validate};
use crate::reconcile::api_response::Status;
use crate::reconcile::next_step::CleanUp;
use crate::reconcile::plan::plan_comparing;
use crate::reconcile::world::Later;
use crate::value::ids::Gvk;
use crate::value::json::{self, Map};

/// A world whose API server gives these responses, one after the other.
#[derive(Default)]
struct Script {
    responses: Mutex<VecDeque<Result<Ack, Refused>>>,
    found: Option<Object>,
    /// The object that a create would give; none if the API server refuses it.
    fresh: Option<Map>,
    sent: Mutex<Vec<String>>,
}

impl Writing for Script {
    fn adopts(&self) -> bool {
        false
    }

    fn inherits(&self, _plugin: &str) -> bool {
        false
    }

    fn cached_parent(&self, _key: &ObjectKey) -> Option<Arc<Object>> {
        None
    }

    fn cached_child(&self, _child: &ChildId) -> Option<Arc<Object>> {
        None
    }

    fn plural(&self, of: &ChildId) -> &str {
        match &*of.kind.kind {
            "Echo" => "echoes",
            "Role" => "roles",
            _ => "pods",
        }
    }

    fn read<'a>(&'a self, _what: Read<'a>) -> Later<'a, Result<Option<Object>, Refused>> {
        self.sent.lock().push("read".to_owned());
        Box::pin(async { Ok(self.found.clone()) })
    }

    fn fresh<'a>(&'a self, _child: &'a DesiredChild) -> Later<'a, Result<Map, Refused>> {
        self.sent.lock().push("fresh".to_owned());
        let none = || Refused::NoResponse("no response".to_owned());
        Box::pin(async move { self.fresh.clone().ok_or_else(none) })
    }

    fn try_out<'a>(&'a self, _live: &'a Object, _after: &'a Map) -> Later<'a, Result<(), Refused>> {
        self.sent.lock().push("try out".to_owned());
        let response = self.responses.lock().pop_front().expect("a response");
        Box::pin(async { response.map(drop) })
    }

    fn send<'a>(&'a self, request: ApiRequest<'a>) -> Later<'a, Result<Ack, Refused>> {
        self.sent.lock().push(match request {
            ApiRequest::Create(_) => "create".to_owned(),
            ApiRequest::Apply { resource_version, force, .. } => {
                format!("apply to {resource_version}, force {force:?}")
            }
            ApiRequest::Mark { .. } => "mark".to_owned(),
            ApiRequest::Prepare { prepared: Prepared { taken, emptied, .. }, .. } => {
                let left = taken.iter().map(|entry| format!("leave {}", json::Value::from(entry.fields.clone())));
                let emptied = emptied.iter().map(|map| format!("empty {map}"));
                std::iter::once("prepare".to_owned()).chain(left).chain(emptied).collect::<Vec<_>>().join(", ")
            }
            ApiRequest::Delete(delete) => format!("delete {}", delete.resource_version),
            ApiRequest::Annotations { annotations, .. } => format!("annotations {annotations:?}"),
            ApiRequest::Finalizers { finalizers, .. } => format!("finalizers {finalizers:?}"),
            ApiRequest::Status { .. } => "status".to_owned(),
        });
        let response = self.responses.lock().pop_front().expect("a response");
        Box::pin(async { response })
    }

    fn pause(&self, _time: Duration) -> Later<'_, ()> {
        self.sent.lock().push("pause".to_owned());
        Box::pin(async {})
    }
}

impl Script {
    fn new(responses: impl IntoIterator<Item = Result<Ack, Refused>>) -> Self {
        Self { responses: Mutex::new(responses.into_iter().collect()), ..Self::default() }
    }
}

/// A response that acknowledges a write, after which the object has this version.
fn acked(version: u64) -> Ack {
    let metadata = json!({"metadata": {"resourceVersion": version.to_string()}});
    serde_json::from_value(metadata).expect("metadata")
}

fn refused(status: serde_json::Value) -> Result<Ack, Refused> {
    Err(Refused::ByServer(Box::new(serde_json::from_value::<Status>(status).expect("a status"))))
}

/// The refusal of an apply that would change a field of this manager.
fn conflict(with: &str) -> Result<Ack, Refused> {
    let cause =
        json!({"reason": "FieldManagerConflict", "message": format!("conflict with {with}"), "field": ".spec.x"});
    refused(json!({"code": 409, "reason": "Conflict", "message": "conflict", "details": {"causes": [cause]}}))
}

fn outdated() -> Result<Ack, Refused> {
    refused(json!({"code": 409, "reason": "Conflict", "message": "the object has been modified"}))
}

/// Carries out the change of one child's image, with these responses.
async fn changed(take_over: bool, found: Option<u64>, responses: Vec<Result<Ack, Refused>>) -> (Vec<String>, Applied) {
    let before = validate(&[pod("a")]).expect("valid");
    let live = created(&before.children[0]);
    let mut other = pod("a");
    other["spec"]["containers"][0]["image"] = "nginx:2".into();
    if take_over {
        other["metadata"]["annotations"] = json!({"windlass.dev/take-over": "true"});
    }
    let snapshot = snapshot(std::slice::from_ref(&live));
    let plan = plan(&snapshot, &validate(&[other]).expect("valid"));
    assert_eq!(plan.counts(), (0, 1, 0));
    let mut script = Script::new(responses);
    script.found = found.map(|version| {
        let mut live = live.clone();
        live["metadata"]["resourceVersion"] = version.to_string().into();
        let edited = json!({"manager": "editor", "operation": "Update", "fieldsV1": {"f:spec": {"f:x": {}}}});
        live["metadata"]["managedFields"].as_array_mut().expect("entries").push(edited);
        Object::clone(&object(&live))
    });
    let applied = carry_out(&script, &snapshot, plan).await;
    assert!(script.responses.lock().is_empty(), "every response was asked for");
    (script.sent.into_inner(), applied)
}

#[tokio::test]
async fn r20_warnings_of_the_api_server_are_told_of_a_write_that_changes_the_child() {
    let warned = acked(10).with_warnings(vec!["insecure".into()]);
    let (_, applied) = changed(false, None, vec![Ok(warned)]).await;
    let told = applied.warnings.sorted();
    assert_eq!(
        told.iter().map(|(text, of)| (*text, &*of[0].key.name, of.len())).collect::<Vec<_>>(),
        [("insecure", "a", 1)]
    );
}

#[tokio::test]
async fn r06_edit_in_place_is_reverted_by_force_and_the_field_of_an_applier_is_not_taken() {
    let edited = vec![outdated(), Ok(acked(10)), conflict(r#""kubectl-edit" using v1"#), Ok(acked(11))];
    let (sent, applied) = changed(false, Some(9), edited).await;
    assert_eq!(
        sent,
        ["apply to 7, force Yes", "read", "prepare", "apply to 10, force No", "apply to 10, force Yes"],
        "the version may have changed because a manager took a field"
    );
    assert_eq!(applied.changes.restored.len(), 1);
    assert_eq!(applied.written, [Written::Child { kind: pods(), resource_version: 11 }]);
    let (sent, applied) = changed(false, Some(9), vec![outdated(), Ok(acked(10)), conflict(r#""helm""#)]).await;
    assert_eq!(sent.len(), 4, "the apply is not forced");
    let [(_, WriteProblem::FieldConflict(conflicts))] = &*applied.problems else { panic!("{applied:?}") };
    assert_eq!(conflicts, &[r#".spec.x (conflict with "helm")"#]);
}

#[tokio::test]
async fn r06_plugin_takes_the_field_of_another_applier_if_it_asks_for_it() {
    let (sent, applied) =
        changed(true, Some(9), vec![outdated(), Ok(acked(10)), conflict(r#""helm""#), Ok(acked(11))]).await;
    assert_eq!(sent.last().map(String::as_str), Some("apply to 10, force Yes"));
    assert_eq!(applied.changes.taken_over.len(), 1);
}

#[tokio::test]
async fn u4_apply_that_changes_no_value_restores_nothing_and_is_not_repeated() {
    let mut tolerates = pod("a");
    tolerates["spec"]["tolerations"] = json!([{"key": "a"}]);
    let desired = validate(&[tolerates]).expect("valid");
    let mut defaulted = created(&desired.children[0]);
    defaulted["spec"]["tolerations"][0]["operator"] = "Equal".into();
    let snapshot = snapshot(std::slice::from_ref(&defaulted));
    let comes_to = async |mut response: serde_json::Value| {
        response["metadata"]["resourceVersion"] = "8".into();
        let ack = acked(8).with_object(Some(Object::clone(&object(&response))));
        let plan = plan_comparing(&snapshot, &desired, differing);
        assert_eq!(plan.counts(), (0, 1, 0));
        carry_out(&Script::new([Ok(ack)]), &snapshot, plan).await
    };
    let mut owned = defaulted.clone();
    owned["metadata"]["managedFields"][0]["operation"] = "Apply".into();
    let applied = comes_to(owned).await;
    assert_eq!((applied.changes.restored.len(), applied.kept.len(), applied.written.len()), (0, 1, 1));
    let applied = comes_to(created(&desired.children[0])).await;
    assert_eq!((applied.changes.restored.len(), applied.kept.len()), (1, 0), "somebody had set the operator");
}

#[tokio::test]
async fn u4_child_is_known_as_the_api_server_stored_it_until_its_spec_changes() {
    let ack = json!({"metadata": {"uid": "uid-of-a", "resourceVersion": "7", "generation": 1}});
    let response = || Ok(serde_json::from_value::<Ack>(ack.clone()).expect("metadata"));
    let of = snapshot(&[]);
    let desired = validate(&[pod("a")]).expect("valid");
    let applied = carry_out(&Script::new([response()]), &of, plan(&of, &desired)).await;
    let [stored] = &*applied.stored else { panic!("{applied:?}") };
    let mut live = created(&desired.children[0]);
    for (version, generation, is_stored) in [("7", 1, true), ("8", 1, true), ("8", 2, false)] {
        live["metadata"]["resourceVersion"] = version.into();
        live["metadata"]["generation"] = generation.into();
        assert_eq!(stored.is(&object(&live)), is_stored, "version {version}, generation {generation}");
    }
    live["metadata"]["uid"] = "other".into();
    assert!(!stored.is(&object(&live)), "the child was recreated by somebody else");
    let mut plain = pod("a");
    plain["spec"] = json!({"nodeName": "n", "securityContext": {"runAsUser": 1}});
    let desired = validate(&[plain]).expect("valid");
    let applied = carry_out(&Script::new([response()]), &of, plan(&of, &desired)).await;
    assert!(applied.stored.is_empty(), "the API server adds nothing that counts as a difference");
}

#[tokio::test]
async fn u3_binding_waits_until_the_api_server_shows_the_role_that_was_created_before_it() {
    let rbac = |kind: &str, name: &str| {
        let mut object =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
        object["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"});
        object
    };
    let missing = |name: &str| {
        let details = json!({"kind": "roles", "name": name});
        refused(json!({"code": 404, "reason": "NotFound", "message": "no", "details": details}))
    };
    let snapshot = snapshot(&[]);
    let plan = || plan(&snapshot, &validate(&[rbac("RoleBinding", "a"), rbac("Role", "reader")]).expect("valid"));
    let script = Script::new([Ok(acked(1)), missing("reader"), missing("reader"), Ok(acked(2))]);
    let applied = carry_out(&script, &snapshot, plan()).await;
    assert_eq!(script.sent.into_inner(), ["create", "create", "pause", "create", "pause", "create"]);
    assert_eq!((applied.changes.created.len(), applied.problems.len()), (2, 0));
    let script = Script::new([Ok(acked(1)), missing("another")]);
    let applied = carry_out(&script, &snapshot, plan()).await;
    assert!(matches!(&*applied.problems, [(_, WriteProblem::Rejected { code: 404, .. })]), "nobody creates that role");
}

#[tokio::test]
async fn r10_refused_change_of_a_child_keeps_no_later_child_from_its_write_and_a_refused_create_does() {
    let role = |verb: &str| {
        let mut role =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"}});
        role["rules"] = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
        role
    };
    let no = || refused(json!({"code": 422, "reason": "Invalid", "message": "no"}));
    let live: Vec<_> =
        validate(&[role("get"), pod("old")]).expect("valid").children.iter().map(|child| created(child)).collect();
    let desired = validate(&[role("list"), pod("new")]).expect("valid");
    let of = snapshot(&live);
    let script = Script::new([no(), Ok(acked(9))]);
    let applied = carry_out(&script, &of, plan(&of, &desired)).await;
    assert_eq!(script.sent.into_inner(), ["apply to 7, force Yes", "create"], "nothing is deleted");
    assert_eq!((applied.problems.len(), applied.changes.created.len(), applied.kept_from_pruning), (1, 1, 1));
    let without = snapshot(&live[1..]);
    let script = Script::new([no()]);
    let applied = carry_out(&script, &without, plan(&without, &desired)).await;
    assert_eq!(script.sent.into_inner(), ["create"], "the Pod may need the Role");
    assert_eq!((applied.problems.len(), applied.kept_from_pruning), (1, 1));
}

#[tokio::test]
async fn r15_write_is_not_repeated_for_an_object_that_is_no_child_any_more() {
    let (sent, applied) = changed(false, None, vec![outdated()]).await;
    assert_eq!(sent, ["apply to 7, force Yes", "read"]);
    assert!(matches!(&*applied.problems, [(_, WriteProblem::Outdated)]), "{applied:?}");
    let live = created(&validate(&[pod("a")]).expect("valid").children[0]);
    let snapshot = snapshot(std::slice::from_ref(&live));
    let plan = || plan(&snapshot, &validate(&[]).expect("valid"));
    let script = Script::new([outdated()]);
    let applied = carry_out(&script, &snapshot, plan()).await;
    assert!(matches!(&*applied.problems, [(_, WriteProblem::Outdated)]), "a released child is not deleted");
    let mut later = live.clone();
    later["metadata"]["resourceVersion"] = "9".into();
    let script = Script { found: Some(Object::clone(&object(&later))), ..Script::new([outdated(), Ok(acked(10))]) };
    let applied = carry_out(&script, &snapshot, plan()).await;
    assert_eq!(script.sent.into_inner(), ["delete 7", "read", "delete 9"]);
    assert_eq!(applied.changes.deleted.len(), 1, "its status had changed");
}

#[tokio::test]
async fn r03_every_write_of_a_finalizer_is_awaited_and_a_removal_beyond_the_version_in_its_response() {
    let web = parent();
    let written = async |response, change| {
        let plugin = "echo".parse().expect("a name");
        match set_finalizer(&Script::new([response]), &plugin, &web, change).await {
            Ok(written) => Some(written),
            Err(failed) => failed.awaited.map(|awaited| *awaited),
        }
    };
    for stays in [FinalizerChange::Set(CleanUp::ByPlugin), FinalizerChange::CleanedUp] {
        assert_eq!(written(Ok(acked(6)), stays).await, Some(Written::Parent { resource_version: 6 }));
    }
    // The API server deletes the object, and responds with the version that it had.
    assert_eq!(written(Ok(acked(5)), FinalizerChange::Remove).await, Some(Written::parent_past(&web)));
    let gone =
        json!({"code": 404, "reason": "NotFound", "message": "no", "details": {"name": "hello", "kind": "echoes"}});
    assert_eq!(written(refused(gone), FinalizerChange::Remove).await, Some(Written::parent_gone(&web)));
    assert_eq!(
        written(outdated(), FinalizerChange::Remove).await,
        Some(Written::parent_past(&web)),
        "the cache shows a version that exists no more"
    );
    let lost = refused(json!({"code": 500, "message": "timeout"}));
    assert_eq!(written(lost, FinalizerChange::Remove).await, Some(Written::Unknown(Subject::Parent)));
    assert_eq!(
        written(refused(json!({"code": 403, "message": "no"})), FinalizerChange::Remove).await,
        None,
        "nothing was written"
    );
}

#[test]
fn r12_failed_write_of_a_status_is_recorded_whatever_the_api_server_responded() {
    let (world, web) = (Script::default(), parent());
    let result_of = |response| status_written(&world, &web, response);
    for code in [400, 403, 404, 409, 422, 429, 500, 503, 504] {
        let (written, failed) = result_of(refused(json!({ "code": code })));
        assert!(failed.is_some(), "{code}");
        assert_eq!(written, (code >= 500).then_some(Written::Unknown(Subject::Parent)), "{code}");
    }
    let (written, failed) = result_of(Err(Refused::NoResponse("the connection was cut".to_owned())));
    assert_eq!(written, Some(Written::Unknown(Subject::Parent)), "the API server may have carried out the write");
    assert!(failed.is_some());
    let gone =
        json!({"code": 404, "reason": "NotFound", "message": "no", "details": {"name": "hello", "kind": "echoes"}});
    assert_eq!(
        result_of(refused(gone)).0,
        Some(Written::parent_gone(&web)),
        "no plan before the cache shows that the parent is gone"
    );
    assert_eq!(result_of(Ok(acked(7))), (Some(Written::Parent { resource_version: 7 }), None));
}

fn pods() -> Arc<Gvk> {
    Arc::new(Gvk::from_api_version("v1", "Pod"))
}
