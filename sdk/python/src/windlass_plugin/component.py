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
from wit_world.imports import host, types

from . import _errors, _host, _json, _plugin, _snapshot, admission, log
from ._contract import RawRequest, RawRequirement, RawResponse
from ._failure import Failure, Invalid, Retry, milliseconds
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
                return exports.admission.Verdict_Deny(_errors.summary(error))

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
        parent=_parent(plugin.parent),
        children=[types.ChildRule(_kind(child.kind), _strategy(child.update)) for child in plugin.children],
        related=[_kind(kind) for kind in plugin.related],
        finalizes=plugin.finalizes,
        resync=plugin.resync,
        config_schema=plugin.config_schema,
        metrics=[
            types.Metric(one.name, one.unit, one.description, types.MetricType[one.type.upper()], list(one.labels))
            for one in plugin.metrics
        ],
        extensions=[],
    )


def _parent(parent: bytes | _plugin.Existing) -> types.Parent:
    if isinstance(parent, _plugin.Existing):
        return types.Parent_Existing(types.ExistingParent(_kind(parent.kind), parent.selector))
    return types.Parent_Custom(parent)


def _strategy(update: _plugin.UpdateStrategy) -> types.UpdateStrategy:
    if isinstance(update, _plugin.Rolling):
        return types.UpdateStrategy_Rolling(types.Rolling(update.recreate, list(update.conditions)))
    if isinstance(update, _plugin.Recreate):
        return types.UpdateStrategy_Recreate()
    if isinstance(update, _plugin.OnDelete):
        return types.UpdateStrategy_OnDelete()
    return types.UpdateStrategy_Apply()


def _request(request: types.Request) -> RawRequest:
    return RawRequest(
        parent=request.parent,
        finalize=request.phase is types.Phase.FINALIZE,
        children=request.children,
        related=[(related.id, related.objects) for related in request.related],
        config=request.config,
        extensions=request.extensions,
    )


def _response(response: RawResponse) -> types.Response:
    return types.Response(
        children=response.children,
        status=response.status,
        requeue=response.requeue,
        events=[types.Event(types.EventType[one.type.upper()], one.reason, one.message) for one in response.events],
        requirements=[
            types.Requirement(one.id, _kind(one.kind), one.namespace, _selection(one)) for one in response.requirements
        ],
        finalized=response.finalized,
        extensions=[],
    )


def _selection(requirement: RawRequirement) -> types.Selection:
    if requirement.by == "name":
        return types.Selection_Name(requirement.value)
    return types.Selection_Labels(requirement.value)


def _failure(failure: Failure) -> types.Failure:
    if isinstance(failure, Invalid):
        return types.Failure_Invalid(failure.message)
    if isinstance(failure, Retry):
        return types.Failure_Retry(types.Retry(failure.message, milliseconds(failure.after)))
    return types.Failure_Failed(failure.message)


def _admission_request(request: typing.Any, plugin: type[_plugin.AnyPlugin]) -> admission.AdmissionRequest[typing.Any]:
    operation = request.operation.name.lower()
    spec = plugin._spec
    return admission.AdmissionRequest(
        operation, request.object, request.old_object, request.username, request.config, spec
    )


def _verdict(response: admission.AdmissionResponse) -> typing.Any:
    if isinstance(response, admission.Deny):
        return exports.admission.Verdict_Deny(_host.text(response.message))
    if isinstance(response, admission.Replace):
        return exports.admission.Verdict_Replace(_json.encode(response.object))
    return exports.admission.Verdict_Allow([_host.text(warning) for warning in response.warnings])
