"""Echo in Python: as many Pods as asked for."""

import json
from pathlib import Path

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import types

# Read when the component is made; there are no files later.
DEFINITION = Path(__file__).with_name("crd.json").read_bytes()


class Reconciler(exports.Reconciler):
    def describe(self):
        """Says what the plugin is."""
        return types.Descriptor(
            name="echo",
            version="0.1.0",
            description="Runs as many Pods of an image as asked for",
            parent=types.Parent_Custom(DEFINITION),
            children=[types.ChildRule(types.Kind("v1", "Pod"), types.UpdateStrategy_Apply())],
            related=[],
            finalizes=False,
            resync=5 * 60 * 1000,
            config_schema=None,
            metrics=[],
            extensions=[],
        )

    def reconcile(self, request):
        """Says which Pods should exist, and how those that do are."""
        parent = json.loads(request.parent)
        replicas, image = checked(parent.get("spec", {}))
        name, uid = parent["metadata"]["name"], parent["metadata"]["uid"]
        pods = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{name}-{index}", "labels": {"app": name, "owner": uid}},
                "spec": {"containers": [{"name": "nginx", "image": image}]},
            }
            for index in range(replicas)
        ]
        current = len(request.children)
        ready = sum(is_ready(json.loads(pod.object)) for pod in request.children)
        status = {"currentReplicas": current, "isReady": ready == current == replicas}
        return types.Response(
            children=[encode(pod) for pod in pods],
            status=encode(status),
            requeue=None,
            events=[],
            requirements=[],
            finalized=False,
            extensions=[],
        )


def checked(spec):
    """Replicas and image, or what a user can act on, with the field that is wrong."""
    if "replicas" not in spec:
        raise invalid("spec.replicas: is required")
    replicas = spec["replicas"]
    if type(replicas) is not int:
        raise invalid(f"spec.replicas: {json.dumps(replicas)} is no whole number")
    if "image" not in spec:
        raise invalid("spec.image: is required")
    image = spec["image"]
    if not isinstance(image, str):
        raise invalid(f"spec.image: {json.dumps(image)} is no text")
    if not 0 <= replicas <= 1000:
        raise invalid(f"spec.replicas: {replicas} is not between 0 and 1000")
    if image.split() != [image]:
        raise invalid(f"spec.image: {json.dumps(image)} is not the name of an image")
    return replicas, image


def invalid(message):
    return Err(types.Failure_Invalid(message))


def is_ready(pod):
    conditions = pod.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def encode(value):
    return json.dumps(value).encode()
