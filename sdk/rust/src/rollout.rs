//! How far a Deployment is: its status, read once and for all.

use serde::Deserialize;

use crate::{Condition, ConditionStatus, Object, kinds::Deployment};

/// How many Pods of a Deployment there are, and whether its last change has arrived at all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// How many Pods its spec asks for: an autoscaler's number, where there is one.
    pub wanted: u32,
    /// Pods that exist, those of the state before among them.
    pub replicas: u32,
    /// Pods that are as the spec says now.
    pub updated: u32,
    /// Pods that are Ready.
    pub ready: u32,
    /// Pods that have been Ready for long enough.
    pub available: u32,
    /// Whether its controller has seen the newest spec: if not, all this is of the one before.
    pub is_seen: bool,
    /// Where it stands.
    pub stage: Stage,
}

/// Where a Deployment stands, as kstatus (`sigs.k8s.io/cli-utils`) tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// The controllers are at it, or have not seen the last change yet.
    Progressing,
    /// All Pods that are wanted are there, as wanted, and available.
    Complete,
    /// It does not go on by itself: why, as the controllers say it.
    Failed(String),
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Whole {
    metadata: Generation,
    spec: Spec,
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Generation {
    generation: i64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    replicas: Option<u32>,
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

impl Object<'_, Deployment> {
    /// How far it is. One that cannot be read is taken to be at its beginning.
    pub fn rollout(&self) -> Rollout {
        let Whole { metadata, spec, status } = self.read_as().unwrap_or_default();
        // What the API server puts where nothing is given.
        let wanted = spec.replicas.unwrap_or(1);
        let rollout = Rollout {
            wanted,
            replicas: status.replicas,
            updated: status.updated_replicas,
            ready: status.ready_replicas,
            available: status.available_replicas,
            is_seen: status.observed_generation >= metadata.generation,
            stage: Stage::Progressing,
        };
        if !rollout.is_seen {
            return rollout;
        }
        let failed = status.conditions.iter().find(|condition| {
            (&*condition.type_, condition.status) == ("ReplicaFailure", ConditionStatus::True)
                || (&*condition.type_, &*condition.reason) == ("Progressing", "ProgressDeadlineExceeded")
        });
        let is_complete = [rollout.replicas, rollout.updated, rollout.ready, rollout.available] == [wanted; 4];
        let stage = match failed {
            Some(condition) => Stage::Failed(condition.message.clone()),
            None if is_complete => Stage::Complete,
            None => Stage::Progressing,
        };
        Rollout { stage, ..rollout }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Deployment, Object, Rollout, Stage};
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
    fn a_new_deployment_is_at_its_beginning() {
        let new = rollout(&json!({ "metadata": { "generation": 1 }, "spec": {} }));
        assert_eq!((new.wanted, new.replicas, new.stage), (1, 0, Stage::Progressing));
    }

    #[test]
    fn it_is_complete_when_all_pods_are_as_wanted_and_none_else_are_left() {
        assert_eq!(rollout(&deployment(2, [3; 4], &json!([]))).stage, Stage::Complete);
        for counts in [[4, 3, 3, 3], [3, 2, 3, 3], [3, 3, 2, 2], [3, 3, 3, 2]] {
            assert_eq!(rollout(&deployment(2, counts, &json!([]))).stage, Stage::Progressing, "{counts:?}");
        }
    }

    #[test]
    fn what_was_said_of_an_older_generation_counts_no_more() {
        let failed = json!([{ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded" }]);
        assert_eq!(rollout(&deployment(1, [3; 4], &failed)).stage, Stage::Progressing);
    }

    #[test]
    fn a_failure_is_told_as_the_controller_tells_it() {
        for (kind, status, reason) in
            [("Progressing", "False", "ProgressDeadlineExceeded"), ("ReplicaFailure", "True", "FailedCreate")]
        {
            let condition = json!([{ "type": kind, "status": status, "reason": reason, "message": "quota" }]);
            assert_eq!(rollout(&deployment(2, [0; 4], &condition)).stage, Stage::Failed("quota".to_owned()), "{kind}");
        }
    }
}
