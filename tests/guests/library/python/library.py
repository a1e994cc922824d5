"""What Python's standard library can and cannot do in a component: the spec names one thing to do, the status has the result."""

import codecs
import collections
import fractions
import secrets
import socket
import string
import threading
import time
import urllib.parse
import warnings
import zoneinfo
from dataclasses import dataclass
from datetime import date, datetime, timezone

from windlass_plugin import CustomResource, Plugin, Request, Response, random_bytes


def imported_later():
    import wave

    return wave


DOES = {
    "datetime.strptime": lambda: datetime.strptime("2026-01-02", "%Y-%m-%d"),
    "time.strptime": lambda: time.strptime("2026-01-02", "%Y-%m-%d").tm_yday,
    "zone": lambda: datetime(2026, 7, 1, tzinfo=timezone.utc).astimezone(zoneinfo.ZoneInfo("Europe/Berlin")),
    "unknown zone": lambda: zoneinfo.ZoneInfo("Europe/Nowhere"),
    "idna": lambda: "b\u00fccher.example".encode("idna"),
    "utf-16": lambda: "a".encode("utf-16-le"),
    "cp1252": lambda: "\u00e4".encode("cp1252"),
    "cp850": lambda: codecs.lookup("cp850"),
    "counter": lambda: collections.Counter("aab").most_common(1),
    "fraction": lambda: fractions.Fraction("1.5"),
    "template": lambda: string.Template("$a b").substitute(a="a"),
    "url": lambda: urllib.parse.urlsplit("https://b\u00fccher.example/a").hostname,
    "warning": lambda: warnings.warn("careful", stacklevel=1),
    "import": imported_later,
    "file": lambda: open("/etc/hosts").read(),
    "socket": lambda: socket.create_connection(("10.0.0.1", 80)),
    "name": lambda: socket.getaddrinfo("example.com", 80),
    "thread": lambda: threading.Thread(target=print).start(),
    "sleep": lambda: time.sleep(3600),
    "random": lambda: len(secrets.token_hex(4)) + len(random_bytes(4)),
    "date": lambda: date.fromisoformat("2026-01-02").strftime("%d.%m.%Y"),
}


@dataclass
class LibrarySpec:
    """One thing to do."""

    do: str
    """A key of DOES."""


@dataclass
class LibraryStatus:
    """The result."""

    result: str
    """What the function returned."""


class Library(Plugin[LibrarySpec, LibraryStatus]):
    """The plugin."""

    name = "library"
    version = "0.1.0"
    description = "Calls Python's standard library"
    parent = CustomResource("library.example", "v1", "Library")

    def reconcile(self, request: Request[LibrarySpec, LibraryStatus]) -> Response[LibraryStatus]:
        return Response(status=LibraryStatus(str(DOES[request.spec.do]())))
