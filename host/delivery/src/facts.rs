//! Records the digest of each source's last fetched version, and the keys that signed each component. With this record
//! a restarted host does not fetch a component that it has compiled already, and a rollback does not need a registry,
//! which may be down.
//!
//! The record is one small JSON file in the folder of compiled components. It is written atomically. An error never
//! stops the host: components that are missing in the record are fetched or verified again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use windlass_api::ConfigMapSource;
use windlass_core::value::digest::Digest;

use super::blocking;
use super::trust::Trust;

/// Name of the file in the folder of compiled components.
const FILE: &str = "facts.json";

/// Hash of the state of a source's ConfigMaps: the head, and all ConfigMaps that may be parts of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(u64);

impl Version {
    /// The version of ConfigMaps, given as pairs of name and state, ordered by name.
    pub(super) fn of<'a>(maps: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let text = maps.into_iter().fold(String::new(), |text, (name, state)| text + name + " " + state + "\n");
        Self(u64::from_be_bytes(*Digest::of(text.as_bytes()).as_bytes().first_chunk().unwrap_or(&[0; 8])))
    }
}

/// The record and its file. Clones share both.
#[derive(Clone)]
pub struct Facts(Arc<File>);

struct File {
    path: PathBuf,
    known: Mutex<Known>,
    /// Whether the file is older than `known`, because it could not be written. Locked while the file is written.
    is_behind: Mutex<bool>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    /// For each source, by its namespace and name: the last version that was fetched.
    fetched: BTreeMap<String, Fetched>,
    /// For each component, by its digest: fingerprints of the key sets with which it was verified.
    verified: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Fetched {
    version: Version,
    digest: String,
}

impl Facts {
    /// Opens the file of an earlier process. An unreadable file counts as empty.
    pub fn open(folder: &Path) -> Self {
        let path = folder.join(FILE);
        let read = std::fs::read(&path).and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::from));
        let known = read.unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "unreadable file of facts ignored: components are fetched and their signatures verified again");
            }
            Known::default()
        });
        Self(Arc::new(File { path, known: Mutex::new(known), is_behind: Mutex::default() }))
    }

    /// The digest of the component in this version of a source; `None` if this version was not fetched.
    pub fn fetched(&self, source: &ConfigMapSource, version: Version) -> Option<Digest> {
        let known = self.0.known.lock();
        known.fetched.get(&source.to_string()).filter(|fetched| fetched.version == version)?.digest.parse().ok()
    }

    /// Records the digest of the component that was fetched after the watch showed this version of a source.
    pub async fn note_fetched(&self, source: &ConfigMapSource, version: Version, digest: Digest) {
        let (source, fetched) = (source.to_string(), Fetched { version, digest: digest.to_string() });
        self.change(move |known| known.fetched.insert(source, fetched.clone()) != Some(fetched)).await;
    }

    /// Whether a component was verified with these keys; true if there are no keys, so that signatures are not checked.
    pub fn is_verified(&self, component: Digest, trust: Option<&Trust>) -> bool {
        let Some(trust) = trust else { return true };
        let (component, keys) = (component.to_string(), trust.fingerprint().to_string());
        self.0.known.lock().verified.get(&component).is_some_and(|by| by.contains(&keys))
    }

    /// Records that a component was verified with these keys, if there are any.
    pub async fn note_verified(&self, component: Digest, trust: Option<&Trust>) {
        let Some(trust) = trust else { return };
        let (component, keys) = (component.to_string(), trust.fingerprint().to_string());
        self.change(move |known| known.verified.entry(component).or_default().insert(keys)).await;
    }

    /// Removes the records of all other sources and components.
    pub async fn retain(&self, sources: HashSet<String>, components: &HashSet<Digest>) {
        let components: HashSet<_> = components.iter().map(ToString::to_string).collect();
        let forget = move |known: &mut Known| {
            let before = (known.fetched.len(), known.verified.len());
            known.fetched.retain(|source, _| sources.contains(source));
            known.verified.retain(|component, _| components.contains(component));
            (known.fetched.len(), known.verified.len()) != before
        };
        self.change(forget).await;
    }

    /// Changes the content, and writes the file if `change` returns true.
    async fn change(&self, change: impl FnOnce(&mut Known) -> bool + Send + 'static) {
        let file = self.0.clone();
        // `File::change` logs a failure.
        let _ = blocking(move || file.change(change)).await;
    }
}

