"""The functions of the host. `component` binds them, and `testing` records their calls."""

from __future__ import annotations

import typing

Pairs = list[tuple[str, str]]


class Host(typing.Protocol):
    """The functions of the host, its clock and its random numbers."""

    def log(self, level: str, message: str, fields: Pairs) -> None:
        """Write a line into the log."""

    def span_attribute(self, key: str, value: str) -> None:
        """Set an attribute of the call's span."""

    def span_event(self, name: str, attributes: Pairs) -> None:
        """Add an event to the call's span."""

    def measure(self, metric: str, value: float, labels: Pairs) -> None:
        """Add to a metric."""

    def now(self) -> float:
        """Return the wall clock, in seconds since 1970."""

    def random_bytes(self, count: int) -> bytes:
        """Return random bytes."""


class NoHost:
    """There is no host outside of a component and of `testing.call`."""

    def log(self, level: str, message: str, fields: Pairs) -> None:
        """Drop the line."""

    def span_attribute(self, key: str, value: str) -> None:
        """Drop the attribute."""

    def span_event(self, name: str, attributes: Pairs) -> None:
        """Drop the event."""

    def measure(self, metric: str, value: float, labels: Pairs) -> None:
        """Drop the value."""

    def now(self) -> float:
        """Return the first second of 2026: the clock stands still."""
        return _START

    def random_bytes(self, count: int) -> bytes:
        """Return the same bytes in every call."""
        return bytes(index * 151 % 256 for index in range(count))


_START = 1_767_225_600.0

current: Host = NoHost()


def pairs(fields: typing.Mapping[str, object]) -> Pairs:
    """Return fields as texts."""
    return [(name, _text(value)) for name, value in fields.items()]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
