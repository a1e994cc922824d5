//! What telemetry reads of a running host: its queue, its live components and their parents.

use std::sync::Arc;

use windlass_core::object::Object;
use windlass_core::object::conditions::{conditions_of, type_of};
use windlass_core::object::names::plugin_condition;
use windlass_core::object::observed_status::observed;
use windlass_core::object::reason::PluginReason;
use windlass_core::reconcile::shared::records::FailureCounts;
use windlass_core::value::ids::{ObjectKey, PluginName};
use windlass_core::value::json::Value;

use crate::cluster::lease::{self, WriteGate};
use crate::cluster::shards::Shards;
use crate::cluster::watch::Watch;
use crate::live::Live;
use crate::live::registry::Registry;
use crate::queue::Queue;
use crate::telemetry::{self, PluginCondition, PluginState};

/// Whether this host holds each Lease. It holds none that it could not renew in time, even if no other host has taken it.
fn leases(shards: Vec<(String, bool)>, gate: &WriteGate) -> Vec<(String, bool)> {
    let shards = shards.into_iter().map(|(name, is_own)| (name, is_own && gate.shard.is_open()));
    shards.chain([(lease::NAME.to_owned(), gate.leads())]).collect()
}

/// Exports the states of the parents' queue, of the live components and of the Leases.
pub(super) fn observe(
    parents: &Queue<PluginName, ObjectKey>,
    registry: &Registry<Live>,
    shards: &Shards,
    gate: &WriteGate,
) {
    let (queue, live, shards, gate) = (parents.clone(), registry.clone(), shards.clone(), gate.clone());
    let (all, leader) = (shards.clone(), gate.clone());
    telemetry::observe_leases(move || leases(all.claimed(), &leader));
    telemetry::observe_queues(move || {
        queue.groups().into_iter().map(|(plugin, state)| (plugin.to_string(), state)).collect()
    });
    telemetry::observe_plugins(move || {
        let states = live.names().into_iter().filter_map(|name| {
            let live = live.get(&name)?;
            let (parents, failures) = counts(&live, &shards);
            Some(PluginState {
                plugin: name.to_string(),
                digest: live.digest().to_string(),
                version: live.terms.version.clone(),
                parents,
                failing: failures.failing,
                blocked: failures.blocked,
                // A sum over all hosts counts each child once.
                children: if live.shared.state.share().is_none() || gate.leads() {
                    let of = |watch: &Arc<Watch>| (watch.id.kind.to_string(), watch.store.children_of(name.as_str()));
                    live.caches.children.values().map(of).collect()
                } else {
                    Vec::new()
                },
                quarantined: live.shared.state.is_quarantined(),
            })
        });
        states.collect()
    });
}

/// Exports the conditions of the Plugins as a whole: those that say whether somebody must look at a Plugin.
pub(super) fn observe_conditions(own: &Arc<Watch>) {
    let own = own.clone();
    let conditions = |plugin: &Object| {
        let status = observed(plugin);
        let found = [plugin_condition::READY, plugin_condition::AVAILABLE].into_iter().filter_map(|kind| {
            let condition = conditions_of(&status).find(|condition| type_of(condition) == Some(kind))?;
            let value = |field: &str| condition.get(field).and_then(Value::as_str);
            let status = ["True", "False", "Unknown"].into_iter().find(|status| Some(*status) == value("status"))?;
            let reason = value("reason")?.parse::<PluginReason>().ok()?.as_str();
            Some(PluginCondition { plugin: plugin.key.name.to_string(), kind, status, reason })
        });
        Some(found.collect::<Vec<_>>())
    };
    telemetry::observe_conditions(move || own.store.pick(conditions).into_iter().flatten().collect());
}

/// Number of a plugin's parents that this host reconciles, and how many of them fail.
fn counts(live: &Live, shards: &Shards) -> (usize, FailureCounts) {
    let Some(share) = live.shared.state.share() else {
        return (live.caches.parent_count(), live.shared.records.failure_counts(|_| true));
    };
    let is_ours = |parent: &ObjectKey| shards.may_reconcile(&live.terms.name, &share.hash, parent);
    let parents = live.caches.count_parents(|parent| is_ours(&parent.key));
    (parents, live.shared.records.failure_counts(is_ours))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lease_that_could_not_be_renewed_in_time_is_not_held() {
        let gate = WriteGate::default();
        gate.need_shard();
        let held = |gate: &WriteGate| {
            let shards = vec![("windlass-shard-0".to_owned(), false), ("windlass-shard-1".to_owned(), true)];
            leases(shards, gate).into_iter().filter(|(_, is_held)| *is_held).map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert!(held(&gate).is_empty());
        gate.shard.open_until(Duration::MAX);
        assert_eq!(held(&gate), ["windlass-shard-1"]);
        gate.leader.open_until(Duration::MAX);
        assert_eq!(held(&gate), ["windlass-shard-1", "windlass"]);
        gate.shard.close();
        assert!(held(&gate).is_empty(), "without its shard, the host does not lead either");
    }
}
