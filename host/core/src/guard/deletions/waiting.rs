//! The deletions that wait in a rollout, and one hash over all of them.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::value::digest::Digest;
use crate::value::ids::ObjectKey;

/// The deletions of each parent that may not be carried out yet, in 256 parts, each hashed separately: in a fleet of 10 000 parents, a change of
/// one parent's deletions costs the hash of 40 entries.
#[derive(Debug, Default)]
pub(super) struct Waiting(BTreeMap<u8, Part>);

#[derive(Debug, Default)]
struct Part {
    hashes: BTreeMap<ObjectKey, Digest>,
    /// The hash of `hashes`; `None` if they changed since it was computed.
    hash: Option<Digest>,
}

impl Waiting {
    /// Sets a parent's deletions, replacing its earlier ones.
    pub(super) fn insert(&mut self, parent: &ObjectKey, hash_of_deletions: Digest) {
        let part = self.0.entry(part_of(parent)).or_default();
        part.hash = None;
        part.hashes.insert(parent.clone(), hash_of_deletions);
    }

    /// Removes a parent's deletions.
    pub(super) fn remove(&mut self, parent: &ObjectKey) {
        if let Some(part) = self.0.get_mut(&part_of(parent))
            && part.hashes.remove(parent).is_some()
        {
            part.hash = None;
        }
    }

    /// Removes all deletions.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Hashes the rollout's version (the digest of component, config, grants, limits and selectors) and all waiting deletions. Every
    /// process computes the same hash for the same deletions.
    pub(super) fn hash_with(&mut self, version: Digest) -> String {
        let mut hash = Sha256::new();
        hash.update(version.as_bytes());
        for (at, Part { hashes, hash: known }) in self.0.iter_mut().filter(|(_, part)| !part.hashes.is_empty()) {
            hash.update(usize::from(*at).to_be_bytes());
            hash.update(known.get_or_insert_with(|| hash_of(hashes)).as_bytes());
        }
        Digest::from_bytes(hash.finalize().into()).short()
    }

    /// Number of entries that the next `hash_with` hashes.
    #[cfg(test)]
    fn to_hash(&self) -> usize {
        self.0.values().filter(|part| part.hash.is_none()).map(|part| part.hashes.len()).sum()
    }
}

fn hash_of(hashes: &BTreeMap<ObjectKey, Digest>) -> Digest {
    let mut hash = Sha256::new();
    for (key, hash_of_deletions) in hashes {
        hash.update(format!("{key}\n"));
        hash.update(hash_of_deletions.as_bytes());
    }
    Digest::from_bytes(hash.finalize().into())
}

fn part_of(parent: &ObjectKey) -> u8 {
    Digest::of(parent.to_string().as_bytes()).as_bytes().first().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(at: u32) -> ObjectKey {
        ObjectKey::new(Some("n"), &format!("p{at}"))
    }

    fn deletions(number: u32) -> Digest {
        Digest::of(&number.to_be_bytes())
    }

    #[test]
    fn r09_change_of_one_parent_in_a_large_fleet_rehashes_few_parents() {
        let component = Digest::of(b"component");
        let mut waiting = Waiting::default();
        (0..10_000).for_each(|at| waiting.insert(&key(at), deletions(at)));
        assert_eq!(waiting.to_hash(), 10_000);
        let before = waiting.hash_with(component);
        assert_eq!((waiting.to_hash(), waiting.hash_with(component)), (0, before.clone()));
        waiting.insert(&key(7), deletions(8));
        assert!((1..200).contains(&waiting.to_hash()), "{}", waiting.to_hash());
        assert_ne!(waiting.hash_with(component), before);
        waiting.insert(&key(7), deletions(7));
        assert_eq!(waiting.hash_with(component), before);
        assert_ne!(waiting.hash_with(Digest::of(b"another component")), before);
    }

    proptest! {
        /// The hash depends on the waiting deletions alone, not on the order of changes that led to them.
        #[test]
        fn r09_hash_depends_only_on_the_waiting_deletions(
            changes in proptest::collection::vec((0_u32..20, proptest::option::of(0_u32..3), any::<bool>()), 0..60)
        ) {
            let component = Digest::of(b"component");
            let (mut waiting, mut model) = (Waiting::default(), BTreeMap::new());
            for (parent, planned, is_named) in changes {
                if let Some(planned) = planned {
                    waiting.insert(&key(parent), deletions(planned));
                    model.insert(parent, planned);
                } else {
                    waiting.remove(&key(parent));
                    model.remove(&parent);
                }
                if is_named {
                    waiting.hash_with(component);
                }
            }
            let mut fresh = Waiting::default();
            model.iter().rev().for_each(|(parent, planned)| fresh.insert(&key(*parent), deletions(*planned)));
            prop_assert_eq!(waiting.hash_with(component), fresh.hash_with(component));
        }
    }
}
