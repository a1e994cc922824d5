"""Admission of parents: a plugin may also validate and default them before they are stored.

**The host does not serve admission yet**: it registers no webhook and never calls `review`, which only
`testing.review` calls. In a cluster the CRD's schema and its CEL rules validate and default, and `reconcile` checks the
spec itself.
"""

from __future__ import annotations

import dataclasses
import functools
import typing

from ._failure import Failure
from ._json import Json, decode, plain
from ._request import metadata_of
from ._types import Type, type_of

Spec = typing.TypeVar("Spec")
T = typing.TypeVar("T")


@dataclasses.dataclass
class Allow:
    """The write is allowed, with warnings for the user."""

    warnings: list[str] = dataclasses.field(default_factory=list)
    """The warnings."""


@dataclasses.dataclass
class Replace:
    """The write is allowed, and this object is stored instead."""

    object: dict[str, Json]
    """The object with its defaults."""


@dataclasses.dataclass
class Deny:
    """The write is denied."""

    message: str
    """The message for the user."""


AdmissionResponse = typing.Union[Allow, Replace, Deny]
"""The response to a write."""


class AdmissionRequest(typing.Generic[Spec]):
    """One write of a parent, before it is stored."""

    operation: typing.Literal["create", "update", "delete"]
    """The operation."""
    object: dict[str, Json] | None
    """The object after the write; None for a deletion."""
    old_object: dict[str, Json] | None
    """The object before the write; None for a new one."""
    username: str
    """The name of the user who writes, as the API server authenticated it."""

    def __init__(
        self,
        operation: typing.Literal["create", "update", "delete"],
        object: bytes | None,
        old_object: bytes | None,
        username: str,
        config: bytes | None,
        spec: Type,
    ) -> None:
        self.operation = operation
        self.object = None if object is None else decode(object)
        self.old_object = None if old_object is None else decode(old_object)
        self.username = username
        self._config = config
        self._spec = spec

    @functools.cached_property
    def spec(self) -> Spec:
        """The spec after the write. Raises `Invalid`, naming the field, which denies the write."""
        value: Spec = self._spec.read((self.object or {}).get("spec") or {}, "spec")
        return value

    @property
    def is_being_deleted(self) -> bool:
        """Whether the object is being deleted.

        Its finalizers must be removable then, so even an invalid object must be allowed.
        """
        return self.operation == "delete" or metadata_of(self.object).deletion_timestamp is not None

    def config(self, cls: type[T]) -> T:
        """Read the Plugin's `spec.config`; without one, `{}` is read. Raises `Invalid`, which denies the write."""
        config = {} if self._config is None else decode(self._config)
        value: T = type_of(cls, repr(cls)).read(config, "the Plugin's spec.config")
        return value

    def with_defaults(self) -> AdmissionResponse:
        """Allow the object with the defaults of its spec. Fields that the object has stay as they are."""
        whole = plain(self.spec)
        given = (self.object or {}).get("spec")
        if not isinstance(given, dict):
            return Allow()
        filled = _filled(given, whole)
        return Allow() if filled == given else Replace({**(self.object or {}), "spec": filled})


def _filled(given: Json, whole: Json) -> Json:
    """Add the fields that are missing."""
    if not isinstance(given, dict) or not isinstance(whole, dict):
        return given
    missing = {name: value for name, value in whole.items() if name not in given}
    return {**{name: _filled(value, whole.get(name)) for name, value in given.items()}, **missing}


class Admission(typing.Generic[Spec]):
    """A second base of a plugin that also reviews writes.

        class Greeting(Plugin[GreetingSpec, GreetingStatus], Admission[GreetingSpec]):
            def review(self, request: AdmissionRequest[GreetingSpec]) -> AdmissionResponse:
                return Allow() if request.is_being_deleted else request.with_defaults()

    The build exports it if `[tool.windlass]` in `pyproject.toml` has `admission = true`.
    """

    def review(self, request: AdmissionRequest[Spec]) -> AdmissionResponse:
        """Review one write. The response depends on the request alone. A failure that is raised denies the write."""
        raise NotImplementedError


def review(plugin: Admission[Spec], request: AdmissionRequest[Spec]) -> AdmissionResponse:
    """Call the admission of a plugin."""
    try:
        return plugin.review(request)
    except Failure as failure:
        return Deny(failure.message)


__all__ = ["Admission", "AdmissionRequest", "Allow", "Deny", "Replace", "AdmissionResponse"]
