//! Shares the parents of a Plugin with the other members of the shards (`--shards`).
//!
//! The leader has all parents of a Plugin while anything about many parents is undecided: a rollout, blocked deletions,
//! parents that left the Plugin's selectors, a quarantine. Otherwise the members share the parents, each with what the
//! leader rolled out; the Plugin's status says so in `rollout.shared`. Before the leader takes the parents back, every
//! member must have ended its reconciles of them.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::api::ListParams;
use kube::core::{DynamicObject, PartialObjectMeta};
use windlass_core::guard::deletions::RolloutRecord;
use windlass_core::hosts::shards::{FailingShare, Rollout};
use windlass_core::object::Object;
use windlass_core::object::reason::PluginReason;
use windlass_core::reconcile::outcome::Requeue;
use windlass_core::reconcile::shared::Shared;
use windlass_core::reconcile::shared::component_state::{ComponentState, Share};
use windlass_core::reconcile::shared::failures::Sums;
use windlass_core::value::ids::{ObjectKey, PluginName};

use super::activate::without_crd_install;
use super::load::Loading;
use super::problem::{Problem, Step};
use super::publish::Wave;
use super::resource::parse;
use super::shared::{Plugins, Sharing};
use super::{claim, load, status};
use crate::clock::{self, CLOCK};
use crate::cluster::shards::NotObeyed;
use crate::live::Live;
use crate::queue::Trigger;

/// Time between two checks whether reconciles of a Plugin have ended.
const DRAIN: Duration = Duration::from_millis(50);
/// Time between two checks whether all members have ended their reconciles of a Plugin's parents.
const OBEYED: Duration = Duration::from_millis(100);
/// Time between two checks whether all members know a Plugin; they announce that when they renew their Leases.
const ANNOUNCED: Duration = Duration::from_millis(500);
/// Shortest time for which the leader keeps the parents that it took back because a member left a decision to it. A
/// member that does so again and again must not keep all hosts busy.
const KEPT: Duration = Duration::from_secs(30);

impl Plugins {
    /// Makes live on a member what the leader has rolled out, and reports what the leader must know.
    pub(super) async fn follow_leader(&self, name: &PluginName, object: &Object) -> Result<(), Problem> {
        let plugin = parse(object)?;
        self.adjust(name, &plugin);
        let rolled_out =
            plugin.status.as_ref().and_then(|status| status.rollout.as_ref().zip(status.active_digest.as_ref()));
        let Some((rollout, active)) = rolled_out else { return Ok(()) };
        let component = self.last_live(name, &plugin).await.filter(|last| last.digest().to_string() == *active);
        let component = component.ok_or_else(|| Problem::pending(format!("this host does not have {active}")))?;
        // Only the leader installs CRDs.
        let (prepared, _) = Loading::of(self, name, &without_crd_install(&plugin), component)?.prepare().await?;
        let concern = load::concern_of(&prepared);
        let hash = prepared.decides_by().short();
        if hash != rollout.hash {
            let message =
                format!("the leader has rolled out {}, and this host would reconcile with {hash}", rollout.hash);
            return Err(Problem::pending(message));
        }
        let record = rollout.record();
        let followed = |live: &Arc<Live>| live.shared.state.share().is_some() && live.decides_like(&prepared);
        if let Some(live) = self.registry.get(name).filter(followed) {
            // While the leader has all parents, this host makes no call that could end a quarantine.
            let is_stuck = !rollout.shared.unwrap_or_default() && live.shared.state.is_quarantined();
            if is_stuck || live.shared.state.record_of_rollout() != record {
                self.replace_state(&live, share_of(&live, record));
            }
        } else {
            let state = Arc::new(share_of(&prepared, record));
            self.publish(object, Live { shared: Shared { state, ..prepared.shared }, ..prepared }, Wave::Resumed)?;
        }
        self.kinds.follow(name, concern);
        self.let_candidate_go(name);
        self.shards.followed(name, &hash, object.generation);
        if let Some(live) = self.registry.get(name) {
            let Sums { failing, last } = live.shared.records.begin_report(None, |parent| live.knows(parent));
            let failing = last.filter(|_| failing > 0).map(|last| FailingShare {
                count: failing,
                reason: last.reason.as_str().to_owned(),
                object: last.object,
                message: last.message,
                time: last.time,
            });
            self.shards.report(name, failing);
            self.work_on_share(&live);
        }
        Ok(())
    }

