"""Admission of parents: a plugin may also validate and default them before they are stored.

**The host does not serve admission yet**: it registers no webhook and never calls `review`, which only
`testing.review` calls. In a cluster the CRD's schema and its CEL rules validate and default.
"""

from __future__ import annotations

import dataclasses
import functools
import typing

from ._failure import Failure, Invalid
from ._json import Json, plain
from ._request import config_of, metadata_of
from ._types import Type
from .kinds import Kind

Spec = typing.TypeVar("Spec")
T = typing.TypeVar("T")


@dataclasses.dataclass
class Allow:
    """The write is allowed, with warnings for the user."""

    warnings: list[str] = dataclasses.field(default_factory=list)
    """The warnings."""


@dataclasses.dataclass
class Replace:
    """The write is allowed, and this object is stored instead. Only its spec, labels and annotations may differ."""

    object: dict[str, Json]
    """The object with its defaults."""
    warnings: list[str] = dataclasses.field(default_factory=list)
    """Warnings for the user."""


@dataclasses.dataclass
class Deny:
    """The write is denied."""

    message: str
    """The message for the user."""
    field: str | None = None
    """The field that is invalid: `spec.ports[1].name`. None: the object as a whole."""
    warnings: list[str] = dataclasses.field(default_factory=list)
    """Warnings for the user."""


AdmissionResponse = typing.Union[Allow, Replace, Deny]
"""The response to a write."""


@dataclasses.dataclass
class AdmissionRequest(typing.Generic[Spec]):
    """One write of a parent, before it is stored."""

    operation: typing.Literal["create", "update", "delete"]
    """The operation."""
    kind: Kind
    """The kind of `object` and `old_object`."""
    subresource: str | None
    """The subresource that is written: `scale`, `status`. None: the object itself."""
    namespace: str | None
    """The namespace; None for a cluster-scoped object."""
    namespace_labels: dict[str, str]
    """The labels of the namespace."""
    name: str | None
    """The name; None if the API server generates it after admission."""
    object: dict[str, Json] | None
    """The object after the write; None for a deletion."""
    old_object: dict[str, Json] | None
    """The object before the write; None for a new one."""
    is_dry_run: bool
    """Whether nothing is stored, whatever the response is."""
    username: str
    """The name of the user who writes, as the API server authenticated it."""
    groups: list[str]
    """The user's groups."""
    _config: bytes | None
    _spec: Type

    @functools.cached_property
    def spec(self) -> Spec:
        """The spec after the write, which is not checked against the schema yet.

        Raises `Invalid` for a value of another type and for a missing field, naming the field, which denies the write.
        """
        value: Spec = self._spec.read((self.object or {}).get("spec") or {}, "spec")
        return value

    @property
    def is_being_deleted(self) -> bool:
        """Whether the object is being deleted.

        Its finalizers must be removable then, so even an invalid object must be allowed.
        """
        return self.operation == "delete" or metadata_of(self.object).deletion_timestamp is not None

    def config(self, cls: type[T]) -> T:
        """Read the Plugin's `spec.config`; without one, `{}` is read. Raises `Failed`, which denies the write."""
        return config_of(self._config, cls)

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
    except Invalid as failure:
        return Deny(failure.message, failure.field)
    except Failure as failure:
        return Deny(failure.message)


__all__ = ["Admission", "AdmissionRequest", "Allow", "Deny", "Replace", "AdmissionResponse"]
