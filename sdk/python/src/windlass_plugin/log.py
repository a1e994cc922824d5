"""The host's log: lines with fields, with the plugin and the parent.

    log.info("scaled", replicas=3)

The message and the values of fields are written as text. Log lines, and attributes and events of the span, of one call have
at most 64 KiB together (`spec.limits.logBytes` of the Plugin); the host drops the rest.

When a call fails, its last error line may be copied into the parent's condition and events, which more users read than a
log: neither that line nor the message of an exception may contain the value of a Secret.
"""

from __future__ import annotations

from . import _host


def trace(message: object, /, **fields: object) -> None:
    """Write a line about a single step."""
    _host.current.log("trace", _host.text(message), _host.pairs(fields))


def debug(message: object, /, **fields: object) -> None:
    """Write a line for debugging the plugin."""
    _host.current.log("debug", _host.text(message), _host.pairs(fields))


def info(message: object, /, **fields: object) -> None:
    """Write a line that is useful in production."""
    _host.current.log("info", _host.text(message), _host.pairs(fields))


def warn(message: object, /, **fields: object) -> None:
    """Write a line about something unexpected that the plugin handles."""
    _host.current.log("warn", _host.text(message), _host.pairs(fields))


def error(message: object, /, **fields: object) -> None:
    """Write a line about an error."""
    _host.current.log("error", _host.text(message), _host.pairs(fields))
