//! A host without a shard: waits for one that is free, released or expired.

use std::pin::pin;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_core::hosts::lease::Timing;
use windlass_core::hosts::shards::{Announcement, Shard};

use super::Shards;
use super::observer::Observer;
use super::table::version_of;
use crate::clock;
use crate::cluster::lease::{HeldLease, Instance, Refusal, WriteGate};

/// A host without a shard.
pub struct ShardCandidate {
    shards: Shards,
    instance: Arc<Instance>,
    gate: WriteGate,
    observer: Observer,
}

/// A shard that this host has acquired.
pub struct HeldShard {
    /// The shard.
    pub shard: Shard,
    /// Its Lease.
    pub held: HeldLease,
    pub(super) since: u64,
    pub(super) announcement: watch::Sender<String>,
    pub(super) observer: Observer,
}

impl ShardCandidate {
    /// A host with this identity, which opens the gate while it holds a shard.
    pub fn new(shards: Shards, instance: Arc<Instance>, gate: WriteGate) -> Self {
        let observer = Observer::new(Api::namespaced(shards.0.client.clone(), &shards.0.namespace), shards.0.timing);
        Self { shards, instance, gate, observer }
    }

    /// Acquires a shard, and waits while other hosts hold all of them. Beside other members it waits until it is
    /// `prepared`: a member that cannot reconcile its share makes the leader take back all parents. Returns none if `stop`
    /// is cancelled meanwhile.
    pub async fn acquire(mut self, prepared: impl Future<Output = ()>, stop: &CancellationToken) -> Option<HeldShard> {
        let (mut is_logged, timing) = (false, self.shards.0.timing);
        let (mut prepared, mut is_prepared) = (pin!(prepared), false);
        loop {
            if let Err(error) = self.observer.list().await {
                tracing::warn!(%error, "the Leases of the shards cannot be listed yet");
            } else if !is_prepared && !self.observer.table.holders().is_empty() {
                tracing::debug!("other hosts share the parents: this one prepares the Plugins first");
            } else if let Some(taken) = self.take_one().await {
                return Some(self.into_holder(taken));
            } else if !std::mem::replace(&mut is_logged, true) {
                let holders = self.observer.table.holders().join(", ");
                tracing::info!(holders, "standing by: other hosts hold all shards");
            }
            let jittered = timing.retry_period.mul_f64(1.0 + Timing::JITTER * fastrand::f64());
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = &mut prepared, if !is_prepared => is_prepared = true,
                () = self.observer.next() => {}
                () = tokio::time::sleep(jittered) => {}
            }
        }
    }

    /// Takes a shard that may be taken, if there is one and no other host is faster.
    async fn take_one(&mut self) -> Option<(Shard, Lease, i32)> {
        let (own, count) = (&self.instance.identity, self.shards.0.count);
        let any = self.shards.leases(0);
        for (shard, lease) in self.observer.table.takeable(count, own, &any, clock::since_boot()) {
            let (leases, sent) = (self.shards.leases(shard), clock::since_boot());
            let transitions = lease.as_ref().and_then(|lease| lease.spec.as_ref()?.lease_transitions);
            let transitions = transitions.unwrap_or_default().saturating_add(1);
            let spec = leases.spec(own.to_string(), Some(clock::date()), transitions);
            let version = lease.and_then(|lease| lease.metadata.resource_version);
            match leases.write(version, spec, Some(&Announcement::default().to_text())).await {
                Ok(lease) => {
                    self.gate.shard.open_until(sent + self.shards.0.timing.renew_deadline);
                    tracing::info!(name = leases.name, holder = %own, "shard acquired");
                    return Some((shard, lease, transitions));
                }
                Err(Refusal::Outdated) => {}
                Err(Refusal::Other(message)) => {
                    tracing::warn!(name = leases.name, message, "a shard's Lease cannot be taken yet");
                    // The API server may have written it nevertheless: the next list shows that.
                    return None;
                }
            }
        }
        None
    }

    fn into_holder(self, (shard, lease, transitions): (Shard, Lease, i32)) -> HeldShard {
        let Self { shards, instance, gate, observer } = self;
        let (announcement, changes) = watch::channel(Announcement::default().to_text());
        let since = version_of(&lease);
        let mut held = HeldLease::new(shards.leases(shard), instance, gate.shard.clone(), lease, transitions);
        held.announcement = Some(changes);
        HeldShard { shard, held, since, announcement, observer }
    }
}
