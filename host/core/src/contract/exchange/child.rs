//! How the host treats a child: what its kind's rule says, and what the response says of the single child.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::value::ids::Gvk;

/// A kind of children that a plugin may return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRule {
    /// The kind.
    pub kind: Gvk,
    /// How existing children are updated that have no strategy of their own.
    pub update: UpdateStrategy,
}

/// How existing children are updated to the desired state (rule R11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UpdateStrategy {
    /// Server-side apply in place.
    Apply,
    /// If the desired state changed, delete the child, wait until it is gone, and create it.
    Recreate,
    /// Leave existing children as they are.
    OnDelete,
    /// Update one child at a time, in the order of the response.
    Rolling {
        /// Recreate children instead of applying in place.
        recreate: bool,
        /// What a changed child must come to before the next child changes.
        until: Until,
    },
}

/// What a rolling update waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Until {
    /// The child is ready (rule R22).
    Ready,
    /// These conditions have status True; without any, the child exists. Shared by all children of the kind.
    Conditions(Arc<[String]>),
}

/// What a response says of a single child.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ChildOptions {
    /// The child waits until those of lower stages are ready (rule R23).
    #[serde(skip_serializing_if = "is_default")]
    pub stage: u32,
    /// Whether the child stays after its parent is deleted.
    #[serde(skip_serializing_if = "is_default")]
    pub retain: bool,
    /// Whether the host takes fields that another field manager owns.
    #[serde(skip_serializing_if = "is_default")]
    pub take_over: bool,
    /// Whether the child is ready, if the plugin knows better than rule R22.
    #[serde(skip_serializing_if = "is_default")]
    pub ready: Option<bool>,
    /// How the child is updated; `None` as the rule of its kind says.
    #[serde(skip_serializing_if = "is_default")]
    pub update: Option<UpdateStrategy>,
    /// The child is created once for each value of this text (rule R25); `None` whenever it is missing.
    #[serde(skip_serializing_if = "is_default")]
    pub once: Option<String>,
    /// A child that is no longer desired and must be gone before this one is created.
    #[serde(skip_serializing_if = "is_default")]
    pub replaces: Option<ChildRef>,
}

/// Which child. Group, kind, namespace and name identify it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildRef {
    /// The kind, in any version that is served.
    #[serde(flatten)]
    pub kind: Gvk,
    /// The namespace; `None` means the parent's namespace, or no namespace if the kind is cluster-scoped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl ChildRef {
    fn for_each_part(&self, mut part: impl FnMut(&str)) {
        let Self { kind, namespace, name } = self;
        part(&kind.api_version());
        [&*kind.kind, namespace.as_deref().unwrap_or_default(), name].into_iter().for_each(part);
    }
}

/// Existing children that stay as they are although the response does not have them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Keep {
    /// None: a child that is not in the response is deleted.
    #[default]
    None,
    /// These.
    These(Box<[ChildRef]>),
    /// All.
    All,
}

impl Keep {
    /// Whether the response keeps no children.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Passes on everything that it says, in parts for a hash.
    pub(crate) fn for_each_part(&self, mut part: impl FnMut(&str)) {
        match self {
            Self::None => {}
            Self::All => part("keeps all"),
            Self::These(children) => {
                part("keeps these");
                children.iter().for_each(|child| child.for_each_part(&mut part));
            }
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl UpdateStrategy {
    /// Whether a changed child is deleted and created again.
    pub fn recreates(&self) -> bool {
        matches!(self, Self::Recreate | Self::Rolling { recreate: true, .. })
    }

    /// Passes on everything that it says, in parts for a hash that is the same in every release.
    pub(crate) fn for_each_part(&self, mut part: impl FnMut(&str)) {
        match self {
            Self::Apply => part("Apply"),
            Self::Recreate => part("Recreate"),
            Self::OnDelete => part("OnDelete"),
            Self::Rolling { recreate, until } => {
                let how = if *recreate { "Rolling, Recreate" } else { "Rolling, Apply" };
                match until {
                    Until::Ready => part(&format!("{how}, until ready")),
                    Until::Conditions(conditions) => {
                        part(how);
                        conditions.iter().for_each(|condition| part(condition));
                    }
                }
            }
        }
    }
}

impl ChildOptions {
    /// Passes on everything that it says, in parts for a hash.
    pub(crate) fn for_each_part(&self, mut part: impl FnMut(&str)) {
        let Self { stage, retain, take_over, ready, update, once, replaces } = self;
        part(&format!("options: {stage}, {retain}, {take_over}, {ready:?}"));
        if let Some(update) = update {
            update.for_each_part(&mut part);
        }
        if let Some(once) = once {
            part("once");
            part(once);
        }
        if let Some(replaces) = replaces {
            part("replaces");
            replaces.for_each_part(part);
        }
    }
}
