//! The rollout of a Deployment, from its status.

use serde::Deserialize;

use crate::{
    Condition, ConditionStatus, Object,
    kinds::{Deployment, Is},
};

/// The Pods of a Deployment, and how far its last change is rolled out. The default is the rollout of a Deployment that does
/// not exist: no Pods, and [`RolloutState::Progressing`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rollout {
    /// Pods that the Deployment's spec desires (`spec.replicas`); an autoscaler writes it too.
    pub desired: u32,
    /// Pods that exist, with those of older revisions.
    pub replicas: u32,
    /// Pods of the current revision.
    pub updated: u32,
    /// Pods that are Ready.
    pub ready: u32,
    /// Pods that have been Ready for at least `spec.minReadySeconds`.
    pub available: u32,
    /// Whether the status is older than the spec (`status.observedGeneration`): then the counts are of the spec before.
    pub is_outdated: bool,
    /// The state.
    pub state: RolloutState,
}

/// The state of a rollout, by the rules of kstatus (`sigs.k8s.io/cli-utils`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RolloutState {
    /// The rollout goes on, or has not begun.
    #[default]
    Progressing,
    /// All desired Pods are available and of the current revision, and there are no others.
    Complete,
    /// The rollout does not go on without a change. The message is that of the Deployment's condition.
    Failed(String),
}

impl Rollout {
    /// A message for users: `2/3 replicas ready`, followed by the message of a failed rollout. `desired` is the parent's number
    /// of replicas.
    pub fn message(&self, desired: u32) -> String {
        let ready = format!("{}/{desired} replicas ready", self.ready);
        match &self.state {
            RolloutState::Failed(message) => format!("{ready}: {message}"),
            _ => ready,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_generation: i64,
    replicas: u32,
    updated_replicas: u32,
    ready_replicas: u32,
    available_replicas: u32,
    conditions: Vec<Condition>,
}

impl<K: Is<Deployment>> Object<'_, K> {
    /// The Deployment's rollout. A status that cannot be read counts as empty.
    pub fn rollout(&self) -> Rollout {
        let status: Status = self.get("/status").unwrap_or_default();
        // The API server's default.
        let desired = self.get("/spec/replicas").unwrap_or(1);
        let rollout = Rollout {
            desired,
            replicas: status.replicas,
            updated: status.updated_replicas,
            ready: status.ready_replicas,
            available: status.available_replicas,
            is_outdated: status.observed_generation < self.get("/metadata/generation").unwrap_or_default(),
            state: RolloutState::Progressing,
        };
        if rollout.is_outdated {
            return rollout;
        }
        let failed = status.conditions.iter().find(|condition| {
            (&*condition.type_, condition.status) == ("ReplicaFailure", ConditionStatus::True)
                || (&*condition.type_, &*condition.reason) == ("Progressing", "ProgressDeadlineExceeded")
        });
        let is_complete = [rollout.replicas, rollout.updated, rollout.ready, rollout.available] == [desired; 4];
        let state = match failed {
            Some(condition) => RolloutState::Failed(condition.message.clone()),
            None if is_complete => RolloutState::Complete,
            None => RolloutState::Progressing,
        };
        Rollout { state, ..rollout }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Deployment, Object, Rollout, RolloutState};
    use crate::testing::observed;

    fn rollout(deployment: &Value) -> Rollout {
        Object::<Deployment>::new(&observed(deployment)).rollout()
    }

    fn deployment(observed: i64, [replicas, updated, ready, available]: [u32; 4], conditions: &Value) -> Value {
        json!({
            "metadata": { "generation": 2 },
            "spec": { "replicas": 3 },
            "status": {
                "observedGeneration": observed,
                "replicas": replicas,
                "updatedReplicas": updated,
                "readyReplicas": ready,
                "availableReplicas": available,
                "conditions": conditions,
            },
        })
    }

    #[test]
    fn a_new_deployment_is_progressing() {
        let new = rollout(&json!({ "metadata": { "generation": 1 }, "spec": {} }));
        assert_eq!((new.desired, new.replicas, new.state), (1, 0, RolloutState::Progressing));
    }

    #[test]
    fn a_rollout_is_complete_when_exactly_the_desired_pods_are_available() {
        assert_eq!(rollout(&deployment(2, [3; 4], &json!([]))).state, RolloutState::Complete);
        for counts in [[4, 3, 3, 3], [3, 2, 3, 3], [3, 3, 2, 2], [3, 3, 3, 2]] {
            assert_eq!(rollout(&deployment(2, counts, &json!([]))).state, RolloutState::Progressing, "{counts:?}");
        }
    }

    #[test]
    fn conditions_of_an_older_generation_are_ignored() {
        let failed = json!([{ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded" }]);
        assert_eq!(rollout(&deployment(1, [3; 4], &failed)).state, RolloutState::Progressing);
    }

    #[test]
    fn a_failed_rollout_has_the_message_of_its_condition() {
        for (kind, status, reason) in
            [("Progressing", "False", "ProgressDeadlineExceeded"), ("ReplicaFailure", "True", "FailedCreate")]
        {
            let condition = json!([{ "type": kind, "status": status, "reason": reason, "message": "quota" }]);
            assert_eq!(
                rollout(&deployment(2, [0; 4], &condition)).state,
                RolloutState::Failed("quota".to_owned()),
                "{kind}"
            );
        }
    }

    #[test]
    fn the_message_counts_ready_pods_and_ends_with_the_failure() {
        assert_eq!(Rollout::default().message(3), "0/3 replicas ready");
        let failed = Rollout { ready: 2, state: RolloutState::Failed("quota".to_owned()), ..Rollout::default() };
        assert_eq!(failed.message(3), "2/3 replicas ready: quota");
    }
}
