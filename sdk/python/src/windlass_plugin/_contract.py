"""The records of the contract, as far as the SDK makes or reads them. `component` turns them into those of the toolchain."""

from __future__ import annotations

import dataclasses
import typing

from .kinds import Kind


class Observed(typing.Protocol):
    """A live object."""

    @property
    def kind(self) -> typing.Any:
        """The object's kind, with `api_version` and `name`."""

    @property
    def namespace(self) -> str | None:
        """None for a cluster-scoped object."""

    @property
    def name(self) -> str:
        """`metadata.name`."""

    @property
    def object(self) -> bytes:
        """The object as the API server sent it."""


@dataclasses.dataclass
class RawRequest:
    """Everything that a response may depend on, as JSON. `Request` is the same, typed."""

    parent: bytes
    """The parent."""
    finalize: bool = False
    """Whether this is a call to clean up."""
    children: typing.Sequence[Observed] = ()
    """The live children."""
    related: typing.Sequence[tuple[str, typing.Sequence[Observed]]] = ()
    """The objects of each requirement, by its id."""
    config: bytes | None = None
    """The Plugin's `spec.config`."""
    extensions: typing.Sequence[tuple[str, bytes]] = ()
    """Additional fields, by name."""


@dataclasses.dataclass
class RawRequirement:
    """Objects that a response depends on."""

    id: str
    """The id, which is unique in one response."""
    kind: Kind
    """The kind of the objects."""
    namespace: str | None
    """The namespace; None for the parent's, and for cluster-scoped objects."""
    by: str
    """`name` or `labels`."""
    value: str
    """The name of one object, or a label selector."""


@dataclasses.dataclass
class RawEvent:
    """An event on the parent."""

    type: str
    """`Normal` or `Warning`."""
    reason: str
    """The reason in CamelCase."""
    message: str
    """The message for users."""


@dataclasses.dataclass
class RawResponse:
    """The desired state of a parent, as JSON."""

    children: list[bytes]
    status: bytes | None
    requeue: int | None
    """Milliseconds."""
    events: list[RawEvent]
    requirements: list[RawRequirement]
    finalized: bool
