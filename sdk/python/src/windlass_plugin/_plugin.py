"""A plugin, and its description."""

from __future__ import annotations

import dataclasses
import typing

from . import _docs
from ._children import ChildRule, RelatedRule
from ._crd import CustomResource
from ._failure import milliseconds
from ._json import encode
from ._request import Request
from ._response import Response
from ._types import Type, type_of
from .kinds import Kind

if typing.TYPE_CHECKING:
    from datetime import timedelta

    from ._contract import RawRequest
    from ._response import RawResponse

Spec = typing.TypeVar("Spec")
Status = typing.TypeVar("Status")


@dataclasses.dataclass(frozen=True)
class Existing:
    """A kind that the plugin does not define: a built-in kind, or a custom kind of another operator."""

    kind: Kind
    """The kind."""


@dataclasses.dataclass(frozen=True)
class ParentSelector:
    """Which objects of the parents' kind a plugin reconciles: those that match both selectors, in kubectl's syntax."""

    _: dataclasses.KW_ONLY
    labels: str | None = None
    """A selector over labels: `tier in (a,b),!legacy`. None: whatever the labels are."""
    annotations: str | None = None
    """A selector over annotations. Objects that do not match cost the host memory, too. None: whatever the annotations are."""


ReadyMeans = typing.Literal["children", "applied", "plugin"]
"""What `Ready=True` of a parent means: all children are ready, all are applied, or what the plugin says."""


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric that the plugin reports with `measure`. Use `counter`, `gauge` or `histogram`."""

    type: typing.Literal["counter", "gauge", "histogram"]
    """Whether values add up, replace each other, or form a distribution."""
    name: str
    """A Prometheus name without prefix."""
    unit: str
    """A UCUM unit (`s`, `By`), or empty for plain numbers."""
    description: str
    """One sentence about what is measured."""
    labels: typing.Sequence[str]
    """The names of labels."""

    @classmethod
    def counter(cls, name: str, description: str, labels: typing.Sequence[str] = ()) -> Metric:
        """Declare a counter, whose values add up. `name` is a Prometheus name without prefix, `labels` are names."""
        return cls("counter", name, "", description, labels)

    @classmethod
    def gauge(cls, name: str, unit: str, description: str, labels: typing.Sequence[str] = ()) -> Metric:
        """Declare a gauge, whose last value counts. `unit` is a UCUM unit (`s`, `By`), or empty for plain numbers."""
        return cls("gauge", name, unit, description, labels)

    @classmethod
    def histogram(cls, name: str, unit: str, description: str, labels: typing.Sequence[str] = ()) -> Metric:
        """Declare a histogram of values. `unit` is a UCUM unit (`s`, `By`), or empty for plain numbers."""
        return cls("histogram", name, unit, description, labels)


@dataclasses.dataclass(frozen=True)
class Descriptor:
    """The description of a plugin, as the host gets it."""

    name: str
    """A DNS label."""
    version: str
    """The semantic version of the component."""
    description: str
    """One sentence about what the plugin does."""
    parent: bytes | Existing
    """A CRD in JSON, or an existing kind."""
    selector: ParentSelector
    """The parents of that kind."""
    children: list[ChildRule]
    """The kinds of children, with their update strategies."""
    related: list[RelatedRule]
    """The kinds that requirements may name."""
    finalizes: bool
    """Whether parents get a finalizer."""
    ordered_deletion: bool
    """Whether the children of a deleted parent are deleted in reverse order of their stages."""
    ready_means: ReadyMeans
    """What `Ready=True` of a parent means."""
    clock: bool
    """Whether requests have the time."""
    resync: int | None
    """Milliseconds between reconciles of a parent while nothing changes; None for the host's default."""
    config_schema: bytes | None
    """The JSON Schema of the Plugin's `spec.config`; None for a plugin without configuration."""
    metrics: list[Metric]
    """The metrics that the plugin reports."""


