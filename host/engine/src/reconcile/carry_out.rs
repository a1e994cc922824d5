//! From a response to writes: validate → plan → guard → apply.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::Instrument;
use windlass_core::contract::desired::{self, Desired, DesiredChild};
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::contract::{Phase, Response};
use windlass_core::guard::budget::{Budget, Cost};
use windlass_core::guard::deletions::{self, Cause, Stop};
use windlass_core::object::Object;
use windlass_core::object::child::ChildId;
use windlass_core::reconcile::applied::{Applied, Kept};
use windlass_core::reconcile::apply::apply;
use windlass_core::reconcile::next_step::{keeps_children, may_write_children};
use windlass_core::reconcile::outcome::{Outcome, Problem, WriteProblem};
use windlass_core::reconcile::plan::{self, Plan, Write};
use windlass_core::value::digest::Digest;

use super::ending::{Attempt, outcome_of};
use super::{Reconciler, id_of_parent, spans};
use crate::clock;
use crate::cluster::plain;
use crate::live::Live;
use crate::live::component_state::Consequences;
use crate::live::record::Record;
use crate::queue::Trigger;
use crate::telemetry::TRACE;

/// How a desired state is carried out.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub phase: Phase,
    pub is_selected: bool,
    /// Whether the values of children are compared whose managedFields show no change.
    pub compares: bool,
}

impl Reconciler {
    /// Validates a response and carries it out, up to the status.
    pub(super) async fn validate_and_carry_out(
        &self,
        live: &Arc<Live>,
        snapshot: &Snapshot,
        (phase, compares): (Phase, bool),
        response: Response,
    ) -> Attempt {
        let desired = match desired::validate(&response, &snapshot.parent_ref, &live.grants, &live.limits) {
            Ok(desired) => drop_children_of_deselected(desired, snapshot, phase),
            Err(refusal) => return Attempt::from(&Problem::Refused(refusal)),
        };
        // A parent that is finalized but not deleted has left the label selector or the Plugin's namespaces.
        let is_selected = phase == Phase::Sync || snapshot.parent.deleting;
        let how = How { phase, is_selected, compares };
        Attempt { events: response.events, ..self.carry_out(live, snapshot, how, desired).await }
    }

    /// Plans the writes that lead to the desired state, and sends those that may be sent now.
    pub(super) async fn carry_out(
        &self,
        live: &Arc<Live>,
        snapshot: &Snapshot,
        How { phase, is_selected, compares }: How,
        desired: Desired,
    ) -> Attempt {
        let differing = |current: &Object, child: &DesiredChild| {
            let values = if compares { plan::differing(current, child) } else { None };
            // An earlier apply could not change these values, because the API server or a webhook sets them.
            values.filter(|values| !live.records.kept_values.holds(&current.uid, &child.applied, *values))
        };
        let mut plan = spans::planned(|| planned(live, snapshot, &desired, differing));
        // A parent whose plugin cleans up was read before the call.
        if self.shards.are_used() && phase == Phase::Sync && !plan.deletions().is_empty() {
            match is_current(live, snapshot).await {
                Ok(true) => {}
                Ok(false) => return Attempt { silent: true, ..Attempt::from(&Problem::PutOff) },
                Err(error) => {
                    let unread = unread(&error, "before its children are deleted");
                    return Attempt::from(&Problem::Writes(vec![(id_of_parent(snapshot), unread)]));
                }
            }
        }
        let blocked = self.guard(live, snapshot, (phase, is_selected), &mut plan);
        // The rate limit comes first, because the breaker must count only writes that are sent.
        let rate_wait = take_tokens(&live.budget, &mut plan, self.hosts_of(live));
        let thrashing = plan.admit(&mut self.breaker.lock(), &snapshot.parent, clock::now());
        let (terminating, rolling) = (being_deleted(&plan), std::mem::take(&mut plan.rolling));
        let applied = if plan.is_empty() {
            Applied::default()
        } else {
            let world = self.worlds.of(live);
            apply(&world, snapshot, plan).instrument(tracing::debug_span!(target: TRACE, "apply")).await
        };
        keep_values(live, &applied);
        for (child, _) in applied.problems.iter().filter(|(_, problem)| problem.is_refusal()) {
            self.breaker.lock().take_back(&snapshot.parent, child);
        }
        // Only the first problem of this list is reported.
        let problem = if let Some(wait) = rate_wait {
            Some(Problem::WritesLimited(wait))
        } else if !applied.problems.is_empty() {
            Some(Problem::Writes(applied.problems.clone()))
        } else if !thrashing.is_empty() {
            Some(Problem::Thrashing(thrashing))
        } else if let Some(blocked) = blocked {
            Some(blocked)
        } else if !terminating.is_empty() {
            Some(Problem::Terminating(terminating))
        } else if !rolling.is_empty() {
            Some(Problem::Rolling(rolling))
        } else if !snapshot.left_out.is_empty() {
            // Also if the plugin reports that it has cleaned up: it has not seen all children.
            Some(omitted_children_problem(snapshot, live.limits.request_bytes, desired.requeue))
        } else if phase == Phase::Finalize && !desired.finalized {
            Some(Problem::Finalizing(desired.requeue))
        } else {
            None
        };
        let outcome = match &problem {
            Some(problem) => outcome_of(problem),
            None => Outcome::applied(desired.children.len(), desired.requeue),
        };
        let finalized = phase == Phase::Finalize && desired.finalized && !applied.marked;
        // The reconcile that sees the marked child reports.
        let silent = matches!(problem, Some(Problem::PutOff)) || problem.is_none() && applied.marked;
        Attempt { part: desired.status, applied, outcome, is_planned: true, finalized, silent, events: Vec::new() }
    }

