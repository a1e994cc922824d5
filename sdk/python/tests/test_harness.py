from __future__ import annotations

import os
import unittest
import unittest.mock
from typing import Any

from base import Spec, Status, parent, returning

from windlass_plugin import Child, ChildRef, Invalid, Metric, Phase, Request, Requirement, Response
from windlass_plugin.kinds import ConfigMap, Deployment, Pod
from windlass_plugin.testing import Refused, call


class RefusedTest(unittest.TestCase):
    def test_a_response_that_the_host_refuses_fails_the_test_with_its_sentence(self) -> None:
        cases: list[tuple[Response[Status], str]] = [
            (
                Response(children=[Deployment("a")]),
                'child "a" is of kind Deployment.v1.apps, which the component\'s descriptor does not declare: its author must '
                "add it to the descriptor's `children`",
            ),
            (Response(children=[Pod("a"), ConfigMap("a"), Pod("a")]), "Pod default/a is twice in the response"),
            (
                Response(requirements=[Requirement.named("p", Pod, "a")]),
                'the requirement "p" is of kind Pod.v1, which this plugin may not read: its descriptor must name it under '
                "`related`, and the Plugin must name it under spec.grants.related if it is cluster-scoped",
            ),
            (
                Response(keep=[ChildRef(Pod, "a")], finalized=True),
                "the response keeps children, and says that the clean-up is complete, after which none of them stays",
            ),
            (
                Response(children=[Child(Pod("a"), retain=True, once="1")]),
                "Pod default/a is retained and created once: another text could not replace it, because retained children are "
                "never deleted",
            ),
        ]
        for response, sentence in cases:
            with self.subTest(sentence), self.assertRaises(Refused) as raised:
                call(returning(lambda request, response=response: response), parent())
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
