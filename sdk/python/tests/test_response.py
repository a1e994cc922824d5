from __future__ import annotations

import dataclasses
import unittest
from datetime import datetime, timedelta
from typing import Any

from base import Spec, Status, parent, returning

from windlass_plugin import (
    Child,
    ChildOptions,
    ChildRef,
    Condition,
    Event,
    Failed,
    OnDelete,
    Phase,
    Request,
    Requirement,
    Response,
    checksum,
)
from windlass_plugin.kinds import ConfigMap, Pod, Secret
from windlass_plugin.testing import call


@dataclasses.dataclass
class Labels:
    match_labels: dict[str, str]


@dataclasses.dataclass
class TypedConfigMap:
    api_version: str
    kind: str
    metadata: dict[str, str]
    data: dict[str, Any]
    immutable: bool | None = None


class ResponseTest(unittest.TestCase):
    def test_everything_reaches_the_host(self) -> None:
        response = call(
            returning(
                lambda request: Response(
                    children=[
                        Pod("a"),
                        None,
                        TypedConfigMap("v1", "ConfigMap", {"name": "b"}, {"c": None, "d": [None]}),
                    ],
                    status=Status(Phase.PENDING, 2),
                    conditions=[Condition("Synced", True, "Done", "all is done")],
                    keep=[ChildRef(ConfigMap, "kept"), *request.children(Pod)],
                    waiting="for the token",
                    requeue=timedelta(seconds=1.5),
                    events=[Event.normal("A", "a"), Event.warning("B", "b")],
                    requirements=[
                        Requirement.named("s", Secret, "token"),
                        Requirement.labelled("l", Secret, Labels({"a": "b"}), namespaces=("o",), metadata_only=True),
                    ],
                )
            ),
            parent(),
            children=[Pod("c", namespace="default")],
        )
        configmap = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"d": [None]}}
        self.assertEqual(response.children, [Pod("a"), configmap])
        self.assertEqual(response.child(ConfigMap, "b"), configmap)
        with self.assertRaisesRegex(LookupError, "the response has no Secret b"):
            response.child(Secret, "b")
        condition = {"type": "Synced", "status": "True", "reason": "Done", "message": "all is done"}
        self.assertEqual(response.status, {"phase": "Pending", "pods": 2, "conditions": [condition]})
        self.assertEqual((response.requeue, response.finalized), (1.5, False))
        self.assertEqual(response.keep, [ChildRef(ConfigMap, "kept"), ChildRef(Pod, "c", "default")])
        self.assertEqual(response.waiting, "for the token")
        self.assertEqual(response.events, [Event.normal("A", "a"), Event.warning("B", "b")])
        self.assertEqual(
            response.requirements,
            [
                Requirement("s", Secret, "name", "token"),
                Requirement("l", Secret, "labelSelector", {"matchLabels": {"a": "b"}}, ["o"], True),
            ],
        )

    def test_no_status_leaves_the_status_as_it_is(self) -> None:
        self.assertIsNone(call(returning(lambda request: Response()), parent()).status)

    def test_what_is_no_text_fails_and_is_named(self) -> None:
        error: Any = ValueError("wrong")
        nothing: Any = None
        for arguments, message in [
            (
                {"events": [Event.normal("A", "a"), Event.warning("B", error)]},
                "events[1].message is ValueError, not a text",
            ),
            ({"events": [Event.normal(nothing, "a")]}, "events[0].reason is NoneType, not a text"),
            (
                {"requirements": [Requirement.named("a", Secret, nothing)]},
                "requirements[0].name is NoneType, not a text",
            ),
            (
                {"requirements": [Requirement.labelled("a", Secret, error)]},
                "requirements[0].labelSelector is not JSON: ValueError is not JSON",
            ),
            (
                {"requirements": [Requirement.labelled("a", Secret, nothing)]},
                "requirements[0].labelSelector is NoneType, neither a text nor a LabelSelector",
            ),
            ({"requirements": [Requirement.named(error, Secret, "a")]}, "requirements[0].id is ValueError, not a text"),
            (
                {"requirements": [Requirement.named("a", Secret, "b", namespaces=[error])]},
                "requirements[0].namespaces[0] is ValueError, not a text",
            ),
            (
                {"requirements": [Requirement.named("a", Secret, "b", namespaces="other")]},
                'requirements[0].namespaces is a text, neither a list nor "all"',
            ),
            (
                {"children": [Child(Pod("a"), stage=-1)]},
                "children[0].stage is -1, not a whole number from 0 to 4294967295",
            ),
            ({"children": [Child(Pod("a"), once=error)]}, "children[0].once is ValueError, not a text"),
            (
                {"children": [Child(Pod("a"), update=error)]},
                "children[0].update is ValueError('wrong'), not a strategy",
            ),
            (
                {"children": [Child(Pod("a"), replaces=error)]},
                "children[0].replaces is ValueError, neither a ChildRef nor a live object",
            ),
            ({"keep": [ChildRef(error, "a")]}, "keep[0].kind is ValueError, not a kind"),
            ({"waiting": error}, "waiting is ValueError, not a text"),
            (
                {"requeue_at": datetime(2026, 1, 1)},
                "requeue_at is datetime.datetime(2026, 1, 1, 0, 0), not a datetime with a time zone",
            ),
            ({"requirements": [Requirement.named("a", error, "b")]}, "requirements[0].kind is ValueError, not a kind"),
            ({"conditions": [Condition("Ready", True, "A", error)]}, "a condition is not JSON: ValueError is not JSON"),
        ]:
            with self.subTest(message), self.assertRaises(Failed) as raised:
                call(returning(lambda request, arguments=arguments: Response(**arguments)), parent())
            self.assertEqual(raised.exception.message, message)

    def test_texts_are_those_that_the_contract_can_express(self) -> None:
        finalized: Any = [1]
        reason: Any = Phase.RUNNING
        response = call(
            returning(lambda request: Response(events=[Event.normal(reason, "half: \ud800")], finalized=finalized)),
            parent(),
        )
        self.assertEqual(response.events, [Event.normal("Running", "half: ?")])
        self.assertIs(response.finalized, True)

    def test_a_duration_that_has_passed_is_0(self) -> None:
        for duration, seconds in [
            (-5, 0),
            (timedelta(seconds=-1), 0),
            (float("nan"), 0),
            (0.0014, 0.001),
            (float("inf"), 2.0**63 / 1000),
        ]:
            response = call(returning(lambda request, duration=duration: Response(requeue=duration)), parent())
            self.assertEqual(response.requeue, seconds)

    def test_children_have_their_options(self) -> None:
        old = Pod("old", namespace="default")
        options: dict[str, Any] = {
            "stage": 2,
            "take_over": True,
            "once": "1",
            "ready": False,
            "update": OnDelete(),
        }

        def respond(request: Request[Spec, Status]) -> Response[Status]:
            [live] = request.children(Pod)
            return Response(
                children=[
                    Child(ConfigMap("a"), retain=True),
                    Child(None, stage=1),
                    Child(Pod("b"), replaces=live, **options),
                ]
            )

        response = call(returning(respond), parent(), children=[old])
        self.assertEqual(response.children, [ConfigMap("a"), Pod("b")])
        replaces = ChildRef(Pod, "old", "default")
        self.assertEqual(response.options, [ChildOptions(retain=True), ChildOptions(**options, replaces=replaces)])

    def test_a_wait_changes_nothing(self) -> None:
        response = call(returning(lambda request: Response.wait("for the token", timedelta(seconds=5))), parent())
        self.assertEqual((response.keep, response.waiting, response.requeue), ("all", "for the token", 5.0))
        self.assertEqual((response.children, response.status), ([], None))

    def test_what_is_not_json_fails(self) -> None:
        for child, message in [
            ({"a": object()}, "a child is not JSON: object is not JSON"),
            ({"a": float("nan")}, "a child is not JSON: Out of range float values are not JSON compliant"),
            ({1: 2}, "a child is not JSON: 1 is not the name of a field"),
            ({"a": "\ud800"}, "a child is not JSON: 'utf-8' codec can't encode"),
        ]:
            with self.subTest(child), self.assertRaises(Failed) as raised:
                call(returning(lambda request, child=child: Response(children=[child])), parent())
            self.assertTrue(raised.exception.message.startswith(message), raised.exception.message)

    def test_a_phase_sets_condition_event_time_and_requeue(self) -> None:
        def respond(request: Request[Spec, Status]) -> Response[Status]:
            phase = Phase.FAILED if request.spec.flag else Phase.RUNNING
            return Response(status=Status(phase, 1)).with_phase(request, "because", time_field="updated")

        now, before = "2026-01-01T00:00:00Z", "2020-01-01T00:00:00Z"
        ready = {"type": "Ready", "status": "True", "reason": "Running", "message": "because"}
        failed = {**ready, "status": "False", "reason": "Failed"}
        running_before = {"phase": "Running", "pods": 1, "updated": before}
        for flag, last, status, events, requeue in [
            (False, None, {"phase": "Running", "updated": now, "conditions": [ready]}, [], None),
            (False, running_before, {"phase": "Running", "updated": before, "conditions": [ready]}, [], None),
            (
                True,
                running_before,
                {"phase": "Failed", "updated": now, "conditions": [failed]},
                [Event.warning("Failed", "because")],
                30,
            ),
        ]:
            response = call(returning(respond), parent({"flag": flag}, status=last))
            self.assertEqual(response.status, {**status, "pods": 1})
            self.assertEqual((response.events, response.requeue), (events, requeue))


class ChecksumTest(unittest.TestCase):
    def test_a_checksum_is_that_of_the_values_as_json_with_sorted_keys(self) -> None:
        self.assertEqual(checksum({"a": 1, "b": ["x"]}), "9575cb8196f08d95")
        self.assertEqual(checksum({"b": ["x"], "a": 1, "c": None}), "9575cb8196f08d95")
        typed = TypedConfigMap("v1", "ConfigMap", {"name": "b"}, {"é": 1.25})
        self.assertEqual(checksum(typed), checksum(ConfigMap("b", data={"é": 1.25})))
        self.assertNotEqual(checksum({"a": 1}, {"b": ["x"]}), checksum({"a": 1, "b": ["x"]}))
        with self.assertRaisesRegex(TypeError, "object is not JSON"):
            checksum(object())