    /// Takes deletions out of the plan that no user asked for, if they are too many of one parent or of the whole plugin (rule R9).
    pub(super) fn guard(
        &self,
        live: &Arc<Live>,
        snapshot: &Snapshot,
        (phase, is_selected): (Phase, bool),
        plan: &mut Plan,
    ) -> Option<Problem> {
        let parent = &snapshot.parent;
        let cause = || match deletions::cause(snapshot, phase, live.shape) {
            cause if is_selected || cause == Cause::Deleted => cause,
            _ if live.selects_namespace(parent) => Cause::LeftSelector,
            _ => Cause::LeftNamespaces,
        };
        let leavers = || live.with_children_in(parent.key.namespace.as_deref());
        // The guard may read much: the records of other parents stay accessible meanwhile. No other reconcile of this parent runs.
        let mut own = live.records.with(&parent.key, Record::take_deletions);
        let deletions = plan.deletions();
        let (verdict, consequences) = live.state.judge((&mut own, live.guard), snapshot, cause, leavers, &deletions);
        if !own.is_empty() {
            live.records.with(&parent.key, |record| record.put_deletions(own));
        }
        self.queue_consequences(live, consequences);
        let verdict = verdict?;
        plan.obey(&verdict);
        Some(match verdict.stop {
            Stop::PutOff => Problem::PutOff,
            Stop::ForLeader => {
                self.shards.leave_to_leader(&live.name);
                self.plugins.add(&(), &live.name, Trigger::Changed);
                Problem::PutOff
            }
            Stop::AtParent(blocked) => Problem::DeletionsBlocked(blocked),
            Stop::AtPlugin(_) => Problem::DeletionsBlockedAtPlugin(live.name.clone()),
        })
    }

    /// Number of hosts that reconcile parents of the plugin.
    fn hosts_of(&self, live: &Live) -> usize {
        if live.state.share().is_some() { self.shards.members() } else { 1 }
    }

    /// Queues the other parents, and the Plugin, that a decision about deletions concerns.
    pub(super) fn queue_consequences(&self, live: &Live, consequences: Consequences) {
        for parent in consequences.parents {
            self.parents.add(&live.name, &parent, Trigger::Event);
        }
        if consequences.plugin {
            self.plugins.add(&(), &live.name, Trigger::Changed);
        }
    }
}

/// Remembers the live values that an apply could not change, so that it is not repeated.
fn keep_values(live: &Live, applied: &Applied) {
    for (child, Kept { uid, applied, values, refused }) in &applied.kept {
        live.records.kept_values.keep(uid, applied, *values);
        if let Some(message) = refused {
            tracing::warn!(plugin = %live.name, object = %child, message, "live values differ from what is desired, and cannot be changed");
        }
    }
}

/// Whether the cache shows the parent as the API server does. Another host may just have handed it over, and have blocked
/// deletions in its status. If not, the watch shows the change, and the parent is reconciled again.
pub(super) async fn is_current(live: &Live, snapshot: &Snapshot) -> kube::Result<bool> {
    let parent = &snapshot.parent;
    let now = live.parents.read(&parent.key).await?;
    Ok(now.is_some_and(|now| now.uid == parent.uid && now.resource_version <= parent.resource_version))
}

