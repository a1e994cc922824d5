//! Remembers the kinds of children that a plugin has ever known, to find those that it may no longer own, because a new
//! component does not declare them or the Plugin no longer grants them. Existing children of such a kind are left
//! alone.

use std::collections::BTreeMap;

use crate::value::ids::{GroupKind, Gvk};

/// The kinds of children that a plugin has ever known, as long as children of them may exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownChildKinds(BTreeMap<GroupKind, Gvk>);

impl KnownChildKinds {
    /// Adds kinds. If a kind occurs in two versions, the version added last is kept.
    pub fn add<'a>(&mut self, kinds: impl IntoIterator<Item = &'a Gvk>) {
        self.0.extend(kinds.into_iter().map(|kind| (kind.group_kind(), kind.clone())));
    }

    /// Removes a kind of which no children exist any more.
    pub fn forget(&mut self, kind: &Gvk) {
        self.0.remove(&kind.group_kind());
    }

    /// Returns the kinds that are not granted in any version.
    pub fn not_granted(&self, granted: &[&Gvk]) -> Vec<Gvk> {
        let is_granted = |kind: &GroupKind| granted.iter().any(|granted| granted.group_kind() == *kind);
        self.0.iter().filter(|(kind, _)| !is_granted(kind)).map(|(_, kind)| kind.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Gvk {
        text.parse().expect("a kind")
    }

    /// The kinds that are no longer owned when these are granted.
    fn not_granted(known: &KnownChildKinds, granted: &[&str]) -> Vec<String> {
        let granted: Vec<_> = granted.iter().map(|text| kind(text)).collect();
        known.not_granted(&granted.iter().collect::<Vec<_>>()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn formerly_granted_kind_is_reported_until_it_is_granted_again_or_forgotten() {
        let mut known = KnownChildKinds::default();
        known.add(&[kind("Pod.v1"), kind("Secret.v1"), kind("Job.v1.batch")]);
        assert_eq!(not_granted(&known, &["Pod.v1", "Secret.v1", "Job.v1.batch"]), [""; 0]);
        assert_eq!(not_granted(&known, &["Pod.v1"]), ["Secret.v1", "Job.v1.batch"]);
        known.add(&[kind("Pod.v1")]);
        assert_eq!(not_granted(&known, &["Pod.v1"]), ["Secret.v1", "Job.v1.batch"], "earlier kinds stay recorded");
        known.forget(&kind("Secret.v1"));
        assert_eq!(not_granted(&known, &["Pod.v1"]), ["Job.v1.batch"]);
        assert_eq!(not_granted(&known, &["Job.v1.batch", "Pod.v1"]), [""; 0]);
    }

    #[test]
    fn a_kind_in_another_version_is_the_same_kind() {
        let mut known = KnownChildKinds::default();
        known.add(&[kind("Doll.v1beta1.example.org"), kind("Doll.v1.example.org"), kind("Doll.v1.example.com")]);
        assert_eq!(not_granted(&known, &["Doll.v2.example.org"]), ["Doll.v1.example.com"]);
        assert_eq!(not_granted(&known, &["Doll.v1.example.com"]), ["Doll.v1.example.org"]);
    }
}
