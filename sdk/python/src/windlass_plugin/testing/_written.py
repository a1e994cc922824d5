"""Responses and descriptors as documents: golden answers, and what `windlass harness` reads."""

from __future__ import annotations

import typing

from .. import _plugin
from .._children import ChildOptions, Rolling, UpdateStrategy
from .._json import Json, Verbatim
from .._response import RawResponse, Requirement
from ..kinds import Kind


def response(raw: RawResponse) -> dict[str, Json]:
    """Return a response without what only a harness sees, such as logs. Children and status are as the plugin returned them."""
    return {
        "children": [Verbatim(child.object.decode()) for child in raw.children],
        "options": [_options(child.options) for child in raw.children],
        "keep": {"these": [_ref(each) for each in raw.keep]} if raw.keep and raw.keep != "all" else raw.keep or None,
        "waiting": raw.waiting,
        "status": None if raw.status is None else Verbatim(raw.status.decode()),
        "requeueMs": raw.requeue,
        # As the host reads it.
        "requeueAtMs": None if raw.requeue_at is None else max(raw.requeue_at, 1),
        "events": [
            {"type": "Warning" if one.is_warning else "Normal", "reason": one.reason, "message": one.message}
            for one in raw.events
        ],
        "requirements": [_requirement(one) for one in raw.requirements],
        "finalized": raw.finalized,
    }


def descriptor(plugin: _plugin.Descriptor) -> dict[str, Json]:
    """Return the description of a plugin."""
    parent = plugin.parent
    return {
        "name": plugin.name,
        "version": plugin.version,
        "description": plugin.description,
        "parent": {"existing": _kind(parent.kind)}
        if isinstance(parent, _plugin.Existing)
        else {"custom": Verbatim(parent.decode())},
        "selector": plugin.selector,
        "children": [
            {**_kind(rule.kind), "update": _strategy(rule.update), "optional": rule.optional}
            for rule in plugin.children
        ],
        "related": [{**_kind(rule.kind), "optional": rule.optional} for rule in plugin.related],
        "finalizes": plugin.finalizes,
        "orderedDeletion": plugin.ordered_deletion,
        "readyMeans": plugin.ready_means,
        "clock": plugin.clock,
        "resyncMs": plugin.resync,
        "configSchema": None if plugin.config_schema is None else Verbatim(plugin.config_schema.decode()),
        "metrics": plugin.metrics,
    }


def _kind(kind: Kind) -> dict[str, Json]:
    return {"apiVersion": kind.api_version, "kind": kind.name}


def _options(options: ChildOptions) -> dict[str, Json]:
    """Return the options that are not the default."""
    fields = {
        "stage": options.stage,
        "retain": options.retain,
        "takeOver": options.take_over,
        "ready": options.ready,
        "update": None if options.update is None else _strategy(options.update),
        "once": options.once,
        "replaces": None if options.replaces is None else _ref(options.replaces),
    }
    default = {"stage": 0, "retain": False, "takeOver": False}
    return {name: value for name, value in fields.items() if value != default.get(name)}


def _strategy(update: UpdateStrategy) -> Json:
    if isinstance(update, Rolling):
        until = {"conditions": list(update.conditions)} if update.conditions else "ready"
        return {"rolling": {"recreate": update.recreate, "until": until}}
    name = type(update).__name__
    return name[0].lower() + name[1:]


def _ref(child: typing.Any) -> dict[str, Json]:
    return {**_kind(child.kind), "namespace": child.namespace, "name": child.name}


def _requirement(one: Requirement) -> dict[str, Json]:
    document = {"id": one.id, **_kind(one.kind), "metadataOnly": one.metadata_only or None}
    if one.by == "labelSelector":
        document["labels"] = _selector(one.value)
    else:
        document[one.by] = one.value
    match one.namespaces:
        case None:
            pass
        case [name]:
            document["namespace"] = name
        case several:
            document["namespaces"] = several
    return document


def _selector(selector: dict[str, Json]) -> str:
    """Return a LabelSelector in kubectl's syntax, as the host writes it."""
    labels = sorted((selector.get("matchLabels") or {}).items())
    terms = [_term(key, "In", [value]) for key, value in labels]
    return ",".join([*terms, *(_term(**one) for one in selector.get("matchExpressions") or [])])


def _term(key: str, operator: str, values: typing.Sequence[str] | None = None) -> str:
    match operator:
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case _:
            return f"{key} {operator.lower()} ({','.join(values or ())})"
