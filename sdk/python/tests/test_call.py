from __future__ import annotations

import dataclasses
import itertools
import json
import pickle
import socket
import sys
import unittest
import zoneinfo
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, Literal
from urllib.error import URLError

from windlass_plugin import (
    Apply,
    Child,
    ChildOptions,
    ChildRef,
    ChildRule,
    Condition,
    CustomResource,
    Event,
    Existing,
    Failed,
    Invalid,
    LeftOut,
    Length,
    ListMap,
    ListSet,
    Metric,
    Name,
    Object,
    OnDelete,
    ParentSelector,
    Phase,
    Plugin,
    Positive,
    Quantity,
    Range,
    Readiness,
    RelatedRule,
    Request,
    Requirement,
    Response,
    Rolling,
    _errors,
    _snapshot,
    clock,
    log,
    measure,
    random_bytes,
    span,
)
from windlass_plugin._types import type_of
from windlass_plugin.kinds import ConfigMap, Deployment, Namespace, Pod, Secret
from windlass_plugin.testing import Live, call, crd, descriptor
from windlass_plugin.types import EnvVar


@dataclasses.dataclass
class Port:
    name: str
    port: Annotated[int, Range(1, 65535)]


@dataclasses.dataclass
class Spec:
    replicas: Annotated[int, Range(0, 1000)] = 1
    offset: Annotated[int, Range(min=0)] = 0
    ratio: float = 0.5
    title: Annotated[str, Length(1, 3)] = "abc"
    mode: Literal["a", "b"] = "a"
    flag: bool = False
    size: Annotated[Quantity, Positive()] = Quantity("1")
    ports: Annotated[list[Port], Length(max=3), ListMap("name")] = dataclasses.field(default_factory=list)
    env: list[EnvVar] = dataclasses.field(default_factory=list)
    tags: Annotated[list[str], ListSet()] = dataclasses.field(default_factory=list)
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    host_ip: Annotated[str | None, Name("hostIP")] = None
    free: Any = None

    def __post_init__(self) -> None:
        if self.title == "bad":
            raise ValueError("the title is bad")


@dataclasses.dataclass
class Status:
    phase: Phase
    pods: int
    updated: str | None = None


class Base(Plugin[Spec, Status]):
    name = "base"
    version = "1.0.0"
    parent = CustomResource("example.com", "v1", "Base")


def parent(spec: Any = None, **fields: Any) -> dict[str, Any]:
    document = {"apiVersion": "example.com/v1", "kind": "Base", "metadata": {"name": "web", "namespace": "default"}}
    return {**document, **({} if spec is None else {"spec": spec}), **fields}