impl File {
    /// Changes the content, and writes the file if `change` returns true or the last write failed. Readers of the
    /// content do not wait for the write.
    fn change(&self, change: impl FnOnce(&mut Known) -> bool) {
        let mut is_behind = self.is_behind.lock();
        let bytes = {
            let mut known = self.known.lock();
            if !change(&mut known) && !*is_behind {
                return;
            }
            serde_json::to_vec(&*known)
        };
        let written = bytes.map_err(io::Error::from).and_then(|bytes| self.write(&bytes));
        *is_behind = written.is_err();
        if let Err(error) = written {
            tracing::warn!(path = %self.path.display(), %error, "file of facts not written: the next start may fetch components and verify their signatures again");
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = NamedTempFile::new_in(self.path.parent().unwrap_or(&self.path))?;
        file.write_all(bytes)?;
        file.persist(&self.path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str) -> ConfigMapSource {
        ConfigMapSource { namespace: "n".to_owned(), name: name.to_owned() }
    }

    fn digest(of: &str) -> Digest {
        Digest::of(of.as_bytes())
    }

    #[tokio::test]
    async fn next_process_knows_the_last_version_of_each_source() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (Version::of([("echo", "1")]), Version::of([("echo", "2")]));
        let before = Facts::open(folder.path());
        before.note_fetched(&source("echo"), first, digest("a")).await;
        before.note_fetched(&source("echo"), second, digest("b")).await;
        before.note_fetched(&source("other"), first, digest("c")).await;
        before.retain(HashSet::from([source("echo").to_string()]), &HashSet::new()).await;

        let after = Facts::open(folder.path());
        assert_eq!(after.fetched(&source("echo"), second), Some(digest("b")));
        assert_eq!(after.fetched(&source("echo"), first), None, "an older version is not kept");
        assert_eq!(after.fetched(&source("other"), first), None, "the source is no longer used");
    }

    #[tokio::test]
    async fn next_process_knows_with_which_keys_a_component_was_verified() {
        let folder = tempfile::tempdir().expect("a folder");
        let (ours, theirs) = (Trust::of_keys(&[b"a"]), Trust::of_keys(&[b"a", b"b"]));
        let before = Facts::open(folder.path());
        before.note_verified(digest("one"), Some(&ours)).await;
        before.note_verified(digest("other"), Some(&ours)).await;
        before.retain(HashSet::new(), &HashSet::from([digest("one")])).await;

        let after = Facts::open(folder.path());
        assert!(after.is_verified(digest("one"), Some(&ours)));
        assert!(!after.is_verified(digest("one"), Some(&theirs)), "with other keys it must be verified again");
        assert!(!after.is_verified(digest("other"), Some(&ours)), "the component is no longer used");
    }

    #[tokio::test]
    async fn unreadable_file_counts_as_empty_and_is_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let version = Version::of([("echo", "1")]);
        for odd in ["", "{", "[]", r#"{"fetched":{"n/echo":{"version":0}},"verified":{}}"#] {
            std::fs::write(folder.path().join(FILE), odd).expect("written");
            let facts = Facts::open(folder.path());
            assert_eq!(facts.fetched(&source("echo"), version), None, "{odd}");
            facts.note_fetched(&source("echo"), version, digest("a")).await;
            assert_eq!(Facts::open(folder.path()).fetched(&source("echo"), version), Some(digest("a")), "{odd}");
        }
    }
}
