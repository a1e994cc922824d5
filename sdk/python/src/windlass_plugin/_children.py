"""How the host treats children: the rules of their kinds, and the options of a single one."""

from __future__ import annotations

import dataclasses
import typing

from ._contract import ChildRef
from .kinds import Kind

if typing.TYPE_CHECKING:
    from ._request import Object


@dataclasses.dataclass(frozen=True)
class Apply:
    """Update children by server-side apply in place, as is the default."""


@dataclasses.dataclass(frozen=True)
class Recreate:
    """If the desired state changed, delete the child, wait until it is gone, and recreate it."""


@dataclasses.dataclass(frozen=True)
class OnDelete:
    """Create missing children, and never change existing ones: a user deletes a child to update it."""


@dataclasses.dataclass(frozen=True)
class Rolling:
    """Update one child at a time, in the order of the response.

    The next one follows when the one before is ready, or has these conditions with status True.
    """

    conditions: typing.Sequence[str] = ()
    """Types of the conditions, like `Synced`. Empty: the child is ready (`Object.readiness`)."""
    recreate: bool = False
    """Whether children are recreated, instead of applied in place."""


UpdateStrategy = typing.Union[Apply, Recreate, OnDelete, Rolling]
"""How the host changes an existing child to its desired state."""


@dataclasses.dataclass(frozen=True)
class ChildRule:
    """A kind of children with another update strategy than `Apply`, or one that may be missing in the cluster."""

    kind: Kind
    """The kind."""
    update: UpdateStrategy = Apply()
    """The strategy for children without one of their own."""
    _: dataclasses.KW_ONLY
    optional: bool = False
    """Whether the kind may be missing in the cluster: `Request.has_kind` tells.

    The host leaves out children of a missing kind. Without this, a missing kind stops the plugin.
    """


@dataclasses.dataclass(frozen=True)
class RelatedRule:
    """A kind of related objects that may be missing in the cluster."""

    kind: Kind
    """The kind."""
    _: dataclasses.KW_ONLY
    optional: bool = False
    """Whether the kind may be missing in the cluster: then requirements of it select nothing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChildOptions:
    """What a response says of a single child. `Child` attaches it."""

    stage: int = 0
    """The host creates and changes a child once all children of lower stages are ready."""
    retain: bool = False
    """Whether the child stays when its parent is deleted, like data.

    It gets no ownerReference. A later parent of the same plugin, kind, namespace and name adopts it.
    """
    take_over: bool = False
    """Whether the host takes fields that another field manager owns, as an autoscaler owns `spec.replicas`, once.

    Otherwise such a field is a conflict.
    """
    once: str | None = None
    """The child is created once for each value of this text: a Job that has run must not run again after its TTL.

    If the child exists, a new text deletes it and creates it again. None: the child is created whenever it is missing.
    """
    ready: bool | None = None
    """Whether the child is ready, if the plugin knows better than `Object.readiness`."""
    update: UpdateStrategy | None = None
    """How the host changes this child; None for the strategy of its kind."""
    replaces: ChildRef | Object | None = None
    """A child of the same kind that is no longer desired, and may have what this one needs, such as a node port.

    The host deletes it first if the API server refuses this one because of it.
    """


@dataclasses.dataclass(frozen=True)
class Child(ChildOptions):
    """A child with options: `Child(PersistentVolumeClaim("data", spec=…), retain=True)`."""

    object: typing.Any
    """The child: a dict or a dataclass. None is left out, with its options."""
