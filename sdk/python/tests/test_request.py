from __future__ import annotations

import base64
import dataclasses
import unittest
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

from base import Base, Config, Port, Spec, Status, parent, request_of, returning, spec_of

from windlass_plugin import (
    ChildRef,
    Condition,
    CustomResource,
    Failed,
    Invalid,
    LeftOut,
    Length,
    Name,
    Object,
    Phase,
    Plugin,
    Quantity,
    Readiness,
    Request,
    Response,
)
from windlass_plugin._types import type_of
from windlass_plugin.kinds import ConfigMap, Deployment, Namespace, Pod, Secret
from windlass_plugin.testing import Live, call


class SpecTest(unittest.TestCase):
    def test_reading_a_value_of_another_type_or_none_names_the_field(self) -> None:
        for spec, message in [
            ([], "spec: [] is not an object"),
            ({"replicas": "three"}, 'spec.replicas: "three" is not a whole number'),
            ({"replicas": True}, "spec.replicas: true is not a whole number"),
            ({"replicas": 1.5}, "spec.replicas: 1.5 is not a whole number"),
            ({"ratio": "a"}, 'spec.ratio: "a" is not a number'),
            ({"title": 1}, "spec.title: 1 is not a text"),
            ({"title": "bad"}, "spec: the title is bad"),
            ({"mode": "c"}, 'spec.mode: "c" is not one of "a", "b"'),
            ({"mode": ["a"]}, 'spec.mode: ["a"] is not one of "a", "b"'),
            ({"flag": 1}, "spec.flag: 1 is not true or false"),
            ({"size": "1 Gi"}, 'spec.size: "1 Gi" is not a quantity like 100m, 2 or 128Mi'),
            ({"ports": {}}, "spec.ports: {} is not a list"),
            ({"ports": ["a"]}, 'spec.ports[0]: "a" is not an object'),
            ({"ports": [{"name": "a", "port": 1}, {"port": 1}]}, "spec.ports[1].name: is required"),
            ({"labels": {"a": 1}}, "spec.labels.a: 1 is not a text"),
            ({"hostIP": 1}, "spec.hostIP: 1 is not a text"),
            ({"replicas": "x" * 200}, 'spec.replicas: "' + "x" * 99 + "… is not a whole number"),
        ]:
            # In a clean-up, the host calls the plugin with any spec.
            request = request_of(parent(spec), finalize=True)
            with self.subTest(spec), self.assertRaises(Invalid) as raised:
                _ = request.spec
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

    def test_a_live_object_has_the_readiness_that_the_host_says_unless_the_test_sets_it(self) -> None:
        deployment = Deployment("a", status={"observedGeneration": 1})
        deployment["metadata"]["generation"] = 2
        live = [deployment, Live(Deployment("b"), "failed", "image not found"), ConfigMap("c")]
        related = {"m": [Namespace("m", status={"phase": "Active"})], "n": [], "s": [Live(Secret("s"), "unknown")]}
        request = request_of(parent(), children=live, related=related)
        self.assertEqual(
            [child.readiness for child in request.children()],
            [
                Readiness("progressing", "its controller has not seen its latest change yet"),
                Readiness("failed", "image not found"),
                Readiness("ready"),
            ],
        )
        self.assertEqual([child.is_ready for child in request.children()], [False, False, True])
        states = [[each.readiness.state for each in request.related(name) or []] for name in related]
        self.assertEqual(states, [["ready"], [], ["unknown"]])

    def test_an_object_of_another_type_is_a_failure_that_names_it(self) -> None:
        [pod] = request_of(parent(), children=[Pod("a", status={})]).children()
        with self.assertRaisesRegex(Failed, "^Pod a: status.podIP: is required$"):
            pod.read(TypedPod)

    def test_a_generated_value_stays_once_the_secret_exists(self) -> None:
        def respond(request: Request[Spec, Status]) -> Response[Status]:
            token = request.generated("database", "token", lambda: "made")
            data = {"password": request.generated("database", "password"), "token": token}
            return Response(children=[Secret("database", stringData=data)])

        first = call(returning(respond), parent(), random=bytes(range(32))).child(Secret, "database")["stringData"]
        self.assertRegex(first["password"], "^[A-Za-z0-9]{24}$")
        self.assertEqual(first["token"], "made")
        stored = {key: base64.b64encode(value.encode()).decode() for key, value in first.items()}
        stored["token"] = base64.b64encode("größer".encode()).decode()
        live = Secret("database", namespace="default", data=stored)
        again = call(returning(respond), parent(), children=[live], random=bytes(range(100, 132)))
        self.assertEqual(again.child(Secret, "database")["stringData"], {**first, "token": "größer"})
        others = [{**live, "data": {}}, Secret("database", namespace="other", data=stored), Secret("x", data=stored)]
        for other in others:
            new = call(returning(respond), parent(), children=[other], random=bytes(range(100, 132)))
            self.assertNotEqual(new.child(Secret, "database")["stringData"]["password"], first["password"])

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

        class Noting(Plugin[Spec, Noted]):
            name = "noting"
            version = "1.0.0"
            parent = CustomResource("example.com", "v1", "Noting")

            def reconcile(self, request: Request[Spec, Noted]) -> Response[Noted]:
                return Response(status=Noted([Notes(None, None, None)], request.status is not None))

        first = call(Noting, parent())
        self.assertEqual(first.status, {"notes": [{}], "again": False})
        self.assertEqual(call(Noting, parent(status=first.status)).status, {"notes": [{}], "again": True})

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
            ({"observedGeneration": 2, "conditions": [{**stalled, "reason": "ChildFailed"}]}, True),
        ]:
            request = request_of(parent(metadata={"name": "a", "generation": 2}, status=status))
            self.assertEqual(request.is_spec_applied, applied, status)
