//! Blocked deletions of a parent: what users read about them, and what a later process reads back from the parent's status.

use crate::object::Object;
use crate::object::child::ChildId;
use crate::object::conditions::{is_true, reason_of};
use crate::object::names::{self, parent_condition};
use crate::object::observed_status::observed;
use crate::object::parent::ParentRef;
use crate::object::reason::ParentReason;
use crate::value::ids::PluginName;

/// Blocked deletions: they wait until a user allows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedDeletions {
    /// The value of [`names::ANNOTATION_ALLOW_DELETION`] that allows exactly these deletions.
    pub hash: String,
    /// Number of blocked deletions.
    pub deletions: usize,
    /// Number of children in total.
    pub children_total: usize,
    /// Some of the children that would be deleted, for the message. Empty if deletions of many parents are blocked.
    pub children: Vec<ChildId>,
    /// Why the children would be deleted.
    pub because: BlockReason,
    /// The parent, as arguments of `kubectl annotate`. Empty if deletions of many parents are blocked.
    pub target: String,
    /// The annotation's present value, if it is set and does not match the hash.
    pub mismatch: Option<Box<str>>,
}

/// Why children would be deleted although no user asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockReason {
    /// The plugin's inputs or its behaviour changed; the parent did not.
    Inputs,
    /// The component, its config, its grants, its limits or its selectors changed.
    NewComponent,
    /// The Plugin's selector or namespaces no longer include the parent.
    Left,
}

impl BlockReason {
    /// The reason of the parent's condition `Stalled` or `DeletionsBlocked`, by which a later process knows why deletions
    /// are blocked.
    pub fn reason(self) -> ParentReason {
        match self {
            Self::Inputs => ParentReason::SpecUnchanged,
            Self::NewComponent => ParentReason::ComponentChanged,
            Self::Left => ParentReason::NotSelected,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Inputs => "although the spec did not change",
            Self::NewComponent => "because the component, its config, grants, limits or selectors changed",
            Self::Left => "because the parent left the selector or the namespaces of its Plugin",
        }
    }
}

/// Maximum number of children in a message.
pub(super) const SHOWN: usize = 5;
/// Maximum length of a mismatching annotation value in a message, in characters.
const SHOWN_VALUE: usize = 64;

impl BlockedDeletions {
    /// The message of a parent's condition while its deletions are blocked at its Plugin. It omits the hash, which
    /// changes when more deletions are blocked: only the Plugin's condition is updated then.
    pub fn message_for_parents(plugin: &PluginName) -> String {
        format!(
            "Deletions of children are blocked at Plugin {plugin}, together with those of other parents. The Plugin's \
             conditions have the command that allows them: kubectl describe plugins.windlass.dev {plugin}"
        )
    }

    /// The message of the Plugin's condition.
    pub fn message_for_plugin(&self, plugin: &PluginName) -> String {
        let target = format!("plugins.windlass.dev {plugin}");
        let rollback = if self.because == BlockReason::NewComponent {
            let annotation = names::ANNOTATION_ROLLBACK;
            &*format!(" To run the previous component again: kubectl annotate {target} {annotation}=true --overwrite.")
        } else {
            ""
        };
        format!("{}{rollback}{}", self.summary(), self.instructions(&target))
    }

    /// How many deletions are blocked, and why.
    pub fn summary(&self) -> String {
        let Self { deletions, children_total, because, .. } = self;
        format!("Blocked: {deletions} of {children_total} children would be deleted {}.", because.as_str())
    }

    /// The instructions. They precede the children's names, because a long message is truncated.
    fn instructions(&self, target: &str) -> String {
        let mismatch = self
            .mismatch
            .as_ref()
            .map(|value| format!(" The annotation's value {value:?} does not match these deletions."));
        let (mismatch, annotation, hash) = (mismatch.unwrap_or_default(), names::ANNOTATION_ALLOW_DELETION, &self.hash);
        format!(
            "{mismatch} To allow exactly these deletions: kubectl annotate {target} {annotation}={hash} --overwrite"
        )
    }
}

/// The message of the parent's condition.
impl std::fmt::Display for BlockedDeletions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { deletions, children, target, .. } = self;
        write!(f, "{}{}", self.summary(), self.instructions(target))?;
        for (at, child) in children.iter().enumerate() {
            write!(f, "{}{child}", if at == 0 { "; children: " } else { ", " })?;
        }
        match deletions.saturating_sub(children.len()) {
            more if more > 0 && !children.is_empty() => write!(f, " and {more} more"),
            _ => Ok(()),
        }
    }
}

/// Formats a parent as arguments of `kubectl annotate`.
pub(super) fn target(parent: &ParentRef) -> String {
    let ParentRef { kind, key, .. } = parent;
    let dot = if kind.group.is_empty() { "" } else { "." };
    let namespace = key.namespace.as_ref().map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    format!("{}{dot}{} {}{namespace}", kind.kind, kind.group, key.name)
}

/// Returns the annotation's value if it is set and does not match the hash.
pub(super) fn mismatch(annotation: Option<&str>, hash: &str) -> Option<Box<str>> {
    annotation
        .filter(|annotation| !annotation.is_empty() && *annotation != hash)
        .map(|annotation| annotation.chars().take(SHOWN_VALUE).collect::<String>().into())
}

/// Why a parent's own deletions are blocked, according to its status.
pub fn blocked_in_status(parent: &Object) -> Option<BlockReason> {
    let status = observed(parent);
    let reason = |kind| reason_of(&status, kind).and_then(|reason| reason.parse::<ParentReason>().ok());
    // A plugin may have a condition of its own with the reason of `Ready`; the host's block is `Stalled`.
    let is_reported = reason(parent_condition::READY) == Some(ParentReason::DeletionBlocked)
        && is_true(&status, parent_condition::STALLED);
    let kind = if is_reported { parent_condition::STALLED } else { parent_condition::DELETIONS_BLOCKED };
    if !is_true(&status, kind) {
        return None;
    }
    match reason(kind) {
        Some(ParentReason::BlockedAtPlugin) => None,
        Some(ParentReason::ComponentChanged) => Some(BlockReason::NewComponent),
        Some(ParentReason::NotSelected) => Some(BlockReason::Left),
        Some(ParentReason::SpecUnchanged) => Some(BlockReason::Inputs),
        // Another version of the host may have written another reason. Doubt deletes nothing.
        Some(_) | None if is_reported => Some(BlockReason::Inputs),
        // The condition of another controller of this kind.
        Some(_) | None => None,
    }
}
