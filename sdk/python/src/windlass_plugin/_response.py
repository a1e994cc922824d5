"""The response of a call, typed."""

from __future__ import annotations

import dataclasses
import typing
from datetime import datetime

from ._children import Child, ChildOptions, UpdateStrategy
from ._contract import ChildRef
from ._failure import Failed, milliseconds
from ._host import utf8
from ._json import Json, encode, plain
from ._request import Object, Request
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


Namespaces = typing.Union[typing.Sequence[str], typing.Literal["all"], None]
"""The namespaces of related objects: the parent's (None), these, or all that the Plugin grants.

Objects of a cluster-scoped kind are in none.
"""


@dataclasses.dataclass
class Requirement:
    """Related objects that a response depends on, without owning them; `Request.related` has them.

    The host watches them, and reconciles the parent when they change. Use `named` or `labelled`.
    """

    id: str
    """The id, which is unique in one response."""
    kind: Kind
    """The kind, one of the plugin's `related`."""
    by: typing.Literal["name", "labels", "labelSelector"]
    """How `value` selects."""
    value: typing.Any
    """The name of one object, a label selector in kubectl's syntax, or a LabelSelector in JSON."""
    namespaces: Namespaces = None
    """The namespaces."""
    metadata_only: bool = False
    """Whether the metadata of the objects is enough. Hosts do not support it yet."""

    @classmethod
    def named(
        cls, id: str, kind: Kind, name: str, *, namespaces: Namespaces = None, metadata_only: bool = False
    ) -> Requirement:
        """Require the object of this name, in the parent's namespace, in these, or in `all` that the Plugin grants.

        The plugin chooses the id, which is unique in one response. A cluster-scoped parent must name the namespaces of
        namespaced kinds. With `metadata_only`, a change of anything but the metadata does not cause a call.
        """
        return cls(id, kind, "name", name, namespaces, metadata_only)

    @classmethod
    def labelled(
        cls,
        id: str,
        kind: Kind,
        selector: str | object,
        *,
        namespaces: Namespaces = None,
        metadata_only: bool = False,
    ) -> Requirement:
        """Require the objects that match a label selector; an empty one matches all.

        It is a text in kubectl's syntax, or a `LabelSelector` as a spec has it: a dict or a dataclass. The others are as in
        `named`.
        """
        return cls(
            id, kind, "labels" if isinstance(selector, str) else "labelSelector", selector, namespaces, metadata_only
        )


class RawChild(typing.NamedTuple):
    """A child as JSON, with its options."""

    object: bytes
    options: ChildOptions


@dataclasses.dataclass
class RawResponse:
    """The desired state of a parent, as JSON, with texts and numbers that the bindings take. Times are in milliseconds."""

    children: list[RawChild]
    keep: list[ChildRef] | typing.Literal["all"]
    status: bytes | None
    waiting: str | None
    requeue: int | None
    requeue_at: int | None
    events: list[Event]
    requirements: list[Requirement]
    finalized: bool


