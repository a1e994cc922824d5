//! Verdict → the parent's status, if it changed. Speaks only of what was written.

use std::time::{Duration, Instant};

use kube::Client;
use parking_lot::Mutex;
use windlass_core::breaker::{Breaker, PACE, StatusPass};
use windlass_core::json::Map;
use windlass_core::outcome::{Problem, Verdict, WriteProblem};
use windlass_core::plan::ChildId;
use windlass_core::snapshot::Snapshot;
use windlass_core::status;

use crate::apply::{problem_of, send, status_request};
use crate::live::Live;
use crate::pending::Written;

/// Writes the status of parents.
#[derive(Clone)]
pub struct Reporter {
    client: Client,
}

/// What became of a status.
#[derive(Debug, Default)]
pub struct Reported {
    /// The write, if one was needed and made.
    pub written: Option<Written>,
    /// When to look again, because it was written too often (rule R18).
    pub again: Option<Duration>,
}

impl Reporter {
    /// Writes with this client.
    pub fn new(client: Client) -> Self {
        Self { client }
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
        let next = |verdict: &Verdict| status::next(parent, part, verdict, live.shape, jiff::Timestamp::now());
        let Some(changed) = next(verdict) else { return Ok(Reported::default()) };
        let pass = breaker.lock().admit_status(snapshot, Instant::now());
        let (status, again) = match pass {
            StatusPass::Write => (Some(changed), None),
            StatusPass::WriteThrashing => {
                let itself = ChildId { kind: parent.kind.clone(), key: parent.key.clone() };
                let thrashing = Problem::Thrashing(vec![(itself, PACE)]);
                (next(&Verdict::from(&thrashing)), Some(PACE))
            }
            StatusPass::Wait(wait) => (None, Some(wait)),
        };
        let Some(status) = status else { return Ok(Reported { written: None, again }) };
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
            Ok(ack) => Ok(Reported { written: Some(ack.written(&parent.kind)), again }),
            Err(error) => match problem_of(&error) {
                // Gone, or another one of the same name: its own event follows.
                WriteProblem::Rejected { code: 404, .. } | WriteProblem::Outdated => Ok(Reported::default()),
                problem => Err(problem),
            },
        }
    }
}
