//! Kinds of children that a Plugin's logic may no longer own, remembered while there may be children of them. They are
//! left alone; the Plugin says so, and its end finds them.

use windlass_core::desired::Grants;
use windlass_core::ids::{Gvk, PluginName};
use windlass_core::lost::Had;
use windlass_core::names::LABEL_PLUGIN;
use windlass_core::object::Object;

use super::{Plugins, parse};

/// What is remembered of a Plugin.
#[derive(Debug, Clone, Default)]
pub(super) struct Lost {
    /// All that it had; nothing before the first look, which finds in the status what earlier processes knew.
    had: Option<Had>,
    /// Lost kinds of which there are children, as far as anybody knows.
    left: Vec<Gvk>,
    /// How its children are found.
    selector: String,
}

impl Lost {
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

impl Plugins {
    /// Finds out of which lost kinds there are children. Answers whether that has to be asked once more soon: as long as
    /// something runs for the plugin, it may be the logic before, and make one.
    pub(super) async fn find_lost(&self, name: &PluginName, object: &Object) -> bool {
        let Some(live) = self.registry.get(name) else { return false };
        let lost = {
            let mut known = self.known.lock();
            let lost = &mut known.entry(name.clone()).or_default().lost;
            let had = lost.had.get_or_insert_with(|| {
                let status = parse(object).ok().and_then(|plugin| plugin.status);
                status.unwrap_or_default().had()
            });
            had.add(live.grants.kinds());
            had.lost(&live.grants.kinds())
        };
        let is_running = self.parents.is_running(name);
        let (mut left, mut is_unsettled) = (Vec::new(), false);
        for kind in lost {
            match self.estate(name).has_no_children(&kind, &live.parents.id.kind).await {
                Ok(true) if is_running => is_unsettled = true,
                Ok(true) => {
                    if let Some(had) = self.known.lock().get_mut(name).and_then(|known| known.lost.had.as_mut()) {
                        had.forget(&kind);
                    }
                }
                Ok(false) => left.push(kind),
                Err(why) => {
                    tracing::warn!(plugin = %name, why, "whether children of a former kind are left is not known");
                    left.push(kind);
                }
            }
        }
        if let Some(known) = self.known.lock().get_mut(name) {
            known.lost.left = left;
            known.lost.selector = format!("{LABEL_PLUGIN}={name}");
        }
        is_unsettled
    }
}
