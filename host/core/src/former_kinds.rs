//! Remembers the kinds of children that a plugin has ever had, to find those that it may no longer own, because a new
//! component does not declare them or the Plugin no longer grants them. Existing children of such a kind are left
//! alone.

use std::collections::BTreeMap;

use crate::ids::{GroupKind, Gvk};

/// The kinds of children that a plugin has ever had, as long as children of them may exist.
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
    fn not_granted(had: &KnownChildKinds, granted: &[&str]) -> Vec<String> {
        let granted: Vec<_> = granted.iter().map(|text| kind(text)).collect();
        had.not_granted(&granted.iter().collect::<Vec<_>>()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn formerly_granted_kind_is_reported_until_it_is_granted_again_or_forgotten() {
        let mut had = KnownChildKinds::default();
        had.add(&[kind("Pod.v1"), kind("Secret.v1"), kind("Job.v1.batch")]);
        assert_eq!(not_granted(&had, &["Pod.v1", "Secret.v1", "Job.v1.batch"]), [""; 0]);
        assert_eq!(not_granted(&had, &["Pod.v1"]), ["Secret.v1", "Job.v1.batch"]);
        had.add(&[kind("Pod.v1")]);
        assert_eq!(not_granted(&had, &["Pod.v1"]), ["Secret.v1", "Job.v1.batch"], "earlier kinds stay recorded");
        had.forget(&kind("Secret.v1"));
        assert_eq!(not_granted(&had, &["Pod.v1"]), ["Job.v1.batch"]);
        assert_eq!(not_granted(&had, &["Job.v1.batch", "Pod.v1"]), [""; 0]);
    }

    #[test]
    fn a_kind_in_another_version_is_the_same_kind() {
        let mut had = KnownChildKinds::default();
        had.add(&[kind("Doll.v1beta1.example.org"), kind("Doll.v1.example.org"), kind("Doll.v1.example.com")]);
        assert_eq!(not_granted(&had, &["Doll.v2.example.org"]), ["Doll.v1.example.com"]);
        assert_eq!(not_granted(&had, &["Doll.v1.example.com"]), ["Doll.v1.example.org"]);
    }
}
