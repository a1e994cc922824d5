//! Whole reconciles in a world in memory.

mod once;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::contract::related::{Needs, ReadGrants, ReadProblem};
use crate::contract::{ChildOptions, Limits, Response, UpdateStrategy};
use crate::fixtures::{CLOCK, created, grants_with, object, parent, parent_ref, pod, response, validate};
use crate::guard::budget::Budget;
use crate::object::child::ChildId;
use crate::object::observed_status::StatusShape;
use crate::reconcile::api_response::{Ack, Refused, Status};
use crate::reconcile::next_step::CleanUp;
use crate::reconcile::outcome::Outcome;
use crate::reconcile::shared::component_state::ComponentState;
use crate::reconcile::shared::records::Records;
use crate::reconcile::terms::{Settings, StatusWriter};
use crate::reconcile::world::{ApiRequest, Call, Called, Later, Permit, Read, Writing};
use crate::reconcile::written::{Subject, Written};
use crate::value::digest::Digest;
use crate::value::ids::Gvk;
use crate::value::json::Map;

/// A parent with its caches and its plugin. The API server executes every write.
struct Model {
    parent: Arc<Object>,
    /// What the caches show.
    children: Vec<Arc<Object>>,
    /// Whether the caches show the host's last writes.
    is_current: bool,
    desired: Vec<Value>,
    options: Option<Box<[ChildOptions]>>,
    waiting: Option<&'static str>,
    finalized: bool,
    requeue_at: Option<std::num::NonZero<u64>>,
    /// Whether the host may read no children.
    refuses_children: bool,
    /// What the API server responds to a write instead of executing it.
    refuses: Option<fn(&ApiRequest<'_>) -> Option<Refused>>,
    /// What the reconcile did; none if nobody listens.
    did: Option<Mutex<Vec<String>>>,
}

impl Model {
    fn did(&self, what: impl FnOnce() -> String) {
        if let Some(did) = &self.did {
            did.lock().push(what());
        }
    }
}

impl Writing for Model {
    fn adopts(&self) -> bool {
        false
    }

    fn inherits(&self, _plugin: &str) -> bool {
        false
    }

    fn cached_parent(&self, _key: &ObjectKey) -> Option<Arc<Object>> {
        Some(self.parent.clone())
    }

    fn cached_child(&self, _child: &ChildId) -> Option<Arc<Object>> {
        None
    }

    fn plural(&self, _of: &ChildId) -> &'static str {
        "pods"
    }

    fn read<'a>(&'a self, what: Read<'a>) -> Later<'a, Result<Option<Object>, Refused>> {
        self.did(|| "read".to_owned());
        let is_refused = self.refuses_children && matches!(what, Read::Child(..));
        Box::pin(async move {
            let forbidden = Status { code: 403, reason: "Forbidden".to_owned(), ..Status::default() };
            if is_refused { Err(Refused::ByServer(Box::new(forbidden))) } else { Ok(Some(Object::clone(&self.parent))) }
        })
    }

    fn try_out<'a>(&'a self, _live: &'a Object, _after: &'a Map) -> Later<'a, Result<(), Refused>> {
        Box::pin(async { Ok(()) })
    }

    fn fresh<'a>(&'a self, _child: &'a desired::DesiredChild) -> Later<'a, Result<Map, Refused>> {
        Box::pin(async { Err(Refused::NoResponse("no response".to_owned())) })
    }

    fn send<'a>(&'a self, request: ApiRequest<'a>) -> Later<'a, Result<Ack, Refused>> {
        let refused = self.refuses.and_then(|refuses| refuses(&request));
        let verb = match &request {
            ApiRequest::Create(_) => "create",
            ApiRequest::Annotations { annotations, .. } => {
                let noted = |value: &Option<String>| {
                    value.as_deref().and_then(|value| value.split(' ').next().map(str::to_owned))
                };
                let noted: Vec<_> =
                    annotations.iter().map(|(_, value)| noted(value).unwrap_or_else(|| "nothing".to_owned())).collect();
                &*format!("note {} of", noted.join(", "))
            }
            ApiRequest::Delete(_) => "delete",
            ApiRequest::Status { .. } => "status",
            _ => "patch",
        };
        self.did(|| format!("{verb} {}", request.object().key.name));
        let ack = serde_json::from_value(json!({"metadata": {"resourceVersion": "9"}})).expect("metadata");
        Box::pin(async move { refused.map_or(Ok(ack), Err) })
    }

    fn pause(&self, _time: Duration) -> Later<'_, ()> {
        Box::pin(async {})
    }
}

