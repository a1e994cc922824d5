//! Readiness of Pods and of the built-in kinds that run Pods.

use super::{Parts, Readiness, message_of, number, text};
use crate::value::json::{Map, Value};

/// A Pod: it is ready when it has succeeded as well.
pub(super) fn pod(parts: &Parts) -> Readiness {
    match text(&parts.status, "phase") {
        Some("Succeeded") => Readiness::Ready,
        Some("Failed") => Readiness::Failed(match text(&parts.status, "message") {
            Some(message) if !message.is_empty() => message.to_owned().into(),
            _ => "it has ended with a failure".into(),
        }),
        _ if parts.is_true("Ready") => Readiness::Ready,
        _ => {
            if let Some(name) = waiting(parts, &["CrashLoopBackOff"]) {
                return Readiness::Failed(format!("its container {name} crashes repeatedly (CrashLoopBackOff)").into());
            }
            if let Some(name) = waiting(parts, &["ImagePullBackOff", "ErrImagePull", "InvalidImageName"]) {
                return Readiness::Progressing(format!("the image of its container {name} cannot be pulled").into());
            }
            match parts.condition("PodScheduled") {
                Some(("False", condition)) => Readiness::Progressing(message_of(condition)),
                Some(_) | None => Readiness::progressing("it is not ready"),
            }
        }
    }
}

/// The name of the first container that waits for one of these reasons.
fn waiting<'a>(parts: &'a Parts, reasons: &[&str]) -> Option<&'a str> {
    let lists = ["initContainerStatuses", "containerStatuses"].map(|list| parts.status.get(list));
    let containers = lists.into_iter().flatten().filter_map(Value::as_array).flatten().filter_map(Value::as_object);
    let reason = |container: &'a Map| container.get("state")?.at(&["waiting", "reason"])?.as_str();
    let mut waits = containers.filter(|container| reason(container).is_some_and(|reason| reasons.contains(&reason)));
    text(waits.next()?, "name")
}

/// A Deployment.
pub(super) fn deployment(parts: &Parts) -> Readiness {
    let is_paused = matches!(parts.spec.get("paused"), Some(Value::Bool(true)));
    let progress = parts.condition("Progressing");
    if let Some((_, condition)) = progress
        && text(condition, "reason") == Some("ProgressDeadlineExceeded")
    {
        return Readiness::Failed(message_of(condition));
    }
    let wanted = wanted(parts);
    let has_no_deadline =
        number(&parts.spec, "progressDeadlineSeconds").is_none_or(|seconds| seconds == i64::from(i32::MAX));
    let is_complete = || {
        progress.is_some_and(|(status, condition)| {
            status == "True" && text(condition, "reason") == Some("NewReplicaSetAvailable")
        })
    };
    if !is_seen(parts) {
        NOT_SEEN
    } else if parts.count("updatedReplicas") < wanted {
        Readiness::progressing("not all of its Pods have the latest template")
    } else if parts.count("replicas") > wanted {
        Readiness::progressing("Pods of it that are no longer needed still run")
    } else if parts.count("availableReplicas") < wanted || parts.count("readyReplicas") < wanted {
        NOT_ALL_READY
    } else if !(is_paused || has_no_deadline || is_complete()) {
        Readiness::progressing("its rollout has not ended")
    } else if !parts.is_true("Available") {
        Readiness::progressing("it is not available")
    } else {
        Readiness::Ready
    }
}

/// A StatefulSet.
pub(super) fn stateful_set(parts: &Parts) -> Readiness {
    let strategy = parts.spec.get("updateStrategy");
    let is_on_delete = strategy.and_then(|strategy| strategy.at(&["type"])?.as_str()) == Some("OnDelete");
    let rolling = strategy.and_then(|strategy| strategy.at(&["rollingUpdate"])?.as_object());
    let partition = rolling.and_then(|rolling| number(rolling, "partition")).unwrap_or_default();
    let wanted = wanted(parts);
    let is_updated = || {
        if partition > 0 {
            return parts.count("updatedReplicas") >= wanted - partition;
        }
        text(&parts.status, "currentRevision") == text(&parts.status, "updateRevision")
    };
    if !is_seen(parts) {
        NOT_SEEN
    } else if parts.count("replicas") > wanted {
        Readiness::progressing("Pods of it that are no longer needed still run")
    } else if parts.count("readyReplicas") < wanted || available(parts) < wanted {
        NOT_ALL_READY
    } else if !is_on_delete && !is_updated() {
        Readiness::progressing("not all of its Pods have the latest template")
    } else {
        Readiness::Ready
    }
}

/// The available Pods; the ready ones for a controller that does not count them.
fn available(parts: &Parts) -> i64 {
    number(&parts.status, "availableReplicas").unwrap_or_else(|| parts.count("readyReplicas"))
}

/// A DaemonSet.
pub(super) fn daemon_set(parts: &Parts) -> Readiness {
    let is_on_delete =
        parts.spec.get("updateStrategy").and_then(|strategy| strategy.at(&["type"])?.as_str()) == Some("OnDelete");
    let wanted = parts.count("desiredNumberScheduled");
    if !is_seen(parts) {
        NOT_SEEN
    } else if !is_on_delete && parts.count("updatedNumberScheduled") < wanted {
        Readiness::progressing("not all of its Pods have the latest template")
    } else if parts.count("numberReady") < wanted || parts.count("numberAvailable") < wanted {
        NOT_ALL_READY
    } else {
        Readiness::Ready
    }
}

/// A `ReplicaSet`, or a `ReplicationController`.
pub(super) fn replica_set(parts: &Parts) -> Readiness {
    let wanted = wanted(parts);
    if let Some(("True", condition)) = parts.condition("ReplicaFailure") {
        Readiness::Progressing(message_of(condition))
    } else if !is_seen(parts) {
        NOT_SEEN
    } else if parts.count("replicas") > wanted {
        Readiness::progressing("Pods of it that are no longer needed still run")
    } else if parts.count("readyReplicas") < wanted || parts.count("availableReplicas") < wanted {
        NOT_ALL_READY
    } else {
        Readiness::Ready
    }
}

/// A Job: it is ready once it has succeeded.
pub(super) fn job(parts: &Parts) -> Readiness {
    if let Some(("True", condition)) = parts.condition("Failed") {
        Readiness::Failed(message_of(condition))
    } else if parts.is_true("Complete") {
        Readiness::Ready
    } else if parts.is_true("Suspended") {
        Readiness::progressing("it is suspended")
    } else {
        Readiness::progressing("it has not ended yet")
    }
}

const NOT_SEEN: Readiness = Readiness::Progressing(std::borrow::Cow::Borrowed("its controller has not seen it yet"));
const NOT_ALL_READY: Readiness = Readiness::Progressing(std::borrow::Cow::Borrowed("not all of its Pods are ready"));

/// Whether the controller has written a status. Before, all counts are absent, as they are for a workload without Pods.
fn is_seen(parts: &Parts) -> bool {
    parts.status.get("observedGeneration").is_some()
}

/// The number of Pods that it should have.
fn wanted(parts: &Parts) -> i64 {
    number(&parts.spec, "replicas").unwrap_or(1)
}
