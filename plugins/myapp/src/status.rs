//! What became of it, as the Deployment says it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{Event, Request, Rollout, RolloutState, kinds::Deployment};

use crate::MyApp;

/// What became of an application.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MyAppStatus {
    /// Where it stands.
    pub phase: Phase,
    /// Pods that exist.
    pub replicas: u32,
    /// Pods that are Ready.
    pub ready_replicas: u32,
    /// Pods that can be relied on.
    pub available_replicas: u32,
    /// When anything in this status was last another.
    #[schemars(extend("format" = "date-time"))]
    pub last_update_time: Option<String>,
    /// The same for people.
    pub message: String,
}

/// Where an application stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// Not all of it is there as wanted.
    Pending,
    /// All Pods are there, as wanted, and Ready.
    Running,
    /// It does not go on by itself.
    Failed,
}

impl Phase {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Failed => "Failed",
        }
    }

    pub(crate) fn is_running(self) -> bool {
        self == Self::Running
    }

    pub(crate) fn has_failed(self) -> bool {
        self == Self::Failed
    }
}

impl MyAppStatus {
    /// Without its time.
    pub(crate) fn of(request: &Request<MyApp>) -> Self {
        let desired = request.spec.replicas;
        let rollout = request.child::<Deployment>(request.name()).map(|deployment| deployment.rollout());
        // Between a change of the spec and its way into the Deployment, that one is complete in the old way.
        let arrived = |rollout: &Rollout| {
            rollout.state == RolloutState::Complete && rollout.desired == desired && request.is_spec_applied()
        };
        let (phase, failure) = match &rollout {
            Some(Rollout { state: RolloutState::Failed(why), .. }) => (Phase::Failed, Some(why)),
            Some(rollout) if arrived(rollout) => (Phase::Running, None),
            _ => (Phase::Pending, None),
        };
        let ready = rollout.as_ref().map_or(0, |rollout| rollout.ready);
        let message = match failure {
            Some(why) => format!("{ready}/{desired} replicas ready: {why}"),
            None => format!("{ready}/{desired} replicas ready"),
        };
        Self {
            phase,
            replicas: rollout.as_ref().map_or(0, |rollout| rollout.replicas),
            ready_replicas: ready,
            available_replicas: rollout.as_ref().map_or(0, |rollout| rollout.available),
            last_update_time: None,
            message,
        }
    }

    /// For a phase that is another one than before.
    pub(crate) fn event(&self) -> Event {
        let reason = self.phase.as_str();
        if self.phase.has_failed() {
            Event::warning(reason, &*self.message)
        } else {
            Event::normal(reason, &*self.message)
        }
    }
}
