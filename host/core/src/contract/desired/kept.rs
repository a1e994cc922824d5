//! Validates which existing children a response keeps.

use hashbrown::HashSet;

use super::{Grants, ResponseRejection, describe, too_many};
use crate::contract::{ChildRef, Keep, Response};
use crate::object::Object;
use crate::object::parent::ParentRef;
use crate::value::ids::{GroupKind, ObjectKey};

/// Existing children that are neither changed nor deleted, although they are not desired.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Kept {
    /// None.
    #[default]
    None,
    /// These.
    These(HashSet<(GroupKind, ObjectKey)>),
    /// All.
    All,
}

impl Kept {
    /// What a response keeps, beside the children that it `returns`.
    ///
    /// # Errors
    /// If the response says at the same time that its clean-up is complete, names a child that it returns as well, or names one that is
    /// none of the plugin's.
    pub(super) fn of(
        response: &Response,
        parent: &ParentRef,
        grants: &Grants,
        limit: usize,
        returns: &HashSet<(GroupKind, ObjectKey)>,
    ) -> Result<Self, ResponseRejection> {
        if response.finalized && !response.keep.is_none() {
            let message =
                "the response keeps children, and says that the clean-up is complete, after which none of them stays";
            return Err(ResponseRejection::not_allowed(message.to_owned()));
        }
        let children = match &response.keep {
            Keep::None => return Ok(Self::None),
            Keep::All => return Ok(Self::All),
            Keep::These(children) => children,
        };
        too_many("kept children", children.len(), limit)?;
        let place = |child: &ChildRef| {
            let place = (child.kind.group_kind(), key_of(child, "keeps", parent, grants)?);
            if returns.contains(&place) {
                let child = describe(&child.kind, &place.1);
                let message = format!("the response returns {child} and keeps it as it is: it can only do one of both");
                return Err(ResponseRejection::not_allowed(message));
            }
            Ok(place)
        };
        children.iter().map(place).collect::<Result<_, _>>().map(Self::These)
    }

    /// Whether no children are kept.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Whether an existing child stays as it is.
    pub fn has(&self, child: &Object) -> bool {
        self.is_at(&(child.kind.group_kind(), child.key.clone()))
    }

    /// Whether the existing child of this kind, namespace and name stays as it is.
    pub(super) fn is_at(&self, place: &(GroupKind, ObjectKey)) -> bool {
        match self {
            Self::None => false,
            Self::These(these) => these.contains(place),
            Self::All => true,
        }
    }
}

/// The namespace and name of a child that the response names; `does` says in a message what it does with it.
pub(super) fn key_of(
    child: &ChildRef,
    does: &str,
    parent: &ParentRef,
    grants: &Grants,
) -> Result<ObjectKey, ResponseRejection> {
    let kind = child.kind.group_kind();
    let Some(grant) = grants.iter().find(|grant| grant.kind.group_kind() == kind) else {
        let message = format!(
            "the response {does} {} {}, and the plugin may have no children of {}",
            child.kind.kind, child.name, child.kind
        );
        return Err(ResponseRejection::not_allowed(message));
    };
    let of_parent = || parent.key.namespace.as_deref().filter(|_| grant.namespaced);
    Ok(ObjectKey::new(child.namespace.as_deref().or_else(of_parent), &child.name))
}
