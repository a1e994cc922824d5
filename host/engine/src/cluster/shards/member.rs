//! A host with a shard: follows the Leases of all shards, announces its own view, and ends the shards of hosts that are
//! gone.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_core::hosts::shards::{Announcement, Claims, FailingShare, Membership, Shard};
use windlass_core::value::ids::{ObjectKey, PluginName};

use super::Shards;
use super::candidate::HeldShard;
use super::observer::Observer;
use super::table::Table;
use crate::clock;
use crate::cluster::lease::HeldLease;

/// Time between two checks whether reconciles that are no longer allowed have ended.
const DRAIN: Duration = Duration::from_millis(20);
/// Time between two checks for expired Leases.
const TICK: Duration = Duration::from_secs(1);

/// Whether a reconcile of a parent is allowed.
pub type Allows<'a> = dyn Fn(&PluginName, &ObjectKey) -> bool + 'a;

/// The work of this host, as far as its share determines it.
pub struct Work {
    /// Whether a reconcile of a parent is running for which the given function returns false.
    pub runs_other_than: Box<dyn Fn(&Allows<'_>) -> bool + Send + Sync>,
    /// Queues a Plugin.
    pub queue: Box<dyn Fn(&PluginName) + Send + Sync>,
}

/// A host with a shard.
pub struct Member {
    shards: Shards,
    shard: Shard,
    /// Version of the own Lease when this host acquired it.
    since: u64,
    membership: Membership,
    observer: Observer,
    announced: Announcement,
    sender: watch::Sender<String>,
    work: Work,
}

impl Member {
    /// The holder of a shard, and the Lease that must be kept meanwhile.
    pub fn new(shards: Shards, shard: HeldShard, work: Work) -> (Self, HeldLease) {
        let HeldShard { shard, held, since, announcement: sender, observer } = shard;
        let (membership, announced) = (Membership::new(shard), Announcement::default());
        (Self { shards, shard, since, membership, observer, announced, sender, work }, held)
    }

    /// Follows the other members until `stop` is cancelled.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let is_draining = self.step();
            self.expel_expired().await;
            let pause = if is_draining { DRAIN } else { TICK };
            let shards = self.shards.clone();
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.observer.next() => {}
                () = shards.0.changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Takes in what the Leases and the Plugins show, and announces what follows from it. Returns whether an
    /// announcement waits for the end of reconciles.
    fn step(&mut self) -> bool {
        let timing = self.shards.0.timing;
        for (shard, seen) in self.observer.table.seen(timing, clock::since_boot()) {
            self.membership.see(shard, seen);
        }
        if let Some((own, version)) = self.observer.table.own(self.shard)
            && version > self.since
        {
            self.membership.see_own(own.number);
        }
        if self.membership.adopt() {
            tracing::info!(members = %self.membership.members(), "the members of the shards changed");
        }
        let affected = self.shards.take_in(self.shard, &self.observer.table, self.membership.claims());
        for name in &affected {
            (self.work.queue)(name);
        }
        self.announce()
    }

    fn announce(&mut self) -> bool {
        let shards = self.shards.clone();
        // Read before the check for running reconciles: a later change is announced later.
        let (mut next, was_urgent) = shards.next_announcement();
        let is_busy = (self.work.runs_other_than)(&|plugin, parent| shards.may_go_on(plugin, parent));
        if is_busy {
            (next.members, next.number) = (self.announced.members.clone(), self.announced.number);
            next.plugins_seen = self.announced.plugins_seen;
        } else {
            let (view, number) = self.membership.view();
            (next.members, next.number) = (view.clone(), number);
        }
        let is_urgent = was_urgent && !is_busy || next.number != self.announced.number;
        if next != self.announced {
            self.announced = next;
            let text = self.announced.to_text();
            // What is not urgent is written with the next renewal.
            self.sender.send_if_modified(|announcement| {
                *announcement = text;
                is_urgent
            });
        }
        shards.0.state.lock().is_urgent |= is_busy && was_urgent;
        is_busy
    }

