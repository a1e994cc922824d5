"""Failures of a call. After a failure the host writes and deletes no child."""

from __future__ import annotations

import typing

from ._host import text

if typing.TYPE_CHECKING:
    from datetime import timedelta


class Failure(Exception):
    """The call has no response. Raise `Invalid` or `Failed`.

    Any other exception becomes `Failed`: its message is in the parent's condition, and its stack in the host's log. To wait
    for something is no failure: `Response.wait`.
    """

    message: str
    """The message for users."""

    def __init__(self, message: str) -> None:
        self.message = text(message)
        super().__init__(self.message)


class Invalid(Failure):
    """The parent's spec is invalid.

    Users read the field and the message in the parent's condition (`Stalled=True, reason=InvalidSpec`). The host does not
    call again before the parent changes.

        raise Invalid("spec.name", "must be one line")
    """

    field: str | None
    """The field, from the root of the parent: `spec.ports[1].name`. None: the parent as a whole."""

    def __init__(self, field: str | None, message: str) -> None:
        super().__init__(message)
        self.field = text(field) if field else None

    def __reduce__(self) -> tuple[type[Invalid], tuple[str | None, str]]:
        return Invalid, (self.field, self.message)

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class Failed(Failure):
    """Any other failure. The host calls again with exponential backoff."""


# In milliseconds, the contract has 64 bits for it.
_LONGEST = 2.0**63 / 1000


def milliseconds(duration: timedelta | float) -> int:
    """Milliseconds, the unit of time in the contract. A negative duration, as of a time that has passed, is 0."""
    seconds = float(duration) if isinstance(duration, (int, float)) else duration.total_seconds()
    return round(min(max(0.0, seconds), _LONGEST) * 1000)
