use serde_json::{Value as Json, json};

use super::*;
use crate::fixtures::object;

/// The readiness of an object of this kind with this spec and status: `ready`, `unknown`, or the text after `… ` or `failed: `.
fn of(api_version: &str, kind: &str, spec: &Json, status: &Json) -> String {
    with(&json!({"apiVersion": api_version, "kind": kind, "spec": spec, "status": status}))
}

fn with(fields: &Json) -> String {
    let mut all =
        json!({"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 2}});
    for (name, value) in fields.as_object().expect("an object") {
        if name == "metadata" {
            all["metadata"].as_object_mut().expect("metadata").extend(value.as_object().expect("metadata").clone());
        } else {
            all[name] = value.clone();
        }
    }
    match Readiness::of(&object(&all)) {
        Readiness::Ready => "ready".to_owned(),
        Readiness::Unknown => "unknown".to_owned(),
        Readiness::Progressing(text) => format!("… {text}"),
        Readiness::Failed(text) => format!("failed: {text}"),
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Json {
    json!({"type": kind, "status": status, "reason": reason, "message": message})
}

/// These fields of a status, without the names in `gone`, and with those in `changed`.
fn changed(status: &Json, change: &Json) -> Json {
    let mut status = status.clone();
    for (name, value) in change.as_object().expect("an object") {
        status[name] = value.clone();
    }
    status
}

const NOT_SEEN: &str = "… its controller has not seen it yet";
const OUTDATED: &str = "… its controller has not seen its latest change yet";
const NOT_ALL_READY: &str = "… not all of its Pods are ready";
const NOT_ALL_NEW: &str = "… not all of its Pods have the latest template";
const TOO_MANY: &str = "… Pods of it that are no longer needed still run";

#[test]
fn r22_object_without_a_controller_is_ready_and_one_that_is_being_deleted_is_not() {
    for (api_version, kind) in [
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("v1", "Service"),
        ("batch/v1", "CronJob"),
        ("networking.k8s.io/v1", "Ingress"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ] {
        assert_eq!(of(api_version, kind, &json!({}), &json!({})), "ready", "{kind}");
    }
    let deleting =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(with(&deleting), "… it is being deleted");
}

#[test]
fn r22_deployment_is_ready_once_all_pods_of_its_latest_template_are_available() {
    let of = |spec: &Json, status: &Json| of("apps/v1", "Deployment", spec, status);
    let spec = json!({"replicas": 2, "progressDeadlineSeconds": 600});
    let complete =
        [condition("Progressing", "True", "NewReplicaSetAvailable", ""), condition("Available", "True", "", "")];
    let done = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        "conditions": complete});
    assert_eq!(of(&spec, &done), "ready");
    let mut before = done.clone();
    for (change, expected) in [
        (json!({"conditions": []}), "… its rollout has not ended"),
        (json!({"conditions": [complete[0]]}), "… it is not available"),
        (json!({"availableReplicas": 1}), NOT_ALL_READY),
        (json!({"readyReplicas": 1}), NOT_ALL_READY),
        (json!({"replicas": 3}), TOO_MANY),
        (json!({"updatedReplicas": 1}), NOT_ALL_NEW),
        (json!({"observedGeneration": 1}), OUTDATED),
    ] {
        assert_eq!(of(&spec, &changed(&done, &change)), expected, "{change}");
        // The texts in the order of a rollout: each hides those after it.
        before = changed(&before, &change);
        assert_eq!(of(&spec, &before), expected, "{before}");
    }
    let late =
        condition("Progressing", "False", "ProgressDeadlineExceeded", "ReplicaSet \"a-1\" has timed out progressing.");
    let failed = changed(&done, &json!({"updatedReplicas": 0, "conditions": [late]}));
    assert_eq!(of(&spec, &failed), "failed: ReplicaSet \"a-1\" has timed out progressing.");
    assert_eq!(of(&spec, &json!({})), NOT_SEEN);
    assert_eq!(of(&json!({"replicas": 0}), &json!({})), NOT_SEEN, "no Pods are no proof");
    let empty = json!({"observedGeneration": 2, "conditions": complete});
    assert_eq!(of(&json!({"replicas": 0, "progressDeadlineSeconds": 600}), &empty), "ready");
    let paused = condition("Progressing", "Unknown", "DeploymentPaused", "");
    let status = changed(&done, &json!({"conditions": [paused, complete[1]]}));
    assert_eq!(of(&json!({"replicas": 2, "progressDeadlineSeconds": 600, "paused": true}), &status), "ready");
}

#[test]
fn r22_stateful_set_is_ready_once_its_rollout_has_ended() {
    let of = |spec: &Json, status: &Json| of("apps/v1", "StatefulSet", spec, status);
    let spec = json!({"replicas": 3});
    let done = json!({"observedGeneration": 2, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 3,
        "currentRevision": "b", "updateRevision": "b"});
    assert_eq!(of(&spec, &done), "ready");
    for (change, expected) in [
        (json!({"currentRevision": "a"}), NOT_ALL_NEW),
        (json!({"availableReplicas": 2}), NOT_ALL_READY),
        (json!({"readyReplicas": 2}), NOT_ALL_READY),
        (json!({"replicas": 4}), TOO_MANY),
        (json!({"observedGeneration": 1}), OUTDATED),
    ] {
        assert_eq!(of(&spec, &changed(&done, &change)), expected, "{change}");
    }
    assert_eq!(of(&spec, &json!({"replicas": 0})), NOT_SEEN);
    let rolling = |partition: i64| json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
    let partly = changed(&done, &json!({"updatedReplicas": 1, "currentRevision": "a"}));
    assert_eq!(of(&rolling(2), &partly), "ready", "the partition keeps two Pods");
    assert_eq!(of(&rolling(1), &partly), NOT_ALL_NEW);
    assert_eq!(of(&rolling(0), &partly), NOT_ALL_NEW);
    let by_hand = json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}});
    assert_eq!(of(&by_hand, &partly), "ready", "a user deletes the Pods");
    assert_eq!(of(&by_hand, &changed(&partly, &json!({"readyReplicas": 2}))), NOT_ALL_READY);
}

