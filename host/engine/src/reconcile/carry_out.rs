//! From a response to writes: validate → plan → guard → apply.

use std::collections::HashMap;
use std::sync::Arc;

use tracing::Instrument;
use windlass_core::contract::desired::{self, Desired, DesiredChild};
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::contract::{Phase, Response};
use windlass_core::guard::breaker::ParentRevision;
use windlass_core::guard::deletions::{self, Cause, Stop};
use windlass_core::object::Object;
use windlass_core::object::child::ChildId;
use windlass_core::reconcile::applied::{Applied, Kept, Stored};
use windlass_core::reconcile::carry_out::carry_out;
use windlass_core::reconcile::due::{Carried, drop_children_of_deselected, planned, take_tokens};
use windlass_core::reconcile::outcome::{Outcome, Problem, WriteProblem};
use windlass_core::reconcile::plan::{self, Plan};
use windlass_core::reconcile::record::Record;
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::{ObjectKey, Uid};

use super::ending::{Attempt, outcome_of};
use super::{Reconciler, spans};
use crate::clock;
use crate::cluster::plain;
use crate::live::Live;
use crate::live::component_state::Consequences;
use crate::live::kept_values::KeptValues;
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
        let desired = match desired::validate(&response, &snapshot.parent_ref, &live.terms.grants, &live.terms.limits) {
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
        let (records, parent) = (&live.shared.records, &snapshot.parent.key);
        let stored = records.with(parent, Record::take_stored);
        let stored = stored.into_iter().map(|stored| (stored.uid.clone(), stored)).collect();
        let comparison = Comparison { kept: &records.kept_values, stored, compares };
        let world = self.worlds.of(live);
        let mut plan =
            spans::planned(|| planned(&world, snapshot, &desired, |live, child| comparison.differing(live, child)));
        // A parent whose plugin cleans up was read before the call.
        if self.shards.are_used()
            && phase == Phase::Sync
            && !plan.deletions().is_empty()
            && let Some(attempt) = outdated(live, snapshot).await
        {
            return attempt;
        }
        let blocked = self.guard(live, snapshot, (phase, is_selected), &mut plan);
        // The rate limit comes first, because the breaker must count only writes that are sent.
        let hosts = self.hosts_of(live);
        let limited =
            take_tokens(&mut live.shared.budget.lock(), &snapshot.parent.key, &mut plan, hosts, clock::date());
        let revision = (!plan.is_empty()).then(|| ParentRevision::of(&snapshot.parent));
        let admit = |revision| plan.admit(&mut self.breaker.lock(), revision, clock::now());
        let thrashing = revision.map(admit).unwrap_or_default();
        let (terminating, rolling) = (plan.being_deleted(), std::mem::take(&mut plan.rolling));
        let mut applied = if plan.is_empty() {
            Applied::default()
        } else {
            carry_out(&world, snapshot, plan).instrument(tracing::debug_span!(target: TRACE, "apply")).await
        };
        remember_values(live, parent, &mut applied);
        for (child, _) in applied.problems.iter().filter(|(_, problem)| problem.is_refusal()) {
            if let Some(revision) = revision {
                self.breaker.lock().take_back(revision, child);
            }
        }
        let carried = Carried {
            phase,
            snapshot,
            desired: &desired,
            request_bytes: live.terms.limits.request_bytes,
            limited,
            applied: &applied,
            thrashing,
            blocked,
            terminating,
            rolling,
        };
        let problem = carried.problem();
        let mut outcome = match &problem {
            Some(problem) => outcome_of(problem),
            None => Outcome::applied(desired.children.len(), desired.requeue),
        };
        if matches!(problem, Some(Problem::Writes(_))) {
            outcome.add_waiting_deletions(applied.kept_from_pruning);
        }
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
        let observed = || live.shared.records.with(&parent.key, |record| record.observed);
        let cause = || match deletions::cause(snapshot, phase, live.terms.shape, observed()) {
            cause if is_selected || cause == Cause::Deleted => cause,
            _ if live.caches.selects_namespace(parent) => Cause::LeftSelector,
            _ => Cause::LeftNamespaces,
        };
        let leavers = || live.with_children_in(parent.key.namespace.as_deref());
        // The guard may read much: the records of other parents stay accessible meanwhile. No other reconcile of this parent runs.
        let mut own = live.shared.records.with(&parent.key, Record::take_deletions);
        let deletions = plan.deletions();
        let (verdict, consequences) =
            live.shared.state.judge((&mut own, live.terms.guard), snapshot, cause, leavers, &deletions);
        if !own.is_empty() {
            live.shared.records.with(&parent.key, |record| record.put_deletions(own));
        }
        self.queue_consequences(live, consequences);
        let verdict = verdict?;
        plan.obey(&verdict);
        Some(match verdict.stop {
            Stop::PutOff => Problem::PutOff,
            Stop::ForLeader => {
                self.shards.leave_to_leader(&live.terms.name);
                self.plugins.add(&(), &live.terms.name, Trigger::Changed);
                Problem::PutOff
            }
            Stop::AtParent(blocked) => Problem::DeletionsBlocked(blocked),
            Stop::AtPlugin(_) => Problem::DeletionsBlockedAtPlugin(live.terms.name.clone()),
        })
    }

    /// Number of hosts that reconcile parents of the plugin.
    fn hosts_of(&self, live: &Live) -> usize {
        if live.shared.state.share().is_some() { self.shards.members() } else { 1 }
    }

    /// Queues the other parents, and the Plugin, that a decision about deletions concerns.
    pub(super) fn queue_consequences(&self, live: &Live, consequences: Consequences) {
        for parent in consequences.parents {
            self.parents.add(&live.terms.name, &parent, Trigger::Event);
        }
        if consequences.plugin {
            self.plugins.add(&(), &live.terms.name, Trigger::Changed);
        }
    }
}

