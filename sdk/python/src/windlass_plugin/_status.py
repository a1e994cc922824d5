"""The parent's status: conditions, and a phase that summarizes it."""

from __future__ import annotations

import dataclasses
import enum
import typing

from ._json import Json


@dataclasses.dataclass
class Condition:
    """One entry of `status.conditions`.

    In a response, a condition of type `Ready` replaces the host's when all children are applied. The host sets
    `lastTransitionTime` and `observedGeneration`.
    """

    type: str
    """The type, in CamelCase: `Ready`."""
    status: bool | str
    """`True`, `False` or `Unknown`; a bool becomes one of the first two."""
    reason: str
    """Why the condition has this status, in CamelCase."""
    message: str
    """Details for users."""

    def __post_init__(self) -> None:
        self.status = str(self.status)

    @property
    def is_true(self) -> bool:
        """Whether the status is `True`."""
        return self.status == "True"


def conditions_of(holder: Json) -> typing.Iterator[Condition]:
    """Yield the conditions of a parsed object; what is no condition is left out."""
    status = holder.get("status") if isinstance(holder, dict) else None
    conditions = status.get("conditions") if isinstance(status, dict) else None
    for one in conditions if isinstance(conditions, list) else ():
        if isinstance(one, dict):
            type_, status, reason, message = (
                str(one.get(name, "")) for name in ("type", "status", "reason", "message")
            )
            yield Condition(type_, status, reason, message)


def condition_of(holder: Json, type: str) -> Condition | None:
    """Return the condition of a type."""
    return next((condition for condition in conditions_of(holder) if condition.type == type), None)


class Phase(str, enum.Enum):
    """A phase for parents that need no others. A plugin with more has its own enum, with these two properties."""

    PENDING = "Pending"
    """The desired state is not reached yet."""
    RUNNING = "Running"
    """The desired state is reached."""
    FAILED = "Failed"
    """The desired state will not be reached without a change."""

    @property
    def is_ready(self) -> bool:
        """Whether the condition `Ready` is True."""
        return self is Phase.RUNNING

    @property
    def is_failed(self) -> bool:
        """Whether the parent does not become ready without a change."""
        return self is Phase.FAILED


class StatusPhase(typing.Protocol):
    """An enum of phases: each has a name in CamelCase, and is ready, failed or neither."""

    @property
    def value(self) -> typing.Any:
        """The name: `Running`. It is the reason of the condition `Ready` and of events."""

    @property
    def is_ready(self) -> bool:
        """Whether the condition `Ready` is True."""

    @property
    def is_failed(self) -> bool:
        """Whether the parent does not become ready without a change: its event is a warning."""


class PhaseStatus(typing.Protocol):
    """A status with a phase."""

    @property
    def phase(self) -> StatusPhase:
        """The phase."""
