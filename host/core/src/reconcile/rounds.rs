//! Calls a plugin until its response requires exactly the objects that it was given.

use std::collections::BTreeSet;

use super::outcome::Problem;
use crate::contract::related::{Need, Needs, Next, ReadProblem, Refusal, Rounds};
use crate::contract::snapshot::{Served, Snapshot};
use crate::contract::{Requirement, Response};

/// Who calls the plugin and finds what it requires: the host, or a command without one.
pub trait Ask {
    /// Calls the plugin with a snapshot.
    fn call(&mut self, snapshot: &Snapshot) -> impl Future<Output = Result<Response, Problem>> + Send;

    /// Resolves the requirements of a response against what the plugin may read.
    ///
    /// # Errors
    /// If it may not read all of it.
    fn resolve(&self, required: &[Requirement]) -> Result<Vec<Need>, Refusal>;

    /// Finds the required objects.
    fn serve(&mut self, needs: &Needs) -> impl Future<Output = Result<Vec<Served>, Problem>> + Send;
}

/// Calls the plugin with a snapshot, which has the objects of `rounds` already, and again with the objects that each response requires.
/// Returns the final response and its requirements; the snapshot is the one that the plugin responded to.
///
/// # Errors
/// If a call fails, or if the requirements are rejected, cannot be read or never settle.
pub async fn respond<A: Ask>(
    ask: &mut A,
    snapshot: &mut Snapshot,
    mut rounds: Rounds,
    request_bytes: u64,
) -> Result<(Response, Needs), Problem> {
    loop {
        let response = ask.call(snapshot).await?;
        let required = ask.resolve(&response.requirements).map_err(ReadProblem::from)?;
        let ids = |ids: &[String]| ids.iter().cloned().collect::<BTreeSet<_>>();
        match rounds
            .answered(required, response.http == snapshot.unsent || ids(&response.http) == ids(&snapshot.unsent))
        {
            Next::Final => return Ok((response, rounds.served().clone())),
            Next::Again => {
                snapshot.related = ask.serve(rounds.served()).await?;
                snapshot.unsent = response.http;
                snapshot.fit(request_bytes);
            }
            Next::Unsettled => return Err(ReadProblem::Unsettled.into()),
        }
    }
}
