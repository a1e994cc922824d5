//! Sends writes that do not depend on each other, in parallel, and stops after a failure that concerns all of them.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;

use super::applied::{Applied, WriteResult};
use crate::object::child::ChildId;

/// Largest number of concurrent writes for one parent: enough to hide the round trip, few enough that a parent with a
/// thousand children leaves room for others.
const PARALLEL_WRITES: usize = 8;

/// Sends writes that do not depend on each other. After a failure that is not the child's own, no further write begins:
/// a thousand writes to an overloaded API server, or behind a webhook that does not respond, would occupy a worker for
/// hours.
pub(super) async fn send_wave<F>(applied: &mut Applied, mut writes: impl Iterator<Item = F>)
where
    F: Future<Output = (ChildId, WriteResult)>,
{
    let stopped = AtomicBool::new(false);
    let writes = std::iter::from_fn(|| if stopped.load(Ordering::Relaxed) { None } else { writes.next() });
    let mut results = pin!(futures::stream::iter(writes).buffer_unordered(PARALLEL_WRITES));
    while let Some((child, result)) = results.next().await {
        if result.as_ref().is_err_and(|failed| !failed.problem.is_childs_own()) {
            stopped.store(true, Ordering::Relaxed);
        }
        applied.add(child, result);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use super::super::applied::{Effect, Wrote};
    use super::super::outcome::{Rejection, WriteProblem};
    use super::*;
    use crate::value::ids::{Gvk, ObjectKey};

    /// Sends a wave of a hundred writes whose third fails so, and counts how many are begun.
    async fn begun(problem: WriteProblem) -> (usize, Applied) {
        let begun = Cell::new(0);
        let write = |at: usize| {
            let (begun, problem) = (&begun, problem.clone());
            async move {
                begun.set(begun.get() + 1);
                tokio::task::yield_now().await;
                let key = ObjectKey::new(Some("n"), &format!("a{at}"));
                let child = ChildId { kind: Arc::new(Gvk::from_api_version("v1", "Pod")), key };
                (child, if at == 3 { Err(problem.into()) } else { Ok(Wrote::new(Effect::Created, None)) })
            }
        };
        let mut applied = Applied::default();
        send_wave(&mut applied, (0..100).map(write)).await;
        (begun.get(), applied)
    }

    #[tokio::test]
    async fn r13_wave_stops_at_the_first_failure_that_is_not_the_childs_own() {
        let unavailable = WriteProblem::Unavailable { message: "timeout".to_owned(), retry_after: None };
        for problem in [unavailable, WriteProblem::CacheBehind] {
            let (begun, applied) = begun(problem.clone()).await;
            assert!(begun < 3 * PARALLEL_WRITES, "{problem:?}: {begun}");
            assert_eq!(applied.problems.len(), 1);
            assert_eq!(applied.changes.created.len(), begun - 1, "every write that began was completed");
        }
        let rejected = WriteProblem::Rejected { code: 422, message: "no".to_owned(), rejection: Rejection::Other };
        for problem in [rejected, WriteProblem::Taken(None), WriteProblem::Outdated] {
            assert_eq!(begun(problem.clone()).await.0, 100, "{problem:?}");
        }
    }
}
