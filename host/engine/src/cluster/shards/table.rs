//! The Leases of all shards, as a host sees them, and for how long none of them changed.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::ResourceExt as _;
use windlass_core::hosts::lease::{Identity, LeaseState, Observations, Step, Timing, WhileHeld};
use windlass_core::hosts::shards::{Announcement, Seen, Shard};
use windlass_core::object::names::ANNOTATION_SHARD;

use crate::clock;
use crate::cluster::lease::{Leases, shard_of};

/// The Leases of the shards that exist, or existed.
#[derive(Debug, Default)]
pub(super) struct Table(BTreeMap<Shard, Entry>);

#[derive(Debug, Default)]
struct Entry {
    /// None if the Lease was deleted.
    lease: Option<Lease>,
    version: u64,
    /// Duration after which the Lease expires, also if it was deleted.
    duration: Duration,
    observed: Observations,
}

/// A shard's Lease that its holder has not renewed in time.
pub(super) struct Expired {
    pub shard: Shard,
    pub lease: Lease,
}

impl Table {
    /// Records a Lease. An older version than the known one is ignored.
    pub(super) fn note(&mut self, lease: Lease) {
        let Some(shard) = shard_of(&lease.name_any()) else { return };
        let version = version_of(&lease);
        let entry = self.0.entry(shard).or_default();
        if version >= entry.version {
            let seconds = lease.spec.as_ref().and_then(|spec| u64::try_from(spec.lease_duration_seconds?).ok());
            entry.duration = seconds.map_or(entry.duration, Duration::from_secs);
            (entry.version, entry.lease) = (version, Some(lease));
        }
    }

    /// Records that a Lease was deleted. Its holder may still write, until it tries to renew it.
    pub(super) fn note_deleted(&mut self, lease: &Lease) {
        if let Some(entry) = shard_of(&lease.name_any()).and_then(|shard| self.0.get_mut(&shard)) {
            entry.lease = None;
        }
    }

    /// Records a complete list.
    pub(super) fn note_list(&mut self, leases: Vec<Lease>) {
        for (shard, entry) in &mut self.0 {
            if !leases.iter().any(|lease| shard_of(&lease.name_any()) == Some(*shard)) {
                entry.lease = None;
            }
        }
        for lease in leases {
            self.note(lease);
        }
    }

    /// What each shard's Lease shows now, and forgets deleted Leases whose time has passed.
    pub(super) fn seen(&mut self, timing: Timing, now: Duration) -> Vec<(Shard, Seen)> {
        let mut seen = Vec::new();
        self.0.retain(|shard, entry| {
            let is_over = entry.lease.is_none() && entry.silent(now) >= timing.lease_duration.max(entry.duration);
            seen.push((*shard, if is_over { Seen::Free } else { entry.seen() }));
            !is_over
        });
        seen
    }

    /// The announcements of the shards with a holder. A holder whose announcement cannot be read has seen nothing.
    pub(super) fn announcements(&self) -> impl Iterator<Item = (Shard, Announcement)> {
        let held = self.0.iter().filter(|(_, entry)| entry.seen() != Seen::Free);
        held.map(|(shard, entry)| (*shard, entry.announcement().unwrap_or_default()))
    }

    /// The own Lease's announcement and version.
    pub(super) fn own(&self, shard: Shard) -> Option<(Announcement, u64)> {
        let entry = self.0.get(&shard)?;
        Some((entry.announcement()?, entry.version))
    }

    /// The holders of all shards, for the log.
    pub(super) fn holders(&self) -> Vec<String> {
        self.0.values().filter_map(|entry| holder_of(entry.lease.as_ref()?)).map(str::to_owned).collect()
    }

    /// The shards whose holders have not renewed their Leases for this long and the lease duration.
    pub(super) fn expired(&mut self, timing: Timing, patience: Duration, now: Duration) -> Vec<Expired> {
        let is_over = |entry: &mut Entry| {
            entry.seen() != Seen::Free
                && entry.silent(now) >= timing.lease_duration.max(entry.duration).saturating_add(patience)
        };
        let expired = self.0.iter_mut().filter_map(|(shard, entry)| {
            let is_over = is_over(entry);
            entry.lease.clone().filter(|_| is_over).map(|lease| Expired { shard: *shard, lease })
        });
        expired.collect()
    }