impl World for Model {
    fn children(&self, _of: &ParentRef) -> Vec<Arc<Object>> {
        self.children.clone()
    }

    fn shows(&self, _parent: &ObjectKey, _write: &Written, _at: Instant) -> bool {
        self.is_current
    }

    fn serve<'a>(&'a self, _parent: &'a ParentRef, _needs: &'a Needs) -> Later<'a, Result<Selected, ReadProblem>> {
        Box::pin(async { Ok(Selected::default()) })
    }

    fn call<'a>(&'a self, _permit: &'a Permit<'_>, _call: Call<'a>) -> Later<'a, Called> {
        self.did(|| "call".to_owned());
        let options = self.options.clone();
        let waiting = self.waiting.map(Into::into);
        let (children, requeue_at, finalized) = (response(&self.desired).children, self.requeue_at, self.finalized);
        let response = Response { children, options, waiting, requeue_at, finalized, ..Response::default() };
        Box::pin(async { Called { result: Ok(Ok(response)), is_pure: true } })
    }

    fn wake(&self, who: Wake<'_>) {
        self.did(|| format!("wake {who:?}"));
    }

    fn note(&self, happened: Happened<'_>) {
        if let Happened::Ended(ended) = happened {
            self.did(|| ended.outcome.to_owned());
        }
    }
}

/// A parent without children, whose plugin wants none.
fn model() -> Model {
    let (children, desired) = (Vec::new(), Vec::new());
    Model {
        parent: parent(),
        children,
        is_current: true,
        desired,
        options: None,
        waiting: None,
        finalized: false,
        requeue_at: None,
        refuses_children: false,
        refuses: None,
        did: None,
    }
}

fn terms() -> Terms {
    let parent = parent();
    Terms {
        name: "echo".parse().expect("a name"),
        parents: parent.kind.clone(),
        owns_kind: true,
        status_writer: StatusWriter::Host,
        shape: StatusShape { subresource: true, observed_generation: true, conditions: true },
        call_inputs: Digest::of(b"inputs"),
        rules: Digest::of(b"rules"),
        version: "1.0.0".to_owned(),
        clean_up: CleanUp::None,
        clock: false,
        offer: Arc::default(),
        ready_means: ReadyMeans::Applied,
        grants: grants_with(&UpdateStrategy::Apply),
        reads: ReadGrants::default(),
        config: None,
        limits: Limits::default(),
        mark_key: None,
        settings: Settings { resync: Duration::from_hours(1), ..Settings::default() },
    }
}

fn shared() -> Shared {
    Shared {
        clock: CLOCK,
        state: Arc::new(ComponentState::none(CLOCK)),
        records: Arc::new(Records::new(CLOCK, |_| ())),
        budget: Arc::new(Mutex::new(Budget::new(CLOCK.date()))),
        breaker: Arc::default(),
    }
}

/// Reconciles the parent in this world. Nothing in it ever waits.
fn reconcile(world: &Model, terms: &Terms, shared: &Shared) -> Requeue {
    reconcile_after(Trigger::Event, world, terms, shared)
}

fn reconcile_after(trigger: Trigger, world: &Model, terms: &Terms, shared: &Shared) -> Requeue {
    let key = &world.parent.key.clone();
    let reconcile = Reconcile { world, terms, shared, key, trigger };
    reconcile.run().now_or_never().expect("it waits for nothing")
}

