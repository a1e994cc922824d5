"""The component of a plugin. Only the module that the build writes imports this: elsewhere it cannot be imported.

from windlass_plugin.component import export
from echo import Echo

Reconciler, Admission = export(Echo)
"""

from __future__ import annotations

import gc
import os
import time
import typing

# The toolchain makes these modules from the contract.
from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import host, schedule, types

from . import _children, _errors, _host, _json, _plugin, _snapshot, admission, log
from ._contract import ChildRef, FinalizeCause, LeftOut, RawRequest, Readiness
from ._failure import Failure, Invalid
from ._response import Namespaces, RawChild, RawResponse, Requirement
from .kinds import Kind


class _Host:
    """The functions of the host that runs the component."""

    _levels: typing.ClassVar = {level.name.lower(): level for level in host.Level}
    log = staticmethod(lambda level, message, fields: host.log(_Host._levels[level], message, fields))
    span_attribute = staticmethod(host.span_attribute)
    span_event = staticmethod(host.span_event)
    measure = staticmethod(host.measure)
    now = staticmethod(time.time)
    random_bytes = staticmethod(os.urandom)

    def schedule_next(self, text: str, time_zone: str, after: int) -> int:
        try:
            next_time: int = schedule.next(text, time_zone, after)
        except Err as error:
            raise _problem(error.value) from None
        return next_time

    def schedule_previous(self, text: str, time_zone: str, at: int) -> int | None:
        try:
            previous: int | None = schedule.previous(text, time_zone, at)
        except Err as error:
            raise _problem(error.value) from None
        return previous


def _problem(problem: schedule.Problem) -> _host.ScheduleProblem:
    is_of_time_zone = isinstance(problem, schedule.Problem_TimeZone)
    return _host.ScheduleProblem(problem.value, is_of_time_zone=is_of_time_zone)


def export(plugin: type[_plugin.AnyPlugin]) -> tuple[type, type]:
    """Return the classes that the toolchain calls: of the reconciler, and of the admission."""
    has_admission = issubclass(plugin, admission.Admission)
    if has_admission and not hasattr(exports, "Admission"):
        raise TypeError(
            f"{plugin.__name__} has an Admission: set `admission = true` in [tool.windlass] of pyproject.toml"
        )
    descriptor = _descriptor(_plugin.descriptor(plugin))
    instance = plugin()
    reviewer = typing.cast("admission.Admission[typing.Any]", instance)
    _host.current = _Host()

    class Reconciler:
        def describe(self) -> types.Descriptor:
            return descriptor

        def reconcile(self, request: types.Request) -> types.Response:
            try:
                return _response(_plugin.reconcile(instance, _request(request)))
            except Failure as failure:
                raise Err(_failure(failure)) from None
            except (Exception, SystemExit) as error:
                # An exception that leaves the component is a trap without a message, and traps lead to quarantine.
                log.error(_errors.stack(error))
                raise Err(types.Failure_Failed(_errors.summary(error))) from None

    class Admission:
        def review(self, request: typing.Any) -> typing.Any:
            try:
                return _verdict(admission.review(reviewer, _admission_request(request, plugin)))
            except (Exception, SystemExit) as error:
                log.error(_errors.stack(error))
                return _verdict(admission.Deny(_errors.summary(error)))

    _snapshot.complete()
    # Collections then leave the pages of the snapshot alone, which a call would otherwise copy.
    gc.collect()
    gc.freeze()
    return Reconciler, Admission


def _kind(kind: Kind) -> types.Kind:
    return types.Kind(kind.api_version, kind.name)


def _descriptor(plugin: _plugin.Descriptor) -> types.Descriptor:
    return types.Descriptor(
        name=plugin.name,
        version=plugin.version,
        description=plugin.description,
        parent=_parent(plugin),
        children=[types.ChildRule(_kind(rule.kind), _strategy(rule.update), rule.optional) for rule in plugin.children],
        related=[types.RelatedRule(_kind(rule.kind), rule.optional) for rule in plugin.related],
        endpoints=[],
        finalizes=plugin.finalizes,
        ordered_deletion=plugin.ordered_deletion,
        ready_means=types.ReadyMeans[plugin.ready_means.upper()],
        clock=plugin.clock,
        resync=plugin.resync,
        config_schema=plugin.config_schema,
        metrics=[
            types.Metric(one.name, one.unit, one.description, types.MetricType[one.type.upper()], list(one.labels))
            for one in plugin.metrics
        ],
        extensions=[],
    )


def _parent(plugin: _plugin.Descriptor) -> types.Parent:
    selector = types.ParentSelector(plugin.selector.labels, plugin.selector.annotations)
    if isinstance(plugin.parent, _plugin.Existing):
        return types.Parent_Existing(types.ExistingParent(_kind(plugin.parent.kind), selector))
    return types.Parent_Custom(types.CustomParent(plugin.parent, selector))


def _strategy(update: _children.UpdateStrategy) -> types.UpdateStrategy:
    if isinstance(update, _children.Rolling):
        return types.UpdateStrategy_Rolling(types.Rolling(update.recreate, list(update.conditions)))
    if isinstance(update, _children.Recreate):
        return types.UpdateStrategy_Recreate()
    if isinstance(update, _children.OnDelete):
        return types.UpdateStrategy_OnDelete()
    return types.UpdateStrategy_Apply()


