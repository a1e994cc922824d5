"""The response of a call, typed."""

from __future__ import annotations

import dataclasses
import typing

from ._contract import RawEvent, RawRequirement, RawResponse
from ._failure import Failed, milliseconds
from ._host import utf8
from ._json import Json, encode, plain
from ._request import Request
from ._status import Condition, PhaseStatus
from .clock import steady
from .kinds import Kind

if typing.TYPE_CHECKING:
    from datetime import timedelta

Status = typing.TypeVar("Status")
PhaseStatusT = typing.TypeVar("PhaseStatusT", bound=PhaseStatus)

REQUEUE_FAILED = 30
"""Seconds until the next reconcile of a parent in a failed phase: its cause may be something that the host does not watch."""


@dataclasses.dataclass
class Event:
    """A Kubernetes event on the parent, about a change that users want to know. An event in every call is noise."""

    reason: str
    """The reason in CamelCase: `ScaledUp`."""
    message: str
    """The message for users."""
    is_warning: bool = False
    """Whether the change may need action."""

    @classmethod
    def normal(cls, reason: str, message: str) -> Event:
        """Make an event about an expected change."""
        return cls(reason, message)

    @classmethod
    def warning(cls, reason: str, message: str) -> Event:
        """Make an event about a change that may need action."""
        return cls(reason, message, is_warning=True)


@dataclasses.dataclass
class Requirement:
    """Related objects that a response depends on, without owning them; `Request.related` has them.

    The host watches them, and reconciles the parent when they change. Use `named` or `labelled`.
    """

    id: str
    """The id, which is unique in one response."""
    kind: Kind
    """The kind, one of the plugin's `related`."""
    by: typing.Literal["name", "labels"]
    """Whether `value` is a name or a label selector."""
    value: str
    """The name of one object, or a label selector in kubectl's syntax."""
    namespace: str | None = None
    """The namespace; None for the parent's, and for cluster-scoped objects."""

    @classmethod
    def named(cls, id: str, kind: Kind, name: str, *, namespace: str | None = None) -> Requirement:
        """Require the object of this name, in a namespace or in the parent's.

        The plugin chooses the id, which is unique in one response. A cluster-scoped parent must name the namespace of
        namespaced kinds.
        """
        return cls(id, kind, "name", name, namespace)

    @classmethod
    def labelled(cls, id: str, kind: Kind, selector: str, *, namespace: str | None = None) -> Requirement:
        """Require the objects that match a label selector in kubectl's syntax; an empty one matches all.

        The id and the namespace are as in `named`.
        """
        return cls(id, kind, "labels", selector, namespace)


