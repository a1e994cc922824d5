//! The shards of the hosts of a cluster: which parents this host may reconcile, and what the hosts tell each other
//! through the Leases of the shards. [`windlass_core::hosts::shards`] has the rules.

mod candidate;
mod member;
mod observer;
mod table;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use windlass_core::hosts::lease::Timing;
use windlass_core::hosts::shards::{Announcement, Claims, FailingShare, Rollout, Shard};
use windlass_core::object::Object;
use windlass_core::value::ids::{ObjectKey, PluginName};

use self::table::{Expired, Table, without_holder};
use super::lease::{Leases, name_of_shard};
use crate::clock;

pub use candidate::ShardCandidate;
pub use member::{Member, Work};

/// The shards, as this host knows them. Clones share the state.
#[derive(Clone)]
pub struct Shards(Arc<Inner>);

struct Inner {
    client: Client,
    namespace: String,
    timing: Timing,
    /// Number of shards; with one, the leader has all parents.
    count: Shard,
    /// What this host may reconcile; none while it has no shard.
    claims: ArcSwapOption<Claims>,
    /// What the Plugins' statuses say, in the order of the watch.
    rollouts: RwLock<HashMap<PluginName, Rollout>>,
    state: Mutex<State>,
    /// The Leases of the shards, as the leader reads them.
    table: Mutex<Table>,
    /// Whether no shard had a holder at some time since this host leads.
    were_unheld: AtomicBool,
    /// Something changed that this host announces.
    changed: Notify,
}

/// What this host knows of its own share, and of the other hosts.
#[derive(Default)]
struct State {
    /// Version of the last change of a Plugin that was shown.
    plugins_seen: u64,
    /// Whether a change was shown that forbids reconciles, or that other hosts wait for.
    is_urgent: bool,
    /// What this host made live, by Plugin: the hash of the rollout, and the Plugin's generation.
    followed: HashMap<PluginName, (String, Option<i64>)>,
    /// Whether this host is the leader.
    leads: bool,
    /// Plugins of which this host met a decision that is the leader's.
    to_decide: BTreeSet<String>,
    /// Plugins whose parents this host has alone, as the leader.
    unshared: HashSet<PluginName>,
    failing: BTreeMap<String, FailingShare>,
    /// What the other members announce.
    others: BTreeMap<Shard, Announcement>,
    /// Plugins of which this host may have gained parents, with what it could reconcile before.
    gained: HashMap<PluginName, Gained>,
}

/// The parents of a Plugin that this host may reconcile now, and could not for a moment before: it may have ignored
/// changes of them.
#[derive(Default)]
pub struct Gained {
    /// What this host could reconcile before; none if that was nothing.
    before: Vec<Option<Arc<Claims>>>,
}

impl Gained {
    fn add(&mut self, before: Option<Arc<Claims>>) {
        if self.before.len() == REMEMBERED {
            self.before = vec![None];
        } else if !self.before.contains(&before) {
            self.before.push(before);
        }
    }

    /// Whether a parent is among them.
    pub fn may_include(&self, plugin: &PluginName, parent: &ObjectKey) -> bool {
        let could =
            |claims: &Option<Arc<Claims>>| claims.as_ref().is_some_and(|claims| claims.may_reconcile(plugin, parent));
        !self.before.iter().all(could)
    }
}

/// Number of changes after which all parents count as gained.
const REMEMBERED: usize = 8;

/// Why the leader must wait before it reconciles all parents of a Plugin.
pub enum NotObeyed {
    /// Other hosts have not ended their reconciles.
    Late(String),
    /// The Leases cannot be read.
    Unknown(String),
}

impl Shards {
    /// The shards of the hosts in this namespace.
    pub fn new(client: Client, namespace: &str, timing: Timing, count: Shard) -> Self {
        Self(Arc::new(Inner {
            client,
            namespace: namespace.to_owned(),
            timing,
            count,
            claims: ArcSwapOption::empty(),
            rollouts: RwLock::default(),
            state: Mutex::default(),
            table: Mutex::default(),
            were_unheld: AtomicBool::new(false),
            changed: Notify::new(),
        }))
    }

    /// Whether hosts share the parents.
    pub fn are_used(&self) -> bool {
        self.0.count > 1
    }

    /// The Lease of each shard, and whether this host has claimed it; none if hosts do not share the parents.
    pub fn claimed(&self) -> Vec<(String, bool)> {
        let own = self.0.claims.load().as_ref().map(|claims| claims.own);
        let shards = (0..self.0.count).filter(|_| self.are_used());
        shards.map(|shard| (name_of_shard(shard), own == Some(shard))).collect()
    }

