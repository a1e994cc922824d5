"""Types of specs and statuses: their schemas in a CRD, and how JSON is read into them.

The schema of a CRD (apiextensions v1, "structural schemas") is a subset of JSON Schema: no references, one type for each
field, no null type. What goes beyond becomes `x-kubernetes-preserve-unknown-fields`: the API server accepts any value.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing

from . import _docs
from ._constraints import Constraint, Positive, of_class
from ._failure import Invalid
from ._json import Json, json_names, plain, show
from ._quantity import Quantity

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"

Schema = dict[str, Json]


class Type:
    """A type. This one allows every value."""

    def schema(self, *, written: bool) -> Schema:
        """Return the schema. The plugin writes a status, and users write all else: only they get defaults."""
        del written
        return {PRESERVE: True}

    def read(self, value: Json, path: str) -> Json:
        """Read JSON. Raises `Invalid` for a value of another type; the host checks the bounds of the schema."""
        del path
        return value


class _Scalar(Type):
    def __init__(self, kind: type, schema: Schema, noun: str) -> None:
        self._kind = kind
        self._schema = schema
        self._noun = noun

    def schema(self, *, written: bool) -> Schema:
        del written
        return dict(self._schema)

    def read(self, value: Json, path: str) -> Json:
        if type(value) is not self._kind:
            raise _is_not(self._noun, value, path)
        return value


class _Float(_Scalar):
    def read(self, value: Json, path: str) -> Json:
        if type(value) is int:
            return float(value)
        if not isinstance(value, float):
            raise _is_not(self._noun, value, path)
        return value


class _IntOrString(Type):
    def schema(self, *, written: bool) -> Schema:
        del written
        return {INT_OR_STRING: True}

    def read(self, value: Json, path: str) -> Json:
        if type(value) not in (int, str):
            raise _is_not("a whole number or a text", value, path)
        return value


class _Quantity(Type):
    def schema(self, *, written: bool) -> Schema:
        del written
        return {
            INT_OR_STRING: True,
            # The API server estimates the cost of CEL rules by it: without it, it rejects a rule on a list of quantities.
            "maxLength": 64,
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$",
        }

    def read(self, value: Json, path: str) -> Json:
        if type(value) in (int, str):
            try:
                return Quantity(str(value))
            except ValueError:
                pass
        raise _is_not("a quantity like 100m, 2 or 128Mi", value, path)


class _Choice(Type):
    """One of some values, as they are or as members of an enum."""

    def __init__(self, members: typing.Iterable[tuple[Json, Json]]) -> None:
        self._members = dict(members)

    def schema(self, *, written: bool) -> Schema:
        del written
        values = list(self._members)
        if all(isinstance(value, str) for value in values):
            return {"type": "string", "enum": values}
        if all(type(value) is int for value in values):
            return {"type": "integer", "format": "int64", "enum": values}
        raise TypeError(f"{values}: the values of an enum are all texts or all whole numbers")

    def read(self, value: Json, path: str) -> Json:
        if type(value) not in (str, int) or value not in self._members:
            raise _is_not(f"one of {', '.join(show(member) for member in self._members)}", value, path)
        return self._members[value]


class _List(Type):
    def __init__(self, items: Type) -> None:
        self._items = items

    def schema(self, *, written: bool) -> Schema:
        return {"type": "array", "items": self._items.schema(written=written)}

    def read(self, value: Json, path: str) -> Json:
        if type(value) is not list:
            raise _is_not("a list", value, path)
        return [self._items.read(item, f"{path}[{index}]") for index, item in enumerate(value)]


class _Map(Type):
    def __init__(self, values: Type) -> None:
        self._values = values

    def schema(self, *, written: bool) -> Schema:
        if type(self._values) is Type:
            return {"type": "object", PRESERVE: True}
        return {"type": "object", "additionalProperties": self._values.schema(written=written)}

    def read(self, value: Json, path: str) -> Json:
        if type(value) is not dict:
            raise _is_not("an object", value, path)
        return {name: self._values.read(item, f"{path}.{name}") for name, item in value.items()}


class _Optional(Type):
    def __init__(self, inner: Type) -> None:
        self._inner = inner

    def schema(self, *, written: bool) -> Schema:
        schema = self._inner.schema(written=written)
        return schema if schema == {PRESERVE: True} else {**schema, "nullable": True}

    def read(self, value: Json, path: str) -> Json:
        return None if value is None else self._inner.read(value, path)


class _Constrained(Type):
    def __init__(self, inner: Type, constraints: list[Constraint]) -> None:
        self._inner = inner
        self.constraints = constraints

    def schema(self, *, written: bool) -> Schema:
        schema = self._inner.schema(written=written)
        for constraint in self.constraints:
            constraint.apply(schema)
        return schema

    def read(self, value: Json, path: str) -> Json:
        return self._inner.read(value, path)


class _Field(typing.NamedTuple):
    attribute: str
    name: str
    type: Type
    default: typing.Callable[[], Json] | None


class Struct(Type):
    """A dataclass."""

    def __init__(self, cls: type) -> None:
        self._class = cls
        self._is_open = False
        # Filled by `_fill`: a dataclass may contain itself.
        self._fields: list[_Field] = []

    def _fill(self) -> None:
        hints = typing.get_type_hints(self._class, include_extras=True)
        names = dict(json_names(self._class))
        for field in dataclasses.fields(self._class):
            if not field.init:
                continue
            where = f"{self._class.__qualname__}.{field.name}"
            inner = type_of(hints[field.name], where)
            self._fields.append(_Field(field.name, names[field.name], inner, _default(field)))

    def schema(self, *, written: bool) -> Schema:
        """Return the schema of an object; one that contains itself is not checked, as a schema cannot be recursive."""
        if self._is_open:
            return {PRESERVE: True}
        self._is_open = True
        try:
            return self._schema(written=written)
        finally:
            self._is_open = False

    def _schema(self, *, written: bool) -> Schema:
        schema: Schema = {"type": "object"}
        properties: Schema = {}
        rules: list[Constraint] = []
        texts = _docs.of_fields(self._class)
        for field in self._fields:
            one = field.type.schema(written=written)
            if field.attribute in texts:
                one["description"] = texts[field.attribute]
            if field.default and not written:
                value = plain(field.default())
                if value is not None:
                    one["default"] = value
            properties[field.name] = one
            if isinstance(field.type, _Constrained):
                positive = (each for each in field.type.constraints if isinstance(each, Positive))
                rules.extend(each.rule(field.name, one) for each in positive)
        text = _docs.of_class(self._class)
        if text:
            schema["description"] = text
        if properties:
            schema["properties"] = properties
        # `plain` leaves out a field that is None, so a status need not have it.
        required = [
            field.name for field in self._fields if field.default is None and not (written and _allows_none(field.type))
        ]
        if required:
            schema["required"] = required
        for constraint in [*rules, *of_class(self._class)]:
            constraint.apply(schema)
        return schema

    def read(self, value: Json, path: str) -> Json:
        """Read an object.

        Fields that the class does not have are ignored, and null is like a field that is missing: the field has its default,
        or None if its type allows that.
        """
        if type(value) is not dict:
            raise _is_not("an object", value, path)
        arguments = {}
        for attribute, name, inner, default in self._fields:
            item = value.get(name)
            if item is not None:
                arguments[attribute] = inner.read(item, f"{path}.{name}" if path else name)
            elif default is None:
                if not _allows_none(inner):
                    raise Invalid(f"{path}.{name}" if path else name, "is required")
                arguments[attribute] = None
        try:
            return self._class(**arguments)
        except ValueError as error:
            raise Invalid(path, str(error)) from error


def _allows_none(of: Type) -> bool:
    if isinstance(of, _Constrained):
        return _allows_none(of._inner)
    return isinstance(of, _Optional) or type(of) is Type


def _default(field: dataclasses.Field[Json]) -> typing.Callable[[], Json] | None:
    if field.default is not dataclasses.MISSING:
        return lambda: field.default
    return None if field.default_factory is dataclasses.MISSING else field.default_factory


def _is_not(noun: str, value: Json, path: str) -> Invalid:
    return Invalid(path, f"{show(value)} is not {noun}")


_BOOL = _Scalar(bool, {"type": "boolean"}, "true or false")
_INT = _Scalar(int, {"type": "integer", "format": "int64"}, "a whole number")
_FLOAT = _Float(float, {"type": "number"}, "a number")
_STR = _Scalar(str, {"type": "string"}, "a text")
_SIMPLE: dict[object, Type] = {bool: _BOOL, int: _INT, float: _FLOAT, str: _STR, Quantity: _Quantity()}

_structs: dict[type, Struct] = {}


def type_of(hint: object, where: str) -> Type:
    """Return the type that an annotation means. `where` has it, for messages."""
    hint = getattr(hint, "__value__", getattr(hint, "__supertype__", hint))
    if hint in (typing.Any, object):
        return Type()
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _struct(hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _Choice((member.value, member) for member in hint)
    generic = _generic(hint, where)
    if generic is None:
        allowed = (
            "bool, int, float, str, Quantity, list, dict, Literal, Enum, dataclasses, Any, `| None` and `int | str`"
        )
        raise TypeError(f"{where}: {hint!r} has no schema. Use {allowed}")
    return generic


def _struct(cls: type) -> Struct:
    struct = _structs.get(cls)
    if struct is None:
        struct = _structs[cls] = Struct(cls)
        try:
            struct._fill()
        except Exception:
            del _structs[cls]
            raise
    return struct


def _generic(hint: object, where: str) -> Type | None:
    origin = typing.get_origin(hint) or hint
    arguments = typing.get_args(hint)
    if origin is typing.Annotated:
        inner = type_of(arguments[0], where)
        constraints = [extra for extra in arguments[1:] if isinstance(extra, Constraint)]
        return _Constrained(inner, constraints) if constraints else inner
    if origin is typing.Literal:
        return _Choice((value, value) for value in arguments)
    if origin is list:
        return _List(type_of(arguments[0], where) if arguments else Type())
    if origin is dict and (not arguments or arguments[0] is str):
        return _Map(type_of(arguments[1], where) if arguments else Type())
    if origin in (typing.Union, types.UnionType):
        return _union([argument for argument in arguments if argument is not type(None)], arguments, where)
    return None


def _union(inner: list[object], arguments: tuple[object, ...], where: str) -> Type | None:
    if set(inner) == {int, str}:
        one: Type = _IntOrString()
    elif len(inner) == 1:
        one = type_of(inner[0], where)
    else:
        return None
    return one if len(inner) == len(arguments) else _Optional(one)
