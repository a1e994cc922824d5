"""The request of a call, typed."""

from __future__ import annotations

import binascii
import dataclasses
import functools
import typing
from datetime import datetime, timezone

from . import _host
from ._contract import FinalizeCause, LeftOut, Observed, RawRequest, Readiness
from ._failure import Failed, Invalid
from ._json import Json, decode
from ._status import Condition, condition_of
from ._types import Type, type_of
from .kinds import Kind, Secret

Spec = typing.TypeVar("Spec")
Status = typing.TypeVar("Status")
T = typing.TypeVar("T")


@dataclasses.dataclass
class Metadata:
    """The fields of an object's `metadata` that plugins need."""

    name: str = ""
    """The name."""
    namespace: str | None = None
    """The namespace; None for a cluster-scoped object."""
    uid: str = ""
    """The unique id: a later object of the same name has another one."""
    generation: int = 0
    """The generation, which grows with each change of the spec."""
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    """The labels."""
    annotations: dict[str, str] = dataclasses.field(default_factory=dict)
    """The annotations."""
    creation_timestamp: str | None = None
    """The time of creation in RFC 3339."""
    deletion_timestamp: str | None = None
    """The time of the deletion request in RFC 3339; None while the object is not being deleted."""


_METADATA = type_of(Metadata, "Metadata")


def metadata_of(holder: Json) -> Metadata:
    """Return the metadata of a parsed object. Raises `Failed`."""
    try:
        metadata: Metadata = _METADATA.read((holder or {}).get("metadata") or {}, "metadata")
    except Invalid as error:
        raise Failed(str(error)) from error
    return metadata


def config_of(document: bytes | None, cls: type[T]) -> T:
    """Read a Plugin's `spec.config`. Raises `Failed`, naming the field."""
    try:
        value: T = type_of(cls, repr(cls)).read(
            {} if document is None else decode(document), "the Plugin's spec.config"
        )
    except Invalid as error:
        raise Failed(str(error)) from error
    return value


