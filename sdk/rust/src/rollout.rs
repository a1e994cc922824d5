//! The rollout of a Deployment, StatefulSet or DaemonSet, from its status.

use crate::{
    Condition, ConditionStatus, Object,
    kinds::{DaemonSet, Deployment, Kind as _, Workload},
};

/// The Pods of a Deployment, StatefulSet or DaemonSet, and how far its last change is rolled out. The default is the rollout of
/// an object that does not exist: no Pods, and [`RolloutState::Progressing`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rollout {
    /// Pods that the spec desires (`spec.replicas`, which an autoscaler writes too), or a DaemonSet for its nodes.
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
    /// All desired Pods are available and of the current revision, and there are no others. The revision does not count where a
    /// StatefulSet has a partition, or where users delete Pods to update them (`OnDelete`).
    Complete,
    /// The rollout of a Deployment does not go on without a change. The message is that of its condition.
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

impl<K: Workload> Object<'_, K> {
    /// The rollout of a Deployment, StatefulSet or DaemonSet. A count that cannot be read is 0.
    pub fn rollout(&self) -> Rollout {
        let number = |path: &str| self.get::<u32>(path);
        let count = |path: &str| number(path).unwrap_or_default();
        let (desired, [replicas, updated, ready, available]) = if K::KIND == DaemonSet::KIND {
            let names = ["currentNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable"];
            (count("/status/desiredNumberScheduled"), names)
        } else {
            let names = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
            // The API server's default.
            (number("/spec/replicas").unwrap_or(1), names)
        };
        let in_status = |name: &str| count(&format!("/status/{name}"));
        let generation = |path: &str| self.get::<i64>(path).unwrap_or_default();
        let rollout = Rollout {
            desired,
            replicas: in_status(replicas),
            updated: in_status(updated),
            ready: in_status(ready),
            available: in_status(available),
            is_outdated: generation("/status/observedGeneration") < generation("/metadata/generation"),
            state: RolloutState::Progressing,
        };
        if rollout.is_outdated {
            return rollout;
        }
        let state = if let Some(message) = self.rollout_failure() {
            RolloutState::Failed(message)
        } else if self.is_updated(&rollout) && [rollout.replicas, rollout.ready, rollout.available] == [desired; 3] {
            RolloutState::Complete
        } else {
            RolloutState::Progressing
        };
        Rollout { state, ..rollout }
    }

    /// The message of the condition with which a Deployment reports a failed rollout.
    fn rollout_failure(&self) -> Option<String> {
        if K::KIND != Deployment::KIND {
            return None;
        }
        let conditions: Vec<Condition> = self.get("/status/conditions")?;
        let failed = conditions.into_iter().find(|condition| {
            (&*condition.type_, condition.status) == ("ReplicaFailure", ConditionStatus::True)
                || (&*condition.type_, &*condition.reason) == ("Progressing", "ProgressDeadlineExceeded")
        });
        failed.map(|condition| condition.message)
    }

    /// Whether all Pods have the current revision, apart from those that keep theirs.
    fn is_updated(&self, rollout: &Rollout) -> bool {
        let strategy: Option<String> = self.get("/spec/updateStrategy/type");
        let kept = match strategy.as_deref() {
            Some("OnDelete") => rollout.desired,
            _ => self.get("/spec/updateStrategy/rollingUpdate/partition").unwrap_or_default(),
        };
        rollout.updated == rollout.desired || (kept > 0 && rollout.updated.saturating_add(kept) >= rollout.desired)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Rollout, RolloutState};
    use crate::{
        Object,
        kinds::{DaemonSet, Deployment, StatefulSet},
        testing::observed,
    };

    /// A rollout as the shared cases have it.
    fn document(rollout: &Rollout) -> Value {
        let (state, failure) = match &rollout.state {
            RolloutState::Progressing => ("Progressing", ""),
            RolloutState::Complete => ("Complete", ""),
            RolloutState::Failed(message) => ("Failed", message.as_str()),
        };
        json!({
            "desired": rollout.desired, "replicas": rollout.replicas, "updated": rollout.updated, "ready": rollout.ready,
            "available": rollout.available, "isOutdated": rollout.is_outdated, "state": state, "failure": failure,
        })
    }

    #[test]
    fn rollouts_are_those_that_every_sdk_sees() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../host/conformance/rollouts.json");
        let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        assert!(!cases.is_empty());
        for case in cases {
            let object = observed(&case["object"]);
            let rollout = match case["object"]["kind"].as_str() {
                Some("Deployment") => Object::<Deployment>::new(&object).rollout(),
                Some("StatefulSet") => Object::<StatefulSet>::new(&object).rollout(),
                _ => Object::<DaemonSet>::new(&object).rollout(),
            };
            assert_eq!(document(&rollout), case["rollout"], "{}", case["description"]);
        }
    }

    #[test]
    fn the_message_counts_ready_pods_and_ends_with_the_failure() {
        assert_eq!(Rollout::default().message(3), "0/3 replicas ready");
        let failed = Rollout { ready: 2, state: RolloutState::Failed("quota".to_owned()), ..Rollout::default() };
        assert_eq!(failed.message(3), "2/3 replicas ready: quota");
    }
}
