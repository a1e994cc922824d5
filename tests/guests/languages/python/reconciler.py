"""The guest: it writes into a ConfigMap what a plugin in Python sees of the machine it runs on."""

import json
import os
import random
import secrets
import sys
import time
from datetime import datetime, timezone

from wit_world import exports
from wit_world.imports import types


class Reconciler(exports.Reconciler):
    def describe(self):
        return types.Descriptor(
            name="python",
            version="0.1.0",
            description="Shows what a plugin in Python sees.",
            parent=types.Parent_Custom(encode(definition())),
            children=[types.ChildRule(types.Kind("v1", "ConfigMap"), types.UpdateStrategy_Apply())],
            related=[],
            finalizes=False,
            resync=None,
            config_schema=None,
            metrics=[],
            extensions=[],
        )

    def reconcile(self, request):
        """Wants one ConfigMap that shows what this call sees."""
        parent = json.loads(request.parent)
        data = seen()
        if parent.get("spec", {}).get("wallClock"):
            data["wallClock"] = datetime.now(timezone.utc).isoformat()
        child = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": parent["metadata"]["name"] + "-seen"},
            "data": data,
        }
        return types.Response(
            children=[encode(child)],
            status=None,
            requeue=None,
            events=[],
            requirements=[],
            finalized=False,
            extensions=[],
        )


def seen():
    before = time.monotonic_ns()
    numbers = f"{random.getrandbits(64)} {secrets.token_hex(8)}"
    # The order of a set depends on hashes, which Python seeds at random for each process.
    order = set("one two three four five six seven eight nine ten eleven twelve".split())
    return {
        "random": numbers,
        "order": " ".join(order),
        "environment": " ".join(os.environ),
        "arguments": " ".join(sys.argv),
        "files": " ".join(files()),
        "elapsed": str(time.monotonic_ns() - before),
    }


def files():
    """The names in the folders that a guest may look at."""
    for folder in [".", "/"]:
        try:
            yield from os.listdir(folder)
        except OSError:
            pass


def definition():
    spec = {"type": "object", "properties": {"wallClock": {"type": "boolean"}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "pythonguests.languages.example"},
        "spec": {
            "group": "languages.example",
            "names": {
                "kind": "PythonGuest",
                "listKind": "PythonGuestList",
                "plural": "pythonguests",
                "singular": "pythonguest",
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }
            ],
        },
    }


def encode(value):
    return json.dumps(value).encode()