    /// Whether this host may reconcile a parent in its share of a Plugin. `hash` identifies what the host would reconcile
    /// with: the leader must have rolled out the same.
    pub fn may_reconcile(&self, plugin: &PluginName, hash: &str, parent: &ObjectKey) -> bool {
        let is_shared = |rollout: &Rollout| rollout.is_shared && rollout.hash == hash;
        self.0.rollouts.read().get(plugin).is_some_and(is_shared)
            && self.0.claims.load().as_ref().is_some_and(|claims| claims.may_reconcile(plugin, parent))
    }

    /// Whether a running reconcile may go on: the host has all parents of the Plugin, or the parent is in its share.
    fn may_go_on(&self, plugin: &PluginName, parent: &ObjectKey) -> bool {
        let hash = {
            let state = self.0.state.lock();
            if state.unshared.contains(plugin) {
                return true;
            }
            state.followed.get(plugin).map(|(hash, _)| hash.clone())
        };
        hash.is_some_and(|hash| self.may_reconcile(plugin, &hash, parent))
    }

    /// Records a change of a Plugin; none if it was deleted. Returns whether the Plugin must be reconciled because of it.
    pub fn plugin_changed(&self, name: &PluginName, is_new: bool, plugin: Option<&Object>) -> bool {
        if !self.are_used() {
            return false;
        }
        let rollout = plugin.and_then(Rollout::of);
        let before = {
            let mut rollouts = self.0.rollouts.write();
            match &rollout {
                Some(rollout) => rollouts.insert(name.clone(), rollout.clone()),
                None => rollouts.remove(name),
            }
        };
        let is_another = before != rollout;
        let was_shared = before.is_some_and(|before| before.is_shared);
        let is_shared = rollout.is_some_and(|rollout| rollout.is_shared);
        {
            let mut state = self.0.state.lock();
            if let Some(plugin) = plugin {
                state.plugins_seen = state.plugins_seen.max(plugin.resource_version);
            }
            state.is_urgent |= is_new || is_another || plugin.is_none_or(|plugin| plugin.deleting);
            if is_shared && !was_shared {
                state.gained.entry(name.clone()).or_default().add(None);
            }
            if !is_shared {
                state.to_decide.remove(name.as_str());
            }
            if plugin.is_none() {
                state.followed.remove(name);
                state.unshared.remove(name);
                state.failing.remove(name.as_str());
            }
        }
        self.0.changed.notify_one();
        is_another
    }

    /// Records that this host has made live what the leader rolled out.
    pub fn followed(&self, name: &PluginName, hash: &str, generation: Option<i64>) {
        let now = (hash.to_owned(), generation);
        if self.0.state.lock().followed.insert(name.clone(), now.clone()).as_ref() != Some(&now) {
            self.urge();
        }
    }

    /// Leaves a decision about a Plugin's parents to the leader, which then takes all of them, if it does not have them
    /// already.
    pub fn leave_to_leader(&self, name: &PluginName) {
        let rollouts = self.0.rollouts.read();
        if rollouts.get(name).is_some_and(|rollout| rollout.is_shared)
            && self.0.state.lock().to_decide.insert(name.to_string())
        {
            drop(rollouts);
            self.urge();
        }
    }

    /// Records the failing parents in this host's share; none if no parent fails.
    pub fn report(&self, name: &PluginName, failing: Option<FailingShare>) {
        let mut state = self.0.state.lock();
        if state.failing.get(name.as_str()) == failing.as_ref() {
            return;
        }
        match failing {
            Some(failing) => state.failing.insert(name.to_string(), failing),
            None => state.failing.remove(name.as_str()),
        };
        drop(state);
        self.urge();
    }

    fn urge(&self) {
        self.0.state.lock().is_urgent = true;
        self.0.changed.notify_one();
    }

    /// The parents of a Plugin that this host gained since the last time; none if there are none.
    pub fn take_gained(&self, name: &PluginName) -> Option<Gained> {
        self.0.state.lock().gained.remove(name)
    }

    /// Number of hosts that share the parents.
    pub fn members(&self) -> usize {
        self.0.state.lock().others.len() + 1
    }

    /// Records whether this host, as the leader, has all parents of a Plugin.
    pub fn set_exclusive(&self, name: &PluginName, is_exclusive: bool) {
        let mut state = self.0.state.lock();
        if is_exclusive {
            state.unshared.insert(name.clone());
        } else {
            state.unshared.remove(name);
        }
    }

