//! The cluster, as the world of a parent's reconcile: its caches, the API server, the plugin, and the queues.

use std::sync::Arc;
use std::time::Instant;

use kube::Client;
use parking_lot::Mutex;
use tracing::Span;
use windlass_core::contract::CallFailure;
use windlass_core::contract::related::{Needs, ReadProblem};
use windlass_core::contract::reserved::HostNamespace;
use windlass_core::guard::deletions::Leavers;
use windlass_core::guard::quarantine::QuarantineChange;
use windlass_core::object::Object;
use windlass_core::object::parent::ParentRef;
use windlass_core::object::reason::ParentReason;
use windlass_core::reconcile::events::{Before, Note, Occasion};
use windlass_core::reconcile::outcome::{Outcome, WriteProblem};
use windlass_core::reconcile::world::{
    About, Call, Called, Ended, Follows, Happened, Hosts, Later, Permit, Selected, Wake, World,
};
use windlass_core::reconcile::written::Written;
use windlass_core::value::ids::{ObjectKey, PluginName, Uid};

use super::call::Caller;
use super::journal::Journal;
use super::related::Related;
use super::spans;
use crate::cluster::events::Recorder;
use crate::cluster::shards::Shards;
use crate::live::Live;
use crate::live::own_writes::shows;
use crate::queue::{PluginQueue, Queue, Trigger, Turn};
use crate::telemetry::{FAILURE, one_line};

/// Makes the worlds of reconciles.
pub struct Worlds {
    /// Sends the requests.
    pub client: Client,
    /// Finds related objects.
    pub related: Related,
    /// Calls plugins.
    pub caller: Caller,
    /// Emits events.
    pub recorder: Recorder,
    /// The queue of parents: a reconcile queues other parents if its result affects them.
    pub parents: Queue<PluginName, ObjectKey>,
    /// The queue of Plugins.
    pub plugins: PluginQueue,
    /// Which hosts reconcile which parents.
    pub shards: Shards,
}

/// The cluster that a parent is in.
pub(super) struct Cluster<'a> {
    pub worlds: &'a Worlds,
    pub live: &'a Arc<Live>,
    pub key: &'a ObjectKey,
    pub turn: &'a Turn<'a>,
    pub journal: Mutex<Journal>,
}

impl Cluster<'_> {
    /// Queues all that a change of the component's quarantine concerns.
    fn quarantine_changed(&self, change: QuarantineChange) {
        let (plugin, digest) = (&self.live.terms.name, self.live.digest());
        match change {
            QuarantineChange::Entered => {
                tracing::warn!(%plugin, %digest, "component in quarantine: its calls failed too often");
            }
            QuarantineChange::Cleared => {
                tracing::info!(%plugin, %digest, "out of quarantine");
                for parent in self.live.caches.parents.store.keys() {
                    self.worlds.parents.add(plugin, &parent, Trigger::Sweep);
                }
            }
        }
        self.worlds.plugins.add(&(), plugin, Trigger::Changed);
    }

    /// Logs, counts and keeps how the reconcile ended.
    fn ended(&self, ended: &Ended<'_>) {
        Span::current().record("windlass.outcome", ended.outcome);
        let (plugin, controller) = (&self.live.terms.name, &self.live.calls.controller);
        let object = || ended.parent.map_or_else(|| self.key.to_string(), ToString::to_string);
        if let Some((reason, message)) = ended.failure {
            controller.failed(reason.as_str());
            if reason == ParentReason::DeletionBlocked {
                controller.blocked_deletions();
            }
            let message = one_line(message);
            tracing::warn!(target: FAILURE, %plugin, object = object(), %reason, %message, "reconcile failed");
        }
        if let Some(message) = ended.unwritten {
            tracing::warn!(target: FAILURE, object = object(), message, "status was not written");
        }
        if let Some(applied) = ended.applied {
            let changes = &applied.changes;
            controller.wrote(changes.created.len(), changes.replaced.len() + changes.deleted.len());
        }
        self.journal.lock().end(ended);
    }
}

