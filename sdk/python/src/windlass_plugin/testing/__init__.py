"""Call a plugin in a plain test, without WebAssembly and without a cluster.

    response = call(Echo, {"metadata": {"name": "web"}, "spec": {"replicas": 2, "image": "nginx"}})
    assert [pod["metadata"]["name"] for pod in response.children] == ["web-0", "web-1"]

The call goes through the same bytes as in the host, and the program `windlass` is asked what the host makes of it: whether the
parent fits the schema of its CRD and which defaults it lacks, the readiness of live objects, and whether the response is
refused, which fails the test with `Refused`. The environment variable WINDLASS has the path of the program, unless it is in
PATH. Every request is sent twice: a plugin that gives two responses fails the test, as does a status of other types than those
that it declares.
"""

from __future__ import annotations

import calendar
import copy
import dataclasses
import time
import typing
from datetime import datetime, timezone

from .. import _host, _plugin, admission
from .._children import ChildOptions
from .._contract import ChildRef, FinalizeCause, LeftOut, RawRequest, Readiness
from .._failure import Failure
from .._json import Json, decode, encode
from .._response import Event, RawResponse, Requirement
from ..kinds import Kind
from . import _harness
from ._harness import Refused

Document = typing.Mapping[str, Json]


@dataclasses.dataclass
class Measurement:
    """One call of `measure`."""

    metric: str
    """The name of the metric."""
    value: float
    """The value."""
    labels: dict[str, str]
    """Labels, by name."""


@dataclasses.dataclass
class Log:
    """One line of the log."""

    level: str
    """`trace`, `debug`, `info`, `warn` or `error`."""
    message: str
    """The message."""
    fields: dict[str, str]
    """Fields, by name."""


@dataclasses.dataclass
class Response:
    """The response of a plugin with parsed JSON, and the calls of the host's functions."""

    children: list[dict[str, Json]]
    """All desired children, in the plugin's order."""
    options: list[ChildOptions]
    """The options of each child, in the same order."""
    keep: list[ChildRef] | typing.Literal["all"]
    """Live children that the host neither changes nor deletes."""
    status: dict[str, Json] | None
    """The plugin's part of the status, with its conditions."""
    waiting: str | None
    """What the plugin waits for."""
    requeue: float | None
    """Seconds until the next reconcile, as in the plugin's response."""
    requeue_at: datetime | None
    """The time of the next reconcile in UTC, as in the plugin's response."""
    events: list[Event]
    """Events on the parent."""
    requirements: list[Requirement]
    """Related objects that the response depends on."""
    finalized: bool
    """Whether the host may remove the finalizer."""
    logs: list[Log]
    """Lines of the log."""
    measurements: list[Measurement]
    """Measurements."""
    span_attributes: dict[str, str]
    """Attributes of the call's span."""
    span_events: list[str]
    """Names of events of the call's span."""
    raw: RawResponse = dataclasses.field(repr=False, compare=False)
    """The response of the contract."""

    def child(self, kind: Kind, name: str) -> dict[str, Json]:
        """Return the desired child of this kind and name. Raises `LookupError` if there is none."""
        for child in self.children:
            if (child["apiVersion"], child["kind"]) == kind and child["metadata"]["name"] == name:
                return child
        raise LookupError(f"the response has no {kind.name} {name}")


class Live:
    """A live object whose readiness the test sets: `Live(Job("migrate"), "failed", "BackoffLimitExceeded")`.

    That of others is what the host says.
    """

    def __init__(
        self,
        document: Document,
        state: typing.Literal["ready", "progressing", "failed", "unknown"],
        message: str = "",
    ) -> None:
        metadata = document.get("metadata", {})
        self.kind = Kind(document.get("apiVersion", ""), document.get("kind", ""))
        """The kind."""
        self.namespace: str | None = metadata.get("namespace")
        """The namespace; None for a cluster-scoped object."""
        self.name: str = metadata.get("name", "")
        """The name."""
        self.object = encode(document)
        """The object as JSON."""
        self.readiness = Readiness(state, message)
        """The readiness."""


class _Asked(Live):
    """A live object whose readiness the host says."""

    def __init__(self, document: Document) -> None:
        super().__init__(document, "unknown")