    /// Records that no component of a Plugin is live on this host any more.
    pub fn retracted(&self, name: &PluginName) {
        let mut state = self.0.state.lock();
        state.unshared.remove(name);
        if state.followed.remove(name).is_some() {
            state.is_urgent = true;
            self.0.changed.notify_one();
        }
    }

    /// Records that this host leads.
    pub fn set_leading(&self) {
        self.0.state.lock().leads = true;
    }

    /// Whether the leader must have all parents of a Plugin: a member, or this host, cannot reconcile its share, or has
    /// met a decision that is the leader's.
    pub fn leader_is_needed(&self, name: &PluginName) -> bool {
        let state = self.0.state.lock();
        state.to_decide.contains(name.as_str())
            || state.others.values().any(|other| other.for_leader.contains(name.as_str()))
    }

    /// Whether the other members may begin to share the parents of a Plugin: they have applied its last change.
    /// A change of this queues the Plugin.
    pub fn are_prepared(&self, name: &PluginName) -> bool {
        let state = self.0.state.lock();
        !state.others.is_empty() && !state.others.values().any(|other| other.behind.contains(name.as_str()))
    }

    /// Whether the other members have seen a Plugin in this version. A change of this queues nothing.
    pub fn have_seen(&self, version: u64) -> bool {
        self.late(version).is_empty()
    }

    /// Whether no host had a shard at some time since this host leads: a host that acquired one later sees which Plugins
    /// are shared.
    pub fn were_unheld(&self) -> bool {
        self.0.were_unheld.load(Ordering::Relaxed)
    }

    /// The failing parents in the shares of the other members.
    pub fn failing_elsewhere(&self, name: &PluginName) -> Vec<FailingShare> {
        let state = self.0.state.lock();
        state.others.values().filter_map(|other| other.failing.get(name.as_str()).cloned()).collect()
    }

    /// Waits for no reconcile of a Plugin by another host: checks that every member obeys the Plugin in this version, by
    /// which the leader has all parents. A member that does not renew its Lease loses it.
    ///
    /// # Errors
    /// Which members do not, or why that is not known.
    pub async fn check_all_obey(&self, version: u64) -> Result<(), NotObeyed> {
        // Known without a request, and also for a holder whose Lease a user deleted.
        let late = self.late(version);
        if !late.is_empty() {
            return Err(not_ended(&late));
        }
        let api: Api<Lease> = Api::namespaced(self.0.client.clone(), &self.0.namespace);
        // The answer must not be older than the request: a host may have acquired a shard just before.
        let leases = observer::list(&api, self.0.timing).await.map_err(|why| {
            NotObeyed::Unknown(format!(
                "the Leases of the shards cannot be listed, so other hosts may reconcile its parents: {why}"
            ))
        })?;
        let now = clock::since_boot();
        let (late, expired): (Vec<_>, _) = {
            let mut table = self.0.table.lock();
            table.note_list(leases);
            table.seen(self.0.timing, now);
            if table.announcements().next().is_none() {
                self.0.were_unheld.store(true, Ordering::Relaxed);
            }
            let late = table
                .announcements()
                .filter(|(_, announcement)| announcement.plugins_seen < version)
                .map(|(shard, _)| name_of_shard(shard))
                .collect();
            (late, table.expired(self.0.timing, self.0.timing.retry_period, now))
        };
        for expired in expired {
            self.expel(expired).await;
        }
        if late.is_empty() { Ok(()) } else { Err(not_ended(&late)) }
    }

    /// The other members, by the watch, that have not seen a Plugin in this version.
    fn late(&self, version: u64) -> Vec<String> {
        let state = self.0.state.lock();
        let late = state.others.iter().filter(|(_, other)| other.plugins_seen < version);
        late.map(|(shard, _)| name_of_shard(*shard)).collect()
    }

    fn leases(&self, shard: Shard) -> Leases {
        Leases::new(self.0.client.clone(), &self.0.namespace, &name_of_shard(shard), self.0.timing)
    }

    /// Clears the holder of an expired Lease, unless it has changed.
    async fn expel(&self, Expired { shard, lease }: Expired) {
        let (leases, version) = (self.leases(shard), lease.metadata.resource_version.clone());
        if leases.write(version, without_holder(&lease), None).await.is_ok() {
            let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
            tracing::warn!(name = leases.name, holder, "a shard's Lease expired: its parents pass to the other hosts");
        }
    }
}

fn not_ended(late: &[String]) -> NotObeyed {
    let late = late.join(", ");
    NotObeyed::Late(format!("the holders of {late} have not ended all their reconciles of its parents yet"))
}
