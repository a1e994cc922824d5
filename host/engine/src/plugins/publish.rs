//! Publishes and unpublishes live components, and queues their parents.

use std::sync::Arc;
use std::time::Duration;

use windlass_api::Plugin;
use windlass_core::object::Object;
use windlass_core::value::ids::{Gvk, PluginName};

use super::claim;
use super::problem::Problem;
use super::shared::Plugins;
use crate::clock;
use crate::live::Live;
use crate::queue::Trigger;

/// Longest time over which all parents of a Plugin are reconciled at once, spread evenly.
const SPREAD_MAX: Duration = Duration::from_mins(1);

/// Why all parents of a Plugin are reconciled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wave {
    /// The Plugin changed, so every parent may need writes: a thousand reconciles a second do not disturb the API server
    /// or other plugins.
    Changed,
    /// This host goes on with the component of an earlier leader. Few parents changed meanwhile, and these must not wait
    /// for the others.
    Resumed,
}

impl Wave {
    /// Time over which this many parents are reconciled.
    pub(super) fn spread(self, parents: usize) -> Duration {
        let of_one = match self {
            Self::Changed => Duration::from_millis(1),
            Self::Resumed => Duration::from_micros(50),
        };
        u32::try_from(parents).map_or(SPREAD_MAX, |parents| of_one.saturating_mul(parents).min(SPREAD_MAX))
    }
}

impl Plugins {
    /// Publishes a component, and queues every parent for a reconcile with it.
    pub(super) fn publish(&self, object: &Object, live: Live, wave: Wave) -> Result<(), Problem> {
        let live = Arc::new(live);
        let name = live.terms.name.clone();
        let mut publisher = self.state.publisher.lock();
        // A kind with another owner may have any number of Plugins.
        let younger =
            if live.terms.owns_kind { claim::claim(self, &name, object, &live.terms.parents)? } else { Vec::new() };
        for younger in younger {
            tracing::warn!(plugin = %name, %younger, "parent kind taken from a Plugin with a newer claim");
            publisher.retract(&younger);
            self.parents.forget_group(&younger);
            self.interests.forget_plugin(&younger);
            self.forget(&younger);
            self.queue.add(&(), &younger, Trigger::Changed);
        }
        self.parents.set_concurrency(&name, live.terms.settings.concurrency);
        publisher.publish(name.clone(), live.clone());
        self.index_live();
        drop(publisher);
        // Parents that left the selector since the preparation were reported to the previous component only.
        live.caches.unselected.search(&live.caches.parents.store, live.caches.children.values());
        let parents = self.enqueue_parents(&live, Trigger::Sweep, wave);
        // A reconcile of a parent that is gone forgets its last writes, as soon as the caches show them.
        for gone in live.shared.records.forget_unless(|parent| live.knows(parent), clock::now()) {
            self.parents.add(&name, &gone, Trigger::Sweep);
        }
        self.wait_for_no_parent_that_is_gone(&live);
        tracing::info!(plugin = %name, digest = %live.digest(), version = live.terms.version, parents, "component activated");
        Ok(())
    }

    /// Parents that were deleted since the state of a live component was prepared were reported to the previous state. A
    /// reconcile of their own finds them gone.
    pub(super) fn wait_for_no_parent_that_is_gone(&self, live: &Live) {
        for gone in live.shared.state.awaited_in_vain(|parent| live.knows(parent)) {
            self.parents.add(&live.terms.name, &gone, Trigger::Sweep);
        }
        live.shared.state.forget_unreconciled(|parent| live.knows(parent));
    }

    /// Queues every parent and former parent, spread over a time; returns the number of parents.
    ///
    /// The parents are read after the component was published: a parent that is created later finds it in the registry.
    pub(super) fn enqueue_parents(&self, live: &Live, trigger: Trigger, wave: Wave) -> usize {
        let parents = live.caches.parents.store.keys();
        let count = parents.len();
        let spread = wave.spread(count);
        let unselected = live.caches.unselected.all().into_iter().map(|(parent, _)| parent);
        for parent in parents.into_iter().chain(unselected) {
            self.parents.add_within(&live.terms.name, &parent, trigger, spread);
        }
        count
    }

