//! Why requirements are rejected, and why required objects cannot be read.

use std::sync::Arc;
use std::time::Duration;

use super::MAX_ROUNDS;
use crate::object::reason::ParentReason;
use crate::value::ids::Gvk;

/// Why requirements are rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    message: String,
    /// Whether the plugin may not read what it requires; otherwise the response is invalid.
    is_forbidden: bool,
}

impl Refusal {
    pub(super) fn invalid(message: String) -> Self {
        Self { message, is_forbidden: false }
    }

    pub(super) fn forbidden(message: String) -> Self {
        Self { message, is_forbidden: true }
    }

    /// The refusal of a requirement whose kind is not granted.
    pub fn of_kind(id: &str, kind: &Gvk) -> Self {
        Self::forbidden(format!(
            "the requirement {id:?} is of kind {kind}, which this plugin may not read: its descriptor must name it under \
             `related`, and the Plugin must name it under spec.grants.related if it is cluster-scoped"
        ))
    }
}

/// A permission that the Plugin's ServiceAccount lacks.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display(
    "{user} may not {verb} {kind}{}{}{}",
    name.as_ref().map(|name| format!(" {name}")).unwrap_or_default(),
    namespace.as_ref().map_or(" in the cluster".to_owned(), |namespace| format!(" in namespace {namespace}")),
    if why.is_empty() { String::new() } else { format!(" ({why})") }
)]
pub struct Denied {
    /// The reviewed user, such as `system:serviceaccount:windlass-system:windlass-plugin-echo`.
    pub user: String,
    /// `get` or `list`.
    pub verb: &'static str,
    /// The kind.
    pub kind: Gvk,
    /// The namespace; `None` for a cluster-scoped object.
    pub namespace: Option<Arc<str>>,
    /// The object's name, for `get`; `None` for `list`.
    pub name: Option<Arc<str>>,
    /// The API server's explanation; may be empty.
    pub why: String,
}

/// Why required objects cannot be read. Such a failure is never reported to the plugin as an empty result, because the
/// plugin would decide on data that was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadProblem {
    /// The requirements are invalid or not granted.
    #[error("The plugin's requirements were rejected, and nothing was written: {0}")]
    Refused(#[from] Refusal),
    /// The Plugin's ServiceAccount lacks a permission.
    #[error("{0}, which the plugin requires; grant it with a Role and a RoleBinding")]
    Denied(Box<Denied>),
    /// The host cannot watch the kind.
    #[error(
        "the host may not watch {kind}, which the plugin requires: {message}. Grant it with an aggregated ClusterRole, as \
         `windlass push --create-rbac` writes it"
    )]
    NotWatched {
        /// The kind.
        kind: Gvk,
        /// HTTP status code.
        code: u16,
        /// The API server's message.
        message: String,
    },
    /// The kind's cache is not filled yet.
    #[error("the cache of {kind}, which the plugin requires, is not filled after {} s", .waited.as_secs())]
    NotFilled {
        /// The kind.
        kind: Gvk,
        /// Time since the watch was started.
        waited: Duration,
    },
    /// The kind's watch makes no progress, so its cache may be outdated.
    #[error("the host's watch of {kind}, which the plugin requires, has stalled: {message}")]
    Stalled {
        /// The kind.
        kind: Gvk,
        /// Since when the watch has stalled, and why.
        message: String,
    },
    /// The requirements of all parents of the plugin together are larger than this limit, in bytes.
    #[error(
        "the requirements of the plugin's parents take more than {0} bytes of memory, so the objects that this parent requires are \
         not read; require fewer objects or use shorter label selectors, or raise --requirements-memory of the host (docs/limits.md)"
    )]
    Full(usize),
    /// The selected objects are larger than a request may be, in bytes.
    #[error(
        "the objects that the plugin requires are larger than {0} bytes, the limit of a request; require fewer or smaller objects, \
         or raise spec.limits.requestBytes"
    )]
    TooLarge(u64),
    /// The comparison of label selectors with objects took longer than this: half the deadline of a call.
    #[error(
        "comparing the plugin's label selectors with the objects in their namespaces took longer than {} ms, half the deadline of a call; \
         require fewer label selectors, or raise spec.limits.deadline",
        .0.as_millis()
    )]
    Slow(Duration),
    /// The plugin's rate limit for access reviews is used up; the next review is allowed after this time.
    #[error(
        "the plugin asked to read more different objects than its rate of access reviews allows (docs/limits.md); the \
         parent is reconciled again as soon as reviews are allowed"
    )]
    Limited(Duration),
    /// The API server could not be asked to review a permission.
    #[error("whether {user} may read {kind} could not be reviewed: {message}")]
    NotReviewed {
        /// The user whose permission was to be reviewed.
        user: String,
        /// The kind.
        kind: Gvk,
        /// Description of the failure.
        message: String,
    },
    /// The requirements changed in every round.
    #[error(
        "the plugin's requirements still changed after {MAX_ROUNDS} calls, and nothing was written; a response must name \
         all objects that it depends on, and the same ones when the plugin is called again with them"
    )]
    Unsettled,
}

impl ReadProblem {
    /// The reason for the conditions.
    pub fn reason(&self) -> ParentReason {
        match self {
            Self::Refused(refusal) if !refusal.is_forbidden => ParentReason::ResponseRejected,
            Self::Refused(_) | Self::Denied(_) | Self::NotWatched { code: 401 | 403, .. } => {
                ParentReason::ReadForbidden
            }
            Self::Full(_) | Self::TooLarge(_) => ParentReason::LimitExceeded,
            Self::Slow(_) => ParentReason::DeadlineExceeded,
            Self::NotWatched { .. } | Self::NotFilled { .. } | Self::Stalled { .. } | Self::NotReviewed { .. } => {
                ParentReason::ApiError
            }
            Self::Limited(_) => ParentReason::RateLimited,
            Self::Unsettled => ParentReason::RequirementsUnsettled,
        }
    }
}