#[test]
fn r22_daemon_set_and_replica_set_are_ready_once_their_pods_are() {
    let daemon = json!({"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberReady": 2,
        "numberAvailable": 2});
    let of_daemon = |change: &Json| of("apps/v1", "DaemonSet", &json!({}), &changed(&daemon, change));
    assert_eq!(of_daemon(&json!({})), "ready");
    assert_eq!(of_daemon(&json!({"updatedNumberScheduled": 1})), NOT_ALL_NEW);
    assert_eq!(of_daemon(&json!({"numberReady": 1})), NOT_ALL_READY);
    assert_eq!(of_daemon(&json!({"numberAvailable": 1})), NOT_ALL_READY);
    assert_eq!(of_daemon(&json!({"observedGeneration": 1})), OUTDATED);
    assert_eq!(of("apps/v1", "DaemonSet", &json!({}), &json!({})), NOT_SEEN);
    let set = json!({"observedGeneration": 2, "replicas": 1, "readyReplicas": 1, "availableReplicas": 1});
    let of_set = |change: &Json| of("apps/v1", "ReplicaSet", &json!({}), &changed(&set, change));
    assert_eq!(of_set(&json!({})), "ready");
    assert_eq!(of_set(&json!({"readyReplicas": 0})), NOT_ALL_READY);
    assert_eq!(of_set(&json!({"replicas": 2})), TOO_MANY);
    let quota = condition("ReplicaFailure", "True", "FailedCreate", "exceeded quota");
    assert_eq!(of_set(&json!({"conditions": [quota]})), "… exceeded quota");
}

#[test]
fn r22_job_is_ready_once_it_has_succeeded() {
    let of = |conditions: &Json| of("batch/v1", "Job", &json!({}), &json!({"active": 1, "conditions": conditions}));
    assert_eq!(of(&json!([])), "… it has not ended yet");
    assert_eq!(of(&json!([condition("Complete", "True", "", "")])), "ready");
    let failed = condition("Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit");
    assert_eq!(of(&json!([failed])), "failed: Job has reached the specified backoff limit");
    let again = [condition("Suspended", "False", "", ""), condition("Failed", "False", "", "")];
    assert_eq!(of(&json!(again)), "… it has not ended yet");
    assert_eq!(of(&json!([condition("Suspended", "True", "", "")])), "… it is suspended");
}

