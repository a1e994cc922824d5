//! Records the digest of each source's component, by the source's version, in a file beside the compiled components.
//! With it a restarted host does not fetch a component that it has compiled already.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use windlass_core::digest::Digest;

use super::json_file::JsonFile;
use windlass_api::ConfigMapSource;

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

/// The last version of each source that was fetched.
pub(super) struct FetchedVersions {
    kept: JsonFile<BTreeMap<String, Entry>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    version: Version,
    digest: String,
}

impl FetchedVersions {
    /// Opens the file of an earlier process. An unreadable file counts as empty: the components are fetched again.
    pub(super) fn open(path: PathBuf) -> Self {
        Self { kept: JsonFile::open(path) }
    }

    /// Digest of the component that this version of the source held.
    pub(super) fn find(&self, source: &ConfigMapSource, version: Version) -> Option<Digest> {
        let find = |kept: &BTreeMap<String, Entry>| {
            kept.get(&source.to_string()).filter(|entry| entry.version == version)?.digest.parse().ok()
        };
        self.kept.read(find)
    }

    /// Records the component that this version of the source holds. Blocks for the time of writing a small file.
    pub(super) fn keep(&self, source: &ConfigMapSource, version: Version, digest: Digest) {
        let entry = Entry { version, digest: digest.to_string() };
        self.kept.change(|kept| kept.insert(source.to_string(), entry.clone()).as_ref() != Some(&entry));
    }

    /// Removes all sources except these. Blocks for the time of writing a small file.
    pub(super) fn retain(&self, sources: &HashSet<String>) {
        self.kept.change(|kept| {
            let before = kept.len();
            kept.retain(|source, _| sources.contains(source));
            kept.len() != before
        });
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

    #[test]
    fn what_a_version_held_is_known_to_the_next_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sources.json");
        let (first, second) = (Version::of([("echo", "1")]), Version::of([("echo", "2")]));
        let before = FetchedVersions::open(path.clone());
        before.keep(&source("echo"), first, digest("a"));
        before.keep(&source("echo"), second, digest("b"));
        before.keep(&source("other"), first, digest("c"));
        before.retain(&HashSet::from([source("echo").to_string()]));

        let after = FetchedVersions::open(path);
        assert_eq!(after.find(&source("echo"), second), Some(digest("b")));
        assert_eq!(after.find(&source("echo"), first), None, "the last one alone");
        assert_eq!(after.find(&source("other"), first), None);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_as_if_it_were_not_there_and_is_written_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sources.json");
        let version = Version::of([("echo", "1")]);
        for odd in ["", "{", "[]", r#"{"n/echo":{"version":0}}"#] {
            std::fs::write(&path, odd).expect("written");
            let fetched_versions = FetchedVersions::open(path.clone());
            assert_eq!(fetched_versions.find(&source("echo"), version), None, "{odd}");
            fetched_versions.keep(&source("echo"), version, digest("a"));
            assert_eq!(FetchedVersions::open(path.clone()).find(&source("echo"), version), Some(digest("a")), "{odd}");
        }
    }
}
