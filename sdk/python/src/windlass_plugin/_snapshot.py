"""What a component must have in memory, because it has no files: modules that Python imports when they are first used."""

from __future__ import annotations

import importlib
import sys
import typing

MODULES = (
    # datetime.strptime and time.strptime.
    "_strptime",
    # zoneinfo.ZoneInfo, also for a zone that does not exist.
    "importlib.resources",
    # urllib.parse, traceback, and the names of characters.
    "unicodedata",
    # Functions of collections, functools, fractions, random, uuid and weakref.
    "copy",
    "decimal",
    "hashlib",
    "heapq",
    "statistics",
    # Warnings, and exceptions in a log line.
    "traceback",
    "warnings",
    # Python imports the module of an encoding by its name.
    *(
        f"encodings.{name}"
        for name in ("ascii", "base64_codec", "cp1252", "hex_codec", "idna", "iso8859_15", "latin_1", "punycode")
    ),
    *(f"encodings.utf_{name}" for name in ("8_sig", "16", "16_be", "16_le", "32", "32_be", "32_le")),
)
"""Modules of the standard library that its functions import when they are called."""

_zones: list[object] = []
"""All time zones. `ZoneInfo` returns an object that exists instead of reading its file."""


def complete() -> None:
    """Import and read what the plugin may need in a call. For the build: afterwards, there are no files."""
    for module in MODULES:
        importlib.import_module(module)
    zoneinfo: typing.Any = sys.modules.get("zoneinfo")
    if zoneinfo is not None:
        # None without the package `tzdata`: the build does not read the time zones of the machine.
        _zones[:] = (zoneinfo.ZoneInfo(key) for key in sorted(zoneinfo.available_timezones()))
