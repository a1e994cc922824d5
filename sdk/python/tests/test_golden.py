from __future__ import annotations

import dataclasses
import os
import pathlib
import tempfile
import unittest
import unittest.mock
from datetime import datetime, timedelta, timezone
from typing import Any

import yaml

from windlass_plugin import (
    Child,
    ChildRef,
    ChildRule,
    CustomResource,
    Event,
    Failed,
    Invalid,
    OnDelete,
    Plugin,
    RelatedRule,
    Request,
    Requirement,
    Response,
    Rolling,
    log,
    measure,
)
from windlass_plugin.kinds import ConfigMap, Job, Secret
from windlass_plugin.testing import Refused, golden


@dataclasses.dataclass
class Spec:
    do: str = ""
    free: Any = None


@dataclasses.dataclass
class Config:
    a: str


class Puppet(Plugin[Spec, None]):
    name = "puppet"
    version = "1.0.0"
    parent = CustomResource("example.com", "v1", "Puppet")
    children = (ConfigMap, ChildRule(Job, optional=True))
    related = (RelatedRule(Secret, optional=True),)
    clock = True
    config = Config

    def reconcile(self, request: Request[Spec, None]) -> Response[None]:
        match request.spec.do:
            case "invalid":
                raise Invalid("spec.do", "is invalid")
            case "wait":
                return Response.wait("for the token", 2)
            case "options":
                return Response(
                    children=[
                        Child(ConfigMap("a"), stage=1, retain=True, take_over=True, ready=False, update=OnDelete()),
                        Child(ConfigMap("b"), update=Rolling(recreate=True), replaces=ChildRef(ConfigMap, "c", "n")),
                        Child(Job("d"), once="1", update=Rolling(["Synced"])),
                        Job("e"),
                    ],
                    keep=[ChildRef(ConfigMap, "f")],
                )
            case "request":
                seen = {
                    "cause": request.cause,
                    "terminating": request.is_namespace_terminating,
                    "closed": list(request.closed_namespaces),
                    "kinds": [kind.name for kind in (Job, Secret, ConfigMap) if request.has_kind(kind)],
                }
                return Response(children=[ConfigMap("a", data=seen)], requeue_at=request.now + timedelta(seconds=1))
            case "requirements":
                return Response(
                    requirements=[
                        Requirement.named("a", Secret, "x"),
                        Requirement.labelled("b", Secret, "c=d", namespaces=["m", "n"]),
                        Requirement.labelled("e", Secret, SELECTOR, namespaces="all", metadata_only=True),
                    ],
                    events=[Event.warning("A", "a")],
                )
            case "failed":
                raise Failed("broken")
            case "refused":
                return Response(children=[ConfigMap("a"), ConfigMap("a")])
            case "at once":
                return Response(requeue=0, requeue_at=datetime(1970, 1, 1, tzinfo=timezone.utc))
            case "all":
                log.info("seen")
                measure("made", 1, kind="a")
                secrets = [secret.name for secret in request.related("s") or []]
                data = {"free": request.spec.free, "secrets": secrets, "config": request.config(Config)}
                return Response(
                    children=[ConfigMap("a", data=data)],
                    requirements=[Requirement.named("s", Secret, "x", namespaces=["n"])],
                    requeue=1,
                    finalized=request.is_finalizing,
                )
            case _:
                return Response()


SELECTOR = {
    "matchLabels": {"k": "l", "f": "g"},
    "matchExpressions": [
        {"key": "m", "operator": "NotIn", "values": ["n", "o"]},
        {"key": "p", "operator": "Exists"},
        {"key": "q", "operator": "DoesNotExist"},
    ],
}
SELECTED = "f in (g),k in (l),m notin (n,o),p,!q"

WHOLE = """
description: Everything
parent: {metadata: {name: a}, spec: {do: all, free: [on, 12:30, 0755, 2026-01-02T03:04:05Z, 1.5, ~, "1", yes, 1e3]}}
related: {s: [{apiVersion: v1, kind: Secret, metadata: {name: x, namespace: n}}]}
config: {a: b}
finalize: true
at: 2026-01-02T03:04:05Z
"""