    async fn expel_expired(&mut self) {
        let timing = self.shards.0.timing;
        // A host that stands by takes the shard of a host that is gone, so that its parents move once only.
        let patience = timing.retry_period.saturating_mul(2);
        let expired = self.observer.table.expired(timing, patience, clock::since_boot());
        let mut others = expired.into_iter().filter(|expired| expired.shard != self.shard).peekable();
        if others.peek().is_none() {
            return;
        }
        for expired in others {
            self.shards.expel(expired).await;
        }
        // Also if a Lease was renewed and this host did not see it.
        if let Err(error) = self.observer.list().await {
            tracing::warn!(error, "the Leases of the shards cannot be listed");
        }
    }
}

impl Shards {
    /// Takes in what the other members announce, and what this host may reconcile. Returns the Plugins to reconcile.
    fn take_in(&self, own: Shard, table: &Table, claims: Claims) -> HashSet<PluginName> {
        let before = self.0.claims.load_full();
        let have_changed = before.as_deref() != Some(&claims);
        if have_changed {
            self.0.claims.store(Some(Arc::new(claims)));
        }
        let others: BTreeMap<_, _> = table.announcements().filter(|(shard, _)| *shard != own).collect();
        let rollouts = self.0.rollouts.read();
        let mut state = self.0.state.lock();
        let mut affected = HashSet::new();
        if others != state.others {
            if state.leads {
                affected.extend(differing(&state.others, &others));
            }
            state.others = others;
        }
        if have_changed {
            for name in rollouts.keys() {
                state.gained.entry(name.clone()).or_default().add(before.clone());
                affected.insert(name.clone());
            }
        }
        affected
    }

    /// What this host announces, apart from its view; and whether that is urgent, for the first call that says so.
    fn next_announcement(&self) -> (Announcement, bool) {
        let rollouts = self.0.rollouts.read();
        let mut state = self.0.state.lock();
        let is_urgent = std::mem::take(&mut state.is_urgent);
        let (mut for_leader, mut behind) = (state.to_decide.clone(), BTreeSet::new());
        for (name, rollout) in rollouts.iter() {
            match state.followed.get(name) {
                Some((hash, generation)) if *hash == rollout.hash => {
                    if *generation != rollout.generation {
                        behind.insert(name.to_string());
                    }
                }
                Some(_) | None => {
                    for_leader.insert(name.to_string());
                }
            }
        }
        let is_shared = |name: &&String| {
            let rollout = name.parse::<PluginName>().ok().and_then(|name| rollouts.get(&name));
            rollout.is_some_and(|rollout| rollout.is_shared)
        };
        // The leader counts the failing parents itself while it has all of them.
        let failing = state.failing.iter().filter(|(name, _)| is_shared(name));
        let failing = failing.map(|(name, share)| (name.clone(), share.clone())).collect();
        let announcement =
            Announcement { plugins_seen: state.plugins_seen, for_leader, behind, failing, ..Announcement::default() };
        (announcement, is_urgent)
    }
}

/// The Plugins of which two sets of announcements say different things.
fn differing(before: &BTreeMap<Shard, Announcement>, now: &BTreeMap<Shard, Announcement>) -> Vec<PluginName> {
    let about = |announcements: &BTreeMap<Shard, Announcement>| {
        let mut about: Vec<(String, Shard, Option<FailingShare>)> = Vec::new();
        for (shard, announcement) in announcements {
            let waiting = announcement.for_leader.iter().chain(&announcement.behind);
            about.extend(waiting.map(|name| (name.clone(), *shard, None)));
            let failing = announcement.failing.iter();
            about.extend(failing.map(|(name, failing)| (name.clone(), *shard, Some(failing.clone()))));
        }
        about
    };
    let (before, now) = (about(before), about(now));
    let gone = before.iter().filter(|entry| !now.contains(entry));
    let new = now.iter().filter(|entry| !before.contains(entry));
    gone.chain(new).filter_map(|(name, ..)| name.parse().ok()).collect()
}
