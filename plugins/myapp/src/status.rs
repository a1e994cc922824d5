//! The status of an application, from its Deployment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{Phase, PhaseStatus, Request, RolloutState, clock::TimeField, kinds::Deployment};

use crate::MyApp;

/// Observed state of a MyApp.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MyAppStatus {
    /// Phase of the application: Pending, Running or Failed.
    pub phase: Phase,
    /// Number of Pods that exist.
    pub replicas: u32,
    /// Number of Ready Pods.
    pub ready_replicas: u32,
    /// Number of available Pods.
    pub available_replicas: u32,
    /// Time of the last change of this status.
    #[schemars(extend("format" = "date-time"))]
    pub last_update_time: Option<String>,
    /// Summary of the status for users.
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
