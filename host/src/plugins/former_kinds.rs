//! Kinds of children that a Plugin's logic may no longer own, remembered while there may be children of them. They are
//! left alone; the Plugin says so, and its end finds them.

use windlass_core::desired::Grants;
use windlass_core::former_kinds::ChildKinds;
use windlass_core::ids::Gvk;

/// What is remembered of a Plugin.
#[derive(Debug, Clone, Default)]
pub(super) struct FormerKinds {
    /// All that it had; nothing before the first look, which finds in the status what earlier processes knew.
    pub had: Option<ChildKinds>,
    /// Lost kinds of which there are children, as far as anybody knows.
    pub left: Vec<Gvk>,
    /// How its children are found.
    pub selector: String,
}

impl FormerKinds {
    /// The kinds of which there may be children, and which logic with these grants may not own.
    pub(super) fn kinds(&self, grants: &Grants) -> Vec<Gvk> {
        self.had.as_ref().map(|had| had.lost(&grants.kinds())).unwrap_or_default()
    }

    /// What there is to say of them.
    pub(super) fn said(&self) -> Option<String> {
        let kinds: Vec<_> = self.left.iter().map(ToString::to_string).collect();
        (!kinds.is_empty()).then(|| {
            format!(
                "There are children of {}, which the plugin may no longer own; they are left alone (kubectl get … -A -l {})",
                kinds.join(", "),
                self.selector
            )
        })
    }
}
