from __future__ import annotations

import dataclasses
import unittest

from windlass_plugin import CustomResource, Failed, Kind, Plugin
from windlass_plugin.admission import Admission, AdmissionRequest, AdmissionResponse, Allow, Deny, Replace
from windlass_plugin.testing import review


@dataclasses.dataclass
class Spec:
    name: str
    size: int = 3


@dataclasses.dataclass
class Config:
    most: int


class Sized(Plugin[Spec, None], Admission[Spec]):
    name = "sized"
    version = "1.0.0"
    parent = CustomResource("example.com", "v1", "Sized")

    def review(self, request: AdmissionRequest[Spec]) -> AdmissionResponse:
        if request.is_being_deleted:
            return Allow()
        if request.username == "nobody":
            raise Failed("users only")
        if request.operation == "update" and request.old_object == request.object:
            return Allow(["nothing changes"])
        if request.spec.size > request.config(Config).most:
            return Deny("too large")
        return request.with_defaults()


class Plain(Plugin[Spec, None]):
    pass


class AdmissionTest(unittest.TestCase):
    def test_each_response_reaches_the_user(self) -> None:
        config = {"most": 5}
        whole = {"spec": {"name": "a", "size": 3}}
        self.assertEqual(review(Sized, "create", object={"spec": {"name": "a"}}, config=config), Replace(whole))
        self.assertEqual(review(Sized, "create", object=whole, config=config), Allow())
        self.assertEqual(review(Sized, "update", object=whole, old=whole), Allow(["nothing changes"]))
        self.assertEqual(
            review(Sized, "create", object={"spec": {"name": "a", "size": 6}}, config=config), Deny("too large")
        )
        self.assertEqual(review(Sized, "delete", old={}), Allow())

    def test_a_failure_denies_the_write(self) -> None:
        self.assertEqual(review(Sized, "create", object={}, config={"most": 5}), Deny("is required", "spec.name"))
        self.assertEqual(review(Sized, "create", object={}, username="nobody"), Deny("users only"))
        denied = Deny("the Plugin's spec.config.most: is required")
        self.assertEqual(review(Sized, "create", object={"spec": {"name": "a"}}), denied)

    def test_a_write_has_what_the_api_server_knows_of_it(self) -> None:
        seen: list[AdmissionRequest[Spec]] = []

        class Watching(Sized):
            def review(self, request: AdmissionRequest[Spec]) -> AdmissionResponse:
                seen.append(request)
                return Deny("not now", warnings=["the namespace is closed"])

        sized = {"apiVersion": "example.com/v1", "kind": "Sized", "metadata": {"name": "a", "namespace": "b"}}
        response = review(
            Watching,
            "delete",
            old=sized,
            namespace_labels={"c": "d"},
            is_dry_run=True,
            groups=["e"],
            subresource="scale",
        )
        self.assertEqual(response, Deny("not now", None, ["the namespace is closed"]))
        [request] = seen
        self.assertEqual((request.kind, request.subresource), (Kind("example.com/v1", "Sized"), "scale"))
        self.assertEqual((request.name, request.namespace, request.namespace_labels), ("a", "b", {"c": "d"}))
        self.assertEqual((request.is_dry_run, request.groups), (True, ["e"]))

    def test_a_plugin_without_admission_is_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "Plain has no Admission"):
            review(Plain, "delete")
