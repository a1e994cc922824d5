"""The probe on the Python SDK: a plugin whose spec tells what to do, so that a test sees how the SDK behaves.

`windlass test --conformance` is the test. The probes of the other SDKs do the same.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from windlass_plugin import (
    Apply,
    Child,
    ChildRef,
    ChildRule,
    Condition,
    CustomResource,
    Event,
    Failed,
    Format,
    Invalid,
    Kind,
    Length,
    Metric,
    Object,
    OnDelete,
    Pattern,
    Plugin,
    Range,
    Recreate,
    Request,
    Requirement,
    Response,
    Schedule,
    clock,
    log,
    measure,
    random_bytes,
    span,
)
from windlass_plugin.kinds import ConfigMap

Word = Annotated[str, Pattern("^[A-Z][A-Za-z]*$"), Length(max=63)]
Name = Annotated[str, Pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"), Length(max=63)]

Copy = Kind("conformance.example/v1", "Copy")
"""A kind that only the probe has."""
Extra = Kind("conformance.example/v1", "Extra")
"""A kind that need not exist."""

UPDATES = {"apply": Apply(), "recreate": Recreate(), "onDelete": OnDelete()}
CAUSES = {"deleted": "deleted", "left-selector": "leftSelector", "left-namespaces": "leftNamespaces"}


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
class Options:
    """How the host treats a ConfigMap."""

    stage: Annotated[int, Range(0, 2**32 - 1)] = 0
    """The ConfigMap waits until those of lower stages are ready."""
    take_over: bool = False
    """Whether the host takes fields of other managers."""
    ready: bool | None = None
    """Whether it is ready."""
    retain: bool = False
    """Whether it outlives the parent."""
    once: str | None = None
    """It is created once for each value."""
    update: Literal["apply", "recreate", "onDelete"] | None = None
    """How it is changed."""
    replaces: Name | None = None
    """The name of a ConfigMap that goes first."""


@dataclass
class ScheduleSpec:
    """A schedule, and what is asked about it."""

    cron: str
    """As in a CronJob."""
    at: Annotated[str, Format("date-time")]
    """The time of the question."""
    time_zone: str = ""
    """As in a CronJob."""
    last: Annotated[str | None, Format("date-time")] = None
    """The time that was handled last."""


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
    require: Name | None = None
    """The name of a related ConfigMap, which may name another one in data.next."""
    select: Annotated[str | None, Pattern("^[a-z]+=[a-z]+$")] = None
    """The labels of related ConfigMaps."""
    everywhere: bool = False
    """Whether these are in all namespaces, and their metadata is enough."""
    events: Annotated[list[EventSpec], Length(max=16)] = field(default_factory=list)
    """Events on the parent."""
    conditions: Annotated[list[ConditionSpec], Length(max=8)] = field(default_factory=list)
    """Conditions of the parent."""
    requeue_seconds: Annotated[int | None, Range(1, 86400)] = None
    """Seconds until the next call."""
    requeue_at: Annotated[str | None, Format("date-time")] = None
    """The time of the next call."""
    report: bool = False
    """Whether to log, to trace and to measure."""
    time: bool = False
    """Whether the status has the time."""
    random: bool = False
    """Whether there is a ConfigMap with random bytes."""
    retain: bool = False
    """Whether the ConfigMaps outlive the parent."""
    options: Annotated[list[Options], Length(max=1000)] = field(default_factory=list)
    """Options of the ConfigMaps, in their order."""
    keep: Annotated[list[Name], Length(max=100)] = field(default_factory=list)
    """The names of ConfigMaps that stay as they are."""
    keep_all: bool = False
    """Whether all children stay as they are."""
    waiting: str | None = None
    """What the probe waits for."""
    see: bool = False
    """Whether the status has what the request shows."""
    schedule: ScheduleSpec | None = None
    """A schedule whose times the status has."""


@dataclass
class Config:
    """The Plugin's config."""

    greeting: str = "none"
    """Any text."""
    number: int | None = None
    """Any number."""


@dataclass
class Scheduled:
    """Times of a schedule."""

    next: str
    """The first one after the time of the question."""
    previous: str | None = None
    """The last one until then."""
    due: str | None = None
    """The one that was not handled yet."""


