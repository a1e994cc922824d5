//! Plans rolling updates: selects the existing child of a kind that changes now, and the children that wait (rule R11).
//!
//! One child is in progress at a time. A child is in progress while it is created, deleted or written, and while it
//! matches the desired state but lacks one of the conditions that the strategy names, or is not ready. A child that still has an earlier
//! desired state never blocks its own change; otherwise a broken rollout could not be repaired.

use std::sync::Arc;

use super::{Plan, apply, replace};
use crate::contract::desired::DesiredChild;
use crate::contract::{Until, UpdateStrategy};
use crate::object::Object;
use crate::object::child::ChildId;
use crate::object::conditions::{conditions_of, type_of};
use crate::object::observed_status::observed;
use crate::reconcile::not_ready::NotReady;
use crate::value::ids::Gvk;
use crate::value::json::Value;

/// The kinds of one response that use a rolling update.
#[derive(Default)]
pub(super) struct Rolling<'a>(Vec<OfKind<'a>>);

struct OfKind<'a> {
    kind: &'a Arc<Gvk>,
    /// Children of other stages never wait for these: stages have an order of their own.
    stage: u32,
    /// Whether a child is in progress regardless of its conditions.
    is_busy: bool,
    settled: Vec<(&'a Object, &'a DesiredChild, &'a Until)>,
    changes: Vec<Change<'a>>,
}

struct Change<'a> {
    live: &'a Object,
    child: &'a Arc<DesiredChild>,
    recreate: bool,
    /// Index in the plan's writes at which the write of this change is inserted.
    at: usize,
}

impl<'a> Rolling<'a> {
    /// Records a child that is missing, being deleted, or being reverted.
    pub(super) fn in_progress(&mut self, child: &'a DesiredChild) {
        if let Some((of_kind, ..)) = self.of_kind(child) {
            of_kind.is_busy = true;
        }
    }

    /// Records a child that matches the desired state.
    pub(super) fn settled(&mut self, live: &'a Object, child: &'a DesiredChild) {
        if let Some((of_kind, _, until)) = self.of_kind(child) {
            of_kind.settled.push((live, child, until));
        }
    }

    /// Records a child that changes when its turn comes; its write is inserted at index `at` of the plan's writes.
    /// Returns false if its kind does not use a rolling update.
    pub(super) fn change(&mut self, live: &'a Object, child: &'a Arc<DesiredChild>, at: usize) -> bool {
        let Some((of_kind, recreate, _)) = self.of_kind(child) else { return false };
        of_kind.changes.push(Change { live, child, recreate, at });
        true
    }

    /// For each kind, inserts the next change into the writes, and lists the children that wait.
    pub(super) fn plan_into(self, plan: &mut Plan) {
        let mut now = Vec::new();
        for of_kind in self.0 {
            let mut changes = of_kind.changes.into_iter().peekable();
            // Conditions are read only for kinds with a pending change.
            let may_start = changes.peek().is_some()
                && !of_kind.is_busy
                && of_kind.settled.iter().all(|(live, child, until)| match until {
                    Until::Ready => NotReady::of(live, child).is_none(),
                    Until::Conditions(conditions) => are_true(live, conditions),
                });
            if may_start {
                now.extend(changes.next());
            }
            plan.rolling.extend(changes.map(|change| ChildId::of(change.live)));
        }
        // Changes are inserted from the back, so that earlier indices stay valid.
        now.sort_by_key(|change| std::cmp::Reverse(change.at));
        for Change { live, child, recreate, at } in now {
            let write = if recreate { replace(live, child) } else { apply(live, child, None) };
            plan.writes.insert(at.min(plan.writes.len()), write);
        }
    }

    /// The kind of a child with a rolling update, whether it is recreated, and what it must come to.
    fn of_kind(&mut self, child: &'a DesiredChild) -> Option<(&mut OfKind<'a>, bool, &'a Until)> {
        let UpdateStrategy::Rolling { recreate, until } = &child.update else { return None };
        let at = self
            .0
            .iter()
            .position(|of_kind| of_kind.kind == &child.kind && of_kind.stage == child.stage)
            .unwrap_or_else(|| {
                self.0.push(OfKind {
                    kind: &child.kind,
                    stage: child.stage,
                    is_busy: false,
                    settled: Vec::new(),
                    changes: Vec::new(),
                });
                self.0.len() - 1
            });
        Some((self.0.get_mut(at)?, *recreate, until))
    }
}

