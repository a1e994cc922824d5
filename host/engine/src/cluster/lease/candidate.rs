//! A host that waits for the Lease, or exits because another host holds it.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use tokio_util::sync::CancellationToken;
use windlass_core::hosts::lease::{LeaseState, Observations, Step, Timing, WhileHeld};

use super::holder::HeldLease;
use super::identity::Instance;
use super::leases::{Leases, Refusal};
use super::{Election, NAME, NotHolder, WriteGate};
use crate::clock;

/// Time between two log lines about the same problem.
const PROGRESS: Duration = Duration::from_secs(5);

/// A host without the Lease.
pub struct Candidate {
    leases: Leases,
    election: Election,
    instance: Arc<Instance>,
    gate: WriteGate,
    observed: Observations,
    /// The holder of the last log line, which is not repeated.
    logged_holder: Option<String>,
    /// When a problem was logged last.
    logged_problem: Option<Instant>,
}

/// Result of one look at the Lease.
enum Attempt {
    Acquired { lease: Box<Lease>, transitions: i32 },
    Wait { holder: String, expires_in: Duration },
    Refuse { holder: String, expires_in: Duration },
}

impl Candidate {
    /// A host with this identity, which opens the gate while it holds the Lease.
    pub fn new(client: Client, namespace: &str, election: Election, instance: Arc<Instance>, gate: WriteGate) -> Self {
        Self {
            leases: Leases::new(client, namespace, NAME, election.timing),
            election,
            instance,
            gate,
            observed: Observations::default(),
            logged_holder: None,
            logged_problem: None,
        }
    }

    /// Acquires the Lease, and waits for it while another host holds it. Calls `standing_by` once, before the first
    /// wait. Returns none if `stop` is cancelled meanwhile.
    ///
    /// # Errors
    /// If another host holds the Lease, and this one does not stand by.
    pub async fn acquire(
        mut self,
        standing_by: impl FnOnce(),
        stop: &CancellationToken,
    ) -> Result<Option<HeldLease>, NotHolder> {
        let mut found = self.leases.get().await;
        let mut standing_by = Some(standing_by);
        // Polls do not notice at once that the holder released the Lease.
        let mut changes = pin!(self.leases.changes());
        loop {
            let pause = match self.attempt(found).await {
                Ok(Attempt::Acquired { lease, transitions }) => {
                    let gate = self.gate.leader;
                    return Ok(Some(HeldLease::new(self.leases, self.instance, gate, *lease, transitions)));
                }
                Ok(Attempt::Refuse { holder, expires_in }) => {
                    return Err(NotHolder::Refused { namespace: self.leases.namespace, holder, expires_in });
                }
                Ok(Attempt::Wait { holder, expires_in }) => {
                    self.log_wait(&holder);
                    self.jittered_retry().min(expires_in)
                }
                Err(problem) => {
                    self.log_problem(&problem);
                    self.jittered_retry()
                }
            };
            if let Some(standing_by) = standing_by.take()
                && self.election.while_held == WhileHeld::StandBy
            {
                standing_by();
            }
            found = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(None),
                Some(Ok(lease)) = changes.next() => Ok(lease),
                () = tokio::time::sleep(pause) => self.leases.get().await,
            };
        }
    }

    /// Acquires the Lease in this state, if that is allowed. The error says why it cannot be read or written.
    async fn attempt(&mut self, found: Result<Option<Lease>, String>) -> Result<Attempt, String> {
        let found = found?;
        let sent = clock::since_boot();
        let (lease_now, version) = match &found {
            Some(lease) => (self.leases.read(lease), lease.metadata.resource_version.clone()),
            // A Lease that this host saw and that is gone was deleted by another client: its holder may still write.
            None if self.observed.has_seen_one() => (LeaseState::deleted(self.election.timing.lease_duration), None),
            None => (LeaseState::default(), None),
        };
        let silent = self.observed.note(version.as_deref(), sent);
        let holder = lease_now.holder.clone().unwrap_or_default();
        let own = &self.instance.identity;
        match lease_now.step(own, clock::date(), &self.observed, silent, self.election.while_held) {
            Step::Wait { expires_in } => return Ok(Attempt::Wait { holder, expires_in }),
            Step::Refuse { expires_in } => return Ok(Attempt::Refuse { holder, expires_in }),
            Step::Take => {}
        }
        let transitions = found.and_then(|lease| lease.spec?.lease_transitions).unwrap_or_default();
        let is_new = holder != own.to_string();
        let transitions = transitions.saturating_add(i32::from(is_new));
        let spec = self.leases.spec(own.to_string(), Some(clock::date()), transitions);
        match self.leases.write(version, spec, None).await {
            Ok(lease) => {
                self.gate.leader.open_until(sent + self.election.timing.renew_deadline);
                let namespace = &self.leases.namespace;
                tracing::info!(%namespace, name = NAME, holder = %own, "Lease acquired");
                Ok(Attempt::Acquired { lease: Box::new(lease), transitions })
            }
            // Another host wrote the Lease first, or it is gone: read it again.
            Err(Refusal::Outdated) => {
                Ok(Attempt::Wait { holder: String::new(), expires_in: Duration::from_millis(100) })
            }
            Err(Refusal::Other(message)) => Err(message),
        }
    }

    fn jittered_retry(&self) -> Duration {
        self.election.timing.retry_period.mul_f64(1.0 + Timing::JITTER * fastrand::f64())
    }

    /// Logs the holder, unless it was logged before.
    fn log_wait(&mut self, holder: &str) {
        let namespace = &self.leases.namespace;
        if holder.is_empty() || self.logged_holder.as_deref() == Some(holder) {
            return;
        }
        match self.election.while_held {
            WhileHeld::StandBy => {
                tracing::info!(%namespace, name = NAME, holder, "standing by: another host holds the Lease");
            }
            WhileHeld::Exit => tracing::warn!(
                %namespace, name = NAME, holder,
                "the holder of the Lease may have ended: waiting until the Lease expires or is renewed"
            ),
        }
        self.logged_holder = Some(holder.to_owned());
    }

    fn log_problem(&mut self, problem: &str) {
        if self.logged_problem.is_some_and(|logged| clock::since(logged) < PROGRESS) {
            return;
        }
        let namespace = &self.leases.namespace;
        tracing::warn!(
            "Lease {namespace}/{NAME} cannot be taken yet: {problem}. The host's permissions are printed by `windlass generate \
             rbac --namespace {namespace}`"
        );
        self.logged_problem = Some(clock::now());
    }
}
