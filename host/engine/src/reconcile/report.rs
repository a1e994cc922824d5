//! Writes a parent's status if the outcome changes it, and passes events to the recorder. Reports only writes that were
//! sent.

use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use windlass_core::contract::Event;
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::guard::breaker::{Breaker, PACE, ParentRevision, StatusPass};
use windlass_core::object::child::ChildId;
use windlass_core::object::parent::ParentRef;
use windlass_core::reconcile::carry_out::status_written;
use windlass_core::reconcile::events::{Before, Changes, Note, Occasion, note};
use windlass_core::reconcile::outcome::{FinalizerEnd, Outcome, Problem, WriteProblem};
use windlass_core::reconcile::status;
use windlass_core::reconcile::world::{ApiRequest, World};
use windlass_core::reconcile::written::Written;
use windlass_core::value::json::Map;

use super::world::Cluster;
use crate::clock;
use crate::cluster::events::Recorder;
use crate::live::Live;

/// Writes the statuses of parents, and their events.
#[derive(Clone)]
pub struct Reporter {
    recorder: Recorder,
}

/// The result of reporting a status.
#[derive(Debug, Default)]
pub struct Reported {
    /// The write of the status, if it was executed, or may have been.
    pub written: Option<Written>,
    /// Why the write of the status failed, if it did.
    pub failed: Option<WriteProblem>,
    /// Time until the next reconcile, if the status was written too often (rule R18).
    pub again: Option<Duration>,
    /// The outcome that the status reports instead of the real one, if the status was written too often.
    pub instead: Option<Outcome>,
}

/// What one reconcile changed, for its events.
#[derive(Debug, Clone, Copy)]
pub struct Happened<'a> {
    /// The changes of children.
    pub changes: &'a Changes,
    /// The outcome of the reconcile.
    pub outcome: &'a Outcome,
    /// Whether the parent's status had to change.
    pub status_differs: bool,
    /// Whether the outcome is left out of the status, for good or for now. Then no event reports it either.
    pub silent: bool,
    /// The events of the response.
    pub events: &'a [Event],
    /// Whether all parents of the plugin are reconciled, and not this one alone.
    pub sweep: bool,
}

impl Reporter {
    /// Hands events to the recorder.
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder }
    }

    /// Emits events on the parent: the host's about changes, and those of the response. Never waits.
    pub fn emit(&self, live: &Live, snapshot: &Snapshot, happened: Happened<'_>) {
        let Happened { changes, outcome, status_differs, silent, events, sweep } = happened;
        let before = if silent {
            Before::Same
        } else {
            let has_conditions = live.terms.shape.subresource && live.terms.shape.conditions;
            self.recorder.before(&live.terms.name, &snapshot.parent.uid, outcome, || {
                match (has_conditions, status_differs) {
                    (false, _) => Before::unknown(outcome),
                    (true, true) => Before::in_status(&snapshot.parent, outcome),
                    (true, false) => Before::Same,
                }
            })
        };
        let own = note(snapshot, changes, &before, outcome);
        let occasion = match (status_differs || !changes.is_empty() || before != Before::Same, sweep) {
            (true, _) => Occasion::Changed,
            (false, true) => Occasion::Sweep,
            (false, false) => Occasion::Steady,
        };
        let notes = own.into_iter().chain(events.iter().map(Note::of_plugin)).collect();
        self.recorder.record(&live.terms.name, &snapshot.parent_ref, notes, occasion);
    }

    /// Emits the plugin's last events, and one that says why the parent's finalizer was removed.
    pub fn emit_finalized(&self, live: &Live, snapshot: &Snapshot, last_words: &[Event], why: &FinalizerEnd) {
        let notes = last_words.iter().map(Note::of_plugin).chain([Note::finalized(why)]).collect();
        let of_plugin = match why {
            // No event can be created in a terminating namespace.
            FinalizerEnd::NamespaceTerminating(_) => live.caches.peers.plugin(&live.terms.name),
            FinalizerEnd::CleanedUp | FinalizerEnd::Skipped | FinalizerEnd::Unneeded | FinalizerEnd::NotCalled => None,
        };
        let about = match of_plugin {
            Some(plugin) => ParentRef::of(&live.terms.name, &plugin, None),
            None => snapshot.parent_ref.clone(),
        };
        self.recorder.record(&live.terms.name, &about, notes, Occasion::Changed);
    }

    /// Writes the parent's status if the outcome changes it, and the breaker admits the write.
    pub async fn report(
        &self,
        world: Cluster<'_>,
        snapshot: &Snapshot,
        part: Option<&Map>,
        outcome: &Outcome,
        breaker: &Mutex<Breaker>,
    ) -> Reported {
        let parent = &snapshot.parent;
        let at = |outcome: &Outcome, now| status::next(parent, part, outcome, world.live.terms.shape, now);
        let next = |outcome: &Outcome| at(outcome, clock::date());
        let Some(changed) = next(outcome) else { return Reported::default() };
        let thrashing = || {
            let itself = ChildId::of(parent);
            Outcome { blocked: outcome.blocked, ..Outcome::from(&Problem::Thrashing(vec![(itself, PACE)])) }
        };
        let wanted = || {
            let says_all = next(&thrashing()).is_none();
            // With a fixed time, so that the time of a reconcile makes no difference.
            says_all.then(|| at(outcome, Timestamp::UNIX_EPOCH)).flatten()
        };
        let revision = ParentRevision::of(parent);
        let pass = breaker.lock().admit_status(revision, snapshot, wanted, clock::now());
        let (status, again, instead) = match pass {
            StatusPass::Write => (Some(changed), None, None),
            StatusPass::WriteThrashing => {
                let thrashing = thrashing();
                (next(&thrashing), Some(PACE), Some(thrashing))
            }
            StatusPass::Wait(wait) => (None, Some(wait), None),
        };
        let reported = Reported { written: None, failed: None, again, instead };
        let Some(status) = status else { return reported };
        let response = world.send(ApiRequest::Status { parent, status }).await;
        let (written, failed) = status_written(&world, parent, response);
        Reported { written, failed, ..reported }
    }
}

impl Reported {
    /// Whether the parent is gone, so that there is no status to write.
    pub fn is_gone(&self) -> bool {
        matches!(self.written, Some(Written::Past { .. }))
    }
}