class Plugin(typing.Generic[Spec, Status]):
    """An operator: its description, and the function that returns the desired state.

    `Spec` is a dataclass with the fields that a user writes, and `Status` one with those that the plugin writes, or None.
    The schema of the CRD comes from both.

        class Greeting(Plugin[GreetingSpec, GreetingStatus]):
            name = "greeting"
            version = "0.1.0"
            parent = CustomResource("example.com", "v1", "Greeting")
            children = [ConfigMap]

            def reconcile(self, request: Request[GreetingSpec, GreetingStatus]) -> Response[GreetingStatus]:
                ...
    """

    name: typing.ClassVar[str]
    """A DNS label; also the default name of the Plugin resource."""
    version: typing.ClassVar[str]
    """The semantic version of the component."""
    description: typing.ClassVar[str] = ""
    """One sentence about what the plugin does."""
    parent: typing.ClassVar[CustomResource | Existing]
    """The kind of the parents."""
    selector: typing.ClassVar[ParentSelector] = ParentSelector()
    """The objects of that kind that the plugin reconciles. By default all."""
    children: typing.ClassVar[typing.Sequence[Kind | ChildRule]] = ()
    """The kinds of the children."""
    related: typing.ClassVar[typing.Sequence[Kind | RelatedRule]] = ()
    """The kinds that requirements may name. The plugin reads such objects and does not own them."""
    finalizes: typing.ClassVar[bool] = False
    """Whether parents get a finalizer, and the plugin is called to clean up (`Request.is_finalizing`).

    The host does not check their spec then, and reading one of other types fails: a method that begins with
    `spec = request.spec` blocks the deletion of such a parent. Clean up before the spec is read:

        if request.is_finalizing:
            return Response(finalized=True)
        spec = request.spec
    """
    ordered_deletion: typing.ClassVar[bool] = False
    """Whether the children of a deleted parent are deleted in reverse order of their stages, each stage gone before the next.

    Hosts do not support it together with `finalizes` yet.
    """
    ready_means: typing.ClassVar[ReadyMeans] = "children"
    """What `Ready=True` of a parent means.

    All children are applied and ready (`children`), all are applied (`applied`), or the plugin says so (`plugin`): then the
    host sets the condition only while it cannot carry out the response. A condition `Ready` in the response takes precedence.
    """
    clock: typing.ClassVar[bool] = False
    """Whether the plugin reads `Request.now`. A response is then reused until its `requeue_at`, or never without that."""
    resync: typing.ClassVar[timedelta | float | None] = None
    """Time between reconciles of a parent while nothing changes, in seconds or as a `timedelta`; the host adds jitter."""
    config: typing.ClassVar[type | None] = None
    """The dataclass of the Plugin's `spec.config`, which `Request.config` reads."""
    metrics: typing.ClassVar[typing.Sequence[Metric]] = ()
    """The metrics that `measure` may name."""

    _spec: typing.ClassVar[Type]
    _status: typing.ClassVar[Type]

    def __init_subclass__(cls) -> None:
        """Compile the types of spec and status. Raises `TypeError` if the schema of a CRD cannot express one."""
        super().__init_subclass__()
        for base in getattr(cls, "__orig_bases__", ()):
            arguments = typing.get_args(base)
            is_generic = any(isinstance(argument, typing.TypeVar) for argument in arguments)
            if typing.get_origin(base) is Plugin and not is_generic:
                spec, status = arguments
                cls._spec = _type(spec, f"{cls.__name__}: the spec")
                cls._status = _type(status, f"{cls.__name__}: the status")

    def reconcile(self, request: Request[Spec, Status]) -> Response[Status]:
        """Return the desired state for one parent.

        Raise `Invalid` if the user's spec is invalid, and `Failed` for other failures: the host then writes and deletes no
        child. To wait for something, return `Response.wait`, or a response that is `waiting`.
        """
        raise NotImplementedError


def _type(hint: object, where: str) -> Type:
    return Type() if hint is type(None) else type_of(hint, where)


AnyPlugin = Plugin[typing.Any, typing.Any]


def descriptor(plugin: type[AnyPlugin]) -> Descriptor:
    """Return the description of a plugin. Raises `TypeError` if an attribute is missing."""
    for attribute in ("name", "version", "parent", "_spec"):
        if not hasattr(plugin, attribute):
            wanted = "base Plugin[Spec, Status]" if attribute == "_spec" else f"attribute `{attribute}`"
            raise TypeError(f"class {plugin.__name__} has no {wanted}")
    parent = plugin.parent
    config = None if plugin.config is None else type_of(plugin.config, f"{plugin.__name__}.config")
    made = Descriptor(
        name=plugin.name,
        version=plugin.version,
        description=plugin.description,
        parent=parent if isinstance(parent, Existing) else encode(parent.crd(plugin._spec, plugin._status)),
        selector=plugin.selector,
        children=[each if isinstance(each, ChildRule) else ChildRule(each) for each in plugin.children],
        related=[each if isinstance(each, RelatedRule) else RelatedRule(each) for each in plugin.related],
        finalizes=plugin.finalizes,
        ordered_deletion=plugin.ordered_deletion,
        ready_means=plugin.ready_means,
        clock=plugin.clock,
        resync=None if plugin.resync is None else milliseconds(plugin.resync),
        config_schema=None if config is None else encode(config.schema(written=False)),
        metrics=list(plugin.metrics),
    )
    # A snapshot of the interpreter becomes the component.
    _docs.forget()
    return made


def reconcile(plugin: AnyPlugin, raw: RawRequest) -> RawResponse:
    """Call a plugin. Raises `Failure`, or what the plugin raises."""
    request: Request[typing.Any, typing.Any] = Request(raw, plugin._spec, plugin._status)
    response = plugin.reconcile(request)
    if not isinstance(response, Response):
        raise TypeError(f"{type(plugin).__name__}.reconcile returned {type(response).__name__}, not a Response")
    return response.raw()
