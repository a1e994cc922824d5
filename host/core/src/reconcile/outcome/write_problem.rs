//! Why a single write failed, and which of several failed writes the parent's condition reports.

use std::cmp::Reverse;
use std::time::Duration;

use super::{BACKOFF, LOOK_AGAIN, Outcome, Progress, Requeue, UNAVAILABLE, shortened};
use crate::object::child::ChildId;
use crate::object::reason::ParentReason;
use crate::value::ids::Gvk;

/// Why a single write failed. The text says what happened, for a message that names the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteProblem {
    /// An object that is not a child of this parent already has the name (rule R5). Its controller, if it has one, as messages name it.
    #[error("another object has its name")]
    Taken(Option<String>),
    /// Other field managers own fields of the child (rule R6): the API server's description of the fields and their managers.
    #[error("other field managers own fields of it: {}", .0.join("; "))]
    FieldConflict(Vec<String>),
    /// The object exists and is marked as this parent's child, but the cache has not shown it, so the host wrote
    /// nothing to it (rule R3).
    #[error("the host's watch has not shown it yet")]
    CacheBehind,
    /// The child cannot be created, because its namespace is being deleted.
    #[error("its namespace is being deleted")]
    NamespaceTerminating,
    /// The object changed or was deleted between plan and write. The next watch event brings its new state.
    #[error("it changed at the same time")]
    Outdated,
    /// The API server rejects this object as it is.
    #[error("{message}")]
    Rejected {
        /// HTTP status code.
        code: u16,
        /// The API server's message.
        message: String,
        /// What the API server rejects, as far as the host knows.
        rejection: Rejection,
    },
    /// The API server could not be reached, or asked the host to retry later.
    #[error("{message}")]
    Unavailable {
        /// A description of the failure.
        message: String,
        /// The delay from the API server's `Retry-After` header.
        retry_after: Option<Duration>,
    },
}

impl WriteProblem {
    /// Whether the API server refuses the write until something else changes, and the write certainly changed no value.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Taken(_)
            | Self::NamespaceTerminating
            | Self::Rejected { .. }
            // An apply that conflicts changes nothing, and the host's patches before an apply are sent once for each object. One that also
            // empties a map is sent only if a dry run of the apply succeeded.
            | Self::FieldConflict(_) => true,
            // They pass by themselves, so that whoever changes the object again and again could cause as many requests.
            Self::CacheBehind | Self::Outdated | Self::Unavailable { .. } => false,
        }
    }

    /// Returns true if the failure concerns this child alone, so that other children can still be written. All other
    /// failures concern the API server, or the host's view of it: later requests would fail likewise, and take as long.
    pub fn is_childs_own(&self) -> bool {
        match self {
            Self::Taken(_)
            | Self::FieldConflict(_)
            | Self::NamespaceTerminating
            | Self::Outdated
            | Self::Rejected { .. } => true,
            Self::CacheBehind | Self::Unavailable { .. } => false,
        }
    }
}

/// What the API server rejects; distinguishes the cases in which a user can do something other than change the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// The change of a field that cannot change once the object exists.
    ImmutableField,
    /// The host's impersonation of the Plugin's ServiceAccount.
    Impersonation,
    /// A request for which the Plugin's ServiceAccount lacks permission.
    Permission,
    /// Anything else.
    Other,
}

impl Rejection {
    /// What a user can do about the child of this kind, as the end of a message.
    fn hint(self, kind: &Gvk) -> &'static str {
        match self {
            Self::ImmutableField if kind.holds_data() => {
                "; the field cannot change once the object exists, and to recreate the object would delete its data: keep the value, or \
                 return a child of another name and move the data"
            }
            Self::ImmutableField => {
                "; the field cannot change once the object exists. With the update strategy `recreate` for this kind in the plugin, the \
                 child is deleted, with everything that it owns, and created again"
            }
            Self::Impersonation => {
                "; the host's Role is older than the host: apply the manifests of this version of Windlass"
            }
            Self::Permission => {
                "; the Plugin's ServiceAccount lacks this permission: grant it, as `windlass push --create-rbac` does"
            }
            Self::Other => "",
        }
    }
}