class SpecTest(unittest.TestCase):
    def test_a_message_names_the_field(self) -> None:
        for spec, message in [
            ([], "spec: [] is not an object"),
            ({"replicas": "three"}, 'spec.replicas: "three" is not a whole number'),
            ({"replicas": True}, "spec.replicas: true is not a whole number"),
            ({"replicas": 1.5}, "spec.replicas: 1.5 is not a whole number"),
            ({"replicas": 1001}, "spec.replicas: 1001 is not between 0 and 1000"),
            ({"offset": -1}, "spec.offset: -1 is less than 0"),
            ({"offset": 2**63}, "spec.offset: 9223372036854775808 is not between -9223372036854775808 and"),
            ({"ratio": "a"}, 'spec.ratio: "a" is not a number'),
            ({"title": 1}, "spec.title: 1 is not a text"),
            ({"title": ""}, "spec.title: has 0 characters, fewer than 1"),
            ({"title": "abcd"}, "spec.title: has 4 characters, more than 3"),
            ({"title": "bad"}, "spec: the title is bad"),
            ({"mode": "c"}, 'spec.mode: "c" is not one of "a", "b"'),
            ({"mode": ["a"]}, 'spec.mode: ["a"] is not one of "a", "b"'),
            ({"flag": 1}, "spec.flag: 1 is not true or false"),
            ({"size": "1 Gi"}, 'spec.size: "1 Gi" is not a quantity like 100m, 2 or 128Mi'),
            ({"size": 0}, "spec.size: 0 is not more than 0"),
            ({"ports": {}}, "spec.ports: {} is not a list"),
            ({"ports": ["a"]}, 'spec.ports[0]: "a" is not an object'),
            ({"ports": [{"name": "a", "port": 1}, {"port": 1}]}, "spec.ports[1].name: is required"),
            ({"ports": [{"name": "a", "port": 0}]}, "spec.ports[0].port: 0 is not between 1 and 65535"),
            ({"ports": [{"name": "a", "port": 1}] * 2}, 'spec.ports[1].name: "a" is given twice'),
            ({"ports": [{"name": "a", "port": 1}] * 4}, "spec.ports: has 4 items, more than 3"),
            ({"env": [{"name": "1A"}]}, 'spec.env[0].name: "1A" is not the name of an environment variable'),
            ({"tags": ["a", "a"]}, 'spec.tags[1]: "a" is given twice'),
            ({"labels": {"a": 1}}, "spec.labels.a: 1 is not a text"),
            ({"hostIP": 1}, "spec.hostIP: 1 is not a text"),
            ({"title": "x" * 200 + "é"}, "spec.title: has 201 characters, more than 3"),
            ({"replicas": "x" * 200}, 'spec.replicas: "' + "x" * 99 + "… is not a whole number"),
        ]:
            with self.subTest(spec), self.assertRaises(Invalid) as raised:
                call(returning(lambda request: Response()), parent(spec))
            self.assertTrue(str(raised.exception).startswith(message), raised.exception)
            self.assertEqual(raised.exception.field, message.split(": ")[0])

    def test_null_is_like_a_missing_field_and_unknown_fields_are_ignored(self) -> None:
        seen = spec_of({"replicas": None, "ports": None, "hostIP": None, "other": {"a": 1}})
        self.assertEqual(seen, Spec())

    def test_a_parent_without_a_spec_has_the_defaults(self) -> None:
        self.assertEqual(spec_of(None), Spec())

    def test_values_are_of_their_types(self) -> None:
        seen = spec_of({"ratio": 2, "size": "1500m", "ports": [{"name": "a", "port": 80}], "hostIP": "::1"})
        self.assertEqual((seen.ratio, type(seen.ratio)), (2.0, float))
        self.assertEqual((seen.size, str(seen.size)), (Quantity("1.5"), "1500m"))
        self.assertEqual((seen.ports, seen.host_ip), ([Port("a", 80)], "::1"))

    def test_numbers_stay_exact_when_they_are_passed_on(self) -> None:
        class Copies(Base):
            def reconcile(self, request: Request[Spec, Status]) -> Response[Status]:
                return Response(
                    children=[ConfigMap("a", data=request.parent["spec"]["free"], size=request.spec.free["i"])]
                )

        text = '{"i":123456789012345678901234567890,"f":0.12345678901234567890123,"e":1e2,"t":"\\u0000number","d":0.1}'
        from windlass_plugin import _plugin
        from windlass_plugin._contract import RawRequest

        raw = RawRequest(parent=b'{"metadata":{"name":"a"},"spec":{"free":' + text.encode() + b"}}")
        [child] = _plugin.reconcile(Copies(), raw).children
        self.assertIn(b'"data":' + text.encode(), child.object)
        self.assertIn(b'"size":123456789012345678901234567890', child.object)


def returning(respond: Any) -> type[Base]:
    class Returned(Base):
        children = (ConfigMap, Pod)
        related = (Namespace, Secret)

        def reconcile(self, request: Request[Spec, Status]) -> Response[Status]:
            response: Response[Status] = respond(request)
            return response

    return Returned


def spec_of(spec: Any) -> Spec:
    seen: list[Spec] = []

    def respond(request: Request[Spec, Status]) -> Response[Status]:
        seen.append(request.spec)
        return Response()

    call(returning(respond), parent(spec))
    return seen[0]


