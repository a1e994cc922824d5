//! Records which components were verified, and with which keys. With it a rollback or a restarted host need not reach a
//! registry, which may be down.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use windlass_core::digest::Digest;

use super::Trust;
use crate::json_file::JsonFile;

/// The verified components, in a file beside the compiled ones.
#[derive(Clone)]
pub struct VerifiedDigests {
    /// Fingerprints of key sets, by the component's digest.
    kept: Arc<JsonFile<BTreeMap<String, BTreeSet<String>>>>,
}

impl VerifiedDigests {
    /// Opens the file of an earlier process. An unreadable file counts as empty: the components are verified again.
    pub fn open(path: PathBuf) -> Self {
        Self { kept: Arc::new(JsonFile::open(path)) }
    }

    /// Whether the component was verified with these keys.
    pub fn find(&self, component: Digest, trust: &Trust) -> bool {
        let (component, keys) = (component.to_string(), trust.fingerprint().to_string());
        self.kept.read(|kept| kept.get(&component).is_some_and(|by| by.contains(&keys)))
    }

    /// Records that the component was verified with these keys.
    pub async fn keep(&self, component: Digest, trust: &Trust) {
        let (component, keys) = (component.to_string(), trust.fingerprint().to_string());
        self.change(move |kept| kept.entry(component).or_default().insert(keys)).await;
    }

    /// Removes all components except these.
    pub async fn retain(&self, used: &HashSet<Digest>) {
        let used: HashSet<_> = used.iter().map(ToString::to_string).collect();
        let forget = move |kept: &mut BTreeMap<String, BTreeSet<String>>| {
            let before = kept.len();
            kept.retain(|component, _| used.contains(component));
            kept.len() != before
        };
        self.change(forget).await;
    }

    async fn change(&self, change: impl FnOnce(&mut BTreeMap<String, BTreeSet<String>>) -> bool + Send + 'static) {
        let kept = self.kept.clone();
        // A failure is logged there.
        let _ = tokio::task::spawn_blocking(move || kept.change(change)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_voucher_is_for_a_component_and_the_very_keys_also_in_the_next_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("signed.json");
        let (ours, theirs) = (Trust::of_keys(&[b"a"]), Trust::of_keys(&[b"a", b"b"]));
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        let before = VerifiedDigests::open(path.clone());
        before.keep(one, &ours).await;
        before.keep(other, &ours).await;
        before.retain(&HashSet::from([one])).await;

        let after = VerifiedDigests::open(path);
        assert!(after.find(one, &ours));
        assert!(!after.find(one, &theirs), "who trusts others as well must look again");
        assert!(!after.find(other, &ours), "forgotten");
    }
}