/// Reports the most severe problem: first conflicts, which a user must resolve, then rejections by the API server, then
/// problems that pass by themselves.
pub(super) fn of_writes(writes: &[(ChildId, WriteProblem)]) -> Outcome {
    // Ties are broken by the child's name: writes end in any order, and another message would cause another status
    // write.
    let gravest = writes.iter().min_by_key(|(child, problem)| (Reverse(gravity(problem)), child.to_string()));
    let Some((child, problem)) = gravest else {
        return Outcome::new(Progress::Reconciling, ParentReason::ApiError, "A write failed".to_owned(), BACKOFF);
    };
    let more = match writes.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more with problems)"),
    };
    let (reason, message, requeue) = match problem {
        WriteProblem::Taken(owner) => {
            (ParentReason::Conflict, format!("{child} {}{more}", name_is_taken(owner.as_deref())), BACKOFF)
        }
        WriteProblem::FieldConflict(conflicts) => (
            ParentReason::FieldConflict,
            format!(
                "{child} was not applied, because other field managers own fields of it: {}. To force ownership, the plugin \
                 annotates the child with {}=true{more}",
                conflicts.join("; "),
                crate::object::names::ANNOTATION_TAKE_OVER
            ),
            BACKOFF,
        ),
        WriteProblem::Rejected { code, message, rejection } => {
            let (message, hint) = (shortened(message), rejection.hint(&child.kind));
            (
                ParentReason::ChildRejected,
                format!("The API server refused {child} ({code}): {message}{hint}{more}"),
                BACKOFF,
            )
        }
        WriteProblem::Unavailable { message, .. } => {
            (ParentReason::ApiError, format!("{child} could not be written: {}{more}", shortened(message)), UNAVAILABLE)
        }
        WriteProblem::CacheBehind => (
            ParentReason::CacheBehind,
            format!(
                "{child} exists and is marked as a child of this object, but the host's watch of {} has not shown it yet; \
                 it was left as it is until the watch does{more}",
                child.kind.kind
            ),
            Requeue::Pause(LOOK_AGAIN),
        ),
        WriteProblem::NamespaceTerminating => (
            ParentReason::NamespaceTerminating,
            format!("{child} cannot be created, because its namespace is being deleted{more}"),
            BACKOFF,
        ),
        WriteProblem::Outdated => {
            (ParentReason::Outdated, format!("{child} changed while it was written; trying again{more}"), UNAVAILABLE)
        }
    };
    Outcome::new(Progress::Reconciling, reason, message, as_asked(requeue, writes))
}

/// What a user reads, after the name of a child, if another object has that name.
pub fn name_is_taken(owner: Option<&str>) -> String {
    match owner {
        Some(owner) => format!(
            "exists already and belongs to {owner}, so it was left unchanged. An object has one owner: change the name that one of the \
             two gives it"
        ),
        None => "exists already and is not a child of this object, so it was left unchanged. Rename or delete it, or set spec.adopt of \
                 the Plugin, which makes an object a child that has neither a controller nor the label of another Plugin"
            .to_owned(),
    }
}

/// Longest `Retry-After` that the host honours from the API server or a proxy in front of it. A single response must
/// not stop reconciling for an hour.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

/// Raises the requeue to the longest `Retry-After` among the failed writes, whichever problem the message reports.
fn as_asked(requeue: Requeue, writes: &[(ChildId, WriteProblem)]) -> Requeue {
    let asked = writes.iter().filter_map(|(_, problem)| match problem {
        WriteProblem::Unavailable { retry_after, .. } => *retry_after,
        _ => None,
    });
    match (asked.max(), requeue) {
        (Some(asked), Requeue::Unavailable(_)) => Requeue::Unavailable(asked.min(RETRY_AFTER_MAX)),
        (Some(asked), _) => Requeue::Backoff(asked.min(RETRY_AFTER_MAX)),
        (None, requeue) => requeue,
    }
}

fn gravity(problem: &WriteProblem) -> u8 {
    match problem {
        WriteProblem::Outdated => 0,
        WriteProblem::Unavailable { .. } => 1,
        WriteProblem::CacheBehind => 2,
        WriteProblem::NamespaceTerminating => 3,
        WriteProblem::Rejected { .. } => 4,
        WriteProblem::FieldConflict(_) => 5,
        WriteProblem::Taken(_) => 6,
    }
}
