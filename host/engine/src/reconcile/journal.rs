//! Notes the calls and the end of one reconcile for the recent calls that the host keeps (`windlass explain`).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use opentelemetry::trace::TraceContextExt as _;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use windlass_core::contract::{CallFailure, CallReport, PluginResult};
use windlass_core::object::parent::ParentRef;
use windlass_core::reconcile::outcome::Requeue;
use windlass_core::reconcile::recent::{self, Decision, KeptResult, Reconciled};
use windlass_core::reconcile::world::{Call, Ended};
use windlass_core::value::ids::{ObjectKey, Uid};

use crate::clock;
use crate::live::Live;
use crate::queue::Trigger;
use crate::recent::Detail;

/// The outcome of a round after which the plugin is called again, with the related objects that it required.
const CALLED_AGAIN: &str = "CalledAgain";

/// What one reconcile did so far, as far as somebody wants it.
pub(super) struct Journal {
    wants: Detail,
    at: Timestamp,
    calls: Vec<recent::Call>,
    /// The parent that the outcome is about.
    parent: Option<ParentRef>,
    decision: Decision,
    /// Whether the decision is worth keeping without a call.
    is_notable: bool,
}

impl Journal {
    /// Begins a journal.
    pub fn new(wants: Detail) -> Self {
        let (calls, decision) = (Vec::new(), Decision::default());
        Self { wants, at: clock::date(), calls, parent: None, decision, is_notable: wants == Detail::All }
    }

    /// Notes a call at this time, and its result.
    pub fn note_call(
        &mut self,
        live: &Live,
        call: &Call<'_>,
        now: SystemTime,
        result: &Result<PluginResult, CallFailure>,
        report: &CallReport,
    ) {
        if self.wants == Detail::None {
            return;
        }
        let surface = live.component.surface();
        self.calls.push(recent::Call {
            snapshot: call.snapshot.clone(),
            phase: call.phase,
            hash: call.hash,
            component: surface.digest,
            contract: surface.contract.clone(),
            now: Timestamp::try_from(now).unwrap_or(self.at),
            limits: live.terms.limits.clone(),
            result: KeptResult::new(result),
            guest_time_us: report.guest_time_us,
            memory_peak: report.memory_peak,
            is_impure: report.impure,
        });
    }

    /// Notes how the reconcile ended.
    pub fn end(&mut self, ended: &Ended<'_>) {
        if self.wants != Detail::None {
            self.decision = ended.into();
            self.parent = ended.parent.cloned();
            self.is_notable |= ended.is_notable;
        }
    }

    /// Ends the journal: one entry for each call, or one without a call if the decision is worth keeping.
    pub fn close(
        self,
        live: &Live,
        key: &ObjectKey,
        trigger: Trigger,
        requeue: Requeue,
        duration: Duration,
    ) -> Vec<Reconciled> {
        let Self { wants, at, mut calls, parent, decision, is_notable } = self;
        let last = calls.pop();
        if wants == Detail::None || last.is_none() && !is_notable {
            return Vec::new();
        }
        let cached = || live.caches.parents.store.get(key).map(|cached| ParentRef::of(&live.terms.name, &cached, None));
        let known = last.as_ref().map(|call| call.snapshot.parent_ref.clone()).or(parent).or_else(cached);
        let parent = match known {
            Some(parent) => parent,
            // Of a parent that is gone, the name is left.
            None if wants == Detail::All => {
                let (plugin, kind) = (live.terms.name.clone(), live.terms.parents.clone());
                ParentRef { plugin, kind, key: key.clone(), uid: Uid::from(""), mark_key: None }
            }
            None => return Vec::new(),
        };
        let span = Span::current().context().span().span_context().clone();
        let trace = span.is_sampled().then(|| span.trace_id().to_string());
        let plural: Arc<str> = live.caches.parents.resource.plural.as_str().into();
        let entry = |call, decision, next| Reconciled {
            number: 0,
            parent: parent.clone(),
            plural: plural.clone(),
            at,
            trigger: trigger.as_str(),
            duration,
            trace: trace.clone(),
            call,
            is_call_omitted: false,
            decision,
            next,
            repeated: 0,
        };
        let again = || Decision { outcome: CALLED_AGAIN, ..Decision::default() };
        let rounds = calls.into_iter().map(|call| entry(Some(call), again(), None));
        rounds.chain([entry(last, decision, Some(requeue))]).collect()
    }
}