/// What a reconcile does that somebody listens to.
fn did(world: &mut Model, terms: &Terms, shared: &Shared) -> Vec<String> {
    world.did = Some(Mutex::default());
    reconcile(world, terms, shared);
    world.did.take().map(Mutex::into_inner).unwrap_or_default()
}

#[test]
fn r17_reconcile_writes_once_waits_for_its_writes_and_then_calls_no_more() {
    let (terms, shared) = (terms(), shared());
    let mut world = Model { is_current: false, desired: vec![pod("a")], ..model() };
    assert_eq!(did(&mut world, &terms, &shared), ["call", "create a", "status hello", "Succeeded"]);
    assert_eq!(did(&mut world, &terms, &shared), ["waiting_for_own_writes"]);
    // The caches show the child, and the status.
    world.is_current = true;
    world.children =
        validate(&world.desired).expect("valid").children.iter().map(|one| object(&created(one))).collect();
    let applied = crate::fixtures::status_after(&Outcome::applied(1, None), None);
    world.parent = crate::fixtures::parent_with_host_owned_status(&applied);
    assert_eq!(did(&mut world, &terms, &shared), ["call", "Succeeded"], "nothing is left to write");
    assert_eq!(did(&mut world, &terms, &shared), ["unchanged"]);
}

#[test]
fn r22_parent_is_ready_once_its_children_are_and_costs_nothing_while_it_waits() {
    let (terms, shared) = (Terms { ready_means: ReadyMeans::Children, ..terms() }, shared());
    let mut world = Model { desired: vec![pod("a")], ..model() };
    assert_eq!(did(&mut world, &terms, &shared), ["call", "create a", "status hello", "WaitingForReady"]);
    let live = |status: &Value| {
        let mut live = created(&validate(&[pod("a")]).expect("valid").children[0]);
        live["status"] = status.clone();
        vec![object(&live)]
    };
    let reported = |outcome: &Outcome| {
        crate::fixtures::parent_with_host_owned_status(&crate::fixtures::status_after(outcome, None))
    };
    world.children = live(&json!({"phase": "Pending"}));
    let not_ready =
        NotReady { child: ChildId::of(&world.children[0]), why: "it is not ready".into(), is_failed: false };
    world.parent = reported(&Outcome::not_ready(&[not_ready], None));
    assert_eq!(did(&mut world, &terms, &shared), ["call", "WaitingForReady"], "the status says so already");
    assert_eq!(did(&mut world, &terms, &shared), ["unchanged"]);
    world.children = live(&json!({"conditions": [{"type": "Ready", "status": "True"}]}));
    assert_eq!(did(&mut world, &terms, &shared), ["call", "status hello", "Succeeded"]);
    world.children = live(&json!({"phase": "Failed"}));
    assert_eq!(did(&mut world, &terms, &shared), ["call", "status hello", "ChildFailed"]);
    world.options = Some([ChildOptions { ready: Some(true), ..ChildOptions::default() }].into());
    assert_eq!(
        did(&mut world, &Terms { call_inputs: Digest::of(b"other"), ..terms.clone() }, &shared),
        ["call", "status hello", "Succeeded"]
    );
}

