//! The status of an application, from its Deployment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{Phase, PhaseStatus, Request, RolloutState, clock::TimeField, kinds::Deployment};

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

impl PhaseStatus for MyAppStatus {
    type Phase = Phase;
    const LAST_UPDATE: Option<TimeField<Self>> = Some(|status| &mut status.last_update_time);

    fn phase(&self) -> Phase {
        self.phase
    }
}

impl MyAppStatus {
    /// The status without its time.
    pub(crate) fn of(request: &Request<MyApp>) -> Self {
        let desired = request.spec.replicas;
        let deployment = request.child::<Deployment>(request.name());
        let rollout = deployment.map(|deployment| deployment.rollout()).unwrap_or_default();
        let phase = match rollout.state {
            RolloutState::Failed(_) => Phase::Failed,
            // Until a change of the spec is applied, the rollout of the old spec is complete.
            RolloutState::Complete if rollout.desired == desired && request.is_spec_applied() => Phase::Running,
            _ => Phase::Pending,
        };
        Self {
            phase,
            replicas: rollout.replicas,
            ready_replicas: rollout.ready,
            available_replicas: rollout.available,
            last_update_time: None,
            message: rollout.message(desired),
        }
    }
}
