//! What carrying out a plan came to, and the problem that is left after it.

use std::sync::Arc;
use std::time::Duration;

use super::applied::Applied;
use super::outcome::Problem;
use crate::contract::Phase;
use crate::contract::desired::Desired;
use crate::contract::snapshot::Snapshot;
use crate::object::Object;
use crate::object::child::ChildId;
use crate::reconcile::plan::Staged;

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
    /// Children that wait for those of lower stages.
    pub staged: Option<Box<Staged>>,
    /// Whether all children must be gone.
    pub until_gone: bool,
}

impl Carried<'_> {
    /// The problem that is reported: the first of this order.
    pub fn problem(self) -> Option<Problem> {
        let left_out = || {
            let of = |child: &Arc<Object>| (ChildId::of(child), child.json.unpacked_size() as u64);
            let children = unless_empty(self.snapshot.left_out.iter().map(of).collect())?;
            Some(Problem::LeftOut { children, limit: self.request_bytes })
        };
        let remaining = || {
            let is_owned = |child: &&Arc<Object>| child.is_owned_by(&self.snapshot.parent.uid);
            let owned = self.snapshot.children.iter().filter(is_owned).map(|child| ChildId::of(child));
            self.until_gone.then(|| owned.collect()).and_then(unless_empty).map(Problem::Terminating)
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
            .or_else(|| self.staged.map(Problem::Staged))
            .or_else(remaining)
            .or_else(|| {
                is_finalizing.then_some(Problem::Finalizing(self.desired.requeue, self.desired.waiting.clone()))
            })
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
    use crate::reconcile::outcome::{Awaited, WriteProblem};

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
        for gone in 0..9 {
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
                until_gone: false,
                staged: is_there(7)
                    .then(|| Box::new(Staged { from: 1, waiting: vec![child.clone()], not_ready: Vec::new() })),
            };
            let problem = format!("{:?}", carried.problem().expect("a problem"));
            order.push(problem.split(['(', ' ']).next().expect("a name").to_owned());
        }
        let expected = "WritesLimited Writes Thrashing PutOff Terminating Rolling LeftOut Staged Finalizing";
        assert_eq!(order.join(" "), expected);
    }
}
