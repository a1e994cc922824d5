//! What sources held at a version, in a file beside the compiled components: a host that starts again fetches nothing
//! that it has compiled already.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::path::PathBuf;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use windlass_core::digest::Digest;

use super::sources::Version;
use crate::api::ConfigMapSource;

/// The receipts of all sources, the last of each.
pub(super) struct Receipts {
    path: PathBuf,
    kept: Mutex<BTreeMap<String, Entry>>,
    /// Whether the file lacks what is kept: it could not be written. Held while it is written.
    lacking: Mutex<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    version: Version,
    digest: String,
}

impl Receipts {
    /// Those that an earlier process left. What cannot be read is as if it were not there: it will be fetched again.
    pub(super) fn open(path: PathBuf) -> Self {
        let read = std::fs::read(&path).and_then(|bytes| serde_json::from_slice(&bytes).map_err(io::Error::from));
        let kept = read.unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "unreadable: components are fetched again");
            }
            BTreeMap::new()
        });
        Self { path, kept: Mutex::new(kept), lacking: Mutex::default() }
    }

    /// Digest of the component that this version of the source held.
    pub(super) fn find(&self, source: &ConfigMapSource, version: Version) -> Option<Digest> {
        let kept = self.kept.lock();
        kept.get(&source.to_string()).filter(|entry| entry.version == version)?.digest.parse().ok()
    }

    /// Takes down what this version of the source holds. Blocks for the time of writing a small file.
    pub(super) fn keep(&self, source: &ConfigMapSource, version: Version, digest: Digest) {
        let entry = Entry { version, digest: digest.to_string() };
        self.change(|kept| kept.insert(source.to_string(), entry.clone()).as_ref() != Some(&entry));
    }

    /// Forgets all sources but these. Blocks as well.
    pub(super) fn retain(&self, sources: &HashSet<String>) {
        self.change(|kept| {
            let before = kept.len();
            kept.retain(|source, _| sources.contains(source));
            kept.len() != before
        });
    }

    /// Writes the file if there is something new. Whoever reads what is kept does not wait for that.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Entry>) -> bool) {
        let mut lacking = self.lacking.lock();
        let bytes = {
            let mut kept = self.kept.lock();
            if !change(&mut kept) && !*lacking {
                return;
            }
            serde_json::to_vec(&*kept)
        };
        let written = bytes.map_err(io::Error::from).and_then(|bytes| self.write(&bytes));
        *lacking = written.is_err();
        if let Err(error) = written {
            tracing::warn!(path = %self.path.display(), %error, "not written: the next start may fetch components again");
        }
    }

    /// Whole or not at all.
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