def request_of(document: dict[str, Any], **arguments: Any) -> Request[Spec, Status]:
    seen: list[Request[Spec, Status]] = []

    def respond(request: Request[Spec, Status]) -> Response[Status]:
        seen.append(request)
        return Response()

    call(returning(respond), document, **arguments)
    return seen[0]


@dataclasses.dataclass
class Config:
    region: str
    zones: int = 3


@dataclasses.dataclass
class PodStatus:
    pod_ip: Annotated[str, Name("podIP")]


@dataclasses.dataclass
class TypedPod:
    status: PodStatus


@dataclasses.dataclass
class Notes:
    note: str | None
    limit: Annotated[str | None, Length(max=3)]
    free: Any


@dataclasses.dataclass
class Noted:
    notes: list[Notes]
    again: bool


class RequestTest(unittest.TestCase):
    def test_metadata_is_typed(self) -> None:
        metadata = {
            "name": "web",
            "namespace": "default",
            "uid": "u",
            "generation": 7,
            "labels": {"a": "b"},
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        }
        request = request_of(parent(metadata=metadata))
        self.assertEqual((request.name, request.namespace, request.uid), ("web", "default", "u"))
        self.assertEqual((request.metadata.generation, request.metadata.labels), (7, {"a": "b"}))
        self.assertEqual(request.metadata.annotations, {})
        self.assertEqual(request.metadata.deletion_timestamp, "2026-01-01T00:00:00Z")

    def test_children_are_selected_by_kind_name_and_namespace(self) -> None:
        children = [
            Pod("web-10", namespace="default"),
            Pod("web-1", namespace="default"),
            Pod("web-1", namespace="other"),
            Deployment("web-1", namespace="default"),
        ]
        request = request_of(parent(), children=children)
        names = [(pod.namespace, pod.name) for pod in request.children(Pod)]
        self.assertEqual(names, [("default", "web-1"), ("default", "web-10"), ("other", "web-1")])
        self.assertEqual(len(request.children()), 4)
        pod = request.child(Pod, "web-1", namespace="other")
        assert pod is not None
        self.assertEqual((pod.kind, pod.namespace), (Pod, "other"))
        self.assertIsNone(request.child(Secret, "web-1"))
        self.assertIsNone(request.child(Pod, "web-2"))

    def test_live_objects_are_read(self) -> None:
        live = {
            **Pod("a", labels={"x": "y"}),
            "spec": {"containers": [{"image": "nginx"}]},
            "status": {"podIP": "::1", "conditions": [{"type": "Ready", "status": "True", "reason": "R"}, 7]},
        }
        [pod] = request_of(parent(), children=[live]).children()
        self.assertIsInstance(pod, Object)
        self.assertEqual(pod.get("spec", "containers", 0, "image"), "nginx")
        self.assertEqual(pod.get("spec", "containers", 1, "image", default="none"), "none")
        self.assertIsNone(pod.get("spec", "nothing", "at", "all"))
        self.assertEqual(pod.metadata.labels, {"x": "y"})
        self.assertEqual(pod.condition("Ready"), Condition("Ready", True, "R", ""))
        self.assertTrue(pod.is_condition_true("Ready"))
        self.assertFalse(pod.is_condition_true("Initialized"))
        self.assertFalse(pod.is_being_deleted)
        self.assertEqual(pod.read(TypedPod).status.pod_ip, "::1")

    def test_readiness_of_a_live_object_is_unknown_unless_the_test_sets_it(self) -> None:
        live = [Live(Pod("a"), "ready"), Pod("b"), Live(Pod("c"), "failed", "image not found")]
        request = request_of(parent(), children=live, related={"s": [Live(Secret("s"), "ready")]})
        self.assertEqual([pod.is_ready for pod in request.children(Pod)], [True, False, False])
        states = [Readiness("ready"), Readiness("unknown"), Readiness("failed", "image not found")]
        self.assertEqual([pod.readiness for pod in request.children(Pod)], states)
        self.assertTrue((request.related("s") or [])[0].is_ready)

    def test_an_object_of_another_type_is_a_failure_that_names_it(self) -> None:
        [pod] = request_of(parent(), children=[Pod("a", status={})]).children()
        with self.assertRaisesRegex(Failed, "^Pod a: status.podIP: is required$"):
            pod.read(TypedPod)

    def test_status_is_none_if_it_is_missing_or_of_another_version(self) -> None:
        for status, expected in [
            (None, None),
            ({"phase": "Other", "pods": 1}, None),
            ({"phase": "Running"}, None),
            ({"phase": "Running", "pods": 1, "conditions": []}, Status(Phase.RUNNING, 1)),
        ]:
            self.assertEqual(request_of(parent(status=status)).status, expected)

    def test_an_optional_field_without_a_default_is_none_if_it_is_missing_or_null(self) -> None:
        for given in ({}, {"note": None, "limit": None, "free": None}):
            self.assertEqual(type_of(Notes, "").read(given, "status"), Notes(None, None, None))

        class Noting(Plugin[Notes, Noted]):
            name = "noting"
            version = "1.0.0"
            parent = CustomResource("example.com", "v1", "Noting")

            def reconcile(self, request: Request[Notes, Noted]) -> Response[Noted]:
                return Response(status=Noted([request.spec], request.status is not None))

        first = call(Noting, parent({"note": None}))
        self.assertEqual(first.status, {"notes": [{}], "again": False})
        self.assertEqual(call(Noting, parent({}, status=first.status)).status, {"notes": [{}], "again": True})

    def test_config_is_read_and_a_wrong_one_is_failed(self) -> None:
        self.assertEqual(request_of(parent(), config={"region": "x"}).config(Config), Config("x", 3))
        with self.assertRaisesRegex(Failed, "^the Plugin's spec.config.region: is required$"):
            request_of(parent()).config(Config)

    def test_related_objects_are_none_until_they_are_served(self) -> None:
        request = request_of(parent(), related={"a": [Secret("s")], "b": []})
        self.assertEqual([each.name for each in request.related("a") or []], ["s"])
        self.assertEqual(request.related("b"), [])
        self.assertIsNone(request.related("c"))

    def test_only_a_plugin_with_a_clock_has_the_time(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "request.now needs `clock = True` in the plugin"):
            _ = request_of(parent()).now

        class Timed(Base):
            clock = True

            def reconcile(self, request: Request[Spec, Status]) -> Response[Status]:
                return Response(requeue_at=request.now + timedelta(hours=1))

        response = call(Timed, parent(), at="2026-02-03T04:05:06Z")
        self.assertEqual(response.requeue_at, datetime(2026, 2, 3, 5, 5, 6, tzinfo=timezone.utc))

    def test_what_the_host_offers_and_refuses_is_in_the_request(self) -> None:
        left_out = [LeftOut(ChildRef(ConfigMap, "big", "default"), 4_000_000)]
        request = request_of(parent(), left_out=left_out, kinds=[Pod], closed_namespaces=["windlass"])
        self.assertEqual((request.left_out, request.closed_namespaces), (left_out, ["windlass"]))
        self.assertEqual((request.has_kind(Pod), request.has_kind(Secret)), (True, False))

    def test_a_clean_up_can_do_without_the_spec(self) -> None:
        request = request_of(parent({"replicas": "x"}), finalize=True, is_namespace_terminating=True)
        self.assertTrue(request.is_finalizing and request.is_namespace_terminating)
        with self.assertRaises(Invalid):
            _ = request.spec
        self.assertEqual(request.cause, "deleted")
        left = request_of(parent(), finalize=True, cause="left-namespaces")
        self.assertEqual((left.cause, left.is_namespace_terminating), ("left-namespaces", False))
        self.assertFalse(request_of(parent()).is_finalizing)
        self.assertIsNone(request_of(parent()).cause)

    def test_a_spec_is_applied_once_its_generation_is_observed_and_not_stalled(self) -> None:
        stalled = {"type": "Stalled", "status": "True"}
        for status, applied in [
            (None, False),
            ({"observedGeneration": 1}, False),
            ({"observedGeneration": 2}, True),
            ({"observedGeneration": 2, "conditions": [stalled]}, False),
            ({"observedGeneration": 2, "conditions": [{**stalled, "status": "False"}]}, True),
        ]:
            request = request_of(parent(metadata={"name": "a", "generation": 2}, status=status))
            self.assertEqual(request.is_spec_applied, applied, status)


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
                    keep=[ChildRef(Secret, "kept"), *request.children(Pod)],
                    waiting="for the token",
                    requeue=timedelta(seconds=1.5),
                    events=[Event.normal("A", "a"), Event.warning("B", "b")],
                    requirements=[
                        Requirement.named("s", Secret, "token"),
                        Requirement.labelled(
                            "n", Namespace, Labels({"a": "b"}), namespaces=("other",), metadata_only=True
                        ),
                    ],
                    finalized=True,
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
        self.assertEqual((response.requeue, response.finalized), (1.5, True))
        self.assertEqual(response.keep, [ChildRef(Secret, "kept"), ChildRef(Pod, "c", "default")])
        self.assertEqual(response.waiting, "for the token")
        self.assertEqual(response.events, [Event.normal("A", "a"), Event.warning("B", "b")])
        self.assertEqual(
            response.requirements,
            [
                Requirement("s", Secret, "name", "token"),
                Requirement("n", Namespace, "labelSelector", {"matchLabels": {"a": "b"}}, ["other"], True),
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
            "retain": True,
            "take_over": True,
            "once": "1",
            "ready": False,
            "update": OnDelete(),
        }

        def respond(request: Request[Spec, Status]) -> Response[Status]:
            [live] = request.children(Pod)
            return Response(children=[ConfigMap("a"), Child(None, stage=1), Child(Pod("b"), replaces=live, **options)])

        response = call(returning(respond), parent(), children=[old])
        self.assertEqual(response.children, [ConfigMap("a"), Pod("b")])
        replaces = ChildRef(Pod, "old", "default")
        self.assertEqual(response.options, [ChildOptions(), ChildOptions(**options, replaces=replaces)])

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


class FailureTest(unittest.TestCase):
    def test_a_failure_is_raised_by_the_call(self) -> None:
        for failure in [Invalid("spec.a", "is wrong"), Invalid(None, "is old"), Failed("broken")]:
            with self.assertRaises(type(failure)) as raised:
                call(returning(lambda request, failure=failure: fail(failure)), parent())
            self.assertEqual(str(raised.exception), str(failure))
        self.assertEqual(str(Invalid("spec.a", "is wrong")), "spec.a: is wrong")
        self.assertEqual(str(Invalid(None, "is old")), "is old")
        self.assertEqual(str(pickle.loads(pickle.dumps(Invalid("a", "b")))), "a: b")
        error: Any = ValueError("half: \ud800")
        self.assertEqual([Failed(error).message, str(Failed(error))], ["half: ?"] * 2)

    def test_a_deep_recursion_has_the_ends_of_its_stack(self) -> None:
        def deep() -> None:
            deep()

        try:
            deep()
        except RecursionError as error:
            lines = _errors.stack(error).splitlines()
        self.assertEqual(len(lines), 43)
        self.assertRegex(lines[21], r"^  … \d+ more$")

    def test_no_response_is_an_error(self) -> None:
        with self.assertRaisesRegex(TypeError, "Returned.reconcile returned NoneType, not a Response"):
            call(returning(lambda request: None), parent())

    def test_another_exception_has_a_summary_and_a_stack(self) -> None:
        def raises() -> None:
            try:
                int("x")
            except ValueError as error:
                raise KeyError("y") from error

        try:
            raises()
        except KeyError as error:
            summary, stack = _errors.summary(error), _errors.stack(error)
        self.assertRegex(summary, r"^KeyError: 'y' \(.*test_call\.py:\d+ in raises\)$")
        lines = stack.splitlines()
        self.assertEqual(lines[0], "Traceback (most recent call last):")
        self.assertRegex(lines[1], r"^  .*test_call\.py:\d+ in raises$")
        self.assertEqual(lines[2], "ValueError: invalid literal for int() with base 10: 'x'")
        self.assertIn("The above exception was the direct cause of the following exception:", lines)
        self.assertEqual(lines[-1], "KeyError: 'y'")

    def test_summary_of_what_a_component_does_not_have_says_so(self) -> None:
        for error, cause in [
            (
                ModuleNotFoundError("No module named 'a'"),
                ": a component has the modules that are imported when it is built",
            ),
            (zoneinfo.ZoneInfoNotFoundError("no zone"), ": a component has the time zones of the package tzdata"),
            (LookupError("unknown encoding: cp850"), ": import its module of the package encodings"),
            (FileNotFoundError(2, "No such file"), ": a plugin has no network and no files"),
            (socket.gaierror(-4, "failure in name resolution"), ": a plugin has no network and no files"),
            (
                handling(URLError("no host"), ConnectionRefusedError(111, "refused")),
                ": a plugin has no network and no files",
            ),
            (RuntimeError("can't start new thread"), ": a plugin has no threads"),
        ]:
            self.assertIn(cause, _errors.summary(error))
        for error in [
            KeyError("x"),
            LookupError("unknown"),
            RuntimeError("thread"),
            ValueError("file"),
            TimeoutError("not yet"),
            PermissionError("for admins only"),
            handling(PermissionError("for admins only"), KeyError("x")),
        ]:
            self.assertEqual(_errors.summary(error), f"{type(error).__name__}: {error}")

    def test_summary_of_a_message_of_several_lines_is_one_line(self) -> None:
        self.assertEqual(_errors.summary(ValueError("two faults:\n  a\n\n  b\n")), "ValueError: two faults: a b")

    def test_a_component_has_the_modules_that_functions_import_and_the_time_zones(self) -> None:
        _snapshot.complete()
        loaded = sys.modules.keys()
        self.assertTrue(loaded >= set(_snapshot.MODULES))
        self.assertEqual(len(_snapshot._zones), len(zoneinfo.available_timezones()))


def handling(error: Exception, handled: Exception) -> Exception:
    """Return an error as if it was raised while this one was handled."""
    error.__context__ = handled
    return error


def fail(failure: Exception) -> Response[Status]:
    raise failure


class HostTest(unittest.TestCase):
    def test_calls_of_the_host_are_recorded(self) -> None:
        def respond(request: Request[Spec, Status]) -> Response[Status]:
            log.info("seen", pods=3, ok=True)
            log.error(ValueError("wrong: \ud800"))
            for write in (log.trace, log.debug, log.warn):
                write(7, phase=Phase.RUNNING)
            span.attribute("phase", Phase.RUNNING.value)
            span.event(Phase.RUNNING, count=1)
            measure("pods", 2, phase="Running")
            return Response(
                children=[ConfigMap("a", data={"time": clock.timestamp(), "random": random_bytes(4).hex()})]
            )

        response = call(returning(respond), parent(), at="2026-02-03T04:05:06Z", random=b"\x01\x02\x03\x04\x05")
        self.assertEqual(
            [(line.level, line.message, line.fields) for line in response.logs],
            [
                ("info", "seen", {"pods": "3", "ok": "true"}),
                ("error", "wrong: ?", {}),
                *((level, "7", {"phase": "Running"}) for level in ("trace", "debug", "warn")),
            ],
        )
        self.assertEqual(response.span_attributes, {"phase": "Running"})
        self.assertEqual(response.span_events, ["Running"])
        [measured] = response.measurements
        self.assertEqual((measured.metric, measured.value, measured.labels), ("pods", 2.0, {"phase": "Running"}))
        self.assertEqual(response.children[0]["data"], {"time": "2026-02-03T04:05:06Z", "random": "01020304"})

    def test_two_responses_to_the_same_request_fail_the_test(self) -> None:
        numbers = itertools.count()
        with self.assertRaisesRegex(AssertionError, "the same request has two responses"):
            call(returning(lambda request: Response(children=[Pod(f"pod-{next(numbers)}")])), parent())


class RefusedTest(unittest.TestCase):
    def test_a_response_that_the_host_would_refuse_fails_the_test(self) -> None:
        text: Any = "yes"
        lost: Any = "Lost"
        for response, message in [
            (
                Response(children=[Deployment("a")]),
                "child Deployment a: the plugin's `children` do not include apps/v1",
            ),
            (
                Response(children=[{"apiVersion": "v1", "kind": "Pod", "metadata": {}}]),
                "of kind Pod has no metadata.name",
            ),
            (Response(children=[{"apiVersion": "v1", "kind": "Pod"}]), "a child of kind Pod has no metadata.name"),
            (Response(children=[Pod("a"), ConfigMap("a"), Pod("a")]), "child Pod a is in the response twice"),
            (
                Response(requirements=[Requirement.named("p", Pod, "a")]),
                "requirement p: the plugin's `related` does not",
            ),
            (Response(status=Status(Phase.RUNNING, pods=text)), 'status.pods: "yes" is not a whole number'),
            (Response(status=Status(lost, pods=1)), 'status.phase: "Lost" is not one of'),
        ]:
            with self.assertRaisesRegex(AssertionError, message):
                call(returning(lambda request, response=response: response), parent())


class DescriptorTest(unittest.TestCase):
    def test_everything_is_described(self) -> None:
        class Whole(Plugin[None, None]):
            name = "whole"
            version = "1.2.3"
            description = "Does everything"
            parent = Existing(Namespace)
            selector = ParentSelector(labels="a=b", annotations="c")
            children = (Deployment, ConfigMap, ChildRule(Pod, Rolling(["Ready"], recreate=True), optional=True))
            related = (Secret, RelatedRule(Namespace, optional=True))
            finalizes = True
            ordered_deletion = True
            ready_means = "plugin"
            clock = True
            resync = 60
            config = Config
            metrics = (Metric.counter("made", "Objects made", ["kind"]), Metric.gauge("size", "By", "Size"))

            def reconcile(self, request: Request[None, None]) -> Response[None]:
                return Response(children=[ConfigMap(request.parent["data"])])

        whole = descriptor(Whole)
        self.assertIsNone(crd(Whole))
        self.assertEqual((whole.name, whole.version, whole.description), ("whole", "1.2.3", "Does everything"))
        self.assertEqual(
            (whole.parent, whole.selector), (Existing(Namespace), ParentSelector(labels="a=b", annotations="c"))
        )
        rules = [
            ChildRule(Deployment, Apply()),
            ChildRule(ConfigMap, Apply()),
            ChildRule(Pod, Rolling(["Ready"], recreate=True), optional=True),
        ]
        self.assertEqual(whole.children, rules)
        self.assertEqual(whole.related, [RelatedRule(Secret), RelatedRule(Namespace, optional=True)])
        self.assertEqual((whole.finalizes, whole.ordered_deletion, whole.resync), (True, True, 60_000))
        self.assertEqual((whole.ready_means, whole.clock), ("plugin", True))
        plain = descriptor(Base)
        self.assertEqual((plain.ready_means, plain.clock, plain.ordered_deletion), ("children", False, False))
        self.assertEqual(
            json.loads(whole.config_schema or b""),
            {
                "type": "object",
                "properties": {
                    "region": {"type": "string"},
                    "zones": {"type": "integer", "format": "int64", "default": 3},
                },
                "required": ["region"],
            },
        )
        self.assertEqual([metric.type for metric in whole.metrics], ["counter", "gauge"])
        response = call(Whole, {"metadata": {"name": "n"}, "data": "x"})
        self.assertEqual(response.children[0]["metadata"]["name"], "x")
