"""What the host makes of a call, and of a schedule: `windlass harness` tells, by the host's own code."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import typing

from .. import _host, _plugin
from .._contract import RawRequest, Readiness
from .._failure import Invalid
from .._json import Json, Verbatim, decode, encode
from .._response import RawResponse
from . import _written


class Refused(AssertionError):
    """The host refuses the response, the description or the config of a plugin, with this sentence."""


def prepare(plugin: _plugin.Descriptor, request: RawRequest) -> tuple[RawRequest, list[Readiness]]:
    """Ask what the host makes of a request before it calls the plugin.

    Return the request with the defaults of the parent's schema, and the readiness of its children, and after them of the
    related objects, in its order. Raises `Invalid` if the host would not call the plugin with the parent, `Refused` if it
    refuses the description or the config, and another `AssertionError` if the program does not answer.
    """
    answer = _ask(plugin, request, None)
    if "invalid" in answer:
        field, _, message = answer["invalid"].partition(": ")
        raise Invalid(field, message)
    if "parent" in answer:
        request = dataclasses.replace(request, parent=encode(answer["parent"]))
    told = [answer.get("children", []), *(answer["related"][name] for name, _ in request.related)]
    return request, [Readiness(one["state"], one.get("message", "")) for objects in told for one in objects]


def check(plugin: _plugin.Descriptor, request: RawRequest, response: RawResponse) -> None:
    """Ask whether the host takes a response. Raises `Refused`, and another `AssertionError` if the program does not answer."""
    _ask(plugin, request, response)


def _ask(plugin: _plugin.Descriptor, request: RawRequest, response: RawResponse | None) -> dict[str, Json]:
    question = {
        "descriptor": _written.descriptor(plugin),
        "phase": "sync" if request.cause is None else "finalize",
        "parent": Verbatim(request.parent.decode()),
        "children": [Verbatim(child.object.decode()) for child in request.children],
        "related": {name: [Verbatim(each.object.decode()) for each in objects] for name, objects in request.related},
        "config": None if request.config is None else Verbatim(request.config.decode()),
        "response": None if response is None else _written.response(response),
    }
    answer = _run(question)
    if "refused" in answer:
        raise Refused(answer["refused"])
    return answer


def schedule_next(schedule: str, time_zone: str, after: int) -> int:
    """Ask for the first time of a schedule after this one, in milliseconds since 1970. Raises `ScheduleProblem`."""
    time = _scheduled("next", schedule, time_zone, after)
    assert time is not None
    return time


def schedule_previous(schedule: str, time_zone: str, at: int) -> int | None:
    """Ask for the last time of a schedule until this one. Raises `ScheduleProblem`."""
    return _scheduled("previous", schedule, time_zone, at)


def _scheduled(question: str, schedule: str, time_zone: str, time: int) -> int | None:
    answer = _run({question: {"schedule": schedule, "timeZone": time_zone, "time": time}})
    if "time" not in answer:
        ((part, message),) = answer.items()
        raise _host.ScheduleProblem(message, is_of_time_zone=part == "timeZone")
    time_or_none: int | None = answer["time"]
    return time_or_none


def _run(question: dict[str, typing.Any]) -> dict[str, Json]:
    binary = os.environ.get("WINDLASS") or shutil.which("windlass")
    if binary is None:
        raise AssertionError(f"`windlass` is not in PATH. {_GET}")
    try:
        ran = subprocess.run([binary, "harness"], input=encode(question), capture_output=True, check=False)
    except OSError as error:
        raise AssertionError(f"{binary} does not run: {error.strerror}. {_GET}") from None
    if ran.returncode != 0:
        raise AssertionError(f"`{binary} harness`: {ran.stderr.decode(errors='replace').strip()}")
    answer: dict[str, Json] = decode(ran.stdout)
    return answer


_GET = (
    "Tests of a plugin ask it what the host makes of a call: install it with `cargo install --locked --path host/cli` in "
    "the repository of Windlass, or set the environment variable WINDLASS to its path"
)
