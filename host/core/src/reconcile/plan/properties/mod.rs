//! Properties of every plan, checked on generated clusters and responses.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::contract::{Limits, Phase, Response, Until};
use crate::fixtures::{created, guard_plan, object, parent_ref, parent_with, plan, snapshot, validate, validate_with};
use crate::guard::deletions::{DeletionGuard, Fleet, Leavers, ParentDeletions, Rollout, Stop, cause};
use crate::object::observed_status::StatusShape;
use crate::value::digest::Digest;

mod fuzz;
mod strange;

/// Desired children: each has one of a few names and one of a few contents.
fn contents() -> impl Strategy<Value = BTreeMap<(bool, u8), u8>> {
    proptest::collection::btree_map((any::<bool>(), 0_u8..5), 0_u8..3, 0..8)
}

fn children(contents: &BTreeMap<(bool, u8), u8>) -> Vec<Json> {
    let child = |(is_pod, name): &(bool, u8), content: &u8| {
        json!({
            "apiVersion": "v1", "kind": if *is_pod { "Pod" } else { "ConfigMap" },
            "metadata": {"name": format!("c{name}")}, "data": {"content": content.to_string()},
        })
    };
    contents.iter().map(|(name, content)| child(name, content)).collect()
}

fn desired(contents: &BTreeMap<(bool, u8), u8>) -> Desired {
    validate(&children(contents)).expect("valid")
}

/// A change to a child since its creation.
#[derive(Debug, Clone, Copy)]
enum Fate {
    LeftAlone,
    Edited,
    BeingDeleted,
}

fn apply_fate(mut live: Json, fate: Fate) -> Json {
    match fate {
        Fate::LeftAlone => {}
        // Another manager owns the field now, so it is missing in our entry.
        Fate::Edited => live["metadata"]["managedFields"][0]["fieldsV1"]["f:data"] = json!({".": {}}),
        Fate::BeingDeleted => live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
    }
    live
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    proptest::collection::vec(prop_oneof![Just(Fate::LeftAlone), Just(Fate::Edited), Just(Fate::BeingDeleted)], 8)
}

/// The live children after these desired children were created and met their fates; children without a fate are
/// unchanged.
fn live_of(contents: &BTreeMap<(bool, u8), u8>, fates: &[Fate]) -> Vec<Json> {
    let fates = fates.iter().copied().chain(std::iter::repeat(Fate::LeftAlone));
    desired(contents).children.iter().zip(fates).map(|(child, fate)| apply_fate(created(child), fate)).collect()
}

fn names_of(desired: &Desired) -> Vec<String> {
    let mut names: Vec<_> =
        desired.children.iter().map(|child| crate::contract::desired::describe(&child.kind, &child.key)).collect();
    names.sort();
    names
}

/// Exactly the desired children, in the order of their names.
fn exactly(desired: &Desired) -> Vec<Json> {
    let mut live: Vec<Json> = desired.children.iter().map(|child| created(child)).collect();
    live.sort_by_key(name_of);
    live
}

fn name_of(live: &Json) -> String {
    format!("{} {}/{}", live["kind"], live["metadata"]["namespace"], live["metadata"]["name"]).replace('"', "")
}

/// The cluster after a plan was carried out and all pending deletions finished.
fn carry_out(live: &[Json], plan: &Plan) -> Vec<Json> {
    let mut after: BTreeMap<String, Json> = live
        .iter()
        .filter(|live| live["metadata"]["deletionTimestamp"].is_null())
        .map(|live| (name_of(live), live.clone()))
        .collect();
    for write in &plan.writes {
        match write {
            Write::Create(child) | Write::Apply { child, .. } => {
                let live = created(child);
                after.insert(name_of(&live), live);
            }
            Write::Replace(delete) => drop(after.remove(&delete.child.to_string())),
        }
    }
    for delete in &plan.prunes {
        after.remove(&delete.child.to_string());
    }
    after.into_values().collect()
}