#[test]
fn r22_pod_is_ready_once_it_is_ready_or_has_succeeded() {
    let of = |status: &Json| of("v1", "Pod", &json!({}), status);
    assert_eq!(of(&json!({})), "… it is not ready");
    assert_eq!(of(&json!({"phase": "Running", "conditions": [condition("Ready", "True", "", "")]})), "ready");
    assert_eq!(
        of(&json!({"phase": "Running", "conditions": [condition("Ready", "False", "", "")]})),
        "… it is not ready"
    );
    assert_eq!(of(&json!({"phase": "Succeeded", "conditions": [condition("Ready", "False", "", "")]})), "ready");
    assert_eq!(of(&json!({"phase": "Failed"})), "failed: it has ended with a failure");
    assert_eq!(of(&json!({"phase": "Failed", "message": "evicted"})), "failed: evicted");
    let unschedulable = condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available");
    assert_eq!(of(&json!({"phase": "Pending", "conditions": [unschedulable]})), "… 0/1 nodes are available");
    let waiting = |list: &str, reason: &str| json!({"phase": "Pending", list: [{"name": "app", "state": {"waiting": {"reason": reason}}}]});
    for list in ["containerStatuses", "initContainerStatuses"] {
        assert_eq!(
            of(&waiting(list, "CrashLoopBackOff")),
            "failed: its container app crashes repeatedly (CrashLoopBackOff)"
        );
        assert_eq!(of(&waiting(list, "ErrImagePull")), "… the image of its container app cannot be pulled");
        assert_eq!(of(&waiting(list, "ContainerCreating")), "… it is not ready");
    }
}

#[test]
fn r22_claim_that_waits_for_its_first_consumer_is_ready_and_one_that_waits_for_a_volume_is_not() {
    let claim = |metadata: Json, spec: Json, status: Json| {
        with(
            &json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": status}),
        )
    };
    let (class, pending) = (json!({"storageClassName": "local"}), json!({"phase": "Pending"}));
    let provisioned = json!({"annotations": {"volume.kubernetes.io/storage-provisioner": "csi"}});
    assert_eq!(claim(json!({}), class.clone(), pending.clone()), "ready");
    let unbound = "… it is not bound to a volume yet";
    assert_eq!(claim(provisioned, class, pending.clone()), unbound, "its Pod has a node");
    assert_eq!(claim(json!({}), json!({"storageClassName": ""}), pending.clone()), unbound);
    assert_eq!(claim(json!({}), json!({"storageClassName": "local", "volumeName": "pv"}), pending), unbound);
    assert_eq!(claim(json!({}), json!({}), json!({"phase": "Lost"})), "failed: its volume is lost");
}

#[test]
fn r22_enlarged_claim_is_ready_once_its_volume_is() {
    let spec = json!({"resources": {"requests": {"storage": "2Gi"}}});
    let claim = |status: Json| of("v1", "PersistentVolumeClaim", &spec, &changed(&json!({"phase": "Bound"}), &status));
    assert_eq!(claim(json!({"capacity": {"storage": "2048Mi"}})), "ready");
    assert_eq!(claim(json!({"capacity": {"storage": "3Gi"}})), "ready");
    assert_eq!(claim(json!({"capacity": {"storage": "1Gi"}})), "… its volume is being enlarged");
    let pending =
        json!({"capacity": {"storage": "1Gi"}, "conditions": [condition("FileSystemResizePending", "True", "", "")]});
    assert_eq!(claim(pending), "ready", "a Pod that starts enlarges the file system");
    let resize =
        json!({"capacity": {"storage": "1Gi"}, "allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"}});
    assert_eq!(claim(resize.clone()), "failed: its volume cannot be enlarged");
    let error = condition("ControllerResizeError", "True", "", "the disk is full");
    assert_eq!(claim(changed(&resize, &json!({"conditions": [error]}))), "failed: the disk is full");
}

