from __future__ import annotations

import os
import unittest
import unittest.mock
from typing import Any

from base import Status, parent, returning

from windlass_plugin import Child, ChildRef, Failed, Phase, Requirement, Response
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

    def test_a_config_that_the_host_refuses_fails_the_test(self) -> None:
        with self.assertRaisesRegex(Refused, "zones"):
            call(returning(lambda request: Response()), parent(), config={"region": "a", "zones": "b"})

    def test_a_status_of_other_types_fails_the_test(self) -> None:
        text: Any = "yes"
        lost: Any = "Lost"
        for status, message in [
            (Status(Phase.RUNNING, pods=text), 'status.pods: "yes" is not a whole number'),
            (Status(lost, pods=1), 'status.phase: "Lost" is not one of'),
        ]:
            with self.assertRaisesRegex(AssertionError, message):
                call(returning(lambda request, status=status: Response(status=status)), parent())


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

    def test_a_failure_is_the_plugins_and_nothing_is_asked(self) -> None:
        def fails(request: object) -> Response[Status]:
            raise Failed("broken")

        with unittest.mock.patch.dict(os.environ, {"WINDLASS": "/nowhere"}), self.assertRaisesRegex(Failed, "broken"):
            call(returning(fails), parent())