proptest! {
    #[test]
    fn carrying_out_plans_reaches_the_desired_state_and_then_the_plan_is_empty(
        before in contents(), after in contents(), fates in fates()
    ) {
        let live = live_of(&before, &fates);
        let desired = desired(&after);
        let mut cluster = carry_out(&live, &plan(&snapshot(&live), &desired));
        // Children that were still being deleted are recreated in a second round, as the event of their deletion
        // triggers it.
        cluster = carry_out(&cluster, &plan(&snapshot(&cluster), &desired));
        prop_assert!(plan(&snapshot(&cluster), &desired).is_empty());
        prop_assert_eq!(cluster, exactly(&desired));
    }

    #[test]
    fn order_of_children_keys_and_live_objects_does_not_change_the_plan(
        before in contents(), after in contents(), fates in fates(), recreates in any::<bool>(), seed in any::<u64>()
    ) {
        let update = if recreates { UpdateStrategy::Recreate } else { UpdateStrategy::Apply };
        let live = live_of(&before, &fates);
        let ordered = plan(&snapshot(&live), &validate_with(&children(&after), &update).expect("valid"));
        let mut turns = Turns(seed);
        let spelled = turns.shuffled(&children(&after)).iter().map(|child| turns.spell(child).into_bytes()).collect();
        let response = Response { children: spelled, ..Response::default() };
        let grants = crate::fixtures::grants_with(&update);
        let desired = crate::contract::desired::validate(&response, &parent_ref(), &grants, &Limits::default()).expect("valid");
        let shuffled = plan(&snapshot(&turns.shuffled(&live)), &desired);
        prop_assert_eq!(sorted(&shuffled.writes), sorted(&ordered.writes));
        prop_assert_eq!(sorted(&shuffled.terminating), sorted(&ordered.terminating));
        prop_assert_eq!(shuffled.prunes, ordered.prunes);
    }

    #[test]
    fn r11_rolling_updates_complete_one_child_at_a_time(
        before in contents(), after in contents(), fates in fates(), ready in any::<u64>(), recreate in any::<bool>()
    ) {
        let update = UpdateStrategy::Rolling { recreate, until: Until::Conditions(["Ready".to_owned()].into()) };
        let desired = validate_with(&children(&after), &update).expect("valid");
        let mut turns = Turns(ready);
        let mut live = live_of(&before, &fates);
        for _ in 0..60 {
            // Some children become ready and some stop being ready; no child stays unready forever.
            for live in &mut live {
                set_readiness(live, turns.next(4) > 0);
            }
            let mut planned = plan(&snapshot(&live), &desired);
            one_at_a_time(&live, &planned, &desired)?;
            planned.prunes = planned.take_due_prunes().concat();
            live = carry_out(&live, &planned);
        }
        for live in &mut live {
            set_readiness(live, true);
        }
        let last = plan(&snapshot(&live), &desired);
        prop_assert_eq!(last, Plan::default());
        for live in &mut live {
            live.as_object_mut().expect("an object").remove("status");
        }
        prop_assert_eq!(live, exactly(&desired));
    }

    #[test]
    fn r09_blocked_children_stay_until_allowed_and_everything_else_converges(
        before in contents(), after in contents(), rolls in any::<bool>(), is_allowed in any::<bool>()
    ) {
        let rolling = UpdateStrategy::Rolling { recreate: true, until: Until::Conditions(Arc::new([])) };
        let update = if rolls { rolling } else { UpdateStrategy::Apply };
        let desired = validate_with(&children(&after), &update).expect("valid");
        let mut live = live_of(&before, &[]);
        let mut annotation = String::new();
        let (mut parents, mut was_blocked) = (ParentDeletions::default(), false);
        let rollout = Rollout::begin(DeletionGuard::default(), Digest::of(b"component"), [], 0, None);
        let mut fleet = Fleet::new(rollout);
        for _ in 0..60 {
            let snapshot = with_unchanged_spec(&live, &annotation);
            let mut planned = plan(&snapshot, &desired);
            let cause = || cause(&snapshot, Phase::Sync, SHAPE, None);
            let parents = (&mut parents, DeletionGuard::default());
            if let Some(stop) = guard_plan(&mut fleet, parents, &snapshot, cause, Leavers::default, &mut planned) {
                let Stop::AtParent(blocked) = stop else { panic!("{stop:?}") };
                prop_assert!((was_blocked || blocked.deletions * 2 > blocked.children_total) && planned.prunes.is_empty());
                was_blocked = true;
                if is_allowed {
                    annotation = blocked.hash;
                }
            }
            planned.prunes = planned.take_due_prunes().concat();
            live = carry_out(&live, &planned);
        }
        let mut expected = names_of(&desired);
        let is_blocked = was_blocked && !is_allowed;
        if is_blocked {
            expected.extend(names_of(&self::desired(&before)));
            expected.sort();
            expected.dedup();
        }
        prop_assert_eq!(live.iter().map(name_of).collect::<Vec<_>>(), expected);
    }
}

