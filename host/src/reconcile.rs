//! One reconcile of one parent, step by step: own writes seen → observe → call → validate → plan → apply → report.
//!
//! Every step reads what the ones before it left; only `apply` and `report` can reach the API server, and neither
//! decides.

use std::sync::Arc;

use tracing::Instrument;
use tracing::field::Empty;
use windlass_core::contract::{Answer, Phase, Response};
use windlass_core::desired::{self, Desired, DesiredChild};
use windlass_core::digest::Digest;
use windlass_core::ids::PluginName;
use windlass_core::outcome::{Problem, Requeue, Verdict, WriteProblem};
use windlass_core::plan::{Plan, Write, plan};
use windlass_core::snapshot::Snapshot;
use windlass_sandbox::registry::Registry;

use crate::apply::Applier;
use crate::live::{Live, ParentKey, cores};
use crate::observe::observe;
use crate::pending::{OwnWrites, Written};
use crate::queue::Job;
use crate::report::Reporter;
use crate::telemetry::{self, TRACE};

/// All that a reconcile needs.
pub struct Reconciler {
    registry: Registry<Live>,
    own_writes: OwnWrites,
    applier: Applier,
    reporter: Reporter,
    /// Guests that run at once.
    call_slots: tokio::sync::Semaphore,
    /// Makes the random numbers of guests unpredictable from outside.
    secret: [u8; 32],
}

/// How far one reconcile came.
struct Attempt {
    /// The plugin's part of the status, if it gave one.
    part: Option<windlass_core::json::Map>,
    written: Vec<Written>,
    verdict: Verdict,
}

impl Reconciler {
    /// With the plugins of a registry and the hands that may write.
    pub fn new(registry: Registry<Live>, applier: Applier, reporter: Reporter, secret: [u8; 32]) -> Self {
        Self {
            registry,
            own_writes: OwnWrites::default(),
            applier,
            reporter,
            call_slots: tokio::sync::Semaphore::new(cores()),
            secret,
        }
    }

    /// Reconciles one parent and says when to come back, and the plugin's resync interval.
    pub async fn reconcile(&self, job: &Job<PluginName, ParentKey>) -> (Requeue, std::time::Duration) {
        let Some(live) = self.registry.get(&job.group) else {
            // Publishing a plugin queues all its parents.
            return (Requeue::WhenChanged, std::time::Duration::MAX);
        };
        let span = tracing::debug_span!(
            target: TRACE,
            "reconcile",
            windlass.plugin = %job.group,
            k8s.namespace.name = job.key.namespace.as_deref().unwrap_or_default(),
            windlass.parent.kind = &*live.parents.id.kind.kind,
            windlass.parent.name = &*job.key.name,
            windlass.parent.uid = Empty,
            windlass.parent.generation = Empty,
            windlass.trigger = job.trigger.as_str(),
            windlass.outcome = Empty,
            windlass.requeue_ms = Empty,
        );
        let requeue = self.steps(&live, job).instrument(span.clone()).await;
        if let Requeue::Pause(delay) | Requeue::After(delay) | Requeue::Backoff(delay) | Requeue::Settled(Some(delay)) =
            requeue
        {
            span.record("windlass.requeue_ms", telemetry::int(delay.as_millis()));
        }
        (requeue, live.resync)
    }

    async fn steps(&self, live: &Arc<Live>, job: &Job<PluginName, ParentKey>) -> Requeue {
        let span = tracing::Span::current();
        if let Some(wait) = self.own_writes.wait(live, &job.key) {
            span.record("windlass.outcome", "waiting_for_own_writes");
            return Requeue::Pause(wait);
        }
        let Some(snapshot) = telemetry::observed(|| observe(live, &job.key)) else {
            self.own_writes.forget(&job.group, &job.key);
            span.record("windlass.outcome", "gone");
            return Requeue::WhenChanged;
        };
        span.record("windlass.parent.uid", snapshot.parent.uid.as_str());
        span.record("windlass.parent.generation", snapshot.parent.generation);
        if snapshot.parent.deleting {
            // Its children are the garbage collector's (rule R15).
            span.record("windlass.outcome", "deleting");
            return Requeue::WhenChanged;
        }
        let attempt = self.attempt(live, &snapshot).await;
        span.record("windlass.outcome", attempt.verdict.reason);
        if !attempt.verdict.applied {
            tracing::warn!(
                plugin = %job.group,
                object = %snapshot.parent_ref,
                reason = attempt.verdict.reason,
                message = %telemetry::one_line(&attempt.verdict.message),
                "reconcile failed"
            );
        }
        self.finish(live, &snapshot, attempt).await
    }

