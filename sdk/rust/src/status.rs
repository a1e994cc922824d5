//! The parent's status: conditions, and a phase that summarizes it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

use crate::{Event, Reconciler, Request, Response};

/// The status of a condition, as in `metav1.Condition`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// Whether the condition holds cannot be determined. Any other text is read as this.
    #[default]
    Unknown,
}

impl ConditionStatus {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// Not derived: a derived enum links code that few plugins need otherwise.
impl<'de> Deserialize<'de> for ConditionStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match &*String::deserialize(deserializer)? {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        })
    }
}

/// One entry of an object's `status.conditions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// The type, in CamelCase: `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The status.
    pub status: ConditionStatus,
    /// Why the condition has this status, in CamelCase.
    pub reason: String,
    /// Details for users.
    pub message: String,
}

/// A phase for parents that need no others. A plugin with more phases has its own enum and implements [`StatusPhase`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// The desired state is not reached yet.
    Pending,
    /// The desired state is reached.
    Running,
    /// The desired state will not be reached without a change.
    Failed,
}

/// A phase that is ready, failed, or neither.
pub trait StatusPhase: Copy + PartialEq {
    /// The name in CamelCase: `Running`. It is the reason of the condition `Ready` and of events.
    fn as_str(self) -> &'static str;

    /// Whether the condition `Ready` is True.
    fn is_ready(self) -> bool;

    /// Whether the parent does not become ready without a change: its event is a warning, and it is reconciled again after
    /// [`PhaseStatus::REQUEUE_FAILED`].
    fn is_failed(self) -> bool;
}

impl StatusPhase for Phase {
    fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Failed => "Failed",
        }
    }

    fn is_ready(self) -> bool {
        self == Self::Running
    }

    fn is_failed(self) -> bool {
        self == Self::Failed
    }
}

/// A status with a phase. [`Response::phase_status`] writes it together with everything that follows from the phase.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
/// use windlass_plugin::{Phase, PhaseStatus};
///
/// #[derive(PartialEq, Deserialize, Serialize, JsonSchema)]
/// struct SiteStatus {
///     phase: Phase,
///     pods: u32,
/// }
///
/// impl PhaseStatus for SiteStatus {
///     type Phase = Phase;
///
///     fn phase(&self) -> Phase {
///         self.phase
///     }
/// }
/// ```
pub trait PhaseStatus: DeserializeOwned + PartialEq {
    /// The type of the phase.
    type Phase: StatusPhase;

    /// Time until the next reconcile of a parent in a failed phase: its cause may be something that the host does not watch.
    const REQUEUE_FAILED: Duration = Duration::from_secs(30);

    /// The field that has the time of the last change of the status, if there is one. [`clock::steady`](crate::clock::steady)
    /// sets it.
    #[cfg(feature = "clock")]
    const LAST_UPDATE: Option<crate::clock::TimeField<Self>> = None;

    /// The phase.
    fn phase(&self) -> Self::Phase;

    /// The events of a change from the status `before`; `message` is the message of the condition `Ready`. By default one
    /// event when the phase changes, a warning if the new phase is failed.
    fn events(&self, before: &Self, message: &str) -> Vec<Event> {
        let phase = self.phase();
        if phase == before.phase() {
            Vec::new()
        } else if phase.is_failed() {
            vec![Event::warning(phase.as_str(), message)]
        } else {
            vec![Event::normal(phase.as_str(), message)]
        }
    }
}

impl<R: Reconciler<Status: PhaseStatus>> Response<R> {
    /// Sets the status and everything that follows from its phase:
    ///
    /// - the condition `Ready`, with the phase as its reason and this message;
    /// - the [events](PhaseStatus::events) of the change since the last status, none for the first status;
    /// - the time of the last change (`PhaseStatus::LAST_UPDATE`, feature `clock`), which moves only when another field does;
    /// - a requeue after [`PhaseStatus::REQUEUE_FAILED`] in a failed phase.
    pub fn phase_status<S>(mut self, request: &Request<R, S>, status: R::Status, message: &str) -> Self {
        let before = request.status();
        let phase = status.phase();
        if let Some(before) = &before {
            self = self.events(status.events(before, message));
        }
        if phase.is_failed() {
            self = self.requeue(R::Status::REQUEUE_FAILED);
        }
        #[cfg(feature = "clock")]
        let status = match R::Status::LAST_UPDATE {
            Some(field) => crate::clock::steady(before, status, field),
            None => status,
        };
        self.condition("Ready", phase.is_ready(), phase.as_str(), message).status(status)
    }
}
