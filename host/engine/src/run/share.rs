//! A host that shares the parents with others: it takes a shard, reconciles its share, and may be elected to lead.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Host;
use super::running::{Keeper, Working};
use crate::cluster::lease::{Candidate, Instance, WriteGate};
use crate::cluster::shards::{Member, ShardCandidate, Work};
use crate::queue::Trigger;
use crate::run::plugin_work::PluginWork;

impl Host {
    /// Takes a shard, then reconciles the share of this host, and leads when it is elected. Returns none if `stop` is
    /// cancelled before.
    pub(super) async fn share(
        self,
        candidate: Candidate,
        instance: Arc<Instance>,
        gate: WriteGate,
        stop: &CancellationToken,
    ) -> Option<(Vec<Keeper>, Working)> {
        let Self { shards, plugins, parents, working, .. } = self;
        let standby = stop.child_token();
        plugins.stand_by(&standby);
        let candidate_for_shard = ShardCandidate::new(shards.clone(), instance, gate);
        let shard = candidate_for_shard.acquire(plugins.prepared(stop), stop).await?;
        let (running, queue) = (parents.queue.clone(), plugins.plugins.queue.clone());
        let work = Work {
            runs_other_than: Box::new(move |may_go_on| {
                running.any_running(|plugin, parent| !may_go_on(plugin, parent))
            }),
            queue: Box::new(move |plugin| queue.add(&(), plugin, Trigger::Event)),
        };
        let (member, held) = Member::new(shards, shard, work);
        let keeper = Keeper::of(held, stop);
        plugins.tasks.readiness.joined();
        let (stopped, caches) = (stop.clone(), plugins.clone());
        working.tasks.spawn(async move {
            // The cache of Plugins may be minutes behind, and show a Plugin as shared that the leader has taken back.
            if caches.catch_up(&stopped).await.is_some() {
                parents.start(&stopped).await;
                member.run(stopped).await;
            }
        });
        let leader = leads_when_elected(candidate, plugins, standby, stop);
        Some((vec![keeper, leader], working))
    }
}

/// Waits for the leader's Lease, leads, and keeps the Lease.
fn leads_when_elected(
    candidate: Candidate,
    plugins: PluginWork,
    standby: CancellationToken,
    stop: &CancellationToken,
) -> Keeper {
    let (end, ended) = oneshot::channel();
    let stop = stop.clone();
    let keeping = tokio::spawn(async move {
        let Some(held) = candidate.acquire(|| {}, &stop).await? else { return Ok(()) };
        standby.cancel();
        plugins.lead(&stop);
        held.keep(ended, stop).await
    });
    Keeper { end, keeping }
}
