"""MyApp without WebAssembly and without a cluster. The host's tests run the golden cases with the component."""

import unittest
from pathlib import Path
from typing import Any

from myapp import MyApp
from windlass_plugin.admission import Allow, Deny, Replace, AdmissionResponse
from windlass_plugin.testing import golden, review

MYAPP = Path(__file__).parent.parent


class MyAppTest(unittest.TestCase):
    def test_responses_are_the_expected_ones(self) -> None:
        golden.check(MyApp, MYAPP / "cases", shared=True)

    def test_crd_json_is_the_crd_of_the_types(self) -> None:
        golden.check_crd(MyApp, MYAPP / "crd.json")


class AdmissionTest(unittest.TestCase):
    def test_missing_fields_get_defaults_and_others_stay(self) -> None:
        spec = {"image": "shop:1", "resources": {"cpu": 2}, "other": True}
        expected = {
            "image": "shop:1",
            "replicas": 1,
            "port": 8080,
            "resources": {"cpu": 2, "memory": "128Mi"},
            "env": [],
            "other": True,
        }
        self.assertEqual(create(spec), Replace(app(expected)))

    def test_a_complete_object_is_allowed_unchanged(self) -> None:
        replaced = create({"image": "shop:1"})
        assert isinstance(replaced, Replace)
        self.assertEqual(review(MyApp, "update", object=replaced.object, old=replaced.object), Allow())

    def test_an_invalid_object_is_denied_and_the_field_is_named(self) -> None:
        cases: list[tuple[dict[str, Any], str, str]] = [
            ({"image": "shop:1", "resources": {"cpu": "0"}}, "spec.resources.cpu", "0 is not more than 0"),
            ({"replicas": 1}, "spec.image", "is required"),
            ({"image": "shop:1", "port": "http"}, "spec.port", '"http" is not a whole number'),
        ]
        for spec, field, message in cases:
            self.assertEqual(create(spec), Deny(message, field))

    def test_a_deletion_is_allowed_even_if_the_object_is_invalid(self) -> None:
        invalid = app({"image": ""})
        self.assertEqual(review(MyApp, "delete", old=invalid), Allow())
        deleted = {**invalid, "metadata": {"name": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
        self.assertEqual(review(MyApp, "update", object=deleted, old=invalid), Allow())


def app(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "MyApp", "metadata": {"name": "shop"}, "spec": spec}


def create(spec: dict[str, Any]) -> AdmissionResponse:
    return review(MyApp, "create", object=app(spec))


if __name__ == "__main__":
    unittest.main()