class Response(typing.Generic[Status]):
    """The desired state for one parent."""

    children: list[object]
    """All desired children. A live child that is missing here is deleted."""
    status: Status | None
    """The plugin's part of the parent's status, with all of its fields.

    None without conditions leaves the status as it is. Conditions alone remove its other fields.
    """
    conditions: list[Condition]
    """Conditions of the parent's status, all of them: they are returned together with `status`."""
    requeue: timedelta | float | None
    """Time until the next reconcile, in seconds or as a `timedelta`; None for the resync interval."""
    events: list[Event]
    """Events on the parent."""
    requirements: list[Requirement]
    """Related objects that the response depends on."""
    finalized: bool
    """Whether all is cleaned up, and the host may remove the finalizer."""

    def __init__(
        self,
        *,
        children: typing.Iterable[object] = (),
        status: Status | None = None,
        conditions: typing.Iterable[Condition] = (),
        requeue: timedelta | float | None = None,
        events: typing.Iterable[Event] = (),
        requirements: typing.Iterable[Requirement] = (),
        finalized: bool = False,
    ) -> None:
        """Make a response.

        `children` are dicts or dataclasses with `apiVersion`, `kind` and `metadata.name`. None is left out, so a function
        can make an optional child; fields that are None are left out too. `retain` and `force_ownership` are options of a
        child.

        `status` and `conditions` are the whole status of the plugin. Without both, the status stays as it is; conditions
        alone remove its other fields.

        `requeue` is in seconds or a `timedelta`, at least one second (a negative time is 0); by default it is the resync
        interval. Changes of the parent, its children and its related objects reconcile earlier.

        `requirements` are all of them in every response, also those that the host has served.
        """
        self.children = list(children)
        self.status = status
        self.conditions = list(conditions)
        self.requeue = requeue
        self.events = list(events)
        self.requirements = list(requirements)
        self.finalized = finalized

    def with_phase(
        self: Response[PhaseStatusT],
        request: Request[typing.Any, PhaseStatusT],
        message: str,
        *,
        time_field: str | None = None,
    ) -> Response[PhaseStatusT]:
        """Add everything that follows from the phase of the status, which is `status.phase`.

        - The condition `Ready`, with the phase as its reason and this message.
        - One event when the phase changes, a warning if the new phase is failed; none for the first status.
        - The time of the last change in `time_field`, an attribute of the status that moves only when another does.
        - A requeue after 30 seconds in a failed phase.
        """
        if self.status is None:
            raise TypeError("a response without a status has no phase")
        before = request.status
        phase = self.status.phase
        reason = str(phase.value)
        if before is not None and before.phase != phase:
            self.events.append(Event(reason, message, phase.is_failed))
        if phase.is_failed:
            self.requeue = REQUEUE_FAILED
        if time_field is not None:
            self.status = steady(before, self.status, time_field)
        self.conditions.append(Condition("Ready", phase.is_ready, reason, message))
        return self

    def raw(self) -> RawResponse:
        """Return the response of the contract. Raises `Failed` if something is not JSON, or not the text that it must be."""
        return RawResponse(
            children=[_encoded(child, "a child") for child in self.children if child is not None],
            status=self._status(),
            requeue=None if self.requeue is None else milliseconds(self.requeue),
            events=[_event(event, f"events[{index}]") for index, event in enumerate(self.events)],
            requirements=[_requirement(each, f"requirements[{index}]") for index, each in enumerate(self.requirements)],
            finalized=bool(self.finalized),
        )

    def _status(self) -> bytes | None:
        if self.status is None and not self.conditions:
            return None
        status = {} if self.status is None else _plain(self.status, "the status")
        if not isinstance(status, dict):
            raise Failed("the status is not a JSON object")
        if self.conditions:
            status["conditions"] = _plain(self.conditions, "a condition")
        return _encoded(status, "the status")


def _event(event: Event, path: str) -> RawEvent:
    return RawEvent(
        "Warning" if event.is_warning else "Normal",
        _text(event.reason, f"{path}.reason"),
        _text(event.message, f"{path}.message"),
    )


def _requirement(requirement: Requirement, path: str) -> RawRequirement:
    if not isinstance(requirement.kind, Kind):
        raise Failed(f"{path}.kind is {type(requirement.kind).__name__}, not a kind")
    return RawRequirement(
        _text(requirement.id, f"{path}.id"),
        requirement.kind,
        None if requirement.namespace is None else _text(requirement.namespace, f"{path}.namespace"),
        requirement.by,
        _text(requirement.value, f"{path}.{requirement.by}"),
    )


def _text(value: object, path: str) -> str:
    """Check a text: the bindings trap on values of other types."""
    if not isinstance(value, str):
        raise Failed(f"{path} is {type(value).__name__}, not a text")
    return utf8(value)


def retain(child: object) -> dict[str, Json]:
    """Keep a child when its parent is deleted, like data.

    The child gets no ownerReference. A later parent of the same plugin, kind, namespace and name adopts it.
    """
    return _annotated(child, "windlass.dev/retain")


def force_ownership(child: object) -> dict[str, Json]:
    """Force ownership of the child's fields that another field manager owns, as an autoscaler owns `spec.replicas`, once.

    Otherwise such a field is a conflict.
    """
    return _annotated(child, "windlass.dev/take-over")


def _annotated(child: object, annotation: str) -> dict[str, Json]:
    fields: dict[str, Json] = _plain(child, "a child")
    metadata = dict(fields.get("metadata") or {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), annotation: "true"}
    return {**fields, "metadata": metadata}


def _plain(value: object, what: str) -> Json:
    try:
        return plain(value)
    except (TypeError, ValueError) as error:
        raise Failed(f"{what} is not JSON: {error}") from error


def _encoded(value: object, what: str) -> bytes:
    try:
        return encode(value)
    except (TypeError, ValueError) as error:
        raise Failed(f"{what} is not JSON: {error}") from error
