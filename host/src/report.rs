//! Verdict → the parent's status, if it changed. Speaks only of what was written.

use kube::Client;
use windlass_core::json::Map;
use windlass_core::outcome::{Verdict, WriteProblem};
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

impl Reporter {
    /// Writes with this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Brings the parent's status to what the verdict says; answers with the write, if one was needed.
    ///
    /// # Errors
    /// The API server's refusal. A parent that is gone meanwhile is none.
    pub async fn report(
        &self,
        live: &Live,
        snapshot: &Snapshot,
        part: Option<&Map>,
        verdict: &Verdict,
    ) -> Result<Option<Written>, WriteProblem> {
        let parent = &snapshot.parent;
        let Some(next) = status::next(parent, part, verdict, live.shape, jiff::Timestamp::now()) else {
            return Ok(None);
        };
        let request = status_request(&live.parents.resource, parent, next)?;
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
            Ok(ack) => Ok(Some(ack.written(&parent.kind))),
            Err(error) => match problem_of(&error) {
                // Gone, or another one of the same name: its own event follows.
                WriteProblem::Rejected { code: 404, .. } | WriteProblem::Outdated => Ok(None),
                problem => Err(problem),
            },
        }
    }
}