#[test]
fn r22_custom_object_is_as_ready_as_its_conditions_say() {
    let of = |status: &Json| of("example.com/v1", "Database", &json!({}), status);
    assert_eq!(of(&json!({})), "unknown");
    assert_eq!(of(&json!({"phase": "Ready"})), "unknown");
    assert_eq!(of(&json!({"conditions": [condition("Ready", "True", "", "")]})), "ready");
    for status in ["False", "Unknown"] {
        assert_eq!(
            of(&json!({"conditions": [condition("Ready", status, "NoDisk", "no disk is left")]})),
            "… no disk is left"
        );
    }
    assert_eq!(of(&json!({"conditions": [condition("Ready", "False", "NoDisk", "")]})), "… NoDisk");
    let mut early = condition("Ready", "True", "", "");
    early["observedGeneration"] = json!(1);
    assert_eq!(of(&json!({"conditions": [early]})), "… its condition Ready is about an earlier generation");
    let ready = condition("Ready", "True", "", "");
    assert_eq!(of(&json!({"conditions": [ready, condition("Reconciling", "True", "", "works")]})), "… works");
    assert_eq!(of(&json!({"conditions": [ready, condition("Stalled", "True", "", "broken")]})), "failed: broken");
    assert_eq!(of(&json!({"observedGeneration": 1, "conditions": [ready]})), OUTDATED);
    let community = object(&json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1"}}));
    assert_eq!(Readiness::of(&community), Readiness::Unknown);
}

#[test]
fn r22_definition_is_ready_once_the_api_server_serves_its_kind() {
    let of = |conditions: Json| {
        of("apiextensions.k8s.io/v1", "CustomResourceDefinition", &json!({}), &json!({"conditions": conditions}))
    };
    let accepted = condition("NamesAccepted", "True", "", "");
    assert_eq!(of(json!([])), "… the API server does not serve its kind yet");
    assert_eq!(
        of(json!([accepted, condition("Established", "False", "Installing", "")])),
        "… the API server does not serve its kind yet"
    );
    assert_eq!(of(json!([accepted, condition("Established", "True", "", "")])), "ready");
    assert_eq!(of(json!([condition("NamesAccepted", "False", "ListKindConflict", "taken")])), "failed: taken");
    let service = |status: &str| {
        let conditions = json!([condition("Available", status, "FailedDiscoveryCheck", "no response")]);
        self::of("apiregistration.k8s.io/v1", "APIService", &json!({}), &json!({"conditions": conditions}))
    };
    assert_eq!((service("True"), service("False")), ("ready".to_owned(), "… no response".to_owned()));
    assert_eq!(self::of("policy/v1", "PodDisruptionBudget", &json!({}), &json!({})), NOT_SEEN);
    assert_eq!(self::of("policy/v1", "PodDisruptionBudget", &json!({}), &json!({"observedGeneration": 2})), "ready");
}

#[test]
fn r22_json_of_a_kind_without_a_rule_is_not_read() {
    let kind = |api_version: &str, kind: &str| Gvk::from_api_version(api_version, kind);
    let of = |kind: &Gvk, deleting, json: &str| Readiness::of_json(kind, deleting, || json.as_bytes().to_vec());
    let unread = || -> &[u8] { panic!("it is read") };
    assert_eq!(Readiness::of_json(&kind("v1", "Secret"), false, unread), Readiness::Ready);
    assert_eq!(Readiness::of_json(&kind("v1", "Secret"), true, unread), Readiness::Progressing(BEING_DELETED.into()));
    let job = json!({"metadata": {"generation": 1}, "status": {"conditions": [condition("Complete", "True", "", "")]}});
    assert_eq!(of(&kind("batch/v1", "Job"), false, &job.to_string()), Readiness::Ready);
    assert_eq!(of(&kind("batch/v1", "Job"), false, "[]"), Readiness::Unknown);
    assert_eq!(Readiness::after_a_write(&kind("v1", "Secret")), Readiness::Ready);
    assert_eq!(Readiness::after_a_write(&kind("batch/v1", "Job")), Readiness::Progressing(NOT_OBSERVED.into()));
}