    /// Everything up to the status: what the plugin wants, and what of it came to be.
    async fn attempt(&self, live: &Arc<Live>, snapshot: &Snapshot) -> Attempt {
        let desired = match self.desired(live, snapshot).await {
            Ok(desired) => desired,
            Err(problem) => return Attempt { part: None, written: Vec::new(), verdict: Verdict::from(&problem) },
        };
        let plan = telemetry::planned(|| {
            let mut plan = plan(snapshot, &desired);
            plan.put_off_creates(|child| is_held_by_predecessor(live, snapshot, child));
            plan
        });
        let terminating = being_deleted(&plan);
        let applied = if plan.is_empty() {
            crate::apply::Applied::default()
        } else {
            self.applier.apply(live, plan).instrument(tracing::debug_span!(target: TRACE, "apply")).await
        };
        let verdict = if !applied.problems.is_empty() {
            Verdict::from(&Problem::Writes(applied.problems))
        } else if !terminating.is_empty() {
            Verdict::from(&Problem::Terminating(terminating))
        } else {
            Verdict::applied(desired.children.len(), desired.requeue)
        };
        Attempt { part: desired.status, written: applied.written, verdict }
    }

    async fn desired(&self, live: &Arc<Live>, snapshot: &Snapshot) -> Result<Desired, Problem> {
        let response = self.call(live, snapshot).await?;
        desired::validate(&response, &snapshot.parent_ref, &live.grants, &live.limits).map_err(Problem::Refused)
    }

    async fn call(&self, live: &Arc<Live>, snapshot: &Snapshot) -> Result<Response, Problem> {
        let host_failed = |message: String| Problem::Call(windlass_core::contract::CallFailure::Host { message });
        let hash = snapshot.hash(
            &live.component.surface().contract,
            &live.digest(),
            Phase::Sync,
            live.grants.kinds().into_iter(),
        );
        let seed = self.seed(&hash);
        let request = snapshot.request(Phase::Sync);
        // The plugin's own slot first: who waits for it must not hold one that a neighbour could use.
        let stopping = |_| host_failed("the host is stopping".to_owned());
        let _of_plugin = live.call_slots.acquire().await.map_err(stopping)?;
        let _of_host = self.call_slots.acquire().await.map_err(stopping)?;
        let span = telemetry::call_span(live, &hash);
        let (owned, call_span) = (live.clone(), span.clone());
        // On a thread of its own: a guest may keep it busy up to the deadline. The call is never cancelled.
        let call = tokio::task::spawn_blocking(move || {
            let _entered = call_span.enter();
            owned.component.reconcile(&request, &owned.limits, seed)
        });
        let (answer, report) = call.await.map_err(|error| host_failed(error.to_string()))?;
        telemetry::record_call(&span, live, &answer, &report);
        let answer: Answer = answer.map_err(Problem::Call)?;
        answer.map_err(Problem::Plugin)
    }

    /// Writes the status and remembers what was written, so that the next decision waits for it.
    async fn finish(&self, live: &Live, snapshot: &Snapshot, attempt: Attempt) -> Requeue {
        let Attempt { part, mut written, mut verdict } = attempt;
        let span = tracing::debug_span!(target: TRACE, "report", windlass.status_written = Empty);
        let mut reported = self.reporter.report(live, snapshot, part.as_ref(), &verdict).instrument(span.clone()).await;
        if let (Some(_), Err(WriteProblem::Rejected { message, .. })) = (&part, &reported) {
            // What the plugin says of itself does not fit the kind: the host's part must not be lost with it.
            verdict = Verdict::from(&Problem::StatusRejected(message.clone()));
            reported = self.reporter.report(live, snapshot, None, &verdict).instrument(span.clone()).await;
        }
        span.record("windlass.status_written", matches!(reported, Ok(Some(_))));
        let requeue = match reported {
            Ok(status) => {
                written.extend(status);
                verdict.requeue
            }
            Err(problem) => {
                let child = windlass_core::plan::ChildId {
                    kind: snapshot.parent.kind.clone(),
                    key: snapshot.parent.key.clone(),
                };
                let failed = Verdict::from(&Problem::Writes(vec![(child, problem)]));
                tracing::warn!(object = %snapshot.parent_ref, message = failed.message, "status was not written");
                failed.requeue
            }
        };
        self.own_writes.add(&live.name, &snapshot.parent.key, written);
        requeue
    }

    /// Seed of a call's random numbers: the same for the same snapshot, and unknown outside.
    fn seed(&self, snapshot: &Digest) -> [u8; 32] {
        let mut input = self.secret.to_vec();
        input.extend_from_slice(snapshot.as_bytes());
        *Digest::of(&input).as_bytes()
    }
}

/// Whether a child's name is held by a child of an earlier parent of this name, which the garbage collector has not
/// reached yet. Its end is an event (see [`crate::triggers`]).
fn is_held_by_predecessor(live: &Live, snapshot: &Snapshot, child: &DesiredChild) -> bool {
    live.child_watch(&child.kind)
        .and_then(|watch| watch.store.get(&child.key))
        .is_some_and(|found| found.is_left_by_predecessor_of(&snapshot.parent_ref))
}

/// Children whose deletion must end before they can be as wanted.
fn being_deleted(plan: &Plan) -> Vec<windlass_core::plan::ChildId> {
    let replaced = plan.writes.iter().filter_map(|write| match write {
        Write::Replace(delete) => Some(delete.child.clone()),
        Write::Create(_) | Write::Apply { .. } => None,
    });
    plan.terminating.iter().cloned().chain(replaced).collect()
}
