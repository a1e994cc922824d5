//! Calls a plugin with a snapshot: waits for a permit, sets the random seed, and counts the failures (rule R19).

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::{FutureExt, poll};
use tracing::Instrument;
use windlass_core::contract::snapshot::Snapshot;
use windlass_core::contract::{CallFailure, CallReport, Limits, Phase, PluginResult, Response};
use windlass_core::guard::quarantine::{Admission, QuarantineChange};
use windlass_core::reconcile::outcome::Problem;
use windlass_core::value::digest::Digest;
use windlass_delivery::has_one_thread;
use windlass_sandbox::{Ambient, run_here};

use super::journal::{Called, Journal};
use super::rng_seed::RngSeeds;
use super::spans;
use crate::clock;
use crate::live::Live;
use crate::live::call_slots::calls_at_once;
use crate::queue::Turn;

/// Guest time of a call, in microseconds, after which the worker lets other tasks use its thread.
const LONG: u64 = 500;

/// Called when a component enters or leaves quarantine.
pub type QuarantineListener = Box<dyn Fn(&Arc<Live>, QuarantineChange) + Send + Sync>;

/// Calls components.
pub struct Caller {
    quarantine_changed: QuarantineListener,
    /// Permits for the calls of all plugins that run at once.
    slots: tokio::sync::Semaphore,
    seeds: RngSeeds,
}

/// The result of a call that returned a response.
pub struct CallResult {
    /// The response.
    pub response: Response,
    /// Whether the same request would get the same response: the component read no wall clock.
    pub is_pure: bool,
}

impl Caller {
    /// A caller that takes the random seeds of calls from `seeds`.
    pub fn new(seeds: RngSeeds, quarantine_changed: QuarantineListener) -> Self {
        Self { quarantine_changed, slots: tokio::sync::Semaphore::new(calls_at_once()), seeds }
    }

    /// Calls the plugin with a snapshot, whose hash is `hash`; the call may take as long as `deadline`.
    ///
    /// # Errors
    /// If the component is in quarantine, the call fails, or the plugin returns a failure.
    pub(super) async fn call(
        &self,
        live: &Arc<Live>,
        snapshot: &Snapshot,
        (phase, turn, deadline): (Phase, &Turn<'_>, Duration),
        hash: &Digest,
        journal: &mut Journal,
    ) -> Result<CallResult, Problem> {
        let host_failed = |message: String| Problem::Call(CallFailure::Host { message });
        let ambient = Ambient { seed: self.seeds.of(hash), now: clock::date().into() };
        // The plugin's own permit first: a call that waits for it must not hold a permit that another plugin could use.
        let stopping = |_| host_failed("the host is stopping".to_owned());
        let namespace = snapshot.parent.key.namespace.as_ref();
        let _of_plugin = live.shared.call_slots.acquire(namespace).await.map_err(stopping)?;
        let _of_host = self.slots.acquire().await.map_err(stopping)?;
        // As late as possible: other calls may have failed while this one waited.
        let admission = live.shared.state.admit(&snapshot.parent);
        if let Admission::Denied(wait) = admission {
            return Err(Problem::Quarantined(wait));
        }
        let span = spans::call_span(live, hash, deadline);
        let (size, limit) = (snapshot.size(), live.terms.limits.request_bytes);
        let (result, report) = if size > limit {
            // Objects are packed in the caches and shared: a call that is not made must not unpack them.
            let report = CallReport { request_bytes: size, ..CallReport::default() };
            (Err(CallFailure::RequestTooLarge { size, limit }), report)
        } else {
            // Only now, because this unpacks the objects.
            let request = snapshot.request(phase);
            let limits = Limits { deadline, ..live.terms.limits.clone() };
            let call = live.component.reconcile(&request, &limits, ambient).instrument(span.clone());
            // A panic in the host's part of the call ends this call, and not the worker.
            let mut call = pin!(AssertUnwindSafe(call).catch_unwind());
            // The first poll would let a call that takes long wake this task.
            let first = if has_one_thread() { Poll::Ready(run_here(call.as_mut())) } else { poll!(call.as_mut()) };
            let called = match first {
                Poll::Ready(called) => called,
                // A long call may keep its thread busy up to the deadline: the runtime moves its other work to another
                // thread.
                Poll::Pending => {
                    turn.step_aside();
                    tokio::task::block_in_place(|| run_here(call))
                }
            };
            called.map_err(|_| host_failed("the call panicked; the log says where".to_owned()))?
        };
        clock::pass_call().await;
        if report.guest_time_us > LONG || has_one_thread() {
            // Calls follow each other without a wait, and other tasks have work on this thread.
            tokio::task::yield_now().await;
        }
        spans::record_call(&span, (live, &snapshot.parent.key), &result, &report);
        journal.note_call(Called { live, snapshot, phase, hash, now: ambient.now }, &result, &report);
        if let Some(change) = live.shared.state.note_call(&snapshot.parent, admission, &result) {
            (self.quarantine_changed)(live, change);
        }
        let result: PluginResult = result.map_err(Problem::Call)?;
        Ok(CallResult { response: result.map_err(Problem::Plugin)?, is_pure: !report.impure })
    }
}
