r"""What a type of a spec allows, as metadata of `Annotated`.

    replicas: Annotated[int, Range(0, 1000)]
    image: Annotated[str, Length(1), Pattern(r"^\S+$")]

The CRD has these as keywords of its schema: the API server refuses to store other values. An object may be older than the
schema, so the host checks it again before it calls the plugin, except for CEL rules and formats.
"""

from __future__ import annotations

import typing

from ._json import Json

T = typing.TypeVar("T", bound=type)

VALIDATIONS = "x-kubernetes-validations"
"""The keyword for CEL rules."""


class Constraint:
    """The base of all constraints."""

    def apply(self, schema: dict[str, Json]) -> None:
        """Add the constraint to a schema."""
        raise NotImplementedError


class Range(Constraint):
    """The least and the largest value of a number. None: no bound on this side."""

    min: float | None
    """The least value."""
    max: float | None
    """The largest value."""

    def __init__(self, min: float | None = None, max: float | None = None) -> None:
        self.min = min
        self.max = max

    def apply(self, schema: dict[str, Json]) -> None:
        """Set `minimum` and `maximum`."""
        _set(schema, minimum=self.min, maximum=self.max)


class MultipleOf(Constraint):
    """A number is a multiple of this one."""

    factor: int
    """The number."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def apply(self, schema: dict[str, Json]) -> None:
        """Set `multipleOf`."""
        _set(schema, multipleOf=self.factor)


class Length(Constraint):
    """The least and the largest number of characters of a text, items of a list, or entries of a map.

    None: no bound on this side.
    """

    min: int | None
    """The least number."""
    max: int | None
    """The largest number."""

    def __init__(self, min: int | None = None, max: int | None = None) -> None:
        self.min = min
        self.max = max

    def apply(self, schema: dict[str, Json]) -> None:
        """Set the bounds that belong to the type."""
        noun = {"array": "Items", "object": "Properties"}.get(schema.get("type", ""), "Length")
        _set(schema, **{f"min{noun}": self.min, f"max{noun}": self.max})


class Pattern(Constraint):
    """A regular expression that a text matches, in the syntax of Go (RE2), as the API server reads it."""

    pattern: str
    """The regular expression."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def apply(self, schema: dict[str, Json]) -> None:
        """Set `pattern`."""
        _set(schema, pattern=self.pattern)


class Format(Constraint):
    """The format of a text, which the API server checks: `date-time`, `byte`, `uuid`, `cidr`, …."""

    format: str
    """The name of the format."""

    def __init__(self, format: str) -> None:
        self.format = format

    def apply(self, schema: dict[str, Json]) -> None:
        """Set `format`."""
        _set(schema, format=self.format)


class ListMap(Constraint):
    """The items of a list are objects, and no two have the same keys: server-side apply merges them by key."""

    keys: tuple[str, ...]
    """The fields that are the key, by their names in JSON."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def apply(self, schema: dict[str, Json]) -> None:
        """Set `x-kubernetes-list-type`."""
        schema["x-kubernetes-list-type"] = "map"
        schema["x-kubernetes-list-map-keys"] = list(self.keys)


class ListSet(Constraint):
    """The items of a list are texts or numbers, and none is there twice."""

    def apply(self, schema: dict[str, Json]) -> None:
        """Set `x-kubernetes-list-type`."""
        schema["x-kubernetes-list-type"] = "set"


class _Decorator(Constraint):
    """A constraint that is also a decorator, for the schema of a whole class."""

    def __call__(self, cls: T) -> T:
        """Add the constraint to the schema of a class."""
        # The first decorator of a class is applied last.
        cls.__windlass_constraints__ = [self, *of_class(cls)]  # type: ignore[attr-defined]
        return cls


def of_class(cls: type) -> list[Constraint]:
    """Return the constraints of a class."""
    return getattr(cls, "__windlass_constraints__", [])


class Rule(_Decorator):
    """A CEL rule, and the message for values that violate it. The API server alone checks it.

    Use it as metadata of a field (`self` is the field), as a decorator of a dataclass (`self` is the object), or in
    `CustomResource(rules=…)` (`self` is the whole parent).
    """

    rule: str
    """An expression that must be true; `oldSelf` is the value before the write."""
    message: str
    """The message for the user whose object violates the rule."""
    field_path: str | None
    """The field that the error names, below the value: `.cpu`. None: the value itself."""

    def __init__(self, rule: str, message: str, *, field_path: str | None = None) -> None:
        self.rule = rule
        self.message = message
        self.field_path = field_path

    def apply(self, schema: dict[str, Json]) -> None:
        """Add to `x-kubernetes-validations`."""
        rule = {"rule": self.rule, "message": self.message}
        _set(rule, fieldPath=self.field_path)
        schema.setdefault(VALIDATIONS, []).append(rule)


class Keywords(_Decorator):
    """Other keywords of the schema, as metadata of a field or as a decorator of a dataclass.

    `Annotated[dict[str, Any], Keywords({"x-kubernetes-embedded-resource": True})]` is the type of a field with another object.
    """

    keywords: typing.Mapping[str, Json]
    """The keywords, by name."""

    def __init__(self, keywords: typing.Mapping[str, Json]) -> None:
        self.keywords = keywords

    def apply(self, schema: dict[str, Json]) -> None:
        """Add the keywords."""
        schema.update(self.keywords)


class Positive(Constraint):
    """A quantity or a number is more than 0. In the CRD it is a rule of the object that has the field.

    The API server alone checks it, when an object is written: an object may be older than the rule, so a plugin that cannot
    do with another value looks at `Quantity.is_positive` too.
    """

    def apply(self, schema: dict[str, Json]) -> None:
        """Nothing: the object has the rule."""

    @staticmethod
    def rule(field: str, schema: dict[str, Json]) -> Rule:
        """Return the rule for a field with this schema."""
        value = f"self.{field}"
        if "x-kubernetes-int-or-string" in schema:
            rule = f"quantity(string({value})).isGreaterThan(quantity('0'))"
        else:
            rule = f"{value} > 0"
        if "default" not in schema and schema.get("nullable"):
            rule = f"!has({value}) || {rule}"
        return Rule(rule, f"{field} must be more than 0", field_path=f".{field}")


def rfc1035_name(max_length: int = 63) -> Rule:
    """Return the rule that the parent's name is a label by RFC 1035: for parents that share their name with a Service.

    A plugin that appends to the name subtracts the length of what it appends from 63.
    """
    return Rule(
        f"self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= {max_length}",
        f"name must be a label of DNS that begins with a letter (a-z, 0-9, -), at most {max_length} characters",
    )


def _set(schema: dict[str, Json], **keywords: Json) -> None:
    schema.update((keyword, value) for keyword, value in keywords.items() if value is not None)
