"""Exceptions that a plugin does not catch."""

from __future__ import annotations

import itertools
import sys
import types

from ._host import text


def summary(error: BaseException) -> str:
    """Return one line for the parent's condition: the exception, and where in the plugin it was raised.

    It also says what a component does not have, if that is the cause: the plugin's tests run where Python has all of it.
    """
    lines = [line.strip() for line in _title(error).splitlines()]
    title = " ".join(line for line in lines if line)
    places = [place for place in _places(error.__traceback__) if not place.startswith(_SDK)]
    located = f"{title} ({places[-1]})" if places else title
    cause = _missing(error)
    return f"{located}: {cause}" if cause else located


def _missing(error: BaseException) -> str:
    """Return what the exception is a sign of, if a component does not have it."""
    if type(error).__name__ == "ZoneInfoNotFoundError":
        return "a component has the time zones of the package tzdata, if the project installs it"
    if isinstance(error, ImportError):
        return "a component has the modules that are imported when it is built: import it at the top of a module of the plugin"
    if isinstance(error, LookupError) and str(error).startswith("unknown encoding"):
        return "import its module of the package encodings at the top of a module of the plugin"
    if isinstance(error, OSError) and _is_of_system(error):
        return "a plugin has no network and no files"
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return "a plugin has no threads"
    return ""


def _is_of_system(error: BaseException | None) -> bool:
    """Tell whether a system call failed: an OSError that the plugin raises itself, as TimeoutError("not yet"), has no number.

    Libraries raise exceptions without one, such as URLError, while they handle that of a system call.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return True
        error = error.__cause__ or error.__context__
    return False


def stack(error: BaseException) -> str:
    """Return the exception with its stack and its causes, as Python prints them, but without the lines of the source.

    The module `traceback` reads the source and imports modules, and a component has no files.
    """
    parts = []
    one: BaseException | None = error
    while one is not None:
        places = list(itertools.dropwhile(lambda place: place.startswith(_SDK), _places(one.__traceback__)))
        lines = ["Traceback (most recent call last):", *(f"  {line}" for line in _lines(places))]
        lines += [_title(one), *getattr(one, "__notes__", ())]
        parts.append("\n".join(lines))
        if one.__cause__ is not None:
            parts.append("\nThe above exception was the direct cause of the following exception:\n")
            one = one.__cause__
        elif one.__context__ is not None and not one.__suppress_context__:
            parts.append("\nDuring handling of the above exception, another exception occurred:\n")
            one = one.__context__
        else:
            one = None
    return "\n".join(reversed(parts))


_SDK = "windlass_plugin/"


def _title(error: BaseException) -> str:
    name = type(error).__qualname__
    message = text(error)
    return f"{name}: {message}" if message else name


def _places(traceback: types.TracebackType | None) -> list[str]:
    places = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        places.append(f"{_relative(code.co_filename)}:{traceback.tb_lineno} in {code.co_name}")
        traceback = traceback.tb_next
    return places


# The host drops the log of a call after 64 KiB.
_SHOWN = 20


def _lines(places: list[str]) -> list[str]:
    """Leave out the middle of a deep recursion."""
    omitted = len(places) - 2 * _SHOWN
    return places if omitted <= 0 else [*places[:_SHOWN], f"… {omitted} more", *places[-_SHOWN:]]


def _relative(file: str) -> str:
    """Return the path of a file below the folder that has its module."""
    folders = [folder for folder in sys.path if folder and file.startswith(f"{folder}/")]
    return file[len(max(folders, key=len)) + 1 :] if folders else file