ANSWER = """\
children:
- apiVersion: v1
  data:
    config:
      a: b
    free:
    - 'on'
    - '12:30'
    - 755
    - '2026-01-02T03:04:05Z'
    - 1.5
    - null
    - '1'
    - 'yes'
    - 1000.0
    secrets:
    - x
  kind: ConfigMap
  metadata:
    name: a
finalized: true
logs:
- seen
measurements:
- labels:
    kind: a
  metric: made
  value: 1.0
requeueMs: 1000
requirements:
- apiVersion: v1
  id: s
  kind: Secret
  name: x
  namespace: n
"""


class GoldenTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def case(self, do: str) -> None:
        self.write(f"{do}.yaml", f"description: x\nparent: {{metadata: {{name: a}}, spec: {{do: {do}}}}}\n")

    def update(self) -> None:
        with unittest.mock.patch.dict(os.environ, {"UPDATE_EXPECT": "1"}):
            golden.check(Puppet, self.folder)

    def answer(self, name: str) -> str:
        return (self.folder / f"{name}.answer.yaml").read_text(encoding="utf-8")

    def test_a_response_is_written_and_compared(self) -> None:
        self.write("whole.yaml", WHOLE)
        with self.assertRaisesRegex(AssertionError, r"(?s)\+finalized: true.*UPDATE_EXPECT=1"):
            golden.check(Puppet, self.folder)
        self.update()
        self.assertEqual(self.answer("whole"), ANSWER)
        golden.check(Puppet, self.folder)
        self.write("whole.answer.yaml", ANSWER.replace("755", "756"))
        with self.assertRaisesRegex(AssertionError, r"-    - 756\n\+    - 755"):
            golden.check(Puppet, self.folder)

    def test_failures_are_responses(self) -> None:
        for do in ("invalid", "failed"):
            self.case(do)
        self.update()
        self.assertEqual(self.answer("invalid"), "invalid: 'spec.do: is invalid'\n")
        self.assertEqual(self.answer("failed"), "failed: broken\n")

    def test_a_wait_keeps_all_children(self) -> None:
        self.case("wait")
        self.update()
        self.assertEqual(self.answer("wait"), "keep: all\nrequeueMs: 2000\nwaiting: for the token\n")

    def test_a_refused_response_fails_the_case_and_is_not_written(self) -> None:
        self.case("refused")
        with self.assertRaisesRegex(Refused, r"refused\.yaml: ConfigMap default/a is twice in the response$"):
            self.update()
        self.assertFalse((self.folder / "refused.answer.yaml").exists())

    def test_a_requeue_at_once_is_written(self) -> None:
        self.case("at once")
        self.update()
        self.assertEqual(self.answer("at once"), "requeueAtMs: 1\nrequeueMs: 0\n")

    def test_options_and_kept_children_are_written_without_defaults(self) -> None:
        self.case("options")
        self.update()
        answer = yaml.safe_load(self.answer("options"))
        self.assertEqual(
            answer["options"],
            [
                {"stage": 1, "retain": True, "takeOver": True, "ready": False, "update": "onDelete"},
                {
                    "update": {"rolling": {"recreate": True, "until": "ready"}},
                    "replaces": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "n", "name": "c"},
                },
                {"once": "1", "update": {"rolling": {"recreate": False, "until": {"conditions": ["Synced"]}}}},
                {},
            ],
        )
        self.assertEqual(answer["keep"], {"these": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "f"}]})

    def test_requirements_are_written_with_their_namespaces(self) -> None:
        self.case("requirements")
        self.update()
        answer = yaml.safe_load(self.answer("requirements"))
        secret = {"apiVersion": "v1", "kind": "Secret"}
        self.assertEqual(
            answer["requirements"],
            [
                {"id": "a", **secret, "name": "x"},
                {"id": "b", **secret, "labels": "c=d", "namespaces": ["m", "n"]},
                {"id": "e", **secret, "labels": SELECTED, "namespaces": "all", "metadataOnly": True},
            ],
        )
        self.assertEqual(answer["events"], [{"type": "Warning", "reason": "A", "message": "a"}])

    def test_a_case_sets_what_the_request_has(self) -> None:
        request = "description: x\nparent: {metadata: {name: a}, spec: {do: request}}\n"
        self.write("default.yaml", request)
        finalize = "finalize: true\ncause: leftSelector\nnamespaceTerminating: true\n"
        kinds = "kinds: [{apiVersion: batch/v1, kind: Job}]\nclosedNamespaces: [b]\nat: 2026-01-02T03:04:05Z\n"
        self.write("full.yaml", request + finalize + kinds)
        self.update()
        default, full = (yaml.safe_load(self.answer(name)) for name in ("default", "full"))
        self.assertEqual(
            default["children"][0]["data"], {"terminating": False, "closed": [], "kinds": ["Job", "Secret"]}
        )
        self.assertEqual(
            full["children"][0]["data"],
            {"cause": "left-selector", "terminating": True, "closed": ["b"], "kinds": ["Job"]},
        )
        self.assertEqual((default["requeueAtMs"], full["requeueAtMs"]), (1_767_225_601_000, 1_767_323_046_000))
        self.write("wrong.yaml", request + "finalize: true\ncause: lost\n")
        with self.assertRaisesRegex(AssertionError, "wrong.yaml: the cause is none of deleted, leftSelector"):
            golden.check(Puppet, self.folder)

    def test_in_a_shared_folder_only_the_field_of_an_invalid_spec_is_compared(self) -> None:
        self.case("invalid")
        self.write("invalid.answer.yaml", "invalid: 'spec.do: is not allowed'\n")
        golden.check(Puppet, self.folder, shared=True)
        with self.assertRaises(AssertionError):
            golden.check(Puppet, self.folder)
        self.write("invalid.answer.yaml", "invalid: 'spec.other: is invalid'\n")
        with self.assertRaises(AssertionError):
            golden.check(Puppet, self.folder, shared=True)

    def test_mistakes_in_a_folder_are_named(self) -> None:
        with self.assertRaisesRegex(AssertionError, "has no cases"):
            golden.check(Puppet, self.folder)
        self.case("nothing")
        self.write("other.answer.yaml", "{}")
        with self.assertRaisesRegex(AssertionError, "other.answer.yaml has no request"):
            golden.check(Puppet, self.folder)
        (self.folder / "other.answer.yaml").unlink()
        self.write("wrong.yaml", "description: x\nparent: {}\nchildern: []\n")
        with self.assertRaisesRegex(AssertionError, "wrong.yaml: a case has"):
            golden.check(Puppet, self.folder)
        self.write("wrong.yaml", "a: [")
        with self.assertRaisesRegex(AssertionError, "wrong.yaml: while parsing"):
            golden.check(Puppet, self.folder)

    def test_an_empty_response_has_an_empty_answer(self) -> None:
        self.case("nothing")
        self.update()
        self.assertEqual(self.answer("nothing"), "{}\n")
        golden.check(Puppet, self.folder)

    def test_the_crd_is_written_and_compared(self) -> None:
        file = self.folder / "crd.json"
        with self.assertRaisesRegex(AssertionError, r"(?s)\+ \"apiVersion\".*UPDATE_EXPECT=1"):
            golden.check_crd(Puppet, file)
        with unittest.mock.patch.dict(os.environ, {"UPDATE_EXPECT": "1"}):
            golden.check_crd(Puppet, file)
        golden.check_crd(Puppet, file)
        self.assertTrue(file.read_text(encoding="utf-8").startswith('{\n "apiVersion": "apiextensions.k8s.io/v1",\n'))
