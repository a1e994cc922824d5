"""The CustomResourceDefinition of a plugin."""

from __future__ import annotations

import dataclasses
import typing

from ._constraints import Rule
from ._json import Json
from ._types import INT_OR_STRING, Schema, Type

_VOWELS = ("a", "e", "o", "u")


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    """The title."""
    path: str
    """The JSON path of the value: `.spec.replicas`."""
    type: typing.Literal["integer", "number", "string", "boolean", "date"] | None = None
    """The type; None takes the one of the field."""


@dataclasses.dataclass(frozen=True)
class CustomResource:
    """A custom kind.

    Its CRD has a schema from the plugin's spec and status types, the status subresource, `observedGeneration` and
    `conditions` in the status, and the columns `Ready` and `Age`; a column of one of these names replaces it.
    """

    group: str
    """The API group: `example.com`."""
    version: str
    """The version: `v1`."""
    kind: str
    """The kind: `Greeting`."""
    _: dataclasses.KW_ONLY
    plural: str | None = None
    """The plural. None: the English plural of the kind (`echo`, `echoes`; `policy`, `policies`)."""
    scope: typing.Literal["Namespaced", "Cluster"] = "Namespaced"
    """`Namespaced`, or `Cluster` for objects without a namespace."""
    short_names: typing.Sequence[str] = ()
    """Short names for kubectl."""
    categories: typing.Sequence[str] = ()
    """Categories: with `all`, `kubectl get all` shows objects of this kind."""
    columns: typing.Sequence[Column] = ()
    """Columns of `kubectl get`."""
    rules: typing.Sequence[Rule] = ()
    """CEL rules on the whole object (`self.metadata.name`, `self.spec`, `oldSelf`, …)."""

    def crd(self, spec: Type, status: Type) -> dict[str, Json]:
        """Return the CustomResourceDefinition."""
        singular = self.kind.lower()
        plural = self.plural or english_plural(singular)
        names: Schema = {"kind": self.kind, "listKind": f"{self.kind}List", "plural": plural, "singular": singular}
        if self.short_names:
            names["shortNames"] = list(self.short_names)
        if self.categories:
            names["categories"] = list(self.categories)
        root: Schema = {
            "type": "object",
            "properties": {"spec": spec.schema(written=False), "status": _status(status.schema(written=True))},
        }
        # A spec without required fields is optional.
        if "required" in root["properties"]["spec"]:
            root["required"] = ["spec"]
        for rule in self.rules:
            rule.apply(root)
        version = {
            "name": self.version,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "additionalPrinterColumns": self._columns(root),
            "schema": {"openAPIV3Schema": root},
        }
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{self.group}"},
            "spec": {"group": self.group, "names": names, "scope": self.scope, "versions": [version]},
        }

    def _columns(self, root: Schema) -> list[Json]:
        columns = [_column(column, root) for column in self.columns]
        names = {column["name"] for column in columns}
        if "Ready" not in names:
            ready = Column("Ready", '.status.conditions[?(@.type=="Ready")].status', "string")
            columns.insert(0, _column(ready, root))
        if "Age" not in names:
            columns.append(_column(Column("Age", ".metadata.creationTimestamp", "date"), root))
        return columns


def _column(column: Column, root: Schema) -> dict[str, Json]:
    kind: str | None = column.type
    if kind is None:
        schema = root
        for step in column.path.split(".")[1:]:
            schema = schema.get("properties", {}).get(step, {})
        found = "string" if INT_OR_STRING in schema else schema.get("type")
        if found not in ("integer", "number", "string", "boolean"):
            raise TypeError(f"column {column.name}: {column.path} has no simple type; give the column a `type`")
        kind = "date" if schema.get("format") == "date-time" else found
    return {"name": column.name, "type": kind, "jsonPath": column.path}


def _status(plugin: Schema) -> Schema:
    """Return the plugin's fields and the host's.

    None is required: after a failed first call, the status has only the host's fields.
    """
    status = {keyword: value for keyword, value in plugin.items() if keyword not in ("required", "nullable")}
    properties = {**plugin.get("properties", {}), "observedGeneration": _generation(), "conditions": _conditions()}
    return {**status, "type": "object", "properties": properties}


def _conditions() -> Schema:
    """Return a list of `metav1.Condition` with the bounds of that type."""

    def text(**bounds: Json) -> Schema:
        return {"type": "string", **bounds}

    reason = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
    properties = {
        "type": text(maxLength=316),
        "status": text(enum=["True", "False", "Unknown"]),
        "observedGeneration": _generation(),
        "lastTransitionTime": text(format="date-time"),
        "reason": text(minLength=1, maxLength=1024, pattern=reason),
        "message": text(maxLength=32768),
    }
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": properties,
        },
    }


def _generation() -> Schema:
    return {"type": "integer", "format": "int64", "minimum": 0}


def english_plural(singular: str) -> str:
    """Return the English plural of a kind."""
    if singular.endswith("y") and not singular[:-1].endswith(_VOWELS):
        return f"{singular[:-1]}ies"
    if singular.endswith(("s", "x", "z", "o", "ch", "sh")):
        return f"{singular}es"
    return f"{singular}s"
