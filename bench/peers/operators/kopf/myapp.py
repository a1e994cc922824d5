"""A web application: a Deployment, a Service and, for a host name, an Ingress."""

from datetime import datetime, timezone

import kopf
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient

KIND = ("example.com", "v1", "myapps")
CHILDREN = [("apps/v1", "Deployment"), ("v1", "Service"), ("networking.k8s.io/v1", "Ingress")]
APPLY = {"field_manager": "myapp", "force_conflicts": True}


@kopf.on.startup()
def connect(**_):
    config.load_config()


@kopf.on.create(*KIND)
@kopf.on.resume(*KIND)
@kopf.on.update(*KIND, field="spec")
@kopf.timer(*KIND, interval=30)
def reconcile(body, **_):
    meta, api = body["metadata"], DynamicClient(client.ApiClient())
    if "deletionTimestamp" in meta:
        return
    desired = children(body)
    live = find(api, ("apps/v1", "Deployment"), meta)
    for child in desired:
        kopf.append_owner_reference(child, owner=body)
        resource = api.resources.get(api_version=child["apiVersion"], kind=child["kind"])
        api.server_side_apply(resource, child, child["metadata"]["name"], meta["namespace"], **APPLY)
    kinds = {child["kind"] for child in desired}
    for kind in CHILDREN:
        child = kind[1] not in kinds and find(api, kind, meta)
        if child and is_owned(child, meta["uid"]):
            api.resources.get(api_version=kind[0], kind=kind[1]).delete(meta["name"], meta["namespace"])
    before = body.get("status", {})
    status = status_of(body, live, datetime.now(timezone.utc))
    if status != before:
        name = (*KIND[:2], meta["namespace"], KIND[2], meta["name"])
        client.CustomObjectsApi().patch_namespaced_custom_object_status(*name, {"status": status})
        if before and before.get("phase") != status["phase"]:
            kind = "Warning" if status["phase"] == "Failed" else "Normal"
            kopf.event(body, type=kind, reason=status["phase"], message=status["message"])


@kopf.on.delete(*KIND)
def clean_up(body, **_):
    # At this place an operator cleans up outside the cluster: a DNS record, for example.
    message = f"Nothing of {body['metadata']['name']} is left outside the cluster"
    kopf.event(body, type="Normal", reason="CleanedUp", message=message)


@kopf.on.event("deployments", labels={"managed-by": "windlass"})
@kopf.on.event("services", labels={"managed-by": "windlass"})
@kopf.on.event("ingresses", labels={"managed-by": "windlass"})
def child_changed(labels, namespace, **_):
    name = (*KIND[:2], namespace, KIND[2], labels["app"])
    try:
        app = client.CustomObjectsApi().get_namespaced_custom_object(*name)
    except ApiException as error:
        if error.status != 404:
            raise
    else:
        reconcile(app)


def find(api, kind, meta):
    resource = api.resources.get(api_version=kind[0], kind=kind[1])
    try:
        return resource.get(meta["name"], meta["namespace"]).to_dict()
    except ApiException as error:
        if error.status != 404:
            raise
        return None


def is_owned(child, uid):
    return any(owner["uid"] == uid for owner in child["metadata"].get("ownerReferences", []))


def children(app):
    name, spec = app["metadata"]["name"], app["spec"]
    # A Deployment's selector is immutable, so the labels never change.
    labels = {"app": name, "managed-by": "windlass"}
    meta = {"name": name, "labels": labels}
    container = {
        "name": "app",
        "image": spec["image"],
        "ports": [{"name": "http", "containerPort": spec["port"]}],
        "env": spec["env"],
        "resources": {"requests": {key: str(value) for key, value in spec["resources"].items()}},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {
            "replicas": spec["replicas"],
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {
            "type": "ClusterIP",
            "selector": {"app": name},
            "ports": [{"name": "http", "port": spec["port"], "targetPort": "http"}],
        },
    }
    if not spec.get("ingressHost"):
        return [deployment, service]
    backend = {"service": {"name": name, "port": {"name": "http"}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": meta,
        "spec": {"rules": [{"host": spec["ingressHost"], "http": {"paths": [path]}}]},
    }
    return [deployment, service, ingress]


def status_of(app, deployment, now):
    desired, before = app["spec"]["replicas"], app.get("status", {})
    state, live, failure = rollout(deployment)
    phase = "Pending"
    if state == "Failed":
        phase = "Failed"
    # Until a change of the spec is applied, the rollout of the old spec is complete.
    elif state == "Complete" and is_applied(app) and deployment["spec"]["replicas"] == desired:
        phase = "Running"
    status = {
        "phase": phase,
        "replicas": live.get("replicas", 0),
        "readyReplicas": live.get("readyReplicas", 0),
        "availableReplicas": live.get("availableReplicas", 0),
        "message": f"{live.get('readyReplicas', 0)}/{desired} replicas ready{failure}",
    }
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    is_same = all(before.get(key) == value for key, value in status.items())
    status["lastUpdateTime"] = before["lastUpdateTime"] if is_same else time
    condition = {
        "type": "Ready",
        "status": str(phase == "Running"),
        "reason": phase,
        "message": status["message"],
        "observedGeneration": app["metadata"]["generation"],
        "lastTransitionTime": time,
    }
    last = next(iter(before.get("conditions", [])), {})
    if last.get("status") == condition["status"]:
        condition["lastTransitionTime"] = last["lastTransitionTime"]
    status["conditions"] = [condition]
    status["observedGeneration"] = app["metadata"]["generation"]
    return status


def is_applied(app):
    return app.get("status", {}).get("observedGeneration") == app["metadata"]["generation"]


def rollout(deployment):
    if deployment is None:
        return "Progressing", {}, ""
    live = deployment.get("status", {})
    if live.get("observedGeneration", 0) < deployment["metadata"]["generation"]:
        return "Progressing", live, ""
    for one in live.get("conditions", []):
        is_refused = one["type"] == "ReplicaFailure" and one["status"] == "True"
        if is_refused or one.get("reason") == "ProgressDeadlineExceeded":
            return "Failed", live, f": {one['message']}"
    counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
    if all(live.get(count, 0) == deployment["spec"]["replicas"] for count in counts):
        return "Complete", live, ""
    return "Progressing", live, ""