def _live(objects: typing.Iterable[Document | Live]) -> list[Live]:
    return [each if isinstance(each, Live) else _Asked(each) for each in objects]


def _order(live: Live) -> tuple[bytes, ...]:
    """Return the key by which the host sorts."""
    return tuple(text.encode() for text in (*live.kind, live.namespace or "", live.name))


def _optional(described: _plugin.Descriptor) -> list[Kind]:
    children = [rule.kind for rule in described.children if rule.optional]
    return [*children, *(rule.kind for rule in described.related if rule.optional)]


def _completed(described: _plugin.Descriptor, request: RawRequest) -> RawRequest:
    """Return a request as the host sends it: with the parent's defaults, and the readiness of the objects."""
    request, told = _harness.prepare(described, request)
    live = [*request.children, *(each for _, objects in request.related for each in objects)]
    for each, readiness in zip(live, told, strict=True):
        if isinstance(each, _Asked):
            each.readiness = readiness
    return request


def call(
    plugin: type[_plugin.AnyPlugin],
    parent: Document,
    *,
    children: typing.Iterable[Document | Live] = (),
    left_out: typing.Iterable[LeftOut] = (),
    related: typing.Mapping[str, typing.Iterable[Document | Live]] | None = None,
    kinds: typing.Iterable[Kind] | None = None,
    config: Document | None = None,
    finalize: bool = False,
    cause: FinalizeCause = "deleted",
    is_namespace_terminating: bool = False,
    closed_namespaces: typing.Sequence[str] = (),
    at: str = "2026-01-01T00:00:00Z",
    random: bytes | None = None,
) -> Response:
    """Call a plugin with a parent.

    Raises what the plugin raises (a `Failure`, or any other exception), and `Refused` if the host refuses the response. Without
    a call of the plugin, raises `Refused` if the host refuses the plugin's description or the config, and `Invalid` with the
    host's sentence if the parent does not fit the schema of its CRD. In a clean-up the plugin is called with any parent.

    `children` are live ones, `left_out` those for which the request had no room, `related` are the objects of each requirement
    by its id, `kinds` the optional kinds that exist (by default all), and `config` is the Plugin's `spec.config`. With
    `finalize` this is a call to clean up, for this `cause`. `at` is the wall clock, and the time of the request if the plugin
    has `clock`; `random` has the bytes that `random_bytes` returns. A missing `metadata.uid` becomes `uid`.
    """
    described = _plugin.descriptor(plugin)
    parent = {**parent, "metadata": {"uid": "uid", **parent.get("metadata", {})}}
    now = float(calendar.timegm(time.strptime(at, "%Y-%m-%dT%H:%M:%SZ")))
    live = sorted(_live(children), key=_order)
    request = RawRequest(
        parent=encode(parent),
        cause=cause if finalize else None,
        is_namespace_terminating=is_namespace_terminating,
        children=live,
        left_out=list(left_out),
        related=[(name, _live(objects)) for name, objects in (related or {}).items()],
        kinds=_optional(described) if kinds is None else list(kinds),
        now=round(now * 1000) if described.clock else None,
        config=None if config is None else encode(config),
        closed_namespaces=closed_namespaces,
    )
    request = _completed(described, request)
    first, again = (_outcome(plugin, copy.deepcopy(request), now, random) for _ in range(2))
    if isinstance(first, Failure) and isinstance(again, Failure) and str(first) == str(again):
        raise first
    if first != again:
        raise AssertionError(f"the same request has two responses:\n{first}\n{again}")
    assert isinstance(first, Response)
    _harness.check(described, request, first.raw)
    _check_status(plugin, first)
    return first


def _check_status(plugin: type[_plugin.AnyPlugin], response: Response) -> None:
    """Fail if the API server would refuse the status. The host does not read its schema."""
    own = {field: value for field, value in (response.status or {}).items() if field != "conditions"}
    if own:
        try:
            plugin._status.read(own, "status")
        except Failure as failure:
            raise AssertionError(f"{failure}: the API server refuses the status") from None


