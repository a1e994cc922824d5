"""The functions of the host. `component` binds them, and `testing` records their calls."""

from __future__ import annotations

import typing

Pairs = list[tuple[str, str]]


class ScheduleProblem(Exception):
    """A schedule has no time: what is wrong, as a sentence for the user."""

    def __init__(self, message: str, *, is_of_time_zone: bool) -> None:
        super().__init__(message)
        self.message = message
        self.is_of_time_zone = is_of_time_zone


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

    def schedule_next(self, schedule: str, time_zone: str, after: int) -> int:
        """Return the first time of a schedule after this one, in milliseconds since 1970. Raises `ScheduleProblem`."""

    def schedule_previous(self, schedule: str, time_zone: str, at: int) -> int | None:
        """Return the last time of a schedule until this one. Raises `ScheduleProblem`."""


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

    def schedule_next(self, schedule: str, time_zone: str, after: int) -> int:
        """Fail: a time that is not the host's would be another one in a component."""
        raise RuntimeError(_NO_SCHEDULE)

    def schedule_previous(self, schedule: str, time_zone: str, at: int) -> int | None:
        """Fail, as `schedule_next`."""
        raise RuntimeError(_NO_SCHEDULE)


_NO_SCHEDULE = (
    "the host computes the times of a schedule: call the plugin in a test (`testing.call`), or in a component"
)

_START = 1_767_225_600.0

current: Host = NoHost()


def pairs(fields: typing.Mapping[str, object]) -> Pairs:
    """Return fields as texts."""
    return [(text(name), text(value)) for name, value in fields.items()]


def text(value: object) -> str:
    """Return the text of a value: the bindings trap on values of other types, and on halves of surrogate pairs."""
    plain = value if isinstance(value, str) else str(value)
    return utf8(plain.lower() if isinstance(value, bool) else plain)


def utf8(value: str) -> str:
    """Return a text that UTF-8 can encode: halves of surrogate pairs become question marks."""
    return value.encode(errors="replace").decode()