def _request(request: types.Request) -> RawRequest:
    finalizing = request.phase.value if isinstance(request.phase, types.Phase_Finalize) else None
    return RawRequest(
        parent=request.parent,
        cause=None if finalizing is None else _cause(finalizing.cause),
        is_namespace_terminating=finalizing is not None and finalizing.namespace_terminating,
        children=_observed(request.children),
        left_out=[LeftOut(_live_ref(each.child), each.size) for each in request.left_out],
        related=[(related.id, _observed(related.objects)) for related in request.related],
        kinds=[Kind(kind.api_version, kind.name) for kind in request.kinds],
        now=request.now,
        config=request.config,
        closed_namespaces=request.capabilities.closed_namespaces,
    )


def _cause(cause: types.FinalizeCause) -> FinalizeCause:
    return typing.cast("FinalizeCause", cause.name.lower().replace("_", "-"))


_READY, _UNKNOWN = Readiness("ready"), Readiness("unknown")


def _observed(objects: list[typing.Any]) -> list[typing.Any]:
    """Give the objects the readiness of the SDK. They are not copied: a request may have a thousand."""
    for each in objects:
        match each.readiness:
            case types.Readiness_Ready():
                each.readiness = _READY
            case types.Readiness_Progressing(message):
                each.readiness = Readiness("progressing", message)
            case types.Readiness_Failed(message):
                each.readiness = Readiness("failed", message)
            case _:
                each.readiness = _UNKNOWN
    return objects


def _live_ref(child: types.ChildRef) -> ChildRef:
    return ChildRef(Kind(child.kind.api_version, child.kind.name), child.name, child.namespace)


def _response(response: RawResponse) -> types.Response:
    return types.Response(
        children=[_child(child) for child in response.children],
        keep=_keep(response.keep),
        status=response.status,
        waiting=response.waiting,
        requeue=response.requeue,
        requeue_at=response.requeue_at,
        events=[
            types.Event(types.EventType.WARNING if one.is_warning else types.EventType.NORMAL, one.reason, one.message)
            for one in response.events
        ],
        requirements=[_requirement(one) for one in response.requirements],
        http=[],
        finalized=response.finalized,
        extensions=[],
    )


def _child(child: RawChild) -> types.DesiredChild:
    options = child.options
    return types.DesiredChild(
        object=child.object,
        stage=options.stage,
        retain=options.retain,
        take_over=options.take_over,
        create=types.Create_Always() if options.once is None else types.Create_Once(options.once),
        ready=options.ready,
        update=None if options.update is None else _strategy(options.update),
        replaces=None if options.replaces is None else _ref(options.replaces),
    )


def _ref(child: typing.Any) -> types.ChildRef:
    return types.ChildRef(_kind(child.kind), child.namespace, child.name)


def _keep(keep: list[ChildRef] | typing.Literal["all"]) -> types.Keep:
    if keep == "all":
        return types.Keep_All()
    return types.Keep_These([_ref(child) for child in keep]) if keep else types.Keep_None_()


def _requirement(requirement: Requirement) -> types.Requirement:
    namespaces = _namespaces(requirement.namespaces)
    select = _selection(requirement)
    return types.Requirement(requirement.id, _kind(requirement.kind), namespaces, select, requirement.metadata_only)


def _namespaces(namespaces: Namespaces) -> types.Namespaces:
    if namespaces is None:
        return types.Namespaces_OfParent()
    return types.Namespaces_All() if namespaces == "all" else types.Namespaces_Named(list(namespaces))


def _selection(requirement: Requirement) -> types.Selection:
    if requirement.by == "labelSelector":
        return types.Selection_LabelSelector(_json.encode(requirement.value))
    select = types.Selection_Name if requirement.by == "name" else types.Selection_Labels
    return select(requirement.value)


def _failure(failure: Failure) -> types.Failure:
    if isinstance(failure, Invalid):
        return types.Failure_Invalid(types.Invalid(failure.field, failure.message))
    return types.Failure_Failed(failure.message)


def _admission_request(request: typing.Any, plugin: type[_plugin.AnyPlugin]) -> admission.AdmissionRequest[typing.Any]:
    return admission.AdmissionRequest(
        operation=request.operation.name.lower(),
        kind=Kind(request.kind.api_version, request.kind.name),
        subresource=request.subresource,
        namespace=request.namespace,
        namespace_labels=dict(request.namespace_labels),
        name=request.name,
        object=None if request.object is None else _json.decode(request.object),
        old_object=None if request.old_object is None else _json.decode(request.old_object),
        is_dry_run=request.dry_run,
        username=request.username,
        groups=request.groups,
        _config=request.config,
        _spec=plugin._spec,
    )


def _verdict(response: admission.AdmissionResponse) -> typing.Any:
    warnings = [_host.text(warning) for warning in response.warnings]
    return exports.admission.Verdict(_decision(response), warnings)


def _decision(response: admission.AdmissionResponse) -> typing.Any:
    if isinstance(response, admission.Deny):
        field = None if response.field is None else _host.text(response.field)
        return exports.admission.Decision_Deny(types.Invalid(field, _host.text(response.message)))
    if isinstance(response, admission.Replace):
        return exports.admission.Decision_Replace(_json.encode(response.object))
    return exports.admission.Decision_Allow()
