//! The steps from a desired state to writes: plan, guard, apply.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tracing::Instrument;
use tracing::field::Empty;

use super::ending::{Attempt, Reporting};
use super::finalizer::unread;
use super::{How, Reconcile, TRACE, int};
use crate::contract::desired::{Desired, DesiredChild};
use crate::contract::snapshot::Snapshot;
use crate::guard::breaker::ParentRevision;
use crate::guard::budget::{Budget, Cost};
use crate::guard::deletions::{self, Cause, Stop, judge};
use crate::object::Object;
use crate::object::child::ChildId;
use crate::object::once::Once;
use crate::reconcile::applied::{Applied, Kept, Stored};
use crate::reconcile::next_step::{keeps_children, may_write_children};
use crate::reconcile::outcome::{Awaited, Problem};
use crate::reconcile::plan::{self, Plan, plan_comparing};
use crate::reconcile::record::Record;
use crate::reconcile::record::steady::Compared;
use crate::reconcile::world::{Wake, Writing};
use crate::value::digest::Digest;
use crate::value::ids::{ObjectKey, Uid};

impl Reconcile<'_> {
    /// The writes that lead to the desired state, without those that may not be sent now.
    pub(super) fn plan(&self, snapshot: &Snapshot, compared: Compared, desired: &Desired) -> Plan {
        let span = tracing::debug_span!(
            target: TRACE,
            "plan",
            windlass.creates = Empty,
            windlass.updates = Empty,
            windlass.deletes = Empty,
            windlass.terminating = Empty
        );
        let plan = span.in_scope(|| {
            // Children as the API server stored them after the last writes.
            let stored = self.record(Record::take_stored);
            let stored: HashMap<Uid, Stored> = stored.into_iter().map(|stored| (stored.uid.clone(), stored)).collect();
            planned(self.world, snapshot, desired, |live, child| {
                let is_as_stored = stored.get(&live.uid).is_some_and(|stored| stored.is(live));
                if compared == Compared::Values || is_as_stored {
                    self.differing(live, child, is_as_stored)
                } else {
                    None
                }
            })
        });
        let (creates, updates, deletes) = plan.counts();
        span.record("windlass.creates", int(creates)).record("windlass.updates", int(updates));
        span.record("windlass.deletes", int(deletes)).record("windlass.terminating", int(plan.terminating.len()));
        plan
    }

    /// Takes deletions out of the plan that no user asked for, if they are too many of one parent or of the whole plugin (rule R9).
    pub(super) fn guard(&self, snapshot: &Snapshot, how: How, plan: &mut Plan) -> Option<Problem> {
        let parent = &snapshot.parent;
        let observed = || self.record(|record| record.observed);
        let cause = || match deletions::cause(snapshot, how.phase, self.terms.shape, observed()) {
            cause if how.is_selected || cause == Cause::Deleted => cause,
            _ if self.world.selects_namespace(parent) => Cause::LeftSelector,
            _ => Cause::LeftNamespaces,
        };
        let leavers = || self.world.leavers(parent.key.namespace.as_deref());
        // The guard may read much: the records of other parents stay accessible meanwhile. No other reconcile of this parent runs.
        let mut own = self.record(Record::take_deletions);
        let deletions = plan.deletions();
        let (verdict, consequences) = self.shared.state.with_fleet(|fleet| {
            judge(fleet, &mut own, self.terms.settings.guard, snapshot, cause, leavers, &deletions)
        });
        if !own.is_empty() {
            self.record(|record| record.put_deletions(own));
        }
        self.wake(&consequences);
        let verdict = verdict?;
        plan.obey(&verdict);
        Some(match verdict.stop {
            Stop::PutOff => Problem::PutOff(Awaited::OtherParents),
            Stop::ForLeader => {
                self.world.wake(Wake::Leader);
                Problem::PutOff(Awaited::Leader)
            }
            Stop::AtParent(blocked) => Problem::DeletionsBlocked(blocked),
            Stop::AtPlugin(_) => Problem::DeletionsBlockedAtPlugin(self.terms.name.clone()),
        })
    }

    /// Ends the reconcile of a parent whose children would be deleted, if the cache does not show the parent as it is: another host may
    /// have blocked the deletions in its status.
    pub(super) async fn outdated_before_deletions(&self, snapshot: &Snapshot) -> Option<Attempt> {
        match self.is_current(snapshot).await {
            Ok(true) => None,
            Ok(false) => {
                let reporting = Reporting::WritesOnly;
                Some(Attempt { reporting, ..Attempt::from(&Problem::PutOff(Awaited::Cache)) })
            }
            Err(refused) => {
                let unread = unread(&refused, "before its children are deleted");
                Some(Attempt::from(&Problem::Writes(vec![(ChildId::of(&snapshot.parent), unread)])))
            }
        }
    }

    /// Takes writes out of the plan that were sent too often (rule R18), and returns their objects with the time until each is admitted.
    pub(super) fn admit(&self, revision: ParentRevision, parent: &Object, plan: &mut Plan) -> Vec<(ChildId, Duration)> {
        let (now, mut breaker) = (self.shared.clock.now(), self.shared.breaker.lock());
        let mut waiting = plan.admit(&mut breaker, revision, now);
        // Another manager may remove a note each time. Each counts by itself, because many children may become ready within a minute.
        let key = |once: &Once| ObjectKey { namespace: parent.key.namespace.clone(), name: once.mark().into() };
        let wait = plan.admit_notes(|once| breaker.admit(revision, &parent.kind, &key(once), now));
        waiting.extend(wait.map(|wait| (ChildId::of(parent), wait)));
        waiting
    }

    /// Sends the writes of a plan, and remembers what follows from the responses.
    pub(super) async fn apply(&self, snapshot: &mut Snapshot, revision: Option<ParentRevision>, plan: Plan) -> Applied {
        if plan.is_empty() {
            return Applied::default();
        }
        let span = tracing::debug_span!(target: TRACE, "apply");
        let mut applied = Box::pin(self.carry_out_noted(snapshot, plan)).instrument(span).await;
        self.add_own_writes(std::mem::take(&mut applied.written));
        let stored = std::mem::take(&mut applied.stored);
        if !stored.is_empty() {
            self.record(|record| record.put_stored(stored));
        }
        for (child, Kept { uid, applied, values, refused }) in &applied.kept {
            // The apply is not repeated.
            self.shared.records.kept_values.keep(uid, applied, *values);
            if let Some(message) = refused {
                tracing::warn!(plugin = %self.terms.name, object = %child, message, "live values differ from what is desired, and cannot be changed");
            }
        }
        for (child, _) in applied.problems.iter().filter(|(_, problem)| problem.is_refusal()) {
            if let Some(revision) = revision {
                self.shared.breaker.lock().take_back(revision, child);
            }
        }
        applied
    }

    /// The hash of the values of a child that must be changed, although managedFields show no change. `is_as_stored`: the values are what the
    /// API server made of the host's last write.
    fn differing(&self, live: &Object, child: &DesiredChild, is_as_stored: bool) -> Option<Digest> {
        let (values, kept) = (plan::differing(live, child)?, &self.shared.records.kept_values);
        if is_as_stored && !plan::differs_in_metadata(live, child) {
            // This is what the API server makes of the desired values.
            kept.keep(&live.uid, &child.applied, values);
        }
        // An earlier apply could not change these values, because the API server or a webhook sets them.
        (!kept.holds(&live.uid, &child.applied, values)).then_some(values)
    }
}

