"""The span of the call in the host's trace, and measurements."""

from __future__ import annotations

from . import _host


def attribute(key: str, value: object) -> None:
    """Set an attribute of the call's span."""
    [(_, text)] = _host.pairs({key: value})
    _host.current.span_attribute(key, text)


def event(name: str, /, **attributes: object) -> None:
    """Add an event to the call's span."""
    _host.current.span_event(name, _host.pairs(attributes))


def measure(metric: str, value: float, /, **labels: object) -> None:
    """Add to a counter, set a gauge or record a value in a histogram, which the plugin's `metrics` declare."""
    _host.current.measure(metric, float(value), _host.pairs(labels))
