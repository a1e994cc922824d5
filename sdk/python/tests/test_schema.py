from __future__ import annotations

import dataclasses
import enum
import unittest
from typing import Annotated, Any, Literal, NewType

from windlass_plugin import (
    Column,
    Condition,
    CustomResource,
    Format,
    Invalid,
    Keywords,
    Length,
    ListMap,
    ListSet,
    MultipleOf,
    Name,
    Plugin,
    Positive,
    Quantity,
    Range,
    Request,
    Response,
    Rule,
)
from windlass_plugin._crd import english_plural
from windlass_plugin.testing import call, crd
from windlass_plugin.types import DnsLabel, DnsSubdomain, EnvVar, Image, IntOrString, ResourceList


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


Port = NewType("Port", int)


@Keywords({"x-kubernetes-map-type": "atomic"})
@Rule("self.low <= self.high", "low must not be over high")
@dataclasses.dataclass
class Bounds:
    low: int
    high: Annotated[int, Positive()]


@dataclasses.dataclass
class Node:
    """A node of a tree."""

    name: str
    nodes: list[Node] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Spec:
    """The first paragraph
    has two lines.

    The second has one.
    """

    text: str
    """A text
    of two lines."""
    number: float
    flag: bool
    big: int
    level: Level
    mode: Literal["a", "b"]
    count: Literal[1, 2]
    anything: Any
    port: IntOrString
    size: Annotated[Quantity, Positive()]
    bounds: Bounds
    tree: Node
    named: Annotated[str, Name("clusterIP")]
    new: Port
    type_: str
    map_: dict[str, int]
    open_map: dict[str, Any]
    resources: ResourceList
    items: Annotated[list[EnvVar], Length(1, 5), ListMap("name")]
    set_items: Annotated[list[str], ListSet()]
    matrix: list[list[int]]
    limited: Annotated[dict[str, Annotated[str, Length(max=3)]], Length(max=2)]
    step: Annotated[int, Range(min=0), MultipleOf(5)]
    time: Annotated[str, Format("date-time")]
    ruled: Annotated[str, Rule("self != 'x'", "not x", field_path=".y")]
    seen: list[Seen]
    maybe: Annotated[str | None, Length(max=3)] = None
    also_maybe: Annotated[str, Length(max=3)] | None = None
    default_level: Level = Level.LOW
    default_size: Quantity = Quantity("1Gi")
    default_bounds: Bounds = dataclasses.field(default_factory=lambda: Bounds(1, 2))


@dataclasses.dataclass
class Seen:
    name: str
    note: str | None
    limit: Annotated[str | None, Length(max=3)]
    free: Any


@dataclasses.dataclass
class Status:
    seen: list[Seen]
    nodes: list[Node] = dataclasses.field(default_factory=list)
    when: Annotated[str | None, Format("date-time")] = None


class All(Plugin[Spec, Status]):
    name = "all"
    version = "1.0.0"
    parent = CustomResource(
        "example.com",
        "v1",
        "Policy",
        scope="Cluster",
        categories=["all"],
        columns=[
            Column("Ready", ".status.phase", "string"),
            Column("Size", ".spec.size"),
            Column("Number", ".spec.number"),
            Column("Flag", ".spec.flag"),
            Column("When", ".status.when"),
        ],
    )

    def reconcile(self, request: Request[Spec, Status]) -> Response[Status]:
        return Response()


INT = {"type": "integer", "format": "int64"}


