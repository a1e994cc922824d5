//! What is live: one writer puts logic there and takes it away, and has the parents hear of it.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::ids::{Gvk, PluginName};
use windlass_core::object::Object;

use super::claim;
use super::problem::Problem;
use super::shared::Plugins;
use crate::live::Live;
use crate::queue::Trigger;

/// The longest time over which all parents of a Plugin are reconciled because of the Plugin, spread evenly.
const SPREAD_MAX: Duration = Duration::from_mins(1);
/// So long for each of them: a thousand a second is what the API server and the other plugins do not notice.
const SPREAD_OF_ONE: Duration = Duration::from_millis(1);

/// Time over which so many parents are reconciled.
fn spread(parents: usize) -> Duration {
    u32::try_from(parents).map_or(SPREAD_MAX, |parents| SPREAD_OF_ONE.saturating_mul(parents).min(SPREAD_MAX))
}

impl Plugins {
    /// Makes it live and has every parent reconciled by it.
    pub(super) fn publish(&self, object: &Object, live: Live) -> Result<(), Problem> {
        let live = Arc::new(live);
        let name = live.name.clone();
        let mut publisher = self.publisher.lock();
        // A kind of somebody else's may have any number of Plugins.
        let younger =
            if live.owns_kind() { claim::claim(self, &name, object, &live.parents.id.kind)? } else { Vec::new() };
        for younger in younger {
            tracing::warn!(plugin = %name, %younger, "takes the parent kind over from a younger Plugin");
            publisher.retract(&younger);
            self.parents.forget_group(&younger);
            self.interests.forget_plugin(&younger);
            self.known.lock().remove(&younger);
            self.queue.add(&(), &younger, Trigger::Fresh);
        }
        self.parents.set_concurrency(&name, live.concurrency);
        publisher.publish(name.clone(), live.clone());
        self.index_live();
        drop(publisher);
        // Whoever has left since the logic was prepared told the logic before it.
        live.unselected.search(&live.parents.store, live.children.values());
        let parents = self.enqueue_parents(&live, Trigger::Sweep);
        live.held.lock().forget_unless(|parent| live.knows(parent));
        live.memo.forget_unless(|parent| live.parents.store.get(parent).is_some());
        // Whoever went since the logic was prepared told the logic before it. A run of their own finds them gone.
        for gone in live.state.awaited_in_vain(|parent| live.knows(parent)) {
            self.parents.add(&name, &gone, Trigger::Sweep);
        }
        live.state.asked_in_vain(|parent| live.knows(parent));
        tracing::info!(plugin = %name, digest = %live.digest(), version = live.version, parents, "live");
        Ok(())
    }

    /// Has every parent reconciled, spread over a moment; answers with how many there are.
    ///
    /// Read now that the logic is live: a parent that comes later finds it in the registry.
    pub(super) fn enqueue_parents(&self, live: &Live, trigger: Trigger) -> usize {
        let parents = live.parents.store.keys();
        let count = parents.len();
        let spread = spread(count);
        let strays = live.unselected.all().into_iter().map(|(parent, _)| parent);
        for parent in parents.into_iter().chain(strays) {
            self.parents.add_within(&live.name, &parent, trigger, spread);
        }
        count
    }

    /// Brings the index of parents to what the registry says. Called by who holds the publisher.
    fn index_live(&self) {
        let live = self.registry.names().into_iter().filter_map(|name| {
            let watch = self.registry.get(&name)?.parents.id.clone();
            Some((name, watch))
        });
        self.index.replace(live);
    }

    /// Ends the life of logic that would lose data: its kind is stored in another version by now.
    pub(super) fn withdraw(&self, name: &PluginName, stored: &Gvk) {
        let is_another = |live: Arc<Live>| {
            let kind = &live.parents.id.kind;
            live.owns_kind() && kind.group_kind() == stored.group_kind() && kind.version != stored.version
        };
        if self.registry.get(name).is_some_and(is_another) {
            tracing::warn!(plugin = %name, %stored, "no longer live: its kind is stored in another version");
            self.retract(name);
        }
    }

    /// Ends the life of logic; answers whether there was any.
    pub(super) fn retract(&self, name: &PluginName) -> bool {
        let mut publisher = self.publisher.lock();
        let retracted = publisher.retract(name).is_some();
        self.index_live();
        drop(publisher);
        self.parents.forget_group(name);
        self.interests.forget_plugin(name);
        retracted
    }

    /// A Plugin is gone: its parents are left alone, and so is all that exists because of them.
    pub(super) fn take_down(&self, name: &PluginName) {
        if self.retract(name) {
            tracing::info!(plugin = %name, "no longer live; its parents and their children are left as they are");
        }
        self.sources.forget(name);
        self.kinds.forget(name);
        self.known.lock().remove(name);
        self.look_again();
    }

    /// A Plugin is gone for good: what it left may be another's by now.
    pub(super) fn inherit(&self) {
        for name in self.registry.names() {
            if let Some(live) = self.registry.get(&name).filter(|live| live.owns_kind()) {
                self.enqueue_parents(&live, Trigger::Sweep);
            }
        }
    }

    /// Has every Plugin looked at again that is not as it should be: one of them may have waited for another's kind.
    fn look_again(&self) {
        let known = self.known.lock();
        for (name, _) in known.iter().filter(|(_, known)| known.look.is_none()) {
            self.queue.add(&(), name, Trigger::Fresh);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_over_which_parents_are_reconciled_grows_with_the_fleet_and_is_bounded() {
        let times = [1, 1000, 10_000, 60_000, 1_000_000].map(|parents| spread(parents).as_millis());
        assert_eq!(times, [1, 1000, 10_000, 60_000, 60_000]);
    }
}
