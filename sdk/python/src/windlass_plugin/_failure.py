"""Failures of a call. After a failure the host writes and deletes no child."""

from __future__ import annotations

import typing

from ._host import text

if typing.TYPE_CHECKING:
    from datetime import timedelta


class Failure(Exception):
    """The call has no response. Raise one of `Invalid`, `Retry` and `Failed`.

    Any other exception becomes `Failed`: its message is in the parent's condition, and its stack in the host's log.
    """

    message: str
    """The message for users."""

    def __init__(self, message: str) -> None:
        self.message = text(message)
        super().__init__(self.message)


class Invalid(Failure):
    """The parent's spec is invalid.

    Users read the message in the parent's condition (`Stalled=True, reason=InvalidSpec`). The host does not call again
    before the parent changes.

        raise Invalid("spec.name", "must be one line")
    """

    field: str
    """The field, from the root of the parent: `spec.ports[1].name`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field

    def __reduce__(self) -> tuple[type[Invalid], tuple[str, str]]:
        return Invalid, (self.field, self.message.removeprefix(f"{self.field}: "))


class Retry(Failure):
    """The plugin waits for something, which the message names.

    The host calls again after `after` (seconds, or a `timedelta`), at least one second. A negative time is 0.
    """

    after: float
    """Seconds until the next call."""

    def __init__(self, message: str, after: timedelta | float) -> None:
        super().__init__(message)
        self.after = seconds(after)


class Failed(Failure):
    """Any other failure. The host calls again with exponential backoff."""


# In milliseconds, the contract has 64 bits for it.
_LONGEST = 2.0**63 / 1000


def seconds(duration: timedelta | float) -> float:
    """Seconds of a duration. A negative one, as of a time that has passed, is 0."""
    number = float(duration) if isinstance(duration, (int, float)) else duration.total_seconds()
    return min(max(0.0, number), _LONGEST)


def milliseconds(duration: timedelta | float) -> int:
    """Milliseconds, the unit of time in the contract."""
    return round(seconds(duration) * 1000)