const SHAPE: StatusShape = StatusShape { subresource: true, observed_generation: true, conditions: true };

/// A parent whose spec did not change, with this annotation that allows deletions.
fn with_unchanged_spec(live: &[Json], annotation: &str) -> Snapshot {
    let mut parent: Json =
        serde_json::from_slice(&parent_with(&json!({"observedGeneration": 3})).json.bytes()).expect("JSON");
    parent["metadata"]["annotations"] = json!({"windlass.dev/allow-deletion": annotation});
    Snapshot::new(parent_ref(), object(&parent), live.iter().map(object), None, |_| false)
}

fn set_readiness(live: &mut Json, is_ready: bool) {
    live["status"] = json!({"conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}]});
}

/// Per kind, at most one child changes, and only while every other desired child exists and is ready if it matches the
/// desired state.
fn one_at_a_time(live: &[Json], plan: &Plan, desired: &Desired) -> Result<(), TestCaseError> {
    let applied = |live: &Json| live["metadata"]["annotations"]["windlass.dev/applied"].as_str().map(str::to_owned);
    let find = |name: &str| live.iter().find(|live| name_of(live) == name);
    let is_changed = |child: &&Arc<DesiredChild>| {
        plan.writes.iter().any(|write| write.child() == child.id())
            && find(&crate::contract::desired::describe(&child.kind, &child.key))
                .is_some_and(|live| applied(live).as_deref() != Some(&child.applied))
    };
    for changed in desired.children.iter().filter(is_changed) {
        let others = desired.children.iter().filter(|other| other.kind == changed.kind && other.key != changed.key);
        for other in others {
            prop_assert!(!is_changed(&other));
            let live = find(&crate::contract::desired::describe(&other.kind, &other.key));
            let is_there = live.is_some_and(|live| {
                live["metadata"]["deletionTimestamp"].is_null()
                    && (applied(live).as_deref() != Some(&other.applied)
                        || live["status"]["conditions"][0]["status"] == "True")
            });
            prop_assert!(is_there, "{} changes beside {}", changed.key, other.key);
        }
    }
    Ok(())
}

fn sorted(items: &[impl std::fmt::Debug]) -> Vec<String> {
    let mut texts: Vec<_> = items.iter().map(|item| format!("{item:?}")).collect();
    texts.sort();
    texts
}

/// A pseudo-random sequence from one seed (xorshift).
struct Turns(u64);

impl Turns {
    fn next(&mut self, below: usize) -> usize {
        self.0 |= 1;
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % below.max(1)
    }

    fn shuffled<T: Clone>(&mut self, items: &[T]) -> Vec<T> {
        let mut left = items.to_vec();
        let mut shuffled = Vec::new();
        while !left.is_empty() {
            shuffled.push(left.swap_remove(self.next(left.len())));
        }
        shuffled
    }

    /// JSON text of the value with its keys in random order.
    fn spell(&mut self, value: &Json) -> String {
        let Json::Object(map) = value else { return value.to_string() };
        let entries: Vec<_> = map.iter().collect();
        let entries: Vec<_> = self
            .shuffled(&entries)
            .into_iter()
            .map(|(key, value)| format!("{} : {}", json!(key), self.spell(value)))
            .collect();
        format!("{{{}}}", entries.join(", "))
    }
}