    /// Queues the parents that this host gained, and leaves a component in quarantine to the leader.
    pub(super) fn work_on_share(&self, live: &Live) {
        if live.shared.state.share().is_none() {
            return;
        }
        if live.shared.state.is_quarantined() {
            self.shards.leave_to_leader(&live.terms.name);
        }
        let Some(gained) = self.shards.take_gained(&live.terms.name) else { return };
        let mut parents = live.caches.parents.store.keys();
        parents.extend(live.caches.unselected.all().into_iter().map(|(parent, _)| parent));
        parents.retain(|parent| gained.may_include(&live.terms.name, parent));
        // Failing parents that passed to another host must not stay counted here.
        parents.extend(live.shared.records.failing());
        let spread = Wave::Resumed.spread(parents.len());
        for parent in parents {
            self.parents.add_within(&live.terms.name, &parent, Trigger::Sweep, spread);
        }
    }

    /// Shares the parents of a live Plugin, or takes them back, one step at a time. Returns when to go on; none if
    /// nothing is left to do.
    pub(super) async fn balance(&self, name: &PluginName, object: &Object) -> Option<Requeue> {
        let live = self.registry.get(name)?;
        let Some(share) = live.shared.state.share() else {
            let alone_since = self.sharing(name, |sharing| sharing.alone_since);
            let is_shared = Rollout::of(object).is_some_and(|rollout| rollout.is_shared);
            if !is_shared || object.resource_version <= alone_since {
                return self.give(&live, object);
            }
            // A user changed the status, or a delayed request of an earlier leader arrived.
            self.replace_state(&live, share_of(&live, live.shared.state.record_of_rollout()));
            self.shards.set_exclusive(name, false);
            return self.take_back(&live, object).await;
        };
        self.work_on_share(&live);
        let is_needed = !self.shards.are_used() || self.shards.leader_is_needed(name);
        let is_handing_out = self.sharing(name, |sharing| sharing.is_handing_out);
        let is_taking = self.is_taken_back(name);
        if !is_needed && is_handing_out {
            if self.parents.is_running(name) {
                return Some(Requeue::Pause(DRAIN));
            }
            self.sharing(name, |sharing| sharing.is_handing_out = false);
            share.set_open(true);
            tracing::info!(plugin = %name, members = self.shards.members(), "the members share the parents");
            return None;
        }
        self.sharing(name, |sharing| sharing.is_handing_out = false);
        let is_shared = share.is_open() || Rollout::of(object).is_some_and(|rollout| rollout.is_shared);
        if !is_needed && !is_taking && is_shared {
            share.set_open(true);
            return None;
        }
        self.take_back(&live, object).await
    }

    /// Begins to share the parents, if nothing about many of them is undecided and all members are prepared.
    fn give(&self, live: &Arc<Live>, object: &Object) -> Option<Requeue> {
        let (name, shards) = (&live.terms.name, &self.shards);
        shards.set_exclusive(name, true);
        if !shards.are_used()
            || !live.shared.state.is_settled()
            || shards.leader_is_needed(name)
            || !shards.are_prepared(name)
        {
            return None;
        }
        let taken = self.sharing(name, |sharing| sharing.taken_at);
        let rest = taken.and_then(|taken| KEPT.checked_sub(clock::since(taken)));
        if let Some(rest) = rest.filter(|rest| !rest.is_zero()) {
            return Some(Requeue::Pause(rest));
        }
        let hash = live.decides_by().short();
        if Rollout::of(object).is_none_or(|rollout| rollout.hash != hash) {
            // The next version of the Plugin has it.
            return None;
        }
        if !shards.have_seen(object.resource_version) {
            return Some(Requeue::Pause(ANNOUNCED));
        }
        self.sharing(name, |sharing| sharing.is_handing_out = true);
        self.replace_state(live, share_of(live, live.shared.state.record_of_rollout()));
        shards.set_exclusive(name, false);
        shards.followed(name, &hash, object.generation);
        Some(Requeue::Pause(DRAIN))
    }

    /// Takes the parents back: this host has all of them once every member has ended its reconciles.
    async fn take_back(&self, live: &Arc<Live>, object: &Object) -> Option<Requeue> {
        let name = &live.terms.name;
        let was_shared = self.is_taken_back(name);
        if let Err(problem) = self.exclude_members(name, object).await {
            return Some(problem.requeue);
        }
        let record = live.shared.state.record_of_rollout();
        let state = if was_shared && record.is_decided {
            ComponentState::settled(CLOCK, live.beginning(), &record)
        } else {
            // An earlier leader may have left a rollout in the middle.
            let status = parse(object).ok().and_then(|plugin| plugin.status);
            load::recorded_state(status.as_ref(), live)
        };
        self.replace_state(live, state);
        self.sharing(name, |sharing| sharing.taken_at = was_shared.then(clock::now));
        tracing::info!(plugin = %name, "the leader reconciles all parents");
        if let Some(live) = self.registry.get(name) {
            self.enqueue_parents(&live, Trigger::Sweep, Wave::Resumed);
            self.wait_for_no_parent_that_is_gone(&live);
        }
        None
    }