/// Why a reconcile goes no further: the parent could not be read, as is due before this.
pub(super) fn unread(error: &kube::Error, before: &str) -> WriteProblem {
    let message = format!("it cannot be read, and is read {before}: {}", plain(error));
    WriteProblem::Unavailable { message, retry_after: None }
}

/// Removes all children from the desired state if a deselected parent has finished its cleanup, so that the plan deletes them.
fn drop_children_of_deselected(mut desired: Desired, snapshot: &Snapshot, phase: Phase) -> Desired {
    if phase == Phase::Finalize && desired.finalized && !snapshot.parent.deleting {
        // The parent lives on outside the label selector, so no garbage collector deletes its children: the host does.
        desired.children.clear();
    }
    desired
}

/// The writes that lead from a snapshot to the desired state, without those that may not be sent now.
fn planned(
    live: &Live,
    snapshot: &Snapshot,
    desired: &Desired,
    differing: impl Fn(&Object, &DesiredChild) -> Option<Digest>,
) -> Plan {
    let mut plan = plan::plan_comparing(snapshot, desired, differing);
    plan.put_off_creates(|child| name_is_taken_by_predecessor(live, snapshot, child));
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

/// The problem that names the children that did not fit into the request.
fn omitted_children_problem(snapshot: &Snapshot, limit: u64, again: Option<Duration>) -> Problem {
    let of = |child: &Arc<Object>| (ChildId::of(child), child.json.unpacked_size() as u64);
    Problem::LeftOut { children: snapshot.left_out.iter().map(of).collect(), limit, again }
}

/// Takes all writes out of a plan if the plugin has used up its rate of writes. Returns how long it takes until it has more.
/// The rate is that of all hosts together: each takes the tokens of this many.
fn take_tokens(budget: &Mutex<Budget>, plan: &mut Plan, hosts: usize) -> Option<Duration> {
    if plan.is_empty() {
        return None;
    }
    let count = (plan.writes.len() + plan.prunes.len()).saturating_mul(hosts);
    let wait = budget.lock().spend(Cost::Write, count, clock::date()).err()?;
    plan.writes.clear();
    plan.prunes.clear();
    Some(wait)
}

/// Children whose deletion must end before the desired ones can take their place.
fn being_deleted(plan: &Plan) -> Vec<ChildId> {
    let replaced = plan.writes.iter().filter_map(|write| match write {
        Write::Replace(delete) => Some(delete.child.clone()),
        Write::Create(_) | Write::Apply { .. } => None,
    });
    plan.terminating.iter().cloned().chain(replaced).collect()
}

/// Whether a child of an earlier parent of the same name still has the child's name, because the garbage collector has not
/// reached it yet. Its deletion queues the parent again (see [`crate::reconcile::triggers`]).
fn name_is_taken_by_predecessor(live: &Live, snapshot: &Snapshot, child: &DesiredChild) -> bool {
    live.child_watch(&child.kind)
        .and_then(|watch| watch.store.get(&child.key))
        .is_some_and(|found| found.is_left_by_predecessor_of(&snapshot.parent_ref))
}

#[cfg(test)]
mod tests {
    use windlass_core::object::child::Delete;
    use windlass_core::value::ids::{Gvk, ObjectKey, Uid};

    use super::*;

    #[test]
    fn plan_is_postponed_as_a_whole_when_the_write_rate_is_used_up() {
        let child =
            ChildId { kind: Arc::new(Gvk::from_api_version("v1", "Pod")), key: ObjectKey::new(Some("n"), "web-0") };
        let original =
            Plan { prunes: vec![Delete { child, uid: Uid::from("1"), resource_version: 1 }], ..Plan::default() };
        let budget = Mutex::new(Budget::new(clock::date()));
        let mut plan = original.clone();
        assert_eq!((take_tokens(&budget, &mut plan, 1), &plan), (None, &original));
        budget.lock().spend(Cost::Write, 200_000, clock::date()).expect("tokens may be overdrawn");
        let wait = take_tokens(&budget, &mut plan, 1).expect("no tokens are left");
        assert!(wait > Duration::from_mins(1) && plan.is_empty(), "{wait:?}");
        assert_eq!(take_tokens(&budget, &mut plan, 1), None, "a plan without writes does not wait");
    }
}
