//! The seeds of the random numbers that components get, from a key that all hosts of the namespace share.

use ring::hmac;
use windlass_core::value::digest::Digest;

use crate::cluster::secret_key::LENGTH;

/// Seeds of calls: the same for the same snapshot, also on another host, and not predictable without the key.
pub struct RngSeeds(hmac::Key);

impl RngSeeds {
    /// The seeds by this key.
    pub fn new(key: &[u8; LENGTH]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// The seed of the call with the snapshot of this hash.
    pub fn of(&self, snapshot: &Digest) -> [u8; LENGTH] {
        let mut seed = [0; LENGTH];
        seed.copy_from_slice(hmac::sign(&self.0, snapshot.as_bytes()).as_ref());
        seed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r07_same_snapshot_gets_the_same_seed_from_every_host_with_the_same_key() {
        let seed = |key: u8, of: &[u8]| RngSeeds::new(&[key; LENGTH]).of(&Digest::of(of));
        let first = seed(1, b"a");
        assert_eq!(seed(1, b"a"), first);
        assert_ne!(seed(1, b"b"), first);
        assert_ne!(seed(2, b"a"), first);
    }

    #[test]
    fn r07_seed_is_the_hmac_of_the_snapshots_hash() {
        // Computed with Python's `hmac`.
        let seed = Digest::from_bytes(RngSeeds::new(&[7; LENGTH]).of(&Digest::of(b"snapshot"))).to_string();
        assert_eq!(seed, "sha256:ee225c25ecaa852ea228099d8a5c67905ab17409592300d3f8c39ed8e14cc554");
    }
}