class SchemaTest(unittest.TestCase):
    crd: dict[str, Any]
    version: dict[str, Any]
    spec: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        definition = crd(All)
        assert definition is not None
        cls.crd = definition
        cls.version = definition["spec"]["versions"][0]
        cls.spec = cls.version["schema"]["openAPIV3Schema"]["properties"]["spec"]

    def field(self, name: str) -> Any:
        return self.spec["properties"][name]

    def test_every_type_has_its_schema(self) -> None:
        quantity = {"x-kubernetes-int-or-string": True, "maxLength": 64, "pattern": self.field("size")["pattern"]}
        node: dict[str, Any] = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
        for name, schema in {
            "text": {"type": "string", "description": "A text of two lines."},
            "number": {"type": "number"},
            "flag": {"type": "boolean"},
            "big": INT,
            "level": {"type": "string", "enum": ["low", "high"]},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "count": {**INT, "enum": [1, 2]},
            "anything": {"x-kubernetes-preserve-unknown-fields": True},
            "port": {"x-kubernetes-int-or-string": True},
            "size": quantity,
            "clusterIP": {"type": "string"},
            "new": INT,
            "type": {"type": "string"},
            "map": {"type": "object", "additionalProperties": INT},
            "openMap": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "resources": {"type": "object", "additionalProperties": quantity},
            "setItems": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "matrix": {"type": "array", "items": {"type": "array", "items": INT}},
            "limited": {
                "type": "object",
                "additionalProperties": {"type": "string", "maxLength": 3},
                "maxProperties": 2,
            },
            "step": {**INT, "minimum": 0, "multipleOf": 5},
            "time": {"type": "string", "format": "date-time"},
            "ruled": {
                "type": "string",
                "x-kubernetes-validations": [{"rule": "self != 'x'", "message": "not x", "fieldPath": ".y"}],
            },
            "maybe": {"type": "string", "nullable": True, "maxLength": 3},
            "alsoMaybe": {"type": "string", "nullable": True, "maxLength": 3},
            "defaultLevel": {"type": "string", "enum": ["low", "high"], "default": "low"},
            "defaultSize": {**quantity, "default": "1Gi"},
            "tree": {
                "type": "object",
                "description": "A node of a tree.",
                **node,
                "properties": {
                    **node["properties"],
                    "nodes": {
                        "type": "array",
                        "items": {"x-kubernetes-preserve-unknown-fields": True},
                        "default": [],
                    },
                },
            },
        }.items():
            with self.subTest(name):
                self.assertEqual(self.field(name), schema)

    def test_a_list_map_has_its_keys_and_bounds(self) -> None:
        items = self.field("items")
        self.assertEqual((items["minItems"], items["maxItems"]), (1, 5))
        self.assertEqual((items["x-kubernetes-list-type"], items["x-kubernetes-list-map-keys"]), ("map", ["name"]))
        self.assertEqual(items["items"]["description"], "Environment variable of a container.")

    def test_a_class_has_the_rules_of_its_fields_and_its_own(self) -> None:
        bounds = self.field("bounds")
        rules = [
            {"rule": "self.high > 0", "message": "high must be more than 0", "fieldPath": ".high"},
            {"rule": "self.low <= self.high", "message": "low must not be over high"},
        ]
        self.assertEqual(bounds["x-kubernetes-validations"], rules)
        self.assertEqual(bounds["x-kubernetes-map-type"], "atomic")
        self.assertEqual(self.field("defaultBounds"), {**bounds, "default": {"low": 1, "high": 2}})

    def test_fields_without_a_default_are_required(self) -> None:
        without = set(self.spec["properties"]) - set(self.spec["required"])
        self.assertEqual(without, {"maybe", "alsoMaybe", "defaultLevel", "defaultSize", "defaultBounds"})
        self.assertEqual(self.version["schema"]["openAPIV3Schema"]["required"], ["spec"])

    def test_descriptions_are_paragraphs(self) -> None:
        self.assertEqual(self.spec["description"], "The first paragraph has two lines.\n\nThe second has one.")
        self.assertNotIn("description", self.field("bounds"))

    def test_a_status_has_neither_defaults_nor_required_fields_and_has_those_of_the_host(self) -> None:
        status = self.version["schema"]["openAPIV3Schema"]["properties"]["status"]
        self.assertNotIn("required", status)
        self.assertEqual(list(status["properties"]), ["seen", "nodes", "when", "observedGeneration", "conditions"])
        self.assertNotIn("default", status["properties"]["nodes"])

    def test_fields_without_a_default_are_required_in_a_status_unless_they_may_be_none(self) -> None:
        status = self.version["schema"]["openAPIV3Schema"]["properties"]["status"]
        self.assertEqual(status["properties"]["seen"]["items"]["required"], ["name"])
        written = self.spec["properties"]["seen"]["items"]["required"]
        self.assertEqual(written, ["name", "note", "limit", "free"], "a user may write null")

    def test_columns_take_the_type_of_their_field(self) -> None:
        columns = {column["name"]: column["type"] for column in self.version["additionalPrinterColumns"]}
        self.assertEqual(
            list(columns.items()),
            [
                ("Ready", "string"),
                ("Size", "string"),
                ("Number", "number"),
                ("Flag", "boolean"),
                ("When", "date"),
                ("Age", "date"),
            ],
        )

    def test_names_are_of_the_kind(self) -> None:
        self.assertEqual(self.crd["metadata"]["name"], "policies.example.com")
        self.assertEqual(self.crd["spec"]["scope"], "Cluster")
        self.assertEqual(
            self.crd["spec"]["names"],
            {
                "kind": "Policy",
                "listKind": "PolicyList",
                "plural": "policies",
                "singular": "policy",
                "categories": ["all"],
            },
        )

    def test_plurals_are_english(self) -> None:
        kinds = ["echo", "myapp", "networkpolicy", "gateway", "ingress", "index", "switch", "mysqlcluster"]
        plurals = [
            "echoes",
            "myapps",
            "networkpolicies",
            "gateways",
            "ingresses",
            "indexes",
            "switches",
            "mysqlclusters",
        ]
        self.assertEqual([english_plural(kind) for kind in kinds], plurals)