/// Returns true if all these conditions are True for the child's present generation. A condition that the child's
/// controller reported for an earlier generation does not cover the change.
fn are_true(live: &Object, conditions: &[String]) -> bool {
    if conditions.is_empty() {
        return true;
    }
    let is_current = |observed: Option<&Value>| match (observed, live.generation) {
        (Some(Value::Number(observed)), Some(generation)) => observed.as_i64().is_none_or(|at| at >= generation),
        _ => true,
    };
    let status = observed(live);
    is_current(status.get("observedGeneration"))
        && conditions.iter().all(|wanted| {
            conditions_of(&status).any(|condition| {
                type_of(condition) == Some(wanted)
                    && condition.get("status").and_then(Value::as_str) == Some("True")
                    && is_current(condition.get("observedGeneration"))
            })
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::{Plan, Write};
    use super::*;
    use crate::fixtures::{created, plan, pod, snapshot, validate, validate_with};

    /// Desired Pods of these names with this image.
    fn pods(names: &[&str], image: &str) -> Vec<Json> {
        let with_image = |name: &&str| {
            let mut pod = pod(name);
            pod["spec"]["containers"][0]["image"] = json!(image);
            pod
        };
        names.iter().map(with_image).collect()
    }

    fn exists(name: &str, image: &str, is_ready: bool) -> Json {
        let desired = validate(&pods(&[name], image)).expect("valid");
        let mut live = created(&desired.children[0]);
        let status = if is_ready { "True" } else { "False" };
        live["status"] = json!({"conditions": [
            {"type": "Other", "status": "False"}, {"type": "Ready", "status": status},
        ]});
        live
    }

    fn deleting(mut live: Json) -> Json {
        live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        live
    }

    fn rolled(live: &[Json], desired: &[Json], recreate: bool) -> Plan {
        let strategy = UpdateStrategy::Rolling { recreate, until: Until::Conditions(["Ready".to_owned()].into()) };
        plan(&snapshot(live), &validate_with(desired, &strategy).expect("valid"))
    }

    /// The writes and the waiting children, by name.
    fn steps(plan: &Plan) -> (Vec<String>, Vec<&str>) {
        let write = |write: &Write| match write {
            Write::Create(child) => format!("create {}", child.key.name),
            Write::Apply { child, .. } => format!("apply {}", child.key.name),
            Write::Replace(delete) => format!("replace {}", delete.child.key.name),
        };
        (plan.writes.iter().map(write).collect(), plan.rolling.iter().map(|child| &*child.key.name).collect())
    }

    /// Compares the plan for these live children with the expected writes and waiting children.
    #[track_caller]
    fn expect(live: &[Json], recreate: bool, writes: &[&str], waiting: &[&str]) {
        let plan = rolled(live, &pods(&["c", "a", "b"], "new"), recreate);
        let (written, waits) = steps(&plan);
        assert_eq!(
            (written.iter().map(String::as_str).collect::<Vec<_>>(), waits),
            (writes.to_vec(), waiting.to_vec())
        );
    }

    #[test]
    fn r11_children_change_one_at_a_time_in_the_order_of_the_response() {
        let (old, new) = (|name| exists(name, "old", true), |name| exists(name, "new", true));
        expect(&[old("a"), old("b"), old("c")], false, &["apply c"], &["a", "b"]);
        expect(&[old("a"), old("b"), new("c")], false, &["apply a"], &["b"]);
        expect(&[new("a"), old("b"), new("c")], false, &["apply b"], &[]);
        expect(&[new("a"), new("b"), new("c")], false, &[], &[]);
        expect(&[old("a"), old("b"), old("c")], true, &["replace c"], &["a", "b"]);
    }

    #[test]
    fn r11_the_next_child_waits_until_the_changed_one_is_ready() {
        let old = |name| exists(name, "old", true);
        expect(&[old("a"), old("b"), exists("c", "new", false)], false, &[], &["a", "b"]);
        let mut silent = exists("c", "new", true);
        silent["status"] = json!({});
        expect(&[old("a"), old("b"), silent], false, &[], &["a", "b"]);
    }

    #[test]
    fn r11_readiness_of_an_earlier_generation_does_not_count() {
        let old = |name| exists(name, "old", true);
        for observed in ["/status/observedGeneration", "/status/conditions/1/observedGeneration"] {
            let mut changed = exists("c", "new", true);
            changed["metadata"]["generation"] = json!(2);
            let (above, field) = observed.rsplit_once('/').expect("a path");
            changed.pointer_mut(above).expect("the path exists")[field] = json!(1);
            expect(&[old("a"), old("b"), changed.clone()], false, &[], &["a", "b"]);
            changed.pointer_mut(above).expect("the path exists")[field] = json!(2);
            expect(&[old("a"), old("b"), changed], false, &["apply a"], &["b"]);
        }
    }

    #[test]
    fn r11_a_child_that_is_not_ready_may_change_when_its_turn_comes() {
        let (old, broken) = (|name| exists(name, "old", true), |name| exists(name, "old", false));
        expect(&[old("a"), old("b"), broken("c")], false, &["apply c"], &["a", "b"]);
        expect(&[broken("a"), broken("b"), broken("c")], true, &["replace c"], &["a", "b"]);
    }

    #[test]
    fn r11_changed_child_that_is_not_ready_delays_the_children_before_it_too() {
        let old = |name| exists(name, "old", true);
        expect(&[old("a"), exists("b", "new", false), old("c")], false, &[], &["c", "a"]);
    }

    #[test]
    fn r11_missing_children_are_created_at_once_and_count_as_in_progress() {
        let old = |name| exists(name, "old", true);
        for recreate in [false, true] {
            expect(&[], recreate, &["create c", "create a", "create b"], &[]);
            expect(&[old("b")], recreate, &["create c", "create a"], &["b"]);
            // A child that was deleted for its change must be recreated first.
            expect(&[deleting(old("c")), old("a"), old("b")], recreate, &[], &["a", "b"]);
        }
    }

    #[test]
    fn r11_manual_edit_is_reverted_in_place_without_waiting_for_its_turn() {
        let (old, mut edited) = (|name| exists(name, "old", true), exists("b", "new", true));
        edited["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"] = json!({".": {}});
        expect(&[exists("c", "new", false), old("a"), edited.clone()], true, &["apply b"], &["a"]);
        expect(&[exists("c", "new", true), old("a"), edited], true, &["apply b"], &["a"]);
    }

    #[test]
    fn r11_without_readiness_conditions_one_child_changes_per_reconcile() {
        let strategy = UpdateStrategy::Rolling { recreate: false, until: Until::Conditions(Arc::new([])) };
        let desired = validate_with(&pods(&["a", "b"], "new"), &strategy).expect("valid");
        let planned = |live: &[Json]| plan(&snapshot(live), &desired);
        let first = planned(&[exists("a", "old", false), exists("b", "old", false)]);
        assert_eq!(steps(&first), (vec!["apply a".to_owned()], vec!["b"]));
        let second = planned(&[exists("a", "new", false), exists("b", "old", false)]);
        assert_eq!(steps(&second), (vec!["apply b".to_owned()], Vec::new()));
    }

    #[test]
    fn r11_rolling_change_keeps_its_place_in_the_install_order() {
        let mut desired = pods(&["a"], "new");
        let other = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}});
        desired.extend([other("ConfigMap"), other("Service")]);
        let plan = rolled(&[exists("a", "old", true)], &desired, false);
        assert_eq!(steps(&plan).0, ["create x", "create x", "apply a"]);
    }

    #[test]
    fn r11_scale_down_does_not_wait_and_children_that_others_may_depend_on_stay() {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-old"}});
        let mut live = vec![exists("a", "old", true), exists("b", "old", true), exists("z", "old", true)];
        live.push(created(&validate(&[config]).expect("valid").children[0]));
        let mut rolling = rolled(&live, &pods(&["a", "b"], "new"), false);
        assert_eq!(rolling.prunes.len(), 2);
        let due = rolling.take_due_prunes();
        assert_eq!(due.iter().flatten().map(|delete| &*delete.child.key.name).collect::<Vec<_>>(), ["z"]);
        live[0] = exists("a", "new", true);
        let mut last = rolled(&live, &pods(&["a", "b"], "new"), false);
        assert_eq!(last.rolling, []);
        assert_eq!(last.take_due_prunes().len(), 2, "one wave for each rank");
    }
}
