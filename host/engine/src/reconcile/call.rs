//! Calls a plugin: waits for a permit, sets the random seed, and records the result.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures::{FutureExt, poll};
use parking_lot::Mutex;
use tracing::Instrument;
use windlass_core::contract::{CallFailure, CallReport, Limits, PluginResult};
use windlass_core::reconcile::world::{Call, Called, Permit};
use windlass_delivery::has_one_thread;
use windlass_sandbox::{Ambient, run_here};

use super::journal::Journal;
use super::rng_seed::RngSeeds;
use super::spans;
use crate::clock;
use crate::live::Live;
use crate::live::call_slots::calls_at_once;
use crate::queue::Turn;

/// Guest time of a call, in microseconds, after which the worker lets other tasks use its thread.
const LONG: u64 = 500;

/// Calls components.
pub struct Caller {
    /// Permits for the calls of all plugins that run at once.
    slots: tokio::sync::Semaphore,
    seeds: RngSeeds,
}

impl Caller {
    /// A caller that takes the random seeds of calls from `seeds`.
    pub fn new(seeds: RngSeeds) -> Self {
        Self { slots: tokio::sync::Semaphore::new(calls_at_once()), seeds }
    }

    /// Waits until the plugin may be called for a parent in this namespace.
    ///
    /// # Errors
    /// If the host is stopping.
    pub(super) async fn permit<'a>(
        &'a self,
        live: &'a Live,
        namespace: Option<&Arc<str>>,
    ) -> Result<Permit<'a>, CallFailure> {
        let stopping = |_| host_failed("the host is stopping");
        // The plugin's own permit first: a call that waits for it must not hold a permit that another plugin could use.
        let of_plugin = live.calls.slots.acquire(namespace).await.map_err(stopping)?;
        let of_host = self.slots.acquire().await.map_err(stopping)?;
        Ok(Box::new((of_plugin, of_host)))
    }

    /// Calls the plugin.
    pub(super) async fn call(&self, live: &Live, call: Call<'_>, turn: &Turn<'_>, journal: &Mutex<Journal>) -> Called {
        let ambient = Ambient { seed: self.seeds.of(&call.hash), now: clock::date().into() };
        let span = spans::call_span(live, &call);
        let (size, limit) = (call.snapshot.size(), live.terms.limits.request_bytes);
        let (result, report) = if size > limit {
            // Objects are packed in the caches and shared: a call that is not made must not unpack them.
            let report = CallReport { request_bytes: size, ..CallReport::default() };
            (Err(CallFailure::RequestTooLarge { size, limit }), report)
        } else {
            run(live, &call, ambient, turn).instrument(span.clone()).await
        };
        clock::pass_call().await;
        if report.guest_time_us > LONG || has_one_thread() {
            // Calls follow each other without a wait, and other tasks have work on this thread.
            tokio::task::yield_now().await;
        }
        spans::record_call(&span, live, &call.snapshot.parent.key, &result, &report);
        journal.lock().note_call(live, &call, ambient.now, &result, &report);
        Called { result, is_pure: !report.impure }
    }
}

async fn run(
    live: &Live,
    &Call { snapshot, phase, deadline, .. }: &Call<'_>,
    ambient: Ambient,
    turn: &Turn<'_>,
) -> (Result<PluginResult, CallFailure>, CallReport) {
    // Only now, because this unpacks the objects.
    let request = snapshot.request(phase);
    let limits = Limits { deadline, ..live.terms.limits.clone() };
    let call = live.component.reconcile(&request, &limits, ambient);
    // A panic in the host's part of the call ends this call, and not the worker.
    let mut call = pin!(AssertUnwindSafe(call).catch_unwind());
    // The first poll would let a call that takes long wake this task.
    let first = if has_one_thread() { Poll::Ready(run_here(call.as_mut())) } else { poll!(call.as_mut()) };
    let called = match first {
        Poll::Ready(called) => called,
        // A long call may keep its thread busy up to the deadline: the runtime moves its other work to another thread.
        Poll::Pending => {
            turn.step_aside();
            tokio::task::block_in_place(|| run_here(call))
        }
    };
    called.unwrap_or_else(|_| (Err(host_failed("the call panicked; the log says where")), CallReport::default()))
}

fn host_failed(message: &str) -> CallFailure {
    CallFailure::Host(message.to_owned())
}
