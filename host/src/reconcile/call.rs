//! Snapshot → the plugin's answer: whose turn it is, the random numbers it gets, and what becomes of logic that breaks
//! every time (rule R19).

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures::{FutureExt, poll};
use tracing::Instrument;
use windlass_core::contract::{Answer, CallFailure, CallReport, Phase, Response};
use windlass_core::digest::Digest;
use windlass_core::outcome::Problem;
use windlass_core::quarantine::{Admission, Change};
use windlass_core::snapshot::Snapshot;
use windlass_sandbox::{Ambient, run_here};

use super::spans;
use crate::live::{Live, calls_at_once};
use crate::queue::Turn;
use crate::reconcile::rng_seed::RngSeeds;

/// A call that took so many microseconds has kept its thread from other work for long enough.
const LONG: u64 = 500;

/// Told when the logic of a plugin enters or leaves quarantine.
pub type QuarantineListener = Box<dyn Fn(&Arc<Live>, Change) + Send + Sync>;

/// Runs guests.
pub struct Caller {
    quarantine_changed: QuarantineListener,
    /// Guests that run at once.
    slots: tokio::sync::Semaphore,
    seeds: RngSeeds,
}

/// An answer, and whether it depended on its request alone.
pub struct Answered {
    /// What the plugin said.
    pub response: Response,
    /// Whether the same request would get the same answer.
    pub pure: bool,
}

impl Caller {
    /// With what this host seeds random numbers by.
    pub fn new(seeds: RngSeeds, quarantine_changed: QuarantineListener) -> Self {
        Self { quarantine_changed, slots: tokio::sync::Semaphore::new(calls_at_once()), seeds }
    }

    /// Asks the plugin what follows from a snapshot; `hash` is the snapshot's.
    ///
    /// # Errors
    /// The host's verdict on the call, or the plugin's own failure.
    pub async fn call(
        &self,
        live: &Arc<Live>,
        snapshot: &Snapshot,
        phase: Phase,
        hash: &Digest,
        turn: &Turn<'_>,
    ) -> Result<Answered, Problem> {
        let host_failed = |message: String| Problem::Call(CallFailure::Host { message });
        let seed = self.seeds.of(hash);
        // The plugin's own slot first: who waits for it must not hold one that a neighbour could use.
        let stopping = |_| host_failed("the host is stopping".to_owned());
        let _of_plugin = live.call_slots.acquire().await.map_err(stopping)?;
        let _of_host = self.slots.acquire().await.map_err(stopping)?;
        // Asked as late as possible: what waited for a slot may have heard of the failures meanwhile.
        let admission = live.state.admit(&snapshot.parent);
        if let Admission::Denied(wait) = admission {
            return Err(Problem::Quarantined(wait));
        }
        let span = spans::call_span(live, hash);
        let (size, limit) = (snapshot.size(), live.limits.request_bytes);
        let (answer, report) = if size > limit {
            // The caches hold it packed, and one object for all who are shown it: it would be unpacked for nothing.
            let report = CallReport { request_bytes: size, ..CallReport::default() };
            (Err(CallFailure::RequestTooLarge { size, limit }), report)
        } else {
            // Now, and not while it waited: it unpacks what the caches hold packed.
            let request = snapshot.request(phase);
            let call = live.component.reconcile(&request, &live.limits, Ambient::now(seed)).instrument(span.clone());
            // A panic in the host's part of the call must cost this answer, and not the worker.
            let mut call = pin!(AssertUnwindSafe(call).catch_unwind());
            let called = match poll!(call.as_mut()) {
                Poll::Ready(called) => called,
                // A long one may keep its thread busy up to the deadline: other work goes on on another.
                Poll::Pending => {
                    turn.step_aside();
                    tokio::task::block_in_place(|| run_here(call))
                }
            };
            called.map_err(|_| host_failed("the call panicked; the log says where".to_owned()))?
        };
        if report.guest_time_us > LONG {
            // Calls follow on each other without a wait between them, and others have work on this thread.
            tokio::task::yield_now().await;
        }
        spans::record_call(&span, (live, &snapshot.parent.key), &answer, &report);
        if let Some(change) = live.state.record(&snapshot.parent, admission, &answer) {
            (self.quarantine_changed)(live, change);
        }
        let answer: Answer = answer.map_err(Problem::Call)?;
        Ok(Answered { response: answer.map_err(Problem::Plugin)?, pure: !report.impure })
    }
}