impl World for Cluster<'_> {
    fn follows(&self) -> Follows {
        let caches = &self.live.caches;
        if caches.is_followed() {
            Follows::All
        } else if caches.parents.is_followed() {
            Follows::Parents
        } else {
            Follows::NotParents
        }
    }

    fn children(&self, of: &ParentRef) -> Vec<Arc<Object>> {
        let mut children = Vec::new();
        for watch in self.live.caches.children.values() {
            watch.store.for_each_of(of, |child| children.push(child.clone()));
        }
        children
    }

    fn selects(&self, parent: &Object) -> Option<bool> {
        self.live.caches.selects(parent)
    }

    fn selects_namespace(&self, parent: &Object) -> bool {
        self.live.caches.selects_namespace(parent)
    }

    fn is_former_parent(&self, key: &ObjectKey) -> bool {
        self.live.caches.unselected.uid(key).is_some_and(|uid| self.live.has_children(&uid))
    }

    fn forget_former_parent(&self, key: &ObjectKey) {
        self.live.caches.unselected.forget(key);
    }

    fn leavers(&self, namespace: Option<&str>) -> Leavers {
        self.live.with_children_in(namespace)
    }

    fn shows(&self, parent: &ObjectKey, write: &Written, at: Instant) -> bool {
        shows(|of| self.live.caches.store(of), parent, write, at)
    }

    fn host_namespace_of(&self, object: &Object) -> Option<HostNamespace> {
        self.live.account.host_namespace_of(object)
    }

    fn hosts(&self) -> Hosts {
        let shards = &self.worlds.shards;
        let count = if self.live.shared.state.share().is_some() { shards.members() } else { 1 };
        Hosts { count, may_share: shards.are_used() }
    }

    fn required_before(&self, parent: &ObjectKey) -> Option<Needs> {
        self.worlds.related.interests.last(&self.live.terms.name, parent)
    }

    fn remember_required(&self, parent: &ObjectKey, needs: Option<&Needs>) {
        let (interests, plugin) = (&self.worlds.related.interests, &self.live.terms.name);
        match needs {
            Some(needs) => interests.keep(plugin, parent, needs),
            None => interests.forget(plugin, parent),
        }
    }

    fn serve<'a>(&'a self, parent: &'a ParentRef, needs: &'a Needs) -> Later<'a, Result<Selected, ReadProblem>> {
        Box::pin(self.worlds.related.serve(self.live, parent, needs))
    }

    fn may_read<'a>(&'a self, parent: &'a ParentRef) -> Later<'a, Result<(), ReadProblem>> {
        Box::pin(self.worlds.related.review_parent(self.live, parent))
    }

    fn may_finalize<'a>(&'a self, parent: &'a ParentRef) -> Later<'a, Result<(), WriteProblem>> {
        Box::pin(self.worlds.related.review_finalizer(self.live, parent))
    }

    fn permit<'a>(&'a self, namespace: Option<&'a Arc<str>>) -> Later<'a, Result<Permit<'a>, CallFailure>> {
        Box::pin(self.worlds.caller.permit(self.live, namespace))
    }

    fn call<'a>(&'a self, _permit: &'a Permit<'_>, call: Call<'a>) -> Later<'a, Called> {
        Box::pin(self.worlds.caller.call(self.live, call, self.turn, &self.journal))
    }

    fn wake(&self, who: Wake<'_>) {
        let (worlds, plugin) = (self.worlds, &self.live.terms.name);
        match who {
            Wake::Parent(parent) => worlds.parents.add(plugin, parent, Trigger::Event),
            Wake::Plugin => worlds.plugins.add(&(), plugin, Trigger::Changed),
            Wake::PluginLater => worlds.plugins.add(&(), plugin, Trigger::Resync),
            Wake::Leader => {
                worlds.shards.leave_to_leader(plugin);
                worlds.plugins.add(&(), plugin, Trigger::Changed);
            }
            Wake::Quarantine(change) => self.quarantine_changed(change),
        }
    }

    fn reported_before(&self, parent: &Uid, outcome: &Outcome, unknown: &dyn Fn() -> Before) -> Before {
        self.worlds.recorder.before(&self.live.terms.name, parent, outcome, unknown)
    }

    fn emit(&self, about: About<'_>, notes: Vec<Note>, occasion: Occasion) {
        let plugin = &self.live.terms.name;
        let about = match about {
            About::Parent(parent) => parent.clone(),
            About::PluginOf(parent) => match self.live.caches.peers.plugin(plugin) {
                Some(object) => ParentRef::of(plugin, &object, None),
                None => parent.clone(),
            },
        };
        self.worlds.recorder.record(plugin, &about, notes, occasion);
    }

    fn note(&self, happened: Happened<'_>) {
        match happened {
            Happened::Seen(snapshot) => {
                let parent = &snapshot.parent;
                let span = Span::current();
                span.record("windlass.parent.uid", tracing::field::display(&parent.uid));
                span.record("windlass.parent.generation", parent.generation);
                spans::link(&span, self.live, parent);
            }
            Happened::Planned(..) => {}
            Happened::CallSkipped => self.live.calls.controller.skipped_call(),
            Happened::Ended(ended) => self.ended(ended),
        }
    }
}
