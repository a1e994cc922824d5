from __future__ import annotations

import json
import os
import pathlib
import unittest
import unittest.mock
from typing import Any

from base import Spec, Status, parent, returning

from windlass_plugin import (
    Child,
    ChildRef,
    CustomResource,
    Invalid,
    Metric,
    Phase,
    Plugin,
    Request,
    Requirement,
    Response,
)
from windlass_plugin.kinds import ConfigMap, Kind, Pod, Secret
from windlass_plugin.testing import Refused, call


def kind_of(one: dict[str, Any]) -> Kind:
    return Kind(one["apiVersion"], one["kind"])


def ref_of(one: dict[str, Any]) -> ChildRef:
    return ChildRef(kind_of(one), one["name"])


def child_of(one: dict[str, Any]) -> Any:
    options = dict(one.get("options", {}))
    if "replaces" in options:
        options["replaces"] = ref_of(options["replaces"])
    return Child(one["object"], **options) if options else one["object"]


def echo_of(case: dict[str, Any]) -> type[Plugin[None, None]]:
    """Return a plugin whose response is this case of `refused.json`."""

    class Echo(Plugin[None, None]):
        name = "echo"
        version = "0.1.0"
        parent = CustomResource("example.com", "v1", "Echo")
        children = (ConfigMap, Secret)
        related = (ConfigMap,)

        def reconcile(self, request: Request[None, None]) -> Response[None]:
            required = case.get("requirements", [])
            return Response(
                children=[child_of(one) for one in case["children"]],
                keep=[ref_of(one) for one in case.get("keep", [])],
                requirements=[Requirement.named(one["id"], kind_of(one), one["name"]) for one in required],
            )

    return Echo


class RefusedTest(unittest.TestCase):
    def test_responses_are_refused_with_the_sentences_that_the_tests_of_every_sdk_show(self) -> None:
        cases = pathlib.Path(__file__).parents[3] / "host/conformance/refused.json"
        for case in json.loads(cases.read_text(encoding="utf-8")):
            with self.subTest(case["description"]):
                with self.assertRaises(Refused) as raised:
                    call(echo_of(case), {"metadata": {"name": "web", "namespace": "shop"}})
                self.assertEqual(str(raised.exception), case["refused"])

    def test_a_response_that_keeps_children_and_says_that_all_is_cleaned_up_is_refused(self) -> None:
        with self.assertRaises(Refused) as raised:
            call(returning(lambda request: Response(keep=[ChildRef(Pod, "a")], finalized=True)), parent())
        sentence = "the response keeps children, and says that the clean-up is complete, after which none of them stays"
        self.assertEqual(str(raised.exception), sentence)

    def test_a_config_or_a_description_that_the_host_refuses_fails_the_test_without_a_call(self) -> None:
        uncalled = returning(lambda request: self.fail("the plugin is called"))
        for metrics, config, sentence in [
            ((), {"region": "a", "zones": "b"}, "spec.config.zones: must be of type integer, and is a string"),
            (
                (Metric.gauge("no spaces", "By", "Size"),),
                {"region": "a"},
                'the metric "no spaces" needs a name of letters, digits and _, of at most 128 bytes',
            ),
        ]:
            uncalled.metrics = metrics
            with self.subTest(sentence):
                with self.assertRaises(Refused) as raised:
                    call(uncalled, parent(), config=config)
                self.assertEqual(str(raised.exception), sentence)

    def test_a_status_of_other_types_fails_the_test(self) -> None:
        text: Any = "yes"
        lost: Any = "Lost"
        for status, message in [
            (Status(Phase.RUNNING, pods=text), 'status.pods: "yes" is not a whole number'),
            (Status(lost, pods=1), 'status.phase: "Lost" is not one of'),
        ]:
            with self.assertRaisesRegex(AssertionError, message):
                call(returning(lambda request, status=status: Response(status=status)), parent())


class ParentTest(unittest.TestCase):
    def setUp(self) -> None:
        self.parents: list[dict[str, Any]] = []

        def respond(request: Request[Spec, Status]) -> Response[Status]:
            self.parents.append(request.parent)
            return Response()

        self.plugin = returning(respond)

    def test_a_spec_outside_of_its_bounds_is_invalid_with_the_hosts_sentence_and_without_a_call(self) -> None:
        port = {"name": "a", "port": 1}
        for spec, sentence in [
            ({"replicas": 1001}, "spec.replicas: 1001 is more than the maximum 1000"),
            ({"title": ""}, "spec.title: 0 characters, and at least 1 are required"),
            ({"mode": "c"}, 'spec.mode: unsupported value "c"; supported are "a", "b"'),
            ({"ports": [port, port]}, 'spec.ports[1].name: "a" is given twice'),
            ({"ports": [{"name": "a"}]}, "spec.ports[0].port: required, and missing"),
            ({"flag": 1}, "spec.flag: must be of type boolean, and is the number 1"),
            (
                {"offset": -1, "replicas": 1001},
                "spec.offset: -1 is less than the minimum 0; spec.replicas: 1001 is more than the maximum 1000",
            ),
        ]:
            with self.subTest(spec), self.assertRaises(Invalid) as raised:
                call(self.plugin, parent(spec))
            self.assertEqual(str(raised.exception), sentence)
            self.assertEqual(raised.exception.field, sentence.split(": ")[0])
        self.assertEqual(self.parents, [])

    def test_a_clean_up_is_called_with_any_spec(self) -> None:
        call(self.plugin, parent({"replicas": 1001}), finalize=True)
        # Each request is sent twice.
        self.assertEqual([seen["spec"]["replicas"] for seen in self.parents], [1001, 1001])

    def test_the_defaults_of_the_schema_are_filled_in_and_everything_else_stays(self) -> None:
        big = 123456789012345678901234567890
        for finalize in (False, True):
            call(self.plugin, parent({"free": [big, 0.1], "mode": "b", "replicas": None}), finalize=finalize)
            spec = self.parents[-1]["spec"]
            self.assertEqual((spec["replicas"], spec["title"], spec["size"], spec["ports"]), (1, "abc", "1", []))
            self.assertEqual((spec["free"], spec["mode"]), ([big, 0.1], "b"))
            self.assertEqual(self.parents[-1]["metadata"], {"uid": "uid", **parent()["metadata"]})


class ProgramTest(unittest.TestCase):
    def test_a_missing_program_fails_the_test_with_how_to_get_it(self) -> None:
        get = (
            ": install it with `cargo install --locked --path host/cli` in the repository of Windlass, or set the "
            "environment variable WINDLASS to its path"
        )
        for environment, problem in [
            ({"PATH": "/nowhere"}, "`windlass` is not in PATH"),
            ({"WINDLASS": "/nowhere/windlass"}, r"/nowhere/windlass does not run: No such file or directory"),
        ]:
            with (
                unittest.mock.patch.dict(os.environ, environment, clear=True),
                self.assertRaisesRegex(AssertionError, rf"^{problem}\. Tests .*{get}$"),
            ):
                call(returning(lambda request: Response()), parent())

    def test_an_answer_that_is_none_fails_the_test(self) -> None:
        with (
            unittest.mock.patch.dict(os.environ, {"WINDLASS": "/bin/false"}),
            self.assertRaisesRegex(AssertionError, "`/bin/false harness`"),
        ):
            call(returning(lambda request: Response()), parent())
