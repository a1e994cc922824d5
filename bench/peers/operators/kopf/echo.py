"""A number of Pods of one image."""

from datetime import datetime, timezone

import kopf
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

KIND = ("my-operator.dev", "v1", "echoes")
APPLY = {"field_manager": "echo", "force": True, "_content_type": "application/apply-patch+yaml"}


@kopf.on.startup()
def connect(**_):
    config.load_config()


@kopf.on.create(*KIND)
@kopf.on.resume(*KIND)
@kopf.on.update(*KIND, field="spec")
@kopf.timer(*KIND, interval=300)
def reconcile(body, **_):
    meta, api = body["metadata"], client.CoreV1Api()
    if "deletionTimestamp" in meta:
        return
    desired = {pod["metadata"]["name"]: pod for pod in pods(body)}
    for name, pod in desired.items():
        kopf.append_owner_reference(pod, owner=body)
        api.patch_namespaced_pod(name, meta["namespace"], pod, **APPLY)
    live = api.list_namespaced_pod(meta["namespace"], label_selector=f"owner={meta['uid']}")
    live = api.api_client.sanitize_for_serialization(live)["items"]
    for pod in live:
        if pod["metadata"]["name"] not in desired:
            api.delete_namespaced_pod(pod["metadata"]["name"], meta["namespace"])
    status = status_of(body, live, datetime.now(timezone.utc))
    if status != body.get("status"):
        name = (*KIND[:2], meta["namespace"], KIND[2], meta["name"])
        client.CustomObjectsApi().patch_namespaced_custom_object_status(*name, {"status": status})


@kopf.on.event("pods", labels={"owner": kopf.PRESENT})
def pod_changed(labels, namespace, **_):
    name = (*KIND[:2], namespace, KIND[2], labels["app"])
    try:
        echo = client.CustomObjectsApi().get_namespaced_custom_object(*name)
    except ApiException as error:
        if error.status != 404:
            raise
    else:
        reconcile(echo)


def pods(echo):
    meta, spec = echo["metadata"], echo["spec"]
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{meta['name']}-{index}",
                "labels": {"app": meta["name"], "owner": meta["uid"]},
            },
            "spec": {"containers": [{"name": "nginx", "image": spec["image"]}]},
        }
        for index in range(spec["replicas"])
    ]


def status_of(echo, live, now):
    desired = echo["spec"]["replicas"]
    ready = sum(is_ready(pod) for pod in live)
    done = ready == len(live) == desired
    before = next(iter(echo.get("status", {}).get("conditions", [])), {})
    condition = {
        "type": "Ready",
        "status": str(done),
        "reason": "Running" if done else "Pending",
        "message": f"{ready}/{desired} Pods are ready",
        "observedGeneration": echo["metadata"]["generation"],
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if before.get("status") == condition["status"]:
        condition["lastTransitionTime"] = before["lastTransitionTime"]
    return {
        "currentReplicas": len(live),
        "isReady": done,
        "observedGeneration": echo["metadata"]["generation"],
        "conditions": [condition],
    }


def is_ready(pod):
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
