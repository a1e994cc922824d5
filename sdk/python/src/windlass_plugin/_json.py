"""JSON as the contract needs it: numbers stay what they were, fields that are None are left out."""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import json
import typing

from ._quantity import Quantity

Json = typing.Any


class Number(float):
    """A decimal number with more digits than a float has: it is written as it was read."""

    text: str

    def __new__(cls, text: str) -> Number:
        """Keep the text beside the value."""
        number = super().__new__(cls, text)
        number.text = text
        return number


class Verbatim:
    """JSON that is written as it is, such as a number that the encoder of the standard library would round."""

    def __init__(self, text: str) -> None:
        self.text = text


def _decimal(text: str) -> float:
    number = float(text)
    return number if repr(number) == text else Number(text)


def decode(document: bytes) -> Json:
    """Parse a document. Whole numbers have any size, and decimal ones are written as they were read."""
    return _DECODER.decode(document.decode())


def encode(value: object) -> bytes:
    """Write a value, which may contain dataclasses, enums and quantities."""
    return _text(plain(value)).encode()


def checksum(*values: object) -> str:
    """Return a short text that changes with the values, which may contain dataclasses, enums and quantities.

    As an annotation of a Pod template, it replaces the Pods when a ConfigMap or a Secret of the plugin changes, which they read
    when they start. The text has 16 characters, and is the same in all languages. Raises `TypeError` or `ValueError` if a
    value is not JSON.
    """
    return hashlib.sha256(_text(plain(values), is_sorted=True).encode()).hexdigest()[:16]


class _HasVerbatim(Exception):
    """The encoder has met what it cannot write."""


def _refuse(value: object) -> typing.NoReturn:
    assert isinstance(value, Verbatim)
    raise _HasVerbatim


# Made once: a call may parse and write a thousand objects.
_DECODER = json.JSONDecoder(parse_float=_decimal)
_FORMAT: dict[str, typing.Any] = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}
_ENCODERS = {sorts: json.JSONEncoder(default=_refuse, sort_keys=sorts, **_FORMAT) for sorts in (False, True)}


def _text(value: Json, *, is_sorted: bool = False) -> str:
    try:
        return _ENCODERS[is_sorted].encode(value)
    except _HasVerbatim:
        pass
    mark = "\0verbatim"
    while True:
        # The encoder writes the mark for each of them, in the order of the text.
        found: list[str] = []
        text = json.dumps(value, default=functools.partial(_marked, mark, found), sort_keys=is_sorted, **_FORMAT)
        parts = text.split(json.dumps(mark))
        if len(parts) == len(found) + 1:
            return "".join(part + verbatim for part, verbatim in zip(parts, [*found, ""], strict=True))
        # A text of the document is the mark.
        mark += "!"


def _marked(mark: str, found: list[str], verbatim: Verbatim) -> str:
    found.append(verbatim.text)
    return mark


def plain(value: Json) -> Json:
    """Turn dataclasses into dicts, enums and quantities into texts, and leave out fields that are None.

    The API server drops such fields too, so sending them would make an object differ from its live state in every
    reconcile.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        return {
            name if type(name) is str else _key(name): plain(item) for name, item in value.items() if item is not None
        }
    if kind is list or kind is tuple:
        return [plain(item) for item in value]
    if kind is Number:
        return Verbatim(value.text)
    if kind is Quantity:
        return str(value)
    if dataclasses.is_dataclass(kind):
        fields = ((name, getattr(value, attribute)) for attribute, name in json_names(kind))
        return {name: plain(item) for name, item in fields if item is not None}
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, typing.Mapping):
        return plain(dict(value))
    if isinstance(value, (str, int)):
        return value
    raise TypeError(f"{kind.__name__} is not JSON")


_SCALARS = frozenset((str, int, bool, float, type(None), Verbatim))


def _key(name: object) -> str:
    if isinstance(name, enum.Enum):
        name = name.value
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is not the name of a field")
    return name


class Name:
    """The name of a field in JSON, where it is not the camelCase of the attribute: `Annotated[str, Name("clusterIP")]`."""

    name: str
    """The name in JSON."""

    def __init__(self, name: str) -> None:
        self.name = name


_names: dict[type, tuple[tuple[str, str], ...]] = {}


def json_names(cls: type) -> tuple[tuple[str, str], ...]:
    """Attributes of a dataclass, with their names in JSON."""
    names = _names.get(cls)
    if names is None:
        hints = typing.get_type_hints(cls, include_extras=True)
        fields = dataclasses.fields(cls)
        names = tuple((field.name, _json_name(field.name, hints[field.name])) for field in fields)
        _names[cls] = names
    return names


def _json_name(attribute: str, hint: object) -> str:
    if typing.get_origin(hint) is typing.Annotated:
        for extra in typing.get_args(hint)[1:]:
            if isinstance(extra, Name):
                return extra.name
    first, *others = attribute.strip("_").split("_")
    return first + "".join(other[:1].upper() + other[1:] for other in others)


def show(value: Json) -> str:
    """Write a value for a message."""
    text = _text(plain(value))
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


_SHOWN = 100
