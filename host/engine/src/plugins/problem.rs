//! Why a Plugin's component is not live: the failed step, its message, and the time of the next try.

use std::time::Duration;

use windlass_core::object::reason::PluginReason;
use windlass_core::reconcile::outcome::{BACKOFF, Requeue, UNAVAILABLE, bounded};
use windlass_core::value::digest::Digest;
use windlass_core::value::ids::Gvk;
use windlass_delivery::DeliveryError;

use crate::cluster::account::AccountError;
use crate::telemetry::one_line;

/// Time between resyncs of a Plugin, which make up for missed events.
pub(super) const RESYNC: Duration = Duration::from_mins(10);

/// The steps, as the Plugin's conditions name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The expected bytes were delivered.
    Fetched,
    /// A trusted key signed the component.
    Verified,
    /// The component compiled, and described itself.
    Compiled,
    /// The kinds exist and may be used.
    Granted,
    /// The host's caches of the kinds follow the API server.
    Synced,
}

/// Why a step failed.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The failed step.
    pub step: Step,
    /// Reason of the condition.
    pub reason: PluginReason,
    /// Message of the condition.
    pub message: String,
    /// Digest of the delivered component, if known.
    pub candidate: Option<Digest>,
    /// The storage version of the parent kind, if the component is written for another version: a live component for
    /// that other version must be unpublished, too.
    pub stored_as: Option<Box<Gvk>>,
    /// Whether the Plugin does not grant the component's parent kind.
    pub is_revoked: bool,
    /// When to try again.
    pub requeue: Requeue,
}

impl Problem {
    /// A problem that may pass by itself.
    pub fn new(step: Step, reason: PluginReason, message: impl Into<String>) -> Self {
        Self {
            step,
            reason,
            // Components control parts of some messages.
            message: bounded(one_line(&message.into()).into_owned()),
            candidate: None,
            stored_as: None,
            is_revoked: false,
            requeue: if reason == PluginReason::ApiError { UNAVAILABLE } else { BACKOFF },
        }
    }

    /// A problem that only a change of the Plugin, its source or the cluster can end; retried at the resync.
    pub fn lasting(step: Step, reason: PluginReason, message: impl Into<String>) -> Self {
        Self { requeue: Requeue::Settled(None), ..Self::new(step, reason, message) }
    }

    /// A wait for a result that queues the Plugin when it arrives; not an error.
    pub(super) fn pending(message: String) -> Self {
        Self { requeue: Requeue::WhenChanged, ..Self::new(Step::Fetched, PluginReason::Progressing, message) }
    }

    /// Whether this is a wait and not an error.
    pub(super) fn is_pending(&self) -> bool {
        self.reason == PluginReason::Progressing
    }

    /// Whether the Plugin lost its parent kind: to another Plugin, because it is stored in another version, or because a user
    /// does not grant it.
    pub(super) fn is_about_kind(&self) -> bool {
        self.reason == PluginReason::ParentKindTaken || self.stored_as.is_some() || self.is_revoked
    }

    pub(super) fn of(self, candidate: Digest) -> Self {
        Self { candidate: Some(candidate), ..self }
    }
}

/// The problem of a descriptor that no cluster could accept.
pub(super) fn invalid_descriptor(message: String) -> Problem {
    Problem::lasting(Step::Granted, PluginReason::InvalidDescriptor, message)
}

/// The problem if no component was delivered, or none that may be loaded.
impl From<DeliveryError> for Problem {
    fn from(error: DeliveryError) -> Self {
        let step = if error.is_distrust() { Step::Verified } else { Step::Fetched };
        Self { candidate: error.candidate, ..Self::new(step, error.reason, error.to_string()) }
    }
}

impl From<AccountError> for Problem {
    fn from(error: AccountError) -> Self {
        let message = error.to_string();
        match error {
            AccountError::Invalid(_) => Self::lasting(Step::Granted, PluginReason::InvalidSpec, message),
            AccountError::Unknown(_) => Self::new(Step::Granted, PluginReason::ApiError, message),
        }
    }
}
