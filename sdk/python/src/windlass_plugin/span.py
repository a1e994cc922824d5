"""The span of the call in the host's trace, and measurements.

    span.attribute("replicas", 3)
    span.event("scaled", replicas=3)

Attributes, events and log lines of one call have at most 64 KiB together (`spec.limits.logBytes` of the Plugin); the host
drops the rest.
"""

from __future__ import annotations

from . import _host


def attribute(key: str, value: object) -> None:
    """Set an attribute of the call's span, to the text of a value."""
    _host.current.span_attribute(_host.text(key), _host.text(value))


def event(name: str, /, **attributes: object) -> None:
    """Add an event to the call's span, with the texts of the attributes' values."""
    _host.current.span_event(_host.text(name), _host.pairs(attributes))


def measure(metric: str, value: float, /, **labels: object) -> None:
    """Add to a counter, set a gauge or record a value in a histogram, which the plugin's `metrics` declare.

    `value` is in the unit of the metric. The host drops metrics and labels that the plugin does not declare.
    """
    _host.current.measure(_host.text(metric), float(value), _host.pairs(labels))
