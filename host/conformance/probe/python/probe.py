"""The probe on the Python SDK: a plugin whose spec tells what to do, so that a test sees how the SDK behaves.

`windlass test --conformance` is the test. The probes of the other SDKs do the same.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any

from windlass_plugin import (
    Child,
    Condition,
    CustomResource,
    Event,
    Failed,
    Invalid,
    Kind,
    Length,
    Metric,
    Object,
    Pattern,
    Plugin,
    Range,
    Request,
    Requirement,
    Response,
    clock,
    log,
    measure,
    random_bytes,
    span,
)
from windlass_plugin.kinds import ConfigMap

Word = Annotated[str, Pattern("^[A-Z][A-Za-z]*$"), Length(max=63)]

Copy = Kind("conformance.example/v1", "Copy")
"""A kind that only the probe has."""


@dataclass
class EventSpec:
    """An event."""

    reason: Word
    """Why, in CamelCase."""
    message: str
    """Details."""
    warning: bool = False
    """Whether it is a warning."""


@dataclass
class ConditionSpec:
    """A condition."""

    type: Word
    """What holds, in CamelCase."""
    holds: bool
    """Whether it holds."""
    reason: Word
    """Why, in CamelCase."""
    message: str
    """Details."""


@dataclass
class ProbeSpec:
    """What the probe does."""

    children: Annotated[int, Range(0, 1000)] = 0
    """The number of ConfigMaps."""
    text: str | None = None
    """Copied into the status and the ConfigMaps."""
    number: int | None = None
    """Copied into the status."""
    decimal: float | None = None
    """Copied into the status."""
    map: dict[str, str] | None = None
    """Copied into the status and the ConfigMaps."""
    copy: Any = None
    """Copied into the status, and the spec of a child of kind Copy."""
    fail: str | None = None
    """The failure: its kind, a colon and the message."""
    require: Annotated[str | None, Pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"), Length(max=63)] = None
    """The name of a related ConfigMap, which may name another one in data.next."""
    select: Annotated[str | None, Pattern("^[a-z]+=[a-z]+$")] = None
    """The labels of related ConfigMaps."""
    events: Annotated[list[EventSpec], Length(max=16)] = field(default_factory=list)
    """Events on the parent."""
    conditions: Annotated[list[ConditionSpec], Length(max=8)] = field(default_factory=list)
    """Conditions of the parent."""
    requeue_seconds: Annotated[int | None, Range(1, 86400)] = None
    """Seconds until the next call."""
    report: bool = False
    """Whether to log, to trace and to measure."""
    time: bool = False
    """Whether the status has the time."""
    random: bool = False
    """Whether there is a ConfigMap with random bytes."""
    retain: bool = False
    """Whether the ConfigMaps outlive the parent."""


@dataclass
class Config:
    """The Plugin's config."""

    greeting: str = "none"
    """Any text."""
    number: int | None = None
    """Any number."""


@dataclass
class ProbeStatus:
    """What the probe sees."""

    live: int
    """The number of ConfigMaps that exist."""
    ready: int = 0
    """The number of children of kind Copy whose condition Ready is True."""
    text: str | None = None
    """As in the spec."""
    number: int | None = None
    """As in the spec."""
    decimal: float | None = None
    """As in the spec."""
    map: dict[str, str] | None = None
    """As in the spec."""
    copy: Any = None
    """As in the spec."""
    before: str | None = None
    """The text of the last status."""
    label: str | None = None
    """The parent's label "probe"."""
    annotation: str | None = None
    """The parent's annotation "probe"."""
    leaving: list[str] | None = None
    """The names of the ConfigMaps that are being deleted."""
    related: list[Any] | None = None
    """The related objects."""
    config: Config | None = None
    """The Plugin's config."""
    time: str | None = None
    """The time of the call."""
    finalizing: bool | None = None
    """Whether the parent is being deleted."""


