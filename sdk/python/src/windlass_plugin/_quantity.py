"""Quantities as Kubernetes writes them: `100m` CPUs, `1.5Gi` of memory."""

from __future__ import annotations

import functools
import re

_ONE = 10**9
_MOST = (2**63 - 1) * _ONE
_TENS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?")


@functools.total_ordering
class Quantity:
    """A quantity (`resource.Quantity` of apimachinery): a number with an optional suffix, like `100m`, `2` or `128Mi`.

    It is written as it was read, so that a child has the notation of the user. Quantities are compared by value:
    `Quantity("1000m") == Quantity("1")`.
    """

    __slots__ = ("_nanos", "_text")

    _text: str
    _nanos: int

    def __init__(self, text: str) -> None:
        """Read a quantity. Raises `ValueError` if the text is not one."""
        nanos = _read(text)
        if nanos is None:
            raise ValueError(f'"{text}" is not a quantity like 100m, 2 or 128Mi')
        self._text = text
        self._nanos = nanos

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({self._text!r})"

    def __float__(self) -> float:
        """Return the value in units: CPUs, bytes."""
        return self._nanos / _ONE

    def __bool__(self) -> bool:
        return self._nanos != 0

    def __eq__(self, other: object) -> bool:
        return self._nanos == other._nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self._nanos < other._nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._nanos)

    @property
    def is_positive(self) -> bool:
        """Whether the value is greater than zero."""
        return self._nanos > 0


def _read(text: str) -> int | None:
    """Return the value in billionths, the precision of Kubernetes."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    sign, whole, fraction, suffix = match.groups(default="")
    if not whole and not fraction:
        return None
    tens = 9 - len(fraction)
    factor: int = 1
    if suffix in _BINARY:
        factor = 1024 ** _BINARY[suffix]
    elif suffix in _TENS:
        tens += _TENS[suffix]
    else:
        tens += int(suffix[1:])
    value: int = int(whole + fraction) * factor
    if tens >= 0:
        value *= 10**tens
    else:
        # Kubernetes rounds away from zero too.
        value = -(-value // 10**-tens)
    value = min(value, _MOST)
    return -value if sign == "-" else value