/// A live child of this stage.
fn of_stage(name: &str, stage: u32, is_leaving: bool) -> Arc<Object> {
    let mut live = created(&validate(&[pod(name)]).expect("valid").children[0]);
    live["metadata"]["annotations"]["windlass.dev/stage"] = json!(stage.to_string());
    if is_leaving {
        live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    object(&live)
}

/// The parent with these finalizers.
fn held(finalizers: &[&str], is_deleted: bool) -> Arc<Object> {
    let mut parent: Value = serde_json::from_slice(&parent().json.bytes()).expect("JSON");
    parent["metadata"]["finalizers"] = json!(finalizers);
    if is_deleted {
        parent["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    object(&parent)
}

#[test]
fn r23_children_of_a_deleted_parent_go_by_stage_and_then_its_finalizer() {
    let (terms, shared) = (Terms { clean_up: CleanUp::InOrder, ..terms() }, shared());
    let mut world = Model { parent: held(&[], false), ..model() };
    assert_eq!(did(&mut world, &terms, &shared), ["patch hello", "finalizer_added"]);
    world.parent = held(&["windlass.dev/echo"], true);
    world.children = vec![of_stage("a", 0, false), of_stage("b", 1, false)];
    let waits = "ChildrenTerminating";
    assert_eq!(did(&mut world, &terms, &shared), ["read", "delete b", "status hello", waits]);
    assert_eq!(shared.records.failing(), [], "a parent in a regular step does not fail");
    world.children = vec![of_stage("a", 0, false), of_stage("b", 1, true)];
    assert_eq!(did(&mut world, &terms, &shared), ["read", "status hello", waits]);
    world.children = vec![of_stage("a", 0, false)];
    assert_eq!(did(&mut world, &terms, &shared), ["read", "delete a", "status hello", waits]);
    world.children = Vec::new();
    assert_eq!(did(&mut world, &terms, &shared), ["read", "patch hello", "finalizer_removed"]);
    // The garbage collector releases the children of an orphaning deletion.
    world.parent = held(&["windlass.dev/echo", "orphan"], true);
    world.children = vec![of_stage("a", 0, false)];
    let orphaned = did(&mut world, &terms, &shared);
    assert_eq!(orphaned.last().map(String::as_str), Some("finalizer_removed"), "{orphaned:?}");
    assert!(orphaned.iter().all(|did| !did.starts_with("delete")), "{orphaned:?}");
}

#[test]
fn r23_plugin_that_has_cleaned_up_is_not_called_while_its_children_go_by_stage() {
    let (terms, shared) = (Terms { clean_up: CleanUp::ByPluginThenInOrder, ..terms() }, shared());
    let (first, ordered) = ("windlass.dev/echo", "windlass.dev/echo.ordered");
    let mut world = Model { parent: held(&[first], false), ..model() };
    assert_eq!(did(&mut world, &terms, &shared), ["patch hello", "finalizer_added"]);
    world.parent = held(&[first, ordered], true);
    world.children = vec![of_stage("a", 0, false), of_stage("b", 1, false)];
    (world.desired, world.finalized) = (vec![pod("a"), pod("b")], true);
    assert_eq!(did(&mut world, &terms, &shared), ["read", "call", "patch hello", "finalizer_removed"]);
    world.parent = held(&[ordered], true);
    let waits = "ChildrenTerminating";
    assert_eq!(did(&mut world, &terms, &shared), ["read", "delete b", "status hello", waits]);
    world.children = vec![of_stage("a", 0, false)];
    assert_eq!(did(&mut world, &terms, &shared), ["read", "delete a", "status hello", waits]);
    world.children = Vec::new();
    assert_eq!(did(&mut world, &terms, &shared), ["read", "patch hello", "finalizer_removed"]);
}

#[test]
fn r17_plugin_with_a_clock_is_not_called_again_before_the_time_that_it_names() {
    let (terms, shared) = (Terms { clock: true, ..terms() }, shared());
    let applied = crate::fixtures::status_after(&Outcome::applied(1, None), None);
    let parent = crate::fixtures::parent_with_host_owned_status(&applied);
    let desired = vec![pod("a")];
    let mut live = created(&validate(&desired).expect("valid").children[0]);
    let children = vec![object(&live)];
    let in_an_hour = CLOCK.date().as_millisecond() + 3_600_000;
    let requeue_at = u64::try_from(in_an_hour).ok().and_then(std::num::NonZero::new);
    let (parent, model) = (&parent, || Model { desired: desired.clone(), children: children.clone(), ..model() });
    let mut world = Model { requeue_at, parent: parent.clone(), ..model() };
    assert_eq!(did(&mut world, &terms, &shared), ["call", "Succeeded"]);
    assert_eq!(did(&mut world, &terms, &shared), ["unchanged"], "another time is no other input");
    let in_ten_minutes = Requeue::Settled(Some(Duration::from_mins(10)));
    assert_eq!(reconcile(&world, &terms, &shared), in_ten_minutes, "then the host looks at its clock");
    // An event leads to a call between two comparisons of values.
    live["status"] = json!({"phase": "Running"});
    world.children = vec![object(&live)];
    assert_eq!(did(&mut world, &terms, &shared), ["call", "Succeeded"]);
    world.did = Some(Mutex::default());
    assert_eq!(reconcile_after(Trigger::Resync, &world, &terms, &shared), in_ten_minutes);
    assert_eq!(world.did.take().expect("a listener").into_inner(), ["unchanged"], "its values were compared");
    // It waits for a deletion, and is called in time all the same.
    world.requeue_at = std::num::NonZero::new(1);
    live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    world.children = vec![object(&live)];
    assert_eq!(reconcile(&world, &terms, &shared), Requeue::After(Duration::from_secs(1)));
    let mut silent = Model { parent: parent.clone(), ..model() };
    let shared = self::shared();
    assert_eq!(did(&mut silent, &terms, &shared), ["call", "Succeeded"]);
    assert_eq!(did(&mut silent, &terms, &shared), ["call", "unchanged"], "it names no time");
}

#[test]
fn r13_plugin_that_waits_has_its_children_and_is_not_called_before_something_changes() {
    let (terms, shared) = (terms(), shared());
    let mut world = Model { desired: vec![pod("a")], waiting: Some("a person decides"), ..model() };
    assert_eq!(did(&mut world, &terms, &shared), ["call", "create a", "status hello", "Waiting"]);
    world.children = vec![object(&created(&validate(&[pod("a")]).expect("valid").children[0]))];
    let reported = crate::fixtures::status_after(&Outcome::waiting("a person decides", None), None);
    world.parent = crate::fixtures::parent_with_host_owned_status(&reported);
    assert_eq!(did(&mut world, &terms, &shared), ["call", "Waiting"], "the status says so already");
    assert_eq!(did(&mut world, &terms, &shared), ["unchanged"]);
}

#[test]
fn r03_status_reports_a_child_that_the_host_may_not_read_after_a_write_with_unknown_outcome() {
    let (terms, shared) = (terms(), shared());
    let mut world = Model { is_current: false, refuses_children: true, ..model() };
    let child =
        ChildId { kind: Arc::new(Gvk::from_api_version("v1", "Pod")), key: ObjectKey::new(Some("default"), "a") };
    let unknown = Written::Unknown(Subject::Child(child));
    shared.records.with(&world.parent.key, |record| record.own_writes().add([unknown], CLOCK.now()));
    let did = did(&mut world, &terms, &shared);
    assert_eq!(did, ["read", "read", "status hello", "ChildRejected"], "the child, the parent, and no call");
}

/// The steady state is most of what a host does.
#[test]
fn reconcile_without_a_listener_allocates_for_its_snapshot_alone_and_its_future_is_small() {
    let (terms, shared) = (terms(), shared());
    let mut world = model();
    let applied = crate::fixtures::status_after(&Outcome::applied(0, None), None);
    world.parent = crate::fixtures::parent_with_host_owned_status(&applied);
    assert_eq!(reconcile(&world, &terms, &shared), Requeue::Settled(None));
    let key = &world.parent.key.clone();
    let reconcile = Reconcile { world: &world, terms: &terms, shared: &shared, key, trigger: Trigger::Event };
    let size = size_of_val(&reconcile.run());
    assert!(size <= 4096, "{size} bytes for each reconcile that runs");
    let unchanged = || reconcile.finish(Ending::Unchanged(None, Requeue::Settled(None))).now_or_never();
    assert_eq!(allocation_counter::measure(|| assert!(unchanged().is_some())).count_total, 0);
    let all = allocation_counter::measure(|| assert!(reconcile.run().now_or_never().is_some())).count_total;
    let snapshot = allocation_counter::measure(|| {
        let _ = reconcile.around(world.parent.clone()).hash(&terms.call_inputs, Phase::Sync);
    });
    assert_eq!(all, snapshot.count_total, "the snapshot and its hash");
}