class Object:
    """A live object: a child or a related object. It is parsed when it is first read."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed

    def __repr__(self) -> str:
        return f"<{self.kind.name} {self.name}>"

    @property
    def kind(self) -> Kind:
        """The kind."""
        return Kind(self._observed.kind.api_version, self._observed.kind.name)

    @property
    def name(self) -> str:
        """The name."""
        return self._observed.name

    @property
    def namespace(self) -> str | None:
        """The namespace; None for a cluster-scoped object."""
        return self._observed.namespace

    @functools.cached_property
    def json(self) -> dict[str, Json]:
        """The object as the API server sent it."""
        parsed: dict[str, Json] = decode(self._observed.object)
        return parsed

    def get(self, *path: str | int, default: Json = None) -> Json:
        """Return the value at a path, like `get("spec", "containers", 0, "image")`, or a default if there is none."""
        value: Json = self.json
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
                value = value[step]
            else:
                return default
        return default if value is None else value

    def read(self, cls: type[T]) -> T:
        """Read the object into a dataclass with the fields that the plugin needs. Raises `Failed`, naming the object."""
        try:
            value: T = type_of(cls, repr(cls)).read(self.json, "")
        except Invalid as error:
            raise Failed(f"{self.kind.name} {self.name}: {error}") from error
        return value

    @functools.cached_property
    def metadata(self) -> Metadata:
        """The metadata."""
        return metadata_of(self.json)

    @property
    def readiness(self) -> Readiness:
        """Whether the object does what its spec says; unknown for a requirement with `metadata_only`."""
        return self._observed.readiness

    @property
    def is_ready(self) -> bool:
        """Whether the object does what its spec says, as far as that is known."""
        return self.readiness.state == "ready"

    @property
    def is_being_deleted(self) -> bool:
        """Whether the object is being deleted (`metadata.deletionTimestamp`)."""
        return self.get("metadata", "deletionTimestamp") is not None

    def condition(self, type: str) -> Condition | None:
        """Return the entry of `status.conditions` with this type."""
        return condition_of(self.json, type)

    def is_condition_true(self, type: str) -> bool:
        """Return whether the condition of this type has status True."""
        condition = self.condition(type)
        return condition is not None and condition.is_true


class Request(typing.Generic[Spec, Status]):
    """Everything that a response may depend on."""

    raw: RawRequest
    """The untyped request of the contract."""
    parent: dict[str, Json]
    """The whole parent, for kinds with fields outside `spec`."""
    metadata: Metadata
    """The parent's metadata."""

    def __init__(self, raw: RawRequest, spec: Type, status: Type) -> None:
        """Read a request. Raises `Invalid`, naming the field, if the spec is not a `Spec`."""
        self.raw = raw
        self.parent = decode(raw.parent)
        self.metadata = metadata_of(self.parent)
        self._spec = spec
        self._status = status
        if not self.is_finalizing:
            # Report a spec that is not a `Spec` before the plugin runs: the host cannot know what `__post_init__` says, nor the
            # spec of an existing kind. A clean-up need not fail for it.
            _ = self.spec

    @functools.cached_property
    def spec(self) -> Spec:
        """The parent's spec.

        The host has checked the spec of a custom kind, and filled in its defaults. In a call to clean up, it may be
        invalid: the plugin can clean up after such a parent as long as it does not read this, which raises `Invalid` for a
        value of another type and for a missing field.
        """
        spec = self.parent.get("spec")
        # A parent without spec is one whose fields all have defaults, or a built-in kind that has no spec.
        value: Spec = self._spec.read({} if spec is None else spec, "spec")
        return value

    @functools.cached_property
    def status(self) -> Status | None:
        """The parent's status as last written.

        None if there is no status, or if it is not a `Status`: an older version of the plugin may have written it.
        """
        status = self.parent.get("status")
        try:
            value: Status | None = None if status is None else self._status.read(status, "status")
        except Invalid:
            return None
        return value

    @property
    def name(self) -> str:
        """The parent's name."""
        return self.metadata.name

    @property
    def namespace(self) -> str | None:
        """The parent's namespace; None for a cluster-scoped parent."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """The parent's uid."""
        return self.metadata.uid

    @property
    def is_finalizing(self) -> bool:
        """Whether the parent is being deleted or is no longer selected (`cause`), and the plugin has to clean up.

        Only a plugin with `finalizes = True` gets such calls. The response lists the children that must still exist, and
        `Response(finalized=True)` ends the parent.
        """
        return self.raw.cause is not None

    @property
    def cause(self) -> FinalizeCause | None:
        """Why the plugin has to clean up; None in other calls."""
        return self.raw.cause

    @property
    def is_namespace_terminating(self) -> bool:
        """Whether the parent is being finalized in a namespace that is being deleted.

        No child can be created there, and the host removes the finalizer after 30 seconds: a plugin that cleans up with a
        Job must do without it.
        """
        return self.raw.is_namespace_terminating

    @property
    def now(self) -> datetime:
        """The time at which the reconcile began, in UTC. Raises `RuntimeError` if the plugin does not have `clock = True`."""
        if self.raw.now is None:
            raise RuntimeError("request.now needs `clock = True` in the plugin")
        return datetime.fromtimestamp(self.raw.now / 1000, timezone.utc)

    @property
    def left_out(self) -> typing.Sequence[LeftOut]:
        """The live children with which the request would exceed `spec.limits.requestBytes` of the Plugin.

        The host neither changes, deletes nor recreates them, whatever the response has.
        """
        return self.raw.left_out

    @property
    def closed_namespaces(self) -> typing.Sequence[str]:
        """The namespaces in which the plugin may have no children: the host's, and those that need a grant by name."""
        return self.raw.closed_namespaces

    def has_kind(self, kind: Kind) -> bool:
        """Return whether an optional kind of the plugin exists in the cluster and is granted."""
        return kind in self.raw.kinds

    @property
    def is_spec_applied(self) -> bool:
        """Whether the children of the last response for the current generation of the spec have been applied.

        The host writes this into `status.observedGeneration` and the condition `Stalled`. Until then the live children
        belong to an older spec: however complete they look, the parent is not ready. Children of which one has failed
        have been applied. Always False for kinds whose status has no such fields, as built-in kinds.
        """
        status = self.parent.get("status")
        observed = status.get("observedGeneration") if isinstance(status, dict) else None
        if not isinstance(observed, int) or observed < self.metadata.generation:
            return False
        stalled = condition_of(self.parent, "Stalled")
        return stalled is None or not stalled.is_true or stalled.reason == "ChildFailed"

    def config(self, cls: type[T]) -> T:
        """Read the Plugin's `spec.config`; without one, `{}` is read.

        Raises `Failed`, naming the field: the parent's user cannot correct it.
        """
        return config_of(self.raw.config, cls)

    def children(self, kind: Kind | None = None) -> list[Object]:
        """Return the live children of one kind, or all, ordered by kind, namespace and name.

        Children that are being deleted are among them, and those in `left_out` are not.
        """
        return [Object(child) for child in self.raw.children if kind is None or _is_of(child, kind)]

    def child(self, kind: Kind, name: str, *, namespace: str | None = None) -> Object | None:
        """Return the live child of this kind and name, in a namespace or in the parent's."""
        namespace = namespace or self.namespace
        for child in self.raw.children:
            if child.name == name and child.namespace == namespace and _is_of(child, kind):
                return Object(child)
        return None

    def generated(
        self,
        secret_name: str,
        key: str,
        make: typing.Callable[[], str] | None = None,
        *,
        namespace: str | None = None,
    ) -> str:
        """Return a value that is made once and stays, like a password: that of a key in the live child Secret of this name.

        If there is none, it is what `make` returns, by default 24 random letters and digits. Return it in the Secret, in every
        response:

            password = request.generated("database", "password")
            return Response(children=[Secret("database", stringData={"password": password})])

        The Secret is in a namespace or in the parent's. Raises `ValueError` if its value is not base64 of a text.
        """
        live = self.child(Secret, secret_name, namespace=namespace)
        value = None if live is None else live.get("data", key)
        if value is None:
            return _random_text() if make is None else make()
        return binascii.a2b_base64(value).decode()

    def related(self, id: str) -> list[Object] | None:
        """Return the related objects that the requirement of this id selects.

        None while the host has not served the requirement: return a response with the requirement and without whatever
        depends on it, and the host calls again at once. An object that does not exist is served as no object.

            certificate = next(iter(request.related("certificate") or []), None)
            return Response(
                children=[certificate and ingress(request, certificate.name)],
                # In every response, also when the objects have been served.
                requirements=[Requirement.named("certificate", Secret, "shop-tls")],
            )
        """
        for served, objects in self.raw.related:
            if served == id:
                return [Object(each) for each in objects]
        return None


def _is_of(observed: Observed, kind: Kind) -> bool:
    return bool(observed.kind.name == kind.name and observed.kind.api_version == kind.api_version)


# The module `string` would make a component 40 KB larger.
_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def _random_text() -> str:
    """Return 24 random letters and digits."""
    # More bytes than the characters need, so that all are equally likely.
    number = int.from_bytes(_host.current.random_bytes(32), "big")
    characters = []
    for _ in range(24):
        number, index = divmod(number, len(_CHARACTERS))
        characters.append(_CHARACTERS[index])
    return "".join(characters)