class Probe(Plugin[ProbeSpec, ProbeStatus]):
    """The plugin."""

    name = "probe"
    version = "0.1.0"
    description = "Does what its spec tells, so that a test sees how the SDK behaves"
    parent = CustomResource("conformance.example", "v1", "Probe")
    children = [ConfigMap, Copy]
    related = [ConfigMap]
    finalizes = True
    ready_means = "applied"
    resync = timedelta(minutes=5)
    config = Config
    metrics = [
        Metric.counter("reports_total", "Reports", ["kind"]),
        Metric.gauge("size", "By", "The size of the report"),
    ]

    def reconcile(self, request: Request[ProbeSpec, ProbeStatus]) -> Response[ProbeStatus]:
        """Do what the spec tells."""
        live = request.children(ConfigMap)
        if request.is_finalizing:
            return _clean_up(live)
        spec = request.spec
        failure, _, message = (spec.fail or "").partition(": ")
        if failure == "retry":
            return Response.wait(message, after=1.5)
        _fail(failure, message)
        if spec.report:
            _report(spec.text or "")
        requirements, related = _related(request)
        data = {"text": spec.text, **(spec.map or {})}
        children: list[object] = [
            Child(ConfigMap(f"{request.name}-{index}", data={"index": str(index), **data}), retain=spec.retain)
            for index in range(spec.children)
        ]
        if spec.copy is not None:
            children.append(Copy(f"{request.name}-copy", spec=spec.copy))
        if spec.random:
            children.append(ConfigMap(f"{request.name}-random", data={"bytes": random_bytes(8).hex()}))
        status = ProbeStatus(
            text=spec.text,
            number=spec.number,
            decimal=spec.decimal,
            map=spec.map,
            copy=spec.copy,
            before=None if request.status is None else request.status.text,
            label=request.metadata.labels.get("probe"),
            annotation=request.metadata.annotations.get("probe"),
            live=len(live),
            ready=sum(child.is_condition_true("Ready") for child in request.children(Copy)),
            leaving=[child.name for child in live if child.is_being_deleted] or None,
            related=related,
            config=request.config(Config),
            time=clock.timestamp() if spec.time else None,
        )
        return Response(
            children=children,
            status=status,
            conditions=[Condition(one.type, one.holds, one.reason, one.message) for one in spec.conditions],
            requeue=spec.requeue_seconds,
            events=[Event(one.reason, one.message, one.warning) for one in spec.events],
            requirements=requirements,
        )


def _clean_up(live: list[Object]) -> Response[ProbeStatus]:
    """Keep the first ConfigMap until it is the last one."""
    status = ProbeStatus(len(live), finalizing=True)
    if len(live) > 1:
        return Response(children=[ConfigMap(live[0].name, data={"kept": "true"})], status=status)
    return Response(status=status, finalized=True)


def _fail(failure: str, message: str) -> None:
    if failure == "invalid":
        raise Invalid("spec.fail", message)
    if failure == "failed":
        raise Failed(message)


def _report(text: str) -> None:
    log.info("reported", text=text, number=1)
    log.warn("warned")
    span.attribute("probe.text", text)
    span.event("reported", text=text)
    measure("reports_total", 1, kind="probe")
    measure("size", 1.5)


def _related(request: Request[ProbeSpec, ProbeStatus]) -> tuple[list[Requirement], list[Any] | None]:
    """Return the requirements, and the objects that the host has served for them."""
    requirements: list[Requirement] = []
    related: list[Any] | None = None

    def serve(requirement: Requirement) -> Object | None:
        nonlocal related
        requirements.append(requirement)
        objects = request.related(requirement.id)
        if objects is None:
            return None
        related = [*(related or []), *(each.json for each in objects)]
        return objects[0] if objects else None

    spec = request.spec
    if spec.require is not None:
        named = serve(Requirement.named("named", ConfigMap, spec.require))
        following = None if named is None else named.get("data", "next")
        if following is not None:
            serve(Requirement.named("next", ConfigMap, following))
    if spec.select is not None:
        serve(Requirement.labelled("labelled", ConfigMap, spec.select))
    return requirements, related