@dataclasses.dataclass
class Unsupported:
    field: set[str]


@dataclasses.dataclass
class Empty:
    pass


class MistakeTest(unittest.TestCase):
    def test_a_type_without_a_schema_is_refused_where_the_plugin_is_declared(self) -> None:
        with self.assertRaisesRegex(TypeError, r"^Unsupported\.field: set\[str\] has no schema\. Use bool, int"):

            class Refused(Plugin[Unsupported, None]):
                pass

    def test_a_missing_attribute_is_named(self) -> None:
        class NoVersion(Plugin[Empty, None]):
            name = "x"

        with self.assertRaisesRegex(TypeError, "class NoVersion has no attribute `version`"):
            crd(NoVersion)

    def test_a_column_of_an_unknown_field_is_refused(self) -> None:
        class Wrong(Plugin[Empty, None]):
            name = "x"
            version = "1"
            parent = CustomResource("e.dev", "v1", "X", columns=[Column("A", ".spec.nothing")])

        with self.assertRaisesRegex(TypeError, "column A: .spec.nothing has no simple type"):
            crd(Wrong)

    def test_a_spec_without_required_fields_is_optional(self) -> None:
        class Fine(Plugin[Empty, None]):
            name = "x"
            version = "1"
            parent = CustomResource("e.dev", "v1", "X", plural="xen", short_names=["x"])

        definition = crd(Fine)
        assert definition is not None
        root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        self.assertNotIn("required", root)
        self.assertEqual(root["properties"]["spec"], {"type": "object"})
        self.assertEqual(definition["metadata"]["name"], "xen.e.dev")


@dataclasses.dataclass
class Names:
    label: DnsLabel = "a"
    subdomain: DnsSubdomain = "a"
    image: Image = "a"


class Named(Plugin[Names, None]):
    name = "named"
    version = "1.0.0"
    parent = CustomResource("example.com", "v1", "Named")

    def reconcile(self, request: Request[Names, None]) -> Response[None]:
        return Response()


def is_valid(field: str, value: str) -> bool:
    try:
        call(Named, {"metadata": {"name": "a"}, "spec": {field: value}})
    except Invalid:
        return False
    return True


class SharedTypesTest(unittest.TestCase):
    def test_names_are_those_that_the_api_server_takes(self) -> None:
        long = "a" * 64
        for name, label, full in [
            ("a", True, True),
            ("a-1", True, True),
            ("1a", True, True),
            ("a.b", False, True),
            ("", False, False),
            ("-a", False, False),
            ("a-", False, False),
            ("A", False, False),
            ("a_b", False, False),
            ("a..b", False, False),
            ("a\n", False, False),
            (long, False, True),
        ]:
            self.assertEqual((is_valid("label", name), is_valid("subdomain", name)), (label, full), name)
        for image, valid in [("nginx:1.27", True), ("", False), ("a b", False), ("a\n", False)]:
            self.assertEqual(is_valid("image", image), valid, image)

    def test_a_condition_takes_a_bool(self) -> None:
        self.assertEqual(
            [Condition("A", value, "B", "").status for value in (True, False, "Unknown")], ["True", "False", "Unknown"]
        )
