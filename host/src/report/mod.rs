//! Verdict → the parent's status, if it changed, and events. Speaks only of what was written.

mod events;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use windlass_core::breaker::{Breaker, PACE, StatusPass};
use windlass_core::contract::Event;
use windlass_core::events::{Before, Changes, Note, Occasion, note};
use windlass_core::json::Map;
use windlass_core::outcome::{Problem, Verdict, WriteProblem};
use windlass_core::plan::ChildId;
use windlass_core::snapshot::Snapshot;
use windlass_core::status;

use crate::apply::{problem_of, send, status_request};
use crate::live::Live;
use crate::pending::Written;
pub use events::Recorder;

/// Writes the status of parents, and has events written.
#[derive(Clone)]
pub struct Reporter {
    client: Client,
    recorder: Recorder,
}

/// What became of a status.
#[derive(Debug, Default)]
pub struct Reported {
    /// The write, if one was needed and made.
    pub written: Option<Written>,
    /// When to look again, because it was written too often (rule R18).
    pub again: Option<Duration>,
    /// What it says of that, instead of the verdict.
    pub instead: Option<Verdict>,
}

/// What one reconcile did, as far as events tell of it.
#[derive(Debug, Clone, Copy)]
pub struct Happened<'a> {
    /// What was done to children.
    pub changes: &'a Changes,
    /// How it ended.
    pub verdict: &'a Verdict,
    /// Whether the parent's status had to change.
    pub status_differs: bool,
    /// Whether nothing is to be said of how it ended.
    pub silent: bool,
    /// What the plugin wants told.
    pub events: &'a [Event],
    /// Whether the plugin was asked because it is asked about all its parents, and not because of this one.
    pub sweep: bool,
}

impl Reporter {
    /// Writes statuses with this client, and hands events to the recorder.
    pub fn new(client: Client, recorder: Recorder) -> Self {
        Self { client, recorder }
    }

    /// Has told on the parent what a person would want to know; at rest nothing. Never waits.
    pub fn tell(&self, live: &Live, snapshot: &Snapshot, happened: Happened<'_>) {
        let Happened { changes, verdict, status_differs, silent, events, sweep } = happened;
        let before = if silent {
            Before::Same
        } else if !(live.shape.subresource && live.shape.conditions) {
            self.recorder.before(&snapshot.parent.uid, verdict)
        } else if status_differs {
            Before::in_status(&snapshot.parent, verdict)
        } else {
            Before::Same
        };
        let own = note(snapshot, changes, &before, verdict);
        let occasion = match (status_differs || !changes.is_empty() || before != Before::Same, sweep) {
            (true, _) => Occasion::Changed,
            (false, true) => Occasion::Sweep,
            (false, false) => Occasion::AtRest,
        };
        let notes = own.into_iter().chain(events.iter().map(Note::of_plugin)).collect();
        self.recorder.record(&live.name, &snapshot.parent_ref, notes, occasion);
    }

    /// Has told that the parent's finalizer is gone, after what the plugin said last; `skipped` if a person asked for it to
    /// go without the plugin's word.
    pub fn tell_finalized(&self, live: &Live, snapshot: &Snapshot, last_words: &[Event], skipped: bool) {
        let notes = last_words.iter().map(Note::of_plugin).chain([Note::finalized(skipped)]).collect();
        self.recorder.record(&live.name, &snapshot.parent_ref, notes, Occasion::Changed);
    }

    /// Brings the parent's status to what the verdict says, if the breaker lets it.
    ///
    /// # Errors
    /// The API server's refusal. A parent that is gone meanwhile is none.
    pub async fn report(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        part: Option<&Map>,
        verdict: &Verdict,
        breaker: &Mutex<Breaker>,
    ) -> Result<Reported, WriteProblem> {
        let parent = &snapshot.parent;
        let at = |verdict: &Verdict, now| status::next(parent, part, verdict, live.shape, now);
        let next = |verdict: &Verdict| at(verdict, Timestamp::now());
        let Some(changed) = next(verdict) else { return Ok(Reported::default()) };
        let thrashing = || {
            let itself = ChildId { kind: parent.kind.clone(), key: parent.key.clone() };
            Verdict::from(&Problem::Thrashing(vec![(itself, PACE)]))
        };
        let wish = || {
            let says_all = next(&thrashing()).is_none();
            // At a time that stands still: that of a look makes no other wish.
            says_all.then(|| at(verdict, Timestamp::UNIX_EPOCH)).flatten()
        };
        let pass = breaker.lock().admit_status(snapshot, wish, Instant::now());
        let (status, again, instead) = match pass {
            StatusPass::Write => (Some(changed), None, None),
            StatusPass::WriteThrashing => {
                let thrashing = thrashing();
                (next(&thrashing), Some(PACE), Some(thrashing))
            }
            StatusPass::Wait(wait) => (None, Some(wait), None),
        };
        let Some(status) = status else { return Ok(Reported { written: None, again, instead }) };
        let request = status_request(&live.parents.resource, parent, status)?;
        let answer = send(&self.client, request).await;
        let code = if answer.is_ok() { 200 } else { 0 };
        tracing::info!(
            target: crate::telemetry::AUDIT,
            plugin = %live.name,
            digest = %live.digest().short(),
            verb = "apply",
            object = %format_args!("{}/status", snapshot.parent_ref),
            code,
            reason = verdict.reason,
            "write"
        );
        match answer {
            Ok(ack) => Ok(Reported { written: Some(ack.parent()), again, instead }),
            Err(error) => match problem_of(&error) {
                // Gone, or another one of the same name: its own event follows.
                WriteProblem::Rejected { code: 404, .. } | WriteProblem::Outdated => Ok(Reported::default()),
                problem => Err(problem),
            },
        }
    }
}