/// The writes that lead from a snapshot to the desired state, without those that may not be sent now. `differing`: see [`plan_comparing`].
fn planned(
    world: &dyn Writing,
    snapshot: &Snapshot,
    desired: &Desired,
    differing: impl Fn(&Object, &DesiredChild) -> Option<Digest>,
) -> Plan {
    let mut plan = plan_comparing(snapshot, desired, differing);
    // The deletion of the object that has the name queues the parent again.
    let is_predecessors = |found: Arc<Object>| found.is_left_by_predecessor_of(&snapshot.parent_ref);
    plan.put_off_creates(|child| world.cached_child(&child.id()).is_some_and(is_predecessors));
    if !may_write_children(&snapshot.parent) {
        plan.writes.clear();
        plan.notes = None;
        plan.wait_for_none();
    }
    if keeps_children(&snapshot.parent) {
        plan.keep_children();
    }
    if snapshot.parent.deleting && desired.finalized {
        // The garbage collector deletes the owned children right after, with their parent.
        plan.keep_retained_writes();
        plan.wait_for_none();
    }
    plan
}

/// Takes all writes out of a parent's plan if the plugin has used up its rate of writes. Returns how long it takes until it has more.
/// The rate is that of all `hosts` together, so that each write of one of three hosts costs three tokens.
pub(super) fn take_tokens(
    budget: &mut Budget,
    parent: &ObjectKey,
    plan: &mut Plan,
    hosts: usize,
    now: Timestamp,
) -> Option<Duration> {
    if plan.is_empty() {
        return None;
    }
    let count = plan.writes.len() + plan.prunes.len() + usize::from(plan.has_notes());
    let wait = budget.spend(Cost::Write, count.saturating_mul(hosts), parent.namespace.as_ref(), now).err()?;
    plan.clear();
    Some(wait)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{created, pod, snapshot, validate};
    use crate::object::child::Delete;

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
}
