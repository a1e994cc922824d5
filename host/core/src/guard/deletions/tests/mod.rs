//! What the tests of the guard have in common.

mod fleet;
mod parent;
mod properties;
mod rollout;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::contract::desired::Desired;
use crate::contract::snapshot::Snapshot;
use crate::fixtures::{created, guard_plan, object, parent_ref, parent_with, plan, pod, status_after, validate};
use crate::object::child::ChildId;
use crate::object::parent::ParentRef;
use crate::reconcile::outcome::{Outcome, Problem, SuspendedBy};
use crate::reconcile::plan::{Plan, Write};
use crate::value::ids::{Gvk, ObjectKey, Uid};

const SHAPE: StatusShape = StatusShape { subresource: true, observed_generation: true, conditions: true };

/// A parent at generation 3 with this many Pods, this status and this annotation.
fn snapshot(pods: usize, status: &Json, allowed: &str) -> Snapshot {
    let mut parent: Json = serde_json::from_slice(&parent_with(status).json.bytes()).expect("JSON");
    parent["metadata"]["annotations"] = json!({"windlass.dev/allow-deletion": allowed});
    let children = desired_pods(&(0..pods).collect::<Vec<_>>()).children;
    Snapshot::new(parent_ref(), object(&parent), children.iter().map(|child| object(&created(child))), None, |_| false)
}

fn desired_pods(pods: &[usize]) -> Desired {
    validate(&pods.iter().map(|at| pod(&format!("p{at}"))).collect::<Vec<_>>()).expect("valid")
}

/// Plans to keep `keep` of `pods` children. Returns the blocked deletions, and how many prunes are left in the plan.
fn blocked(pods: usize, keep: usize) -> (Option<BlockedDeletions>, usize) {
    let snapshot = snapshot(pods, &json!({"observedGeneration": 3}), "");
    let mut plan = plan(&snapshot, &desired_pods(&(0..keep).collect::<Vec<_>>()));
    (apply_guard(&snapshot, &mut plan), plan.prunes.len())
}

/// The conditions of a parent with this problem.
fn conditions_of(problem: &Problem) -> Json {
    status_after(&Outcome::from(problem), None)["conditions"].clone()
}

/// Applies the guard as a reconcile does for a parent without blocked deletions.
fn apply_guard(snapshot: &Snapshot, plan: &mut Plan) -> Option<BlockedDeletions> {
    apply_guard_in(&mut Parents::default(), DeletionGuard::default(), snapshot, plan)
}

/// Applies the guard as a reconcile does under a version that is not new.
fn apply_guard_in(
    parents: &mut Parents,
    guard: DeletionGuard,
    snapshot: &Snapshot,
    plan: &mut Plan,
) -> Option<BlockedDeletions> {
    match judged(&mut Fleet::new(rollout(&[])), parents, guard, snapshot, plan) {
        Some(Stop::AtParent(blocked)) => Some(blocked),
        Some(stop) => panic!("{stop:?}"),
        None => None,
    }
}

/// Applies the guard to a selected parent, under a Plugin whose namespaces do not change.
fn judged(
    fleet: &mut Fleet,
    parents: &mut Parents,
    guard: DeletionGuard,
    snapshot: &Snapshot,
    plan: &mut Plan,
) -> Option<Stop> {
    let cause = || cause(snapshot, Phase::Sync, SHAPE, None);
    guard_plan(fleet, (parents.of(snapshot), guard), snapshot, cause, Leavers::default, plan)
}

/// The deletions that the guard remembers for each parent.
#[derive(Default)]
struct Parents(HashMap<ObjectKey, ParentDeletions>);

impl Parents {
    fn of(&mut self, snapshot: &Snapshot) -> &mut ParentDeletions {
        self.0.entry(snapshot.parent.key.clone()).or_default()
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Some("default"), name)
}

fn prunes_of(parent: &str, count: usize) -> Vec<Delete> {
    let kind = Arc::new(Gvk::from_api_version("v1", "Pod"));
    (0..count)
        .map(|at| Delete {
            stage: 0,
            child: ChildId { kind: kind.clone(), key: key(&format!("{parent}-{at}")) },
            uid: Uid::from(format!("uid-of-{parent}-{at}").as_str()),
            resource_version: 1,
        })
        .collect()
}

/// A new version over these parents, which own three children each.
fn rollout(parents: &[&str]) -> Rollout {
    Rollout::begin(
        DeletionGuard::default(),
        Digest::of(b"component"),
        parents.iter().map(|name| key(name)),
        3 * parents.len(),
        None,
    )
}

fn evaluated(rollout: &mut Rollout, parent: &str, prunes: usize) -> RolloutDecision {
    rollout.evaluated(&key(parent), &prunes_of(parent, prunes), false)
}

fn hash_in(decision: RolloutDecision) -> String {
    let RolloutDecision::Blocked(blocked) = decision else { panic!("{decision:?}") };
    blocked.hash
}

/// A parent in a fleet under a new component, with this many Pods of its own.
fn fleet_parent(name: &str, pods: usize, status: &Json, annotation: &str) -> Snapshot {
    let uid = format!("uid-of-{name}");
    let mut parent: Json = serde_json::from_slice(&parent_with(status).json.bytes()).expect("JSON");
    parent["metadata"]["name"] = json!(name);
    parent["metadata"]["uid"] = json!(uid);
    parent["metadata"]["annotations"] = json!({"windlass.dev/allow-deletion": annotation});
    let parent = object(&parent);
    let children = desired_pods(&(0..pods).collect::<Vec<_>>()).children.into_iter().map(|child| {
        let mut live: Json = created(&child);
        live["metadata"]["name"] = json!(format!("{name}-{}", child.key.name));
        live["metadata"]["uid"] = json!(format!("uid-of-{name}-{}", child.key.name));
        live["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        live["metadata"]["labels"]["windlass.dev/parent-uid"] = json!(uid);
        live["metadata"]["ownerReferences"][0]["uid"] = json!(uid);
        object(&live)
    });
    Snapshot::new(
        ParentRef::of(&parent_ref().plugin, &parent, None),
        parent,
        children.collect::<Vec<_>>(),
        None,
        |_| false,
    )
}

/// A plan that deletes the first `count` children.
fn dropping(snapshot: &Snapshot, count: usize) -> Plan {
    Plan { prunes: snapshot.children.iter().take(count).map(|child| Delete::of(child)).collect(), ..Plan::default() }
}

fn fleet_of(parents: &[&str], owned: usize) -> Fleet {
    let parents = parents.iter().map(|name| key(name));
    Fleet::new(Rollout::begin(DeletionGuard::default(), Digest::of(b"component"), parents, owned, None))
}

/// The status of a parent whose spec changed since its last reconcile, because its user changed it or because its last
/// reconcile failed.
const CHANGED: &str = r#"{"observedGeneration": 2}"#;
const UNCHANGED: &str = r#"{"observedGeneration": 3}"#;

fn status(text: &str) -> Json {
    serde_json::from_str(text).expect("JSON")
}
