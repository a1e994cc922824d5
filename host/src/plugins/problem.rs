//! Why a Plugin's component is not live: the step that failed, what to say of it, and when to try again.

use std::time::Duration;

use windlass_core::digest::Digest;
use windlass_core::ids::Gvk;
use windlass_core::names::plugin_reason as reason;
use windlass_core::outcome::{BACKOFF, Requeue, UNAVAILABLE, bounded};
use windlass_delivery::DeliveryError;

use crate::cluster::account::AccountError;
use crate::telemetry::one_line;

/// Time between reconciles of a Plugin that nothing caused: a missed event is made good.
pub(super) const RESYNC: Duration = Duration::from_mins(10);

/// The steps, as the Plugin's conditions name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The right bytes are here.
    Fetched,
    /// Whoever signed them is trusted.
    Verified,
    /// They compiled and say what they are.
    Compiled,
    /// The kinds exist and may be used.
    Granted,
    /// The host's caches of the kinds follow the API server.
    Synced,
}

/// Why a step failed.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The step.
    pub step: Step,
    /// Reason for the condition.
    pub reason: &'static str,
    /// Message for the condition.
    pub message: String,
    /// Digest of what was delivered, if that is known.
    pub candidate: Option<Digest>,
    /// The version in which the parent kind is stored, if the component is written for another: logic of that other
    /// version must not go on either.
    pub stored_as: Option<Box<Gvk>>,
    /// When to try again.
    pub requeue: Requeue,
}

impl Problem {
    /// A problem that may pass by itself.
    pub fn new(step: Step, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            step,
            reason,
            // Components choose parts of some messages.
            message: bounded(one_line(&message.into()).into_owned()),
            candidate: None,
            stored_as: None,
            requeue: if reason == reason::API_ERROR { UNAVAILABLE } else { BACKOFF },
        }
    }

    /// A problem that only a change of the Plugin, its source or the cluster can end: looked at again with the resync.
    pub fn lasting(step: Step, reason: &'static str, message: impl Into<String>) -> Self {
        Self { requeue: Requeue::Settled(None), ..Self::new(step, reason, message) }
    }

    /// No problem but that something has yet to come, which will be told.
    pub(super) fn pending(message: String) -> Self {
        Self { requeue: Requeue::WhenChanged, ..Self::new(Step::Fetched, reason::PROGRESSING, message) }
    }

    /// Whether it is none, so far.
    pub(super) fn is_pending(&self) -> bool {
        self.reason == reason::PROGRESSING
    }

    pub(super) fn of(self, candidate: Digest) -> Self {
        Self { candidate: Some(candidate), ..self }
    }
}

/// Nothing was delivered, or nothing that may be taken.
impl From<DeliveryError> for Problem {
    fn from(error: DeliveryError) -> Self {
        let step = if error.is_distrust() { Step::Verified } else { Step::Fetched };
        Self { candidate: error.candidate(), ..Self::new(step, error.reason(), error.to_string()) }
    }
}

impl From<AccountError> for Problem {
    fn from(error: AccountError) -> Self {
        let message = error.to_string();
        match error {
            AccountError::Invalid(_) => Self::lasting(Step::Granted, reason::INVALID_SPEC, message),
            AccountError::Unknown(_) => Self::new(Step::Granted, reason::API_ERROR, message),
        }
    }
}