/// How the values of a parent's children are compared with the desired ones.
struct Comparison<'a> {
    kept: &'a KeptValues,
    /// Children as the API server stored them after the last writes.
    stored: HashMap<Uid, Stored>,
    /// Whether all children are compared.
    compares: bool,
}

impl Comparison<'_> {
    /// The hash of the values of a child that must be changed, although managedFields show no change.
    fn differing(&self, live: &Object, child: &DesiredChild) -> Option<Digest> {
        let is_as_stored = self.stored.get(&live.uid).is_some_and(|stored| stored.is(live));
        let values = if self.compares || is_as_stored { plan::differing(live, child) } else { None }?;
        if is_as_stored && !plan::differs_in_metadata(live, child) {
            // This is what the API server makes of the desired values.
            self.kept.keep(&live.uid, &child.applied, values);
        }
        // An earlier apply could not change these values, because the API server or a webhook sets them.
        (!self.kept.holds(&live.uid, &child.applied, values)).then_some(values)
    }
}

/// Ends the reconcile of a parent whose children would be deleted, if the cache does not show the parent as it is: another host may have
/// blocked the deletions in its status.
async fn outdated(live: &Live, snapshot: &Snapshot) -> Option<Attempt> {
    match is_current(live, snapshot).await {
        Ok(true) => None,
        Ok(false) => Some(Attempt { silent: true, ..Attempt::from(&Problem::PutOff) }),
        Err(error) => {
            let unread = unread(&error, "before its children are deleted");
            Some(Attempt::from(&Problem::Writes(vec![(ChildId::of(&snapshot.parent), unread)])))
        }
    }
}

/// Remembers the live values that an apply could not change, so that it is not repeated, and the children as the API server stored them.
fn remember_values(live: &Live, parent: &ObjectKey, applied: &mut Applied) {
    let stored = std::mem::take(&mut applied.stored);
    if !stored.is_empty() {
        live.shared.records.with(parent, |record| record.put_stored(stored));
    }
    for (child, Kept { uid, applied, values, refused }) in &applied.kept {
        live.shared.records.kept_values.keep(uid, applied, *values);
        if let Some(message) = refused {
            tracing::warn!(plugin = %live.terms.name, object = %child, message, "live values differ from what is desired, and cannot be changed");
        }
    }
}

/// Whether the cache shows the parent as the API server does. Another host may just have handed it over, and have blocked
/// deletions in its status. If not, the watch shows the change, and the parent is reconciled again.
pub(super) async fn is_current(live: &Live, snapshot: &Snapshot) -> kube::Result<bool> {
    let parent = &snapshot.parent;
    let now = live.caches.parents.read(&parent.key).await?;
    Ok(now.is_some_and(|now| now.uid == parent.uid && now.resource_version <= parent.resource_version))
}

/// Why a reconcile goes no further: the parent could not be read, as is due before this.
pub(super) fn unread(error: &kube::Error, before: &str) -> WriteProblem {
    let message = format!("it cannot be read, and is read {before}: {}", plain(error));
    WriteProblem::Unavailable { message, retry_after: None }
}
