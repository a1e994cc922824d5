"""The wall clock.

A call that reads it is impure: the host cannot reuse its response, and a response that contains the time differs in every
call. A plugin that decides by the time has `clock = True`, and reads `Request.now`. In a test the clock stands still
(`testing.call(…, at="2026-01-01T00:00:00Z")`).
"""

from __future__ import annotations

import dataclasses
import time
import typing

from . import _host

_S = typing.TypeVar("_S")


def now() -> float:
    """Return the time, in seconds since 1970."""
    return _host.current.now()


def timestamp() -> str:
    """Return the time as Kubernetes writes it: RFC 3339 in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now()))


def steady(before: _S | None, status: _S, field: str) -> _S:
    """Return the status with the time of its last change in this field, which is an attribute of the dataclass.

    It is the time that the status before has, if all other fields are equal, and otherwise now. In steady state the clock
    is not read, so the call stays pure and the status does not change. `before` is `request.status`.
    """
    time_before = getattr(before, field, None)
    same: _S = dataclasses.replace(status, **{field: time_before})  # type: ignore[type-var]
    if time_before is not None and same == before:
        return same
    return dataclasses.replace(status, **{field: timestamp()})  # type: ignore[type-var]