    /// Updates the index of parents from the registry. The caller holds the publisher's lock.
    fn index_live(&self) {
        let live = self.registry.names().into_iter().filter_map(|name| {
            let watch = self.registry.get(&name)?.caches.parents.id.clone();
            Some((name, watch))
        });
        self.index.replace(live);
    }

    /// Unpublishes the live component if it would lose data: its kind has another storage version now.
    pub(super) fn withdraw(&self, name: &PluginName, stored: &Gvk) {
        let is_another = |live: Arc<Live>| {
            let kind = &live.terms.parents;
            live.terms.owns_kind && kind.group_kind() == stored.group_kind() && kind.version != stored.version
        };
        if self.registry.get(name).is_some_and(is_another) {
            tracing::warn!(plugin = %name, %stored, "no longer live: its kind is stored in another version");
            self.retract(name);
        }
    }

    /// Unpublishes the live component if its Plugin no longer grants its parent kind: it must see no further object of it.
    pub(super) fn revoke(&self, name: &PluginName, plugin: &Plugin) {
        let is_revoked = |live: Arc<Live>| {
            let (kind, is_namespaced) = (&live.terms.parents, live.caches.unselected.namespaced);
            let grants = plugin.spec.grants.spec_grants();
            !live.terms.owns_kind && grants.may_reconcile(kind, is_namespaced, live.terms.sets_finalizer()).is_err()
        };
        if self.registry.get(name).is_some_and(is_revoked) {
            tracing::warn!(plugin = %name, "no longer live: the Plugin does not grant the parent kind any more");
            self.retract(name);
        }
    }

    /// Unpublishes the live component; returns whether there was one.
    pub(super) fn retract(&self, name: &PluginName) -> bool {
        let mut publisher = self.state.publisher.lock();
        let retracted = publisher.retract(name).is_some();
        self.index_live();
        drop(publisher);
        self.parents.forget_group(name);
        self.interests.forget_plugin(name);
        self.shards.retracted(name);
        retracted
    }

    /// Unpublishes a deleted Plugin: its parents and their children are left alone.
    pub(super) fn unpublish(&self, name: &PluginName) {
        if self.retract(name) {
            tracing::info!(plugin = %name, "no longer live; its parents and their children are left as they are");
        }
        self.sources.forget(name);
        self.kinds.forget(name);
        self.recorder.forget(name);
        self.forget(name);
        self.requeue_failing();
    }

    /// Forgets a Plugin, but not what was written for its parents: it may come back before the caches show that.
    fn forget(&self, name: &PluginName) {
        let mut known = self.state.known.lock();
        known.remove(name);
        let now = clock::now();
        // The records of Plugins that are gone remain only while they have writes, or a reconcile still runs. Such a reconcile may have
        // added to them after its Plugin was forgotten, so those of earlier Plugins are cleared as well.
        self.state.records.lock().retain(|plugin, records| {
            if !known.contains_key(plugin) {
                records.forget_all_but_writes(now);
            }
            Arc::strong_count(records) > 1 || !records.is_empty()
        });
    }

    /// Queues the parents of all other plugins of custom kinds after a Plugin is gone: they may adopt its children.
    pub(super) fn inherit(&self) {
        for name in self.registry.names() {
            if let Some(live) = self.registry.get(&name).filter(|live| live.terms.owns_kind) {
                self.enqueue_parents(&live, Trigger::Sweep, Wave::Changed);
            }
        }
    }

    /// Queues every Plugin with a problem: it may have waited for the kind of another Plugin.
    fn requeue_failing(&self) {
        let known = self.state.known.lock();
        for (name, _) in known.iter().filter(|(_, known)| known.last.is_none()) {
            self.queue.add(&(), name, Trigger::Changed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_over_which_parents_are_reconciled_grows_with_the_fleet_and_is_bounded() {
        let times = |wave: Wave| [1000, 10_000, 60_000, 10_000_000].map(|parents| wave.spread(parents).as_millis());
        assert_eq!(times(Wave::Changed), [1000, 10_000, 60_000, 60_000]);
        assert_eq!(times(Wave::Resumed), [50, 500, 3000, 60_000]);
    }
}
