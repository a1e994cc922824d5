"""The functions of the Python peers return the children and the status of the golden cases of Echo and MyApp.

The cases with an invalid spec are left out: the API server rejects it by the schema of the CRD. So are the defaults of the
CRD, which the tests fill in.
"""

import importlib.util
import sys
import types
import unittest
from datetime import datetime, timezone
from pathlib import Path

import yaml

HERE = Path(__file__).parent
PLUGINS = HERE.parents[2] / "plugins"
DEFAULTS = {"replicas": 1, "port": 8080, "env": []}
RESOURCES = {"cpu": "100m", "memory": "128Mi"}


def load(folder, name):
    """Load a peer, if need be with kopf and its client replaced: the tested functions do not use them."""
    for library in ["kopf", "kubernetes", "kubernetes.client.exceptions", "kubernetes.dynamic"]:
        sys.modules.setdefault(library, Anything(library))
    spec = importlib.util.spec_from_file_location(f"{folder}_{name}", HERE / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Anything(types.ModuleType):
    """A library whose decorators do nothing."""

    def __getattr__(self, _name):
        return self

    def __call__(self, *_args, **_kwargs):
        return lambda function: function


def cases(plugin):
    for path in sorted((PLUGINS / plugin / "cases").glob("*.yaml")):
        if not path.name.startswith("invalid-") and not path.name.endswith(".answer.yaml"):
            case = yaml.safe_load(path.read_text())
            answer = yaml.safe_load(path.with_suffix(".answer.yaml").read_text())
            yield path.stem, case, answer


def time(case):
    text = str(case.get("at", "2026-01-01T00:00:00Z"))
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)


def without_hosts_part(status):
    """Only the fields that the plugin of the golden cases sets itself."""
    status = {key: value for key, value in status.items() if key != "observedGeneration"}
    status["conditions"] = [
        {key: one[key] for key in ["type", "status", "reason", "message"]} for one in status["conditions"]
    ]
    return status


class GoldenTest(unittest.TestCase):
    def check(self, name, children, status, answer):
        by_name = {(child["kind"], child["metadata"]["name"]): child for child in answer.get("children", [])}
        self.assertEqual({(c["kind"], c["metadata"]["name"]): c for c in children}, by_name, name)
        status = without_hosts_part(status)
        if "conditions" not in answer["status"]:
            # The host adds the condition of Echo.
            del status["conditions"]
        self.assertEqual(status, answer["status"], name)

    def test_echo_on_kopf_returns_the_golden_responses(self):
        peer = load("kopf", "echo")
        for name, case, answer in cases("echo"):
            status = peer.status_of(case["parent"], case.get("children", []), time(case))
            self.check(name, peer.pods(case["parent"]), status, answer)

    def test_echo_on_metacontroller_returns_the_golden_responses(self):
        peer = load("metacontroller", "echo")
        for name, case, answer in cases("echo"):
            live = {child["metadata"]["name"]: child for child in case.get("children", [])}
            response = peer.sync(case["parent"], {"Pod.v1": live}, time(case))
            self.check(name, response["children"], response["status"], answer)

    def test_myapp_on_kopf_returns_the_golden_responses(self):
        peer = load("kopf", "myapp")
        for name, case, answer in cases("myapp"):
            if case.get("finalize"):
                continue
            app, live = with_defaults(case["parent"]), deployments(case)
            status = peer.status_of(app, live.get(app["metadata"]["name"]), time(case))
            self.check(name, peer.children(app), status, answer)

    def test_myapp_on_metacontroller_returns_the_golden_responses(self):
        peer = load("metacontroller", "myapp")
        for name, case, answer in cases("myapp"):
            app = with_defaults(case["parent"])
            if case.get("finalize"):
                self.assertTrue(peer.finalize(app)["finalized"])
                continue
            response = peer.sync(app, {"Deployment.apps/v1": deployments(case)}, time(case))
            self.check(name, response["children"], response["status"], answer)
            self.assertEqual(response.get("resyncAfterSeconds"), 30 if "requeueMs" in answer else None, name)


def deployments(case):
    children = case.get("children", [])
    return {one["metadata"]["name"]: one for one in children if one["kind"] == "Deployment"}


def with_defaults(app):
    spec = {**DEFAULTS, **app["spec"]}
    spec["resources"] = {**RESOURCES, **spec.get("resources", {})}
    spec["env"] = [{"value": "", **variable} for variable in spec["env"]]
    return {**app, "spec": spec}


if __name__ == "__main__":
    unittest.main()
