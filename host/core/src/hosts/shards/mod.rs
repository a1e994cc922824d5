//! Shares the parents among several hosts (`windlass run --shards`): which host owns which parent, and when a parent
//! may pass from one host to another.
//!
//! Each host that takes part holds a shard: one of N Leases. A shard with a holder is a *member*, and the owner of a
//! parent follows from the members alone (rendezvous hashing). But hosts learn of a new member, or of one that is gone,
//! at different moments. So each host writes the members that it goes by into its own Lease, its *view*, and obeys two
//! rules:
//!
//! 1. It reconciles a parent only if its view makes it the owner, and no other member's view makes that member the
//!    owner.
//! 2. It writes a new view only after the reconciles of the parents that it loses by it have ended.
//!
//! A host judges by what its watch of the Leases shows, and by its own view only once the watch shows it: everything
//! that was written before is then visible, too. So of two hosts whose views both claim a parent, at least one sees the
//! claim of the other. A host that does not renew its Lease writes nothing any more (see [`crate::hosts::lease`]) and loses its
//! shard, so no host waits for it.

pub mod announcement;
#[cfg(test)]
mod model;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::value::ids::{ObjectKey, PluginName};

pub use announcement::{Announcement, FailingShare, Rollout};

/// Number of a shard, from 0.
pub type Shard = u8;

/// Largest number of shards.
pub const SHARDS_MAX: Shard = 16;

/// A set of members.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, derive_more::Display)]
#[display("{}", _0.iter().map(Shard::to_string).collect::<Vec<_>>().join(", "))]
pub struct Members(BTreeSet<Shard>);

impl Members {
    /// The member that owns a parent of a plugin; none if there are no members. Every host computes the same owner. A
    /// member that joins or leaves changes the owners of its own share only.
    pub fn owner(&self, plugin: &PluginName, parent: &ObjectKey) -> Option<Shard> {
        let hash = hash(plugin, parent);
        self.0.iter().copied().max_by_key(|shard| weight(hash, *shard))
    }
}

impl FromIterator<Shard> for Members {
    fn from_iter<T: IntoIterator<Item = Shard>>(shards: T) -> Self {
        Self(shards.into_iter().collect())
    }
}