class Response(typing.Generic[Status]):
    """The desired state of one parent."""

    children: list[object]
    """All children that should exist. The host deletes live children that are neither here nor in `keep`."""
    keep: list[ChildRef | Object] | typing.Literal["all"]
    """Live children that the host neither changes nor deletes."""
    status: Status | None
    """The plugin's part of the status."""
    conditions: list[Condition]
    """Conditions of the parent, of which `Ready` replaces the host's."""
    waiting: str | None
    """What the plugin waits for, for users."""
    requeue: timedelta | float | None
    """The time until the next reconcile; None for the resync interval."""
    requeue_at: datetime | None
    """The time of the next reconcile; with `requeue`, the earlier of both."""
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
        keep: typing.Iterable[ChildRef | Object] | typing.Literal["all"] = (),
        status: Status | None = None,
        conditions: typing.Iterable[Condition] = (),
        waiting: str | None = None,
        requeue: timedelta | float | None = None,
        requeue_at: datetime | None = None,
        events: typing.Iterable[Event] = (),
        requirements: typing.Iterable[Requirement] = (),
        finalized: bool = False,
    ) -> None:
        """Make a response.

        `children` are dicts or dataclasses with `apiVersion`, `kind` and `metadata.name`, or a `Child`, which has options. None
        is left out, so a function can make an optional child; fields that are None are left out too.

        `keep` are live children that stay as they are although the response does not have them, or `all`. Not together with
        `finalized`.

        `status` and `conditions` are the whole status of the plugin. Without both, the status stays as it is; conditions
        alone remove its other fields.

        `waiting` says what the plugin waits for: the parent gets the reason `Waiting`, and the rest of the response is carried
        out.

        `requeue` is in seconds or a `timedelta`, at least one second (a negative time is 0), and `requeue_at` a time; without
        both it is the resync interval. Changes of the parent, its children and its related objects reconcile earlier.

        `requirements` are all of them in every response, also those that the host has served.
        """
        self.children = list(children)
        self.keep = keep if keep == "all" else list(keep)
        self.status = status
        self.conditions = list(conditions)
        self.waiting = waiting
        self.requeue = requeue
        self.requeue_at = requeue_at
        self.events = list(events)
        self.requirements = list(requirements)
        self.finalized = finalized

    @classmethod
    def wait(cls, message: str, after: timedelta | float) -> Response[typing.Any]:
        """Make a response that waits for something, which the message names to users, and changes nothing.

        All live children and the status stay as they are, in a clean-up too. The host calls again after `after` (seconds, or a
        `timedelta`), or when something changes.
        """
        return cls(keep="all", waiting=message, requeue=after)

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
        """Return the response of the contract. Raises `Failed` if something is not JSON, or not what it must be."""
        children = [_child(child, f"children[{index}]") for index, child in enumerate(self.children)]
        return RawResponse(
            children=[child for child in children if child is not None],
            keep="all"
            if self.keep == "all"
            else [_ref(each, f"keep[{index}]") for index, each in enumerate(self.keep)],
            status=self._status(),
            waiting=None if self.waiting is None else _text(self.waiting, "waiting"),
            requeue=None if self.requeue is None else milliseconds(self.requeue),
            requeue_at=None if self.requeue_at is None else _time(self.requeue_at, "requeue_at"),
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


_NO_OPTIONS = ChildOptions()


def _child(child: object, path: str) -> RawChild | None:
    if not isinstance(child, Child):
        return None if child is None else RawChild(_encoded(child, "a child"), _NO_OPTIONS)
    if child.object is None:
        return None
    if type(child.stage) is not int or not 0 <= child.stage < 2**32:
        raise Failed(f"{path}.stage is {child.stage!r}, not a whole number from 0 to 4294967295")
    if child.update is not None and not isinstance(child.update, typing.get_args(UpdateStrategy)):
        raise Failed(f"{path}.update is {child.update!r}, not a strategy")
    options = ChildOptions(
        stage=child.stage,
        retain=bool(child.retain),
        take_over=bool(child.take_over),
        once=None if child.once is None else _text(child.once, f"{path}.once"),
        ready=None if child.ready is None else bool(child.ready),
        update=child.update,
        replaces=None if child.replaces is None else _ref(child.replaces, f"{path}.replaces"),
    )
    return RawChild(_encoded(child.object, "a child"), options)


def _ref(child: ChildRef | Object, path: str) -> ChildRef:
    if not isinstance(child, (ChildRef, Object)):
        raise Failed(f"{path} is {type(child).__name__}, neither a ChildRef nor a live object")
    namespace = None if child.namespace is None else _text(child.namespace, f"{path}.namespace")
    return ChildRef(_kind(child.kind, f"{path}.kind"), _text(child.name, f"{path}.name"), namespace)


def _event(event: Event, path: str) -> Event:
    return Event(
        _text(event.reason, f"{path}.reason"),
        _text(event.message, f"{path}.message"),
        is_warning=bool(event.is_warning),
    )


def _requirement(requirement: Requirement, path: str) -> Requirement:
    by, value, namespaces = requirement.by, requirement.value, requirement.namespaces
    if by == "labelSelector":
        value = _plain(value, f"{path}.labelSelector")
        if not isinstance(value, dict):
            raise Failed(f"{path}.labelSelector is {type(value).__name__}, neither a text nor a LabelSelector")
    if namespaces is not None and namespaces != "all":
        if isinstance(namespaces, str):
            raise Failed(f'{path}.namespaces is a text, neither a list nor "all"')
        namespaces = [_text(name, f"{path}.namespaces[{index}]") for index, name in enumerate(namespaces)]
    return Requirement(
        _text(requirement.id, f"{path}.id"),
        _kind(requirement.kind, f"{path}.kind"),
        by,
        value if by == "labelSelector" else _text(value, f"{path}.{by}"),
        namespaces,
        bool(requirement.metadata_only),
    )


def _kind(value: object, path: str) -> Kind:
    if not isinstance(value, Kind):
        raise Failed(f"{path} is {type(value).__name__}, not a kind")
    return value


def _text(value: object, path: str) -> str:
    """Check a text: the bindings trap on values of other types."""
    if not isinstance(value, str):
        raise Failed(f"{path} is {type(value).__name__}, not a text")
    return utf8(value)


def _time(value: object, path: str) -> int:
    """Return the milliseconds since 1970."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise Failed(f"{path} is {value!r}, not a datetime with a time zone")
    return milliseconds(value.timestamp())


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
