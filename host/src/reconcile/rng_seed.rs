//! The seeds of the random numbers that components get, from a secret of this host that outlives the process.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use tempfile::NamedTempFile;
use windlass_core::digest::Digest;

/// The file of the secret, in the host's cache folder. Only the host's user may read it.
const FILE: &str = "random-secret";
/// Length of the secret in bytes, as for HMAC-SHA-256.
const LENGTH: usize = 32;

/// Seeds of calls: the same for the same snapshot, also after a restart, and not predictable outside the host.
pub struct RngSeeds(hmac::Key);

impl RngSeeds {
    /// Reads the secret in this folder. If it is missing or has another length, a new one is written.
    ///
    /// # Errors
    /// If the secret exists and cannot be read, or the system has no random numbers. If the secret cannot be written,
    /// only this process uses it, and the log reports that.
    pub fn open(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(FILE);
        let kept = match fs::read(&path) {
            Ok(kept) if kept.len() == LENGTH => Some(kept),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let secret = match kept {
            Some(kept) => kept,
            None => Self::make(&path)?,
        };
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &secret)))
    }

    fn make(path: &Path) -> anyhow::Result<Vec<u8>> {
        let mut secret = vec![0; LENGTH];
        SystemRandom::new().fill(&mut secret).ok().context("the system gives no random numbers")?;
        let written = NamedTempFile::new_in(path.parent().unwrap_or(path)).and_then(|mut file| {
            file.write_all(&secret)?;
            Ok(file.persist(path)?)
        });
        if let Err(error) = written {
            let message = "not written: plugins that use random numbers get others after the next start";
            tracing::warn!(path = %path.display(), %error, message);
        }
        Ok(secret)
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
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn r07_same_snapshot_gets_the_same_seed_also_after_a_restart() {
        let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let seed = |folder: &Path, of: &[u8]| RngSeeds::open(folder).expect("seeds").of(&Digest::of(of));
        let first = seed(folder.path(), b"a");
        assert_eq!(seed(folder.path(), b"a"), first);
        assert_ne!(seed(folder.path(), b"b"), first);
        assert_ne!(seed(other.path(), b"a"), first, "another host has another secret");
        let mode = fs::metadata(folder.path().join(FILE)).expect("the secret").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }

    #[test]
    fn incomplete_secret_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let seed = || RngSeeds::open(folder.path()).expect("seeds").of(&Digest::of(b"a"));
        fs::write(folder.path().join(FILE), []).expect("written");
        let first = seed();
        assert_eq!(fs::read(folder.path().join(FILE)).expect("the secret").len(), LENGTH);
        assert_eq!(seed(), first);
    }

    #[test]
    fn a_seed_is_the_hmac_of_the_snapshots_hash() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(FILE), [7; LENGTH]).expect("written");
        let seeds = RngSeeds::open(folder.path()).expect("seeds");
        // Computed with Python's `hmac`.
        let seed = Digest::from_bytes(seeds.of(&Digest::of(b"snapshot"))).to_string();
        assert_eq!(seed, "sha256:ee225c25ecaa852ea228099d8a5c67905ab17409592300d3f8c39ed8e14cc554");
    }
}
