//! What sources held at a version, in a file beside the compiled components: a host that starts again fetches nothing
//! that it has compiled already.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use windlass_core::digest::Digest;

use super::kept::Kept;
use super::sources::Version;
use windlass_api::ConfigMapSource;

/// The receipts of all sources, the last of each.
pub(super) struct Receipts {
    kept: Kept<BTreeMap<String, Entry>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    version: Version,
    digest: String,
}

impl Receipts {
    /// Those that an earlier process left. What cannot be read is as if it were not there: it will be fetched again.
    pub(super) fn open(path: PathBuf) -> Self {
        Self { kept: Kept::open(path) }
    }

    /// Digest of the component that this version of the source held.
    pub(super) fn find(&self, source: &ConfigMapSource, version: Version) -> Option<Digest> {
        let find = |kept: &BTreeMap<String, Entry>| {
            kept.get(&source.to_string()).filter(|entry| entry.version == version)?.digest.parse().ok()
        };
        self.kept.read(find)
    }

    /// Takes down what this version of the source holds. Blocks for the time of writing a small file.
    pub(super) fn keep(&self, source: &ConfigMapSource, version: Version, digest: Digest) {
        let entry = Entry { version, digest: digest.to_string() };
        self.kept.change(|kept| kept.insert(source.to_string(), entry.clone()).as_ref() != Some(&entry));
    }

    /// Forgets all sources but these. Blocks as well.
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
        let before = Receipts::open(path.clone());
        before.keep(&source("echo"), first, digest("a"));
        before.keep(&source("echo"), second, digest("b"));
        before.keep(&source("other"), first, digest("c"));
        before.retain(&HashSet::from([source("echo").to_string()]));

        let after = Receipts::open(path);
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
            let receipts = Receipts::open(path.clone());
            assert_eq!(receipts.find(&source("echo"), version), None, "{odd}");
            receipts.keep(&source("echo"), version, digest("a"));
            assert_eq!(Receipts::open(path.clone()).find(&source("echo"), version), Some(digest("a")), "{odd}");
        }
    }
}