@dataclass
class Seen:
    """What the request shows."""

    readiness: list[str]
    """The readiness of the children."""
    kinds: list[str]
    """The optional kinds that exist."""
    closed: list[str]
    """The namespaces in which the probe may have no children."""
    now: str
    """The time of the request."""


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
    """Whether the parent is being finalized."""
    cause: Literal["deleted", "leftSelector", "leftNamespaces"] | None = None
    """Why the parent is being finalized."""
    terminating: bool | None = None
    """Whether the namespace is being deleted."""
    seen: Seen | None = None
    """What the request shows."""
    scheduled: Scheduled | None = None
    """Times of the schedule."""


class Probe(Plugin[ProbeSpec, ProbeStatus]):
    """The plugin."""

    name = "probe"
    version = "0.1.0"
    description = "Does what its spec tells, so that a test sees how the SDK behaves"
    parent = CustomResource("conformance.example", "v1", "Probe")
    children = [ConfigMap, Copy, ChildRule(Extra, optional=True)]
    related = [ConfigMap]
    finalizes = True
    ready_means = "applied"
    clock = True
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
            return _clean_up(request, live)
        spec = request.spec
        failure, _, message = (spec.fail or "").partition(": ")
        if failure == "retry":
            return Response.wait(message, after=1.5)
        _fail(failure, message)
        if spec.report:
            _report(spec.text or "")
        requirements, related = _related(request)
        children: list[object] = [_config_map(request, index) for index in range(spec.children)]
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
            seen=_seen(request) if spec.see else None,
            scheduled=None if spec.schedule is None else _scheduled(spec.schedule),
        )
        return Response(
            children=children,
            keep="all" if spec.keep_all else [ChildRef(ConfigMap, name) for name in spec.keep],
            status=status,
            waiting=spec.waiting,
            conditions=[Condition(one.type, one.holds, one.reason, one.message) for one in spec.conditions],
            requeue=spec.requeue_seconds,
            requeue_at=None if spec.requeue_at is None else _time(spec.requeue_at, "spec.requeueAt"),
            events=[Event(one.reason, one.message, one.warning) for one in spec.events],
            requirements=requirements,
        )


def _clean_up(request: Request[ProbeSpec, ProbeStatus], live: list[Object]) -> Response[ProbeStatus]:
    """Keep the first ConfigMap until it is the last one."""
    status = ProbeStatus(
        len(live),
        finalizing=True,
        cause=CAUSES[request.cause],
        terminating=request.is_namespace_terminating or None,
    )
    if len(live) > 1:
        return Response(children=[ConfigMap(live[0].name, data={"kept": "true"})], status=status)
    return Response(status=status, finalized=True)


def _config_map(request: Request[ProbeSpec, ProbeStatus], index: int) -> Child:
    spec = request.spec
    data = {"index": str(index), "text": spec.text, **(spec.map or {})}
    options = spec.options[index] if index < len(spec.options) else Options()
    return Child(
        ConfigMap(f"{request.name}-{index}", data=data),
        stage=options.stage,
        take_over=options.take_over,
        ready=options.ready,
        retain=spec.retain or options.retain,
        once=options.once,
        update=None if options.update is None else UPDATES[options.update],
        replaces=None if options.replaces is None else ChildRef(ConfigMap, options.replaces),
    )


def _scheduled(spec: ScheduleSpec) -> Scheduled:
    fields = {"field": "spec.schedule.cron", "time_zone_field": "spec.schedule.timeZone"}
    schedule, at = Schedule(spec.cron, spec.time_zone, **fields), _time(spec.at, "spec.schedule.at")
    previous = schedule.previous(at)
    last = None if spec.last is None else _time(spec.last, "spec.schedule.last")
    due = None if last is None else schedule.due(last=last, now=at).time
    return Scheduled(
        next=_text(schedule.next(at)),
        previous=None if previous is None else _text(previous),
        due=None if due is None else _text(due),
    )


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _seen(request: Request[ProbeSpec, ProbeStatus]) -> Seen:
    def readiness(child: Object) -> str:
        state, message = child.readiness
        return f"{child.kind.name} {child.name}: {state}" + (f", {message}" if message else "")

    return Seen(
        readiness=[readiness(child) for child in request.children()],
        kinds=[kind.name for kind in [Extra] if request.has_kind(kind)],
        closed=list(request.closed_namespaces),
        now=f"{request.now:%Y-%m-%dT%H:%M:%SZ}",
    )


def _time(text: str, field: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(field, str(error)) from error


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
        namespaces = "all" if spec.everywhere else None
        serve(
            Requirement.labelled(
                "labelled", ConfigMap, spec.select, namespaces=namespaces, metadata_only=spec.everywhere
            )
        )
    return requirements, related
