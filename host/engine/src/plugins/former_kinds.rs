//! Records the former child kinds of a Plugin: kinds that its component may no longer own, but of which children may
//! exist. These children are left alone; the Plugin's conditions report them, and the Plugin's deletion finds them.

use windlass_core::contract::desired::Grants;
use windlass_core::plugin::former_kinds::KnownChildKinds;
use windlass_core::value::ids::Gvk;

/// The former kinds of a Plugin.
#[derive(Debug, Clone, Default)]
pub(super) struct FormerKinds {
    /// All child kinds that the plugin has or had; none before the first reconcile, which reads them from the status.
    pub known: Option<KnownChildKinds>,
    /// Former kinds of which children exist, or may exist.
    pub left: Vec<Gvk>,
    /// Label selector of the plugin's children.
    pub selector: String,
}

impl FormerKinds {
    /// The kinds of which there may be children, and which a component with these grants may not own.
    pub(super) fn kinds(&self, grants: &Grants) -> Vec<Gvk> {
        self.known.as_ref().map(|known| known.not_granted(&grants.kinds())).unwrap_or_default()
    }

    /// The message about former kinds with children, if any.
    pub(super) fn message(&self) -> Option<String> {
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