    /// The shards of these that a host may take, with their Leases if they exist: the one that an earlier process of the
    /// same host held comes first.
    pub(super) fn takeable(
        &mut self,
        count: Shard,
        own: &Identity,
        leases: &Leases,
        now: Duration,
    ) -> Vec<(Shard, Option<Lease>)> {
        let mut free = Vec::new();
        for shard in 0..count {
            let Some(entry) = self.0.get_mut(&shard) else {
                free.push((shard, None));
                continue;
            };
            let silent = entry.silent(now);
            let state = match &entry.lease {
                Some(lease) if entry.seen() == Seen::Free => LeaseState { holder: None, ..leases.read(lease) },
                Some(lease) if holder_of(lease).is_some() => leases.read(lease),
                // Its holder does not know yet that a user changed or deleted the Lease.
                Some(_) | None => LeaseState::deleted(leases.timing.lease_duration),
            };
            let step = state.step(own, clock::date(), &entry.observed, silent, WhileHeld::StandBy);
            if step == Step::Take {
                free.push((shard, entry.lease.clone()));
            }
        }
        let own = own.to_string();
        free.sort_by_key(|(_, lease)| lease.as_ref().and_then(holder_of) != Some(&own));
        free
    }
}

impl Entry {
    fn silent(&mut self, now: Duration) -> Duration {
        let version = self.lease.as_ref().map(|lease| version_of(lease).to_string());
        self.observed.note(version.as_deref(), now)
    }

    fn announcement(&self) -> Option<Announcement> {
        Announcement::parse(annotation_of(self.lease.as_ref()?))
    }

    fn seen(&self) -> Seen {
        let Some(lease) = &self.lease else { return Seen::Unreadable };
        if holder_of(lease).is_none() && annotation_of(lease).is_none() {
            return Seen::Free;
        }
        self.announcement().map_or(Seen::Unreadable, |announcement| Seen::View(announcement.members))
    }
}

/// The spec of an expired Lease without its holder. The number of transitions grows, so that a holder which was only
/// suspended notices that it lost the shard.
pub(super) fn without_holder(lease: &Lease) -> LeaseSpec {
    let spec = lease.spec.clone().unwrap_or_default();
    let transitions = spec.lease_transitions.unwrap_or_default().saturating_add(1);
    LeaseSpec { holder_identity: None, lease_transitions: Some(transitions), ..spec }
}

pub(super) fn version_of(lease: &Lease) -> u64 {
    lease.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn holder_of(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

fn annotation_of(lease: &Lease) -> Option<&str> {
    lease.annotations().get(ANNOTATION_SHARD).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(version: u64, holder: Option<&str>, announcement: Option<&Announcement>) -> Lease {
        let annotations = announcement.map(|text| [(ANNOTATION_SHARD.to_owned(), text.to_text())].into());
        let metadata = kube::api::ObjectMeta {
            name: Some("windlass-shard-1".to_owned()),
            resource_version: Some(version.to_string()),
            annotations,
            ..Default::default()
        };
        let spec = LeaseSpec { holder_identity: holder.map(str::to_owned), ..LeaseSpec::default() };
        Lease { metadata, spec: Some(spec) }
    }

    #[test]
    fn h03_shard_is_free_only_if_its_holder_released_it_or_it_expired() {
        let announcement = Announcement { members: [0, 1].into_iter().collect(), ..Announcement::default() };
        let mut table = Table::default();
        let mut seen = |change: &dyn Fn(&mut Table), seconds| {
            change(&mut table);
            table.seen(Timing::default(), Duration::from_secs(seconds)).pop().map(|(_, seen)| seen)
        };
        let held = Some(Seen::View(announcement.members.clone()));
        assert_eq!(seen(&|table| table.note(lease(5, Some("a"), Some(&announcement))), 1), held);
        assert_eq!(seen(&|table| table.note(lease(4, None, None)), 1), held, "an older version");
        let emptied = |table: &mut Table| table.note(lease(6, None, Some(&announcement)));
        assert_eq!(seen(&emptied, 1), held, "a user emptied the holder, who still writes");
        assert_eq!(seen(&|table| table.note(lease(7, Some("a"), None)), 1), Some(Seen::Unreadable));
        assert_eq!(seen(&|table| table.note(lease(8, None, None)), 1), Some(Seen::Free), "released");
        seen(&|table| table.note(lease(9, Some("a"), Some(&announcement))), 2);
        let deleted = |table: &mut Table| table.note_list(Vec::new());
        assert_eq!([3, 17].map(|seconds| seen(&deleted, seconds)), [Some(Seen::Unreadable), Some(Seen::Unreadable)]);
        assert_eq!(seen(&deleted, 18), Some(Seen::Free), "its time has passed");
    }
}
