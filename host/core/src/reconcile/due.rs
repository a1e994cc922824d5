//! From a desired state to the writes that may be sent now, and to the problem that is left after them.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::applied::Applied;
use super::next_step::{keeps_children, may_write_children};
use super::outcome::Problem;
use super::plan::{Plan, plan_comparing};
use super::world::Writing;
use crate::contract::Phase;
use crate::contract::desired::{Desired, DesiredChild};
use crate::contract::snapshot::Snapshot;
use crate::guard::budget::{Budget, Cost};
use crate::object::Object;
use crate::object::child::ChildId;
use crate::value::digest::Digest;
use crate::value::ids::ObjectKey;

/// The writes that lead from a snapshot to the desired state, without those that may not be sent now. `differing`: see [`plan_comparing`].
pub fn planned(
    world: &dyn Writing,
    snapshot: &Snapshot,
    desired: &Desired,
    differing: impl Fn(&Object, &DesiredChild) -> Option<Digest>,
) -> Plan {
    let mut plan = plan_comparing(snapshot, desired, differing);
    // The deletion of the object that has the name queues the parent again.
    let is_predecessors = |found: Arc<Object>| found.is_left_by_predecessor_of(&snapshot.parent_ref);
    plan.put_off_creates(|child| world.cached_child(&child.id()).is_some_and(is_predecessors));
    plan.keep_left_out(snapshot);
    if !may_write_children(&snapshot.parent) {
        plan.writes.clear();
    }
    if keeps_children(&snapshot.parent) {
        plan.keep_children();
    }
    if snapshot.parent.deleting && desired.finalized {
        // The garbage collector deletes the owned children right after, with their parent.
        plan.keep_retained_writes();
    }
    plan
}

/// Takes all writes out of a parent's plan if the plugin has used up its rate of writes. Returns how long it takes until it has more.
/// The rate is that of all `hosts` together, so that each write of one of three hosts costs three tokens.
pub fn take_tokens(
    budget: &mut Budget,
    parent: &ObjectKey,
    plan: &mut Plan,
    hosts: usize,
    now: Timestamp,
) -> Option<Duration> {
    if plan.is_empty() {
        return None;
    }
    let count = (plan.writes.len() + plan.prunes.len()).saturating_mul(hosts);
    let wait = budget.spend(Cost::Write, count, parent.namespace.as_ref(), now).err()?;
    plan.writes.clear();
    plan.prunes.clear();
    Some(wait)
}

/// What a plan came to.
pub struct Carried<'a> {
    /// The purpose of the call.
    pub phase: Phase,
    /// What the plan is based on.
    pub snapshot: &'a Snapshot,
    /// What the plan leads to.
    pub desired: &'a Desired,
    /// The largest size of a request, in bytes.
    pub request_bytes: u64,
    /// The time until the plugin has writes again, if it has used them up.
    pub limited: Option<Duration>,
    /// The results of the writes that were sent.
    pub applied: &'a Applied,
    /// The objects that were written too often, each with the time until its next write is allowed.
    pub thrashing: Vec<(ChildId, Duration)>,
    /// What the guard made of the deletions.
    pub blocked: Option<Problem>,
    /// Children whose deletion must end before the desired ones can take their place.
    pub terminating: Vec<ChildId>,
    /// Children whose change waits until others are ready.
    pub rolling: Vec<ChildId>,
}

impl Carried<'_> {
    /// The problem that is reported: the first of this order.
    pub fn problem(self) -> Option<Problem> {
        let left_out = || {
            let of = |child: &Arc<Object>| (ChildId::of(child), child.json.unpacked_size() as u64);
            let children = unless_empty(self.snapshot.left_out.iter().map(of).collect())?;
            Some(Problem::LeftOut { children, limit: self.request_bytes, again: self.desired.requeue })
        };
        let is_finalizing = self.phase == Phase::Finalize && !self.desired.finalized;
        self.limited
            .map(Problem::WritesLimited)
            .or_else(|| unless_empty(self.applied.problems.clone()).map(Problem::Writes))
            .or_else(|| unless_empty(self.thrashing).map(Problem::Thrashing))
            .or(self.blocked)
            .or_else(|| unless_empty(self.terminating).map(Problem::Terminating))
            .or_else(|| unless_empty(self.rolling).map(Problem::Rolling))
            // Also if the plugin reports that it has cleaned up: it has not seen all children.
            .or_else(left_out)
            .or_else(|| is_finalizing.then_some(Problem::Finalizing(self.desired.requeue)))
    }
}

/// The items, if there are any.
fn unless_empty<T>(items: Vec<T>) -> Option<Vec<T>> {
    (!items.is_empty()).then_some(items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{created, pod, snapshot, validate};
    use crate::object::child::Delete;
    use crate::reconcile::outcome::{Awaited, WriteProblem};

    fn now() -> Timestamp {
        Timestamp::from_second(1_000_000).expect("a time")
    }

    #[test]
    fn plan_is_postponed_as_a_whole_when_the_write_rate_is_used_up() {
        let live = created(&validate(&[pod("a")]).expect("valid").children[0]);
        let snapshot = snapshot(&[live]);
        let key = snapshot.parent.key.clone();
        let original = Plan { prunes: vec![Delete::of(&snapshot.children[0])], ..Plan::default() };
        let mut budget = Budget::new(now());
        let mut plan = original.clone();
        assert_eq!((take_tokens(&mut budget, &key, &mut plan, 1, now()), &plan), (None, &original));
        budget.spend(Cost::Write, 200_000, None, now()).expect("tokens may be overdrawn");
        let wait = take_tokens(&mut budget, &key, &mut plan, 1, now()).expect("no tokens are left");
        assert!(wait > Duration::from_mins(1) && plan.is_empty(), "{wait:?}");
        assert_eq!(take_tokens(&mut budget, &key, &mut plan, 1, now()), None, "a plan without writes does not wait");
    }

    #[test]
    fn r12_problem_that_hides_the_others_is_reported_before_them() {
        let live = created(&validate(&[pod("a")]).expect("valid").children[0]);
        let mut snapshot = snapshot(std::slice::from_ref(&live));
        snapshot.left_out = snapshot.children.clone();
        let (child, wait) = (ChildId::of(&snapshot.children[0]), Duration::from_secs(1));
        let (desired, none) = (Desired::default(), Applied::default());
        let failed = Applied { problems: vec![(child.clone(), WriteProblem::Outdated)], ..Applied::default() };
        let mut order = Vec::new();
        // Each turn has all that is left of what the turn before it had but for one.
        for gone in 0..8 {
            let is_there = |place: usize| gone <= place;
            let is_left_out = is_there(6);
            if !is_left_out {
                snapshot.left_out.clear();
            }
            let carried = Carried {
                phase: Phase::Finalize,
                snapshot: &snapshot,
                desired: &desired,
                request_bytes: 1,
                limited: is_there(0).then_some(wait),
                applied: if is_there(1) { &failed } else { &none },
                thrashing: is_there(2).then(|| (child.clone(), wait)).into_iter().collect(),
                blocked: is_there(3).then_some(Problem::PutOff(Awaited::Leader)),
                terminating: is_there(4).then(|| child.clone()).into_iter().collect(),
                rolling: is_there(5).then(|| child.clone()).into_iter().collect(),
            };
            let problem = format!("{:?}", carried.problem().expect("a problem"));
            order.push(problem.split(['(', ' ']).next().expect("a name").to_owned());
        }
        let expected = "WritesLimited Writes Thrashing PutOff Terminating Rolling LeftOut Finalizing";
        assert_eq!(order.join(" "), expected);
    }
}