def _outcome(
    plugin: type[_plugin.AnyPlugin], request: RawRequest, now: float, random: bytes | None
) -> Response | Failure:
    recorder = _Recorder(now, random)
    before, _host.current = _host.current, recorder
    try:
        response = _plugin.reconcile(plugin(), request)
    except Failure as failure:
        return failure
    finally:
        _host.current = before
    return recorder.response(response)


def crd(plugin: type[_plugin.AnyPlugin]) -> dict[str, Json] | None:
    """Return the plugin's CRD; None for a plugin on an existing kind."""
    parent = _plugin.descriptor(plugin).parent
    return None if isinstance(parent, _plugin.Existing) else decode(parent)


def descriptor(plugin: type[_plugin.AnyPlugin]) -> _plugin.Descriptor:
    """Return the plugin's description of itself, as the host gets it."""
    return _plugin.descriptor(plugin)


def review(
    plugin: type[_plugin.AnyPlugin],
    operation: typing.Literal["create", "update", "delete"],
    *,
    object: Document | None = None,
    old: Document | None = None,
    subresource: str | None = None,
    namespace_labels: typing.Mapping[str, str] | None = None,
    is_dry_run: bool = False,
    username: str = "user",
    groups: typing.Sequence[str] = (),
    config: Document | None = None,
) -> admission.AdmissionResponse:
    """Call the plugin's admission with a write: `object` is the object after it, `old` the object before it."""
    instance = plugin()
    if not isinstance(instance, admission.Admission):
        raise TypeError(f"{plugin.__name__} has no Admission")
    after, before = (None if each is None else decode(encode(each)) for each in (object, old))
    document = after or before or {}
    metadata = document.get("metadata", {})
    request: admission.AdmissionRequest[Json] = admission.AdmissionRequest(
        operation=operation,
        kind=Kind(document.get("apiVersion", ""), document.get("kind", "")),
        subresource=subresource,
        namespace=metadata.get("namespace"),
        namespace_labels=dict(namespace_labels or {}),
        name=metadata.get("name"),
        object=after,
        old_object=before,
        is_dry_run=is_dry_run,
        username=username,
        groups=list(groups),
        _config=None if config is None else encode(config),
        _spec=plugin._spec,
    )
    return admission.review(instance, request)


class _Recorder:
    """A host that records the calls of its functions."""

    def __init__(self, now: float, random: bytes | None) -> None:
        self._now = now
        self._random = random
        self._logs: list[Log] = []
        self._measurements: list[Measurement] = []
        self._span_attributes: dict[str, str] = {}
        self._span_events: list[str] = []

    def log(self, level: str, message: str, fields: _host.Pairs) -> None:
        self._logs.append(Log(level, message, dict(fields)))

    def span_attribute(self, key: str, value: str) -> None:
        self._span_attributes[key] = value

    def span_event(self, name: str, attributes: _host.Pairs) -> None:
        del attributes
        self._span_events.append(name)

    def measure(self, metric: str, value: float, labels: _host.Pairs) -> None:
        self._measurements.append(Measurement(metric, value, dict(labels)))

    def now(self) -> float:
        return self._now

    def random_bytes(self, count: int) -> bytes:
        if self._random is None:
            return _host.NoHost().random_bytes(count)
        taken, self._random = self._random[:count], self._random[count:]
        return taken

    schedule_next = staticmethod(_harness.schedule_next)
    schedule_previous = staticmethod(_harness.schedule_previous)

    def response(self, raw: RawResponse) -> Response:
        return Response(
            children=[decode(child.object) for child in raw.children],
            options=[child.options for child in raw.children],
            keep=raw.keep,
            status=None if raw.status is None else decode(raw.status),
            waiting=raw.waiting,
            requeue=None if raw.requeue is None else raw.requeue / 1000,
            requeue_at=None if raw.requeue_at is None else datetime.fromtimestamp(raw.requeue_at / 1000, timezone.utc),
            events=raw.events,
            requirements=raw.requirements,
            finalized=raw.finalized,
            logs=self._logs,
            measurements=self._measurements,
            span_attributes=self._span_attributes,
            span_events=self._span_events,
            raw=raw,
        )


__all__ = [
    "Live",
    "Log",
    "Measurement",
    "Refused",
    "Response",
    "call",
    "crd",
    "descriptor",
    "review",
]