    /// Makes sure that no other host reconciles parents of the Plugins that a component is about to reconcile: its own,
    /// and those that lose their kind to it.
    pub(super) async fn exclude_members_before(&self, object: &Object, prepared: &Live) -> Result<(), Problem> {
        self.exclude_members(&prepared.terms.name, object).await?;
        if !prepared.terms.owns_kind {
            return Ok(());
        }
        for younger in claim::claim(self, &prepared.terms.name, object, &prepared.terms.parents)? {
            if let Some(plugin) = self.own.store.get(&ObjectKey::new(None, younger.as_str())) {
                self.exclude_members(&younger, &plugin).await?;
            }
        }
        Ok(())
    }

    /// Makes sure that no other host reconciles parents of a Plugin.
    ///
    /// # Errors
    /// While other hosts still do; the check must be repeated.
    pub(super) async fn exclude_members(&self, name: &PluginName, object: &Object) -> Result<(), Problem> {
        let live = self.registry.get(name);
        let share = live.as_ref().map(|live| live.shared.state.share());
        if matches!(share, Some(None)) {
            return Ok(());
        }
        share.flatten().inspect(|share: &&Share| share.set_open(false));
        let (taken_back_in, has_shared) = self.sharing(name, |sharing| (sharing.taken_back_in, sharing.has_shared));
        let waits = |message: String| Problem { requeue: Requeue::Pause(OBEYED), ..Problem::pending(message) };
        // The cache may not show yet what this host has written.
        let may_be_shared = has_shared || Rollout::of(object).is_some_and(|rollout| rollout.is_shared);
        if may_be_shared && taken_back_in.is_none() {
            let version = status::write_unshared(&self.client, &self.own.resource, object).await?;
            self.sharing(name, |sharing| sharing.taken_back_in = Some(version));
            return Err(waits("the other hosts end their reconciles of its parents".to_owned()));
        }
        let version = self.sharing(name, |sharing| {
            sharing.taken_back_in.unwrap_or_else(|| *sharing.awaited.get_or_insert(object.resource_version))
        });
        if taken_back_in.is_some() || !self.shards.were_unheld() {
            self.shards.check_all_obey(version).await.map_err(|problem| match problem {
                NotObeyed::Late(message) => waits(message),
                NotObeyed::Unknown(message) => Problem::new(Step::Granted, PluginReason::ApiError, message),
            })?;
        }
        self.sharing(name, |sharing| {
            *sharing = Sharing { alone_since: version, taken_at: sharing.taken_at, ..Sharing::default() };
        });
        self.shards.set_exclusive(name, true);
        Ok(())
    }

    /// Whether the leader has told the other hosts to end their reconciles of a Plugin's parents, and waits for that.
    pub(super) fn is_taken_back(&self, name: &PluginName) -> bool {
        self.sharing(name, |sharing| sharing.taken_back_in.is_some())
    }

    /// Records that a status is sent which lets other hosts reconcile parents.
    pub(super) fn note_shared(&self, name: &PluginName) {
        self.sharing(name, |sharing| sharing.has_shared = true);
    }

    fn sharing<T>(&self, name: &PluginName, access: impl FnOnce(&mut Sharing) -> T) -> T {
        access(&mut self.state.known.lock().entry(name.clone()).or_default().sharing)
    }

    /// Replaces the state of a live component. Reconciles that run go on with the former state.
    fn replace_state(&self, live: &Live, state: ComponentState) {
        let mut publisher = self.state.publisher.lock();
        // Only the reconcile of this Plugin publishes it, but a Plugin with an older claim may have retracted it.
        if let Some(live) = self.registry.get(&live.terms.name) {
            let mut next = Live::clone(&live);
            next.shared.state = Arc::new(state);
            publisher.publish(live.terms.name.clone(), Arc::new(next));
        }
    }

    /// Whether the cache of Plugins is at least as new as the API server was when this was called.
    ///
    /// # Errors
    /// If the Plugins cannot be listed.
    pub async fn is_caught_up(&self) -> Result<bool, kube::Error> {
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &self.own.resource);
        let listed = api.list_metadata(&ListParams::default()).await?;
        let cached = |plugin: &PartialObjectMeta<DynamicObject>| {
            let name = plugin.metadata.name.as_deref().unwrap_or_default();
            let version = plugin.metadata.resource_version.as_deref().and_then(|version| version.parse::<u64>().ok());
            let cached = self.own.store.get(&ObjectKey::new(None, name));
            cached.is_some_and(|cached| Some(cached.resource_version) >= version)
        };
        Ok(listed.items.iter().all(cached) && self.own.store.size() <= listed.items.len())
    }
}

/// The state of a component whose parents several hosts share, on a host that has a share of them.
fn share_of(live: &Live, rollout: RolloutRecord) -> ComponentState {
    ComponentState::of_share(CLOCK, live.terms.settings.guard, live.decides_by(), rollout)
}
