//! The host that holds the Lease: renews it, and releases it at the end.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::NotHolder;
use super::gate::GatePart;
use super::identity::Instance;
use super::leases::{Leases, Refusal};
use crate::clock;

/// The Lease that this host holds.
pub struct HeldLease {
    leases: Leases,
    instance: Arc<Instance>,
    /// The part of the host's gate that this Lease opens.
    gate: GatePart,
    /// What the holder of a shard tells the other hosts: written at once if it wakes the receiver, otherwise with the
    /// next renewal.
    pub(in crate::cluster) announcement: Option<watch::Receiver<String>>,
    /// Number of changes of the holder up to this host.
    transitions: i32,
    /// When this host acquired the Lease, as the API server stored it.
    acquired: Option<MicroTime>,
    /// The last seen state of the Lease; none if it must be read again.
    lease: Option<Lease>,
}

/// Whether the Lease is released or expires when the host stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Released: no request is in flight, so another host may start at once.
    Release,
    /// Left to expire: requests may be in flight, so another host must wait for the expiry.
    Expire,
}

/// Why a renewal failed.
enum Failure {
    /// Another host holds the Lease, or held it meanwhile.
    Lost(String),
    /// The Lease was not written, or not read; the renewal is retried.
    Refused(Refusal),
}

impl HeldLease {
    /// A Lease that this host has just acquired, as the API server stored it, with this number of changes of the holder.
    pub(in crate::cluster) fn new(
        leases: Leases,
        instance: Arc<Instance>,
        gate: GatePart,
        lease: Lease,
        transitions: i32,
    ) -> Self {
        let acquired = lease.spec.as_ref().and_then(|spec| spec.acquire_time.clone());
        Self { leases, instance, gate, announcement: None, transitions, acquired, lease: Some(lease) }
    }

    /// Renews the Lease until `end` receives a value. Then closes the gate, and releases the Lease or lets it expire.
    ///
    /// # Errors
    /// If another host acquired the Lease. `stop` is then cancelled, and the gate is closed.
    pub async fn keep(mut self, mut end: oneshot::Receiver<End>, stop: CancellationToken) -> Result<(), NotHolder> {
        loop {
            tokio::select! {
                biased;
                end = &mut end => {
                    self.gate.close();
                    match end {
                        Ok(End::Release) => self.release().await,
                        // The sender was dropped: requests may be in flight.
                        Ok(End::Expire) | Err(_) => tracing::warn!(
                            namespace = self.leases.namespace, name = self.leases.name, seconds = self.leases.timing.lease_duration.as_secs(),
                            "Lease not released, because writes may be under way: it expires"
                        ),
                    }
                    return Ok(());
                }
                () = tokio::time::sleep(self.leases.timing.retry_period) => {}
                () = changed(&mut self.announcement) => {}
            }
            let mut sent = clock::since_boot();
            let mut renewed = self.renew().await;
            if matches!(renewed, Err(Failure::Refused(Refusal::Outdated))) {
                // Another host may have taken the Lease, because a user released it.
                sent = clock::since_boot();
                renewed = self.renew().await;
                if renewed.is_err() {
                    self.gate.close();
                }
            }
            match renewed {
                Ok(()) => self.gate.open_until(sent + self.leases.timing.renew_deadline),
                Err(Failure::Refused(Refusal::Outdated)) => {
                    self.warn_not_renewed("another client changes it all the time");
                }
                Err(Failure::Refused(Refusal::Other(message))) => self.warn_not_renewed(&message),
                Err(Failure::Lost(holder)) => {
                    self.gate.close();
                    stop.cancel();
                    let Leases { namespace, name, .. } = self.leases;
                    return Err(NotHolder::Lost { namespace, name, holder });
                }
            }
        }
    }

    fn warn_not_renewed(&self, message: &str) {
        let (Leases { namespace, name, .. }, writes) = (&self.leases, self.gate.is_open());
        tracing::warn!(namespace, name, writes, message, "Lease not renewed");
    }

    async fn renew(&mut self) -> Result<(), Failure> {
        let lease = match self.lease.take() {
            Some(lease) => Some(lease),
            None => self.leases.get().await.map_err(|message| Failure::Refused(Refusal::Other(message)))?,
        };
        let own = self.instance.identity.to_string();
        let state = lease.as_ref().map(|lease| self.leases.read(lease)).unwrap_or_default();
        let spec = lease.as_ref().and_then(|lease| lease.spec.as_ref());
        let holder = state.holder.unwrap_or_default();
        // The other hosts reconcile the share of a shard without a holder. They wait for the lease duration if the
        // Lease was deleted, but this host does not know when that was.
        let is_given_up = self.announcement.is_some() && holder.is_empty();
        // Another host may have held the Lease meanwhile, also if it is free now. A user who empties the holder, or who
        // deletes the Lease, changes neither number nor time.
        let had_another = spec
            .is_some_and(|spec| spec.lease_transitions != Some(self.transitions) || spec.acquire_time != self.acquired);
        if (!holder.is_empty() && holder != own) || had_another || is_given_up {
            return Err(Failure::Lost(if holder.is_empty() { "no host".to_owned() } else { holder }));
        }
        let acquired = self.acquired.as_ref().map(|time| time.0);
        let version = lease.and_then(|lease| lease.metadata.resource_version);
        let announcement = self.announcement.as_mut().map(|changes| changes.borrow_and_update().clone());
        let spec = self.leases.spec(own, acquired, self.transitions);
        let written = self.leases.write(version, spec, announcement.as_deref()).await;
        self.lease = Some(written.map_err(Failure::Refused)?);
        Ok(())
    }

    /// Releases the Lease, so that the next host can start at once. If that fails, the next host waits until the Lease
    /// expires.
    async fn release(mut self) {
        let Some(lease) = self.lease.take() else { return };
        let Leases { namespace, name, .. } = &self.leases;
        let spec = lease.spec.unwrap_or_default();
        let spec = LeaseSpec { holder_identity: None, ..spec };
        match self.leases.write(lease.metadata.resource_version, spec, None).await {
            Ok(_) => tracing::info!(namespace, name, "Lease released"),
            Err(Refusal::Outdated) => {}
            Err(Refusal::Other(message)) => tracing::warn!(namespace, name, message, "Lease not released"),
        }
    }
}

impl std::fmt::Debug for HeldLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lease {}/{} of {}", self.leases.namespace, self.leases.name, self.instance.identity)
    }
}

/// Waits until the holder has something new to announce; forever if it announces nothing.
async fn changed(announcement: &mut Option<watch::Receiver<String>>) {
    if let Some(changes) = announcement
        && changes.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
