//! What became of it, as the Deployment says it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{Event, Request, Rollout, RolloutState, kinds::Deployment};

use crate::{Application, scale::Scale};

/// What became of an application.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationStatus {
    /// Where it stands.
    pub phase: Phase,
    /// Pods that are wanted: an autoscaler's number, where there is one.
    pub desired_replicas: u32,
    /// Pods that exist.
    pub replicas: u32,
    /// Pods that are as the spec says now.
    pub updated_replicas: u32,
    /// Pods that are Ready.
    pub ready_replicas: u32,
    /// Pods that can be relied on.
    pub available_replicas: u32,
    /// The same for people.
    pub message: String,
    /// It had failed, and has not run since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recovering: bool,
}

/// Where an application stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// It has neither run nor failed yet.
    Creating,
    /// All Pods are there, as wanted, and available.
    Running,
    /// There are more or fewer available Pods than wanted.
    Scaling,
    /// The newest spec is on its way, or Pods of the state before are being replaced.
    Updating,
    /// It does not go on by itself.
    Failed,
}

impl Phase {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "Creating",
            Self::Running => "Running",
            Self::Scaling => "Scaling",
            Self::Updating => "Updating",
            Self::Failed => "Failed",
        }
    }
}

impl ApplicationStatus {
    pub(crate) fn of(request: &Request<Application>, scale: Scale, before: Option<&Self>) -> Self {
        let rollout = request.child::<Deployment>(request.name()).map(|deployment| deployment.rollout());
        let rollout = rollout.unwrap_or(Rollout {
            desired: 0,
            replicas: 0,
            updated: 0,
            ready: 0,
            available: 0,
            is_outdated: false,
            state: RolloutState::Progressing,
        });
        let desired = scale.replicas().unwrap_or(rollout.desired);
        let is_new = before.is_none_or(|before| before.phase == Phase::Creating);
        let is_as_many = |before: &Self| before.desired_replicas == desired;
        let was_updating = before.is_some_and(|before| before.phase == Phase::Updating && is_as_many(before));
        // What is seen of a spec that is still on its way is not of that spec.
        let is_on_its_way = !request.is_spec_applied() || rollout.is_outdated;
        let phase = match rollout.state {
            RolloutState::Failed(_) => Phase::Failed,
            RolloutState::Complete if rollout.desired == desired && !is_on_its_way => Phase::Running,
            _ if is_new => Phase::Creating,
            _ if rollout.updated < rollout.replicas && rollout.desired == desired => Phase::Updating,
            // Another number would be seen.
            _ if is_on_its_way && rollout.replicas == desired => Phase::Updating,
            // The last Pods that are replaced, or that are replaced one by one, are missing for a moment.
            _ if was_updating => Phase::Updating,
            _ => Phase::Scaling,
        };
        let ready = format!("{}/{desired} replicas ready", rollout.ready);
        let message = match rollout.state {
            RolloutState::Failed(why) => format!("{ready}: {why}"),
            _ => ready,
        };
        Self {
            phase,
            desired_replicas: desired,
            replicas: rollout.replicas,
            updated_replicas: rollout.updated,
            ready_replicas: rollout.ready,
            available_replicas: rollout.available,
            message,
            recovering: phase != Phase::Running
                && before.is_some_and(|before| before.recovering || before.phase == Phase::Failed),
        }
    }

    /// What a person would want to know of the change since `before`.
    pub(crate) fn events(&self, before: &Self) -> Vec<Event> {
        let message = &*self.message;
        let mut events = Vec::new();
        if self.desired_replicas != before.desired_replicas {
            let numbers = format!("From {} to {} replicas", before.desired_replicas, self.desired_replicas);
            events.push(Event::normal("Scaling", numbers));
        }
        if self.phase == before.phase {
            return events;
        }
        if self.phase == Phase::Running && (before.recovering || before.phase == Phase::Failed) {
            events.push(Event::normal("Recovered", message));
        }
        match self.phase {
            Phase::Failed => events.push(Event::warning("Failed", message)),
            Phase::Updating => events.push(Event::normal("Updating", message)),
            Phase::Running => events.push(Event::normal("Healthy", message)),
            // As many as before are wanted, and fewer are well.
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
