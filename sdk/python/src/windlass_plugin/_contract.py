"""The records of the contract, as far as the SDK makes or reads them. `component` turns them into those of the toolchain."""

# Annotations are evaluated: the reference cannot find out what a text means in the constructor of a named tuple.

import dataclasses
import typing

from .kinds import Kind

FinalizeCause = typing.Literal["deleted", "left-selector", "left-namespaces"]
"""Why a parent is finalized.

It is being deleted, or it does not match the plugin's selector any more, or its namespace not the Plugin's namespace selector.
"""


class Readiness(typing.NamedTuple):
    """Whether an object does what its spec says, by the rules of kstatus."""

    state: typing.Literal["ready", "progressing", "failed", "unknown"]
    """Whether it is ready, will be, or will not without a change.

    Unknown: its kind is not built in, and it has none of the conditions `Ready`, `Reconciling` and `Stalled`.
    """
    message: str = ""
    """What is missing, or why it has failed; empty in the other states."""


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

    @property
    def readiness(self) -> Readiness:
        """Whether the object is ready."""


class ChildRef(typing.NamedTuple):
    """Which child. The version of its kind may be any that is served."""

    kind: Kind
    """The kind."""
    name: str
    """The name."""
    namespace: str | None = None
    """The namespace; None for the parent's, and for cluster-scoped kinds."""


class LeftOut(typing.NamedTuple):
    """A child that is not in a request, because the request would be too large with it."""

    child: ChildRef
    """The child."""
    size: int
    """The bytes of its JSON."""


@dataclasses.dataclass
class RawRequest:
    """Everything that a response may depend on, as JSON. `Request` is the same, typed."""

    parent: bytes
    """The parent."""
    cause: FinalizeCause | None = None
    """In a call to clean up: why."""
    is_namespace_terminating: bool = False
    """In a call to clean up: whether the parent's namespace is being deleted, and takes no child any more."""
    children: typing.Sequence[Observed] = ()
    """The live children."""
    left_out: typing.Sequence[LeftOut] = ()
    """The children that would make the request too large."""
    related: typing.Sequence[tuple[str, typing.Sequence[Observed]]] = ()
    """The objects of each requirement, by its id."""
    kinds: typing.Sequence[Kind] = ()
    """The optional kinds that exist and are granted."""
    now: int | None = None
    """The time in milliseconds since 1970, if the plugin has `clock`."""
    config: bytes | None = None
    """The Plugin's `spec.config`."""
    closed_namespaces: typing.Sequence[str] = ()
    """The namespaces in which the plugin may have no children."""