fn hash(plugin: &PluginName, parent: &ObjectKey) -> u64 {
    let mut hash = Sha256::new();
    for part in [plugin.as_str(), parent.namespace.as_deref().unwrap_or_default(), &*parent.name] {
        hash.update(part.as_bytes());
        hash.update(b"\n");
    }
    let hash: [u8; 32] = hash.finalize().into();
    hash.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// Mixes the bits of hash and shard (the finalizer of `SplitMix64`).
fn weight(hash: u64, shard: Shard) -> u64 {
    let mut mixed = hash ^ (u64::from(shard) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The views of all members, as one member sees them.
#[derive(Debug, Clone)]
pub struct Membership {
    own: Shard,
    /// The own view that the watch shows.
    shown: Members,
    /// Later own views, with their numbers: written, about to be written, or not written because that failed.
    later: BTreeMap<u64, Members>,
    /// Number of the last own view.
    last: u64,
    /// The views of the other members; none if a view is not known, which then may claim every parent.
    others: BTreeMap<Shard, Option<Members>>,
}

/// What a shard's Lease shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// It has no holder.
    Free,
    /// Its holder has this view.
    View(Members),
    /// Its holder's view cannot be read, for example because a user changed it.
    Unreadable,
}

impl Membership {
    /// A host that has just acquired a shard, with a view without members.
    pub fn new(own: Shard) -> Self {
        Self { own, shown: Members::default(), later: BTreeMap::new(), last: 0, others: BTreeMap::new() }
    }

    /// Records what the watch shows of another shard.
    pub fn see(&mut self, shard: Shard, seen: Seen) {
        if shard == self.own {
            return;
        }
        match seen {
            Seen::Free => drop(self.others.remove(&shard)),
            Seen::View(view) => drop(self.others.insert(shard, Some(view))),
            // A holder that had a view still has it.
            Seen::Unreadable => drop(self.others.entry(shard).or_default()),
        }
    }

    /// Records that the watch shows the own view with this number.
    pub fn see_own(&mut self, number: u64) {
        if let Some(view) = self.later.remove(&number) {
            self.shown = view;
        }
        // Views are written one after the other, so the earlier ones will not be shown any more.
        self.later.retain(|later, _| *later > number);
    }

    /// The members: this host's shard, and all others that have a holder.
    pub fn members(&self) -> Members {
        self.others.keys().copied().chain([self.own]).collect()
    }

    /// The last own view, and its number.
    pub fn view(&self) -> (&Members, u64) {
        (self.later.last_key_value().map_or(&self.shown, |(_, view)| view), self.last)
    }

    /// Makes the present members the next view, if they differ from the last one. The view must be written once no
    /// parent is reconciled that [`Claims::may_reconcile`] refuses. Returns whether there is a new view.
    pub fn adopt(&mut self) -> bool {
        let members = self.members();
        if *self.view().0 == members {
            return false;
        }
        self.last += 1;
        self.later.insert(self.last, members);
        true
    }

    /// What this host may reconcile now.
    pub fn claims(&self) -> Claims {
        let mut views = vec![self.shown.clone()];
        for view in self.later.values() {
            if !views.contains(view) {
                views.push(view.clone());
            }
        }
        // A member with the same view has no parent that this host's view gives to this host.
        let others = self.others.iter().filter(|(_, view)| view.as_ref().is_none_or(|view| !views.contains(view)));
        let others = others.map(|(shard, view)| (*shard, view.clone())).collect();
        Claims { own: self.own, views, others }
    }
}

/// The parents that a member may reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The shard of this host.
    pub own: Shard,
    /// The own views: the one that is shown, and later ones.
    views: Vec<Members>,
    /// Other views of other members; none if a view is not known.
    others: Vec<(Shard, Option<Members>)>,
}

impl Claims {
    /// Whether this host may reconcile a parent now.
    pub fn may_reconcile(&self, plugin: &PluginName, parent: &ObjectKey) -> bool {
        self.views.iter().all(|view| view.owner(plugin, parent) == Some(self.own))
            && self
                .others
                .iter()
                .all(|(other, view)| view.as_ref().is_some_and(|view| view.owner(plugin, parent) != Some(*other)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn plugin() -> PluginName {
        "echo".parse().expect("a name")
    }

    fn parents() -> impl Iterator<Item = ObjectKey> {
        (0..3000).map(|at| ObjectKey::new(Some("n"), &format!("web-{at}")))
    }

    fn owners(members: &[Shard]) -> HashMap<ObjectKey, Shard> {
        let members: Members = members.iter().copied().collect();
        parents().map(|parent| (parent.clone(), members.owner(&plugin(), &parent).expect("a member"))).collect()
    }

    #[test]
    fn h03_shares_are_about_equal_and_a_join_or_leave_moves_only_the_share_of_that_member() {
        let (two, three) = (owners(&[0, 2]), owners(&[0, 1, 2]));
        for shard in 0..3 {
            let share = three.values().filter(|owner| **owner == shard).count();
            assert!((900..1100).contains(&share), "{share} of 3000 parents");
        }
        for (parent, owner) in &three {
            assert!(*owner == 1 || two[parent] == *owner, "{parent} moved between two members that stay");
        }
        assert_eq!(Members::default().owner(&plugin(), &ObjectKey::new(None, "web")), None);
    }

    #[test]
    fn h03_owner_of_a_parent_is_the_same_in_every_version_of_the_host() {
        let members: Members = [0, 1, 2].into_iter().collect();
        let owner = |name: &str| members.owner(&plugin(), &ObjectKey::new(Some("default"), name));
        assert_eq!(["a", "b", "c", "d", "e", "f"].map(owner), [0, 1, 2, 2, 2, 1].map(Some));
    }

    #[test]
    fn h03_member_starts_with_a_gained_parent_only_when_the_former_owner_no_longer_claims_it() {
        let (both, alone): (Members, Members) = ([0, 1].into_iter().collect(), [0].into_iter().collect());
        let parent = parents().find(|parent| both.owner(&plugin(), parent) == Some(1)).expect("a parent");
        let mut joining = Membership::new(1);
        let may = |host: &Membership| host.claims().may_reconcile(&plugin(), &parent);
        joining.see(0, Seen::View(alone));
        assert!(joining.adopt() && !may(&joining), "the own view is not shown yet");
        joining.see_own(1);
        assert!(!may(&joining), "the view of the former owner claims it");
        joining.see(0, Seen::View(both));
        assert!(may(&joining));
        assert!(!joining.adopt(), "the members are the same");
        joining.see(0, Seen::Unreadable);
        assert!(may(&joining), "it still has the view that it had");
        joining.see(2, Seen::Unreadable);
        assert!(!may(&joining), "a holder whose view was never known may claim every parent");
        joining.see(2, Seen::Free);
        joining.see(0, Seen::Free);
        assert!(joining.adopt() && may(&joining), "the parents that it had stay");
    }
}
