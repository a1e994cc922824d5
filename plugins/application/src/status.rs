//! The status of an application, from its Deployment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{Event, PhaseStatus, Request, RolloutState, StatusPhase, kinds::Deployment};

use crate::{Application, scale::Scale};

/// Observed state of an Application.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationStatus {
    /// Phase of the application: Creating, Running, Scaling, Updating or Failed.
    pub phase: Phase,
    /// Desired number of Pods, set by the spec or by the autoscaler.
    pub desired_replicas: u32,
    /// Number of Pods that exist.
    pub replicas: u32,
    /// Number of Pods that are updated to the current spec.
    pub updated_replicas: u32,
    /// Number of Ready Pods.
    pub ready_replicas: u32,
    /// Number of available Pods.
    pub available_replicas: u32,
    /// Summary of the status for users.
    pub message: String,
    /// Whether the application has failed and has not been Running since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recovering: bool,
}

/// The phase of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// The application has neither run nor failed yet.
    Creating,
    /// All desired Pods are available and of the current spec.
    Running,
    /// More or fewer Pods are available than desired.
    Scaling,
    /// The current spec is being applied, or Pods of an older spec are being replaced.
    Updating,
    /// The rollout does not go on without a change.
    Failed,
}

impl StatusPhase for Phase {
    fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "Creating",
            Self::Running => "Running",
            Self::Scaling => "Scaling",
            Self::Updating => "Updating",
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

impl ApplicationStatus {
    pub(crate) fn of(request: &Request<Application>, scale: Scale) -> Self {
        let before = request.status();
        let before = before.as_ref();
        let deployment = request.child::<Deployment>(request.name());
        let rollout = deployment.map(|deployment| deployment.rollout()).unwrap_or_default();
        let desired = scale.replicas().unwrap_or(rollout.desired);
        let is_new = before.is_none_or(|before| before.phase == Phase::Creating);
        let was_updating =
            before.is_some_and(|before| before.phase == Phase::Updating && before.desired_replicas == desired);
        // The live Deployment does not have the current spec yet.
        let is_pending = !request.is_spec_applied() || rollout.is_outdated;
        let phase = match rollout.state {
            RolloutState::Failed(_) => Phase::Failed,
            RolloutState::Complete if rollout.desired == desired && !is_pending => Phase::Running,
            _ if is_new => Phase::Creating,
            _ if rollout.updated < rollout.replicas && rollout.desired == desired => Phase::Updating,
            // With the same number of Pods, the pending change is no scaling.
            _ if is_pending && rollout.replicas == desired => Phase::Updating,
            // The last Pods that are replaced are missing for a moment, as are those that are replaced one by one.
            _ if was_updating => Phase::Updating,
            _ => Phase::Scaling,
        };
        Self {
            phase,
            desired_replicas: desired,
            replicas: rollout.replicas,
            updated_replicas: rollout.updated,
            ready_replicas: rollout.ready,
            available_replicas: rollout.available,
            message: rollout.message(desired),
            recovering: phase != Phase::Running && before.is_some_and(Self::has_failed),
        }
    }

    /// Whether the application has failed and has not run since.
    fn has_failed(&self) -> bool {
        self.recovering || self.phase == Phase::Failed
    }
}

impl PhaseStatus for ApplicationStatus {
    type Phase = Phase;

    fn phase(&self) -> Phase {
        self.phase
    }

    fn events(&self, before: &Self, message: &str) -> Vec<Event> {
        let mut events = Vec::new();
        if self.desired_replicas != before.desired_replicas {
            let numbers = format!("From {} to {} replicas", before.desired_replicas, self.desired_replicas);
            events.push(Event::normal("Scaling", numbers));
        }
        if self.phase == before.phase {
            return events;
        }
        if self.phase == Phase::Running && before.has_failed() {
            events.push(Event::normal("Recovered", message));
        }
        match self.phase {
            Phase::Failed => events.push(Event::warning("Failed", message)),
            Phase::Updating => events.push(Event::normal("Updating", message)),
            Phase::Running => events.push(Event::normal("Healthy", message)),
            // The number is the same as before, so Pods have lost their readiness.
            Phase::Scaling
                if self.desired_replicas == before.desired_replicas && self.ready_replicas < self.desired_replicas =>
            {
                events.push(Event::warning("Unhealthy", message));
            }
            Phase::Scaling | Phase::Creating => {}
        }
        events
    }
}
