"""Types that the specs of many kinds share, with the bounds that the CRD then has."""

from __future__ import annotations

import dataclasses
import typing

from ._constraints import Length, Pattern
from ._quantity import Quantity

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"

Image = typing.Annotated[str, Length(1), Pattern(r"^\S+$")]
"""The name of an image. The API server accepts every text without whitespace."""

DnsLabel = typing.Annotated[str, Length(1, 63), Pattern(f"^{_LABEL}$")]
"""A DNS label (RFC 1123), as the names of Services and containers are."""

DnsSubdomain = typing.Annotated[str, Length(max=253), Pattern(rf"^{_LABEL}(\.{_LABEL})*$")]
"""A DNS subdomain (RFC 1123): labels with dots between them, as host names and the names of most objects are."""

ResourceList = dict[str, Quantity]
"""Quantities by the name of their resource: `cpu`, `memory`, `example.com/gpu`."""

IntOrString = typing.Union[int, str]
"""A number or a text, like the port of a probe."""


@dataclasses.dataclass
class EnvVar:
    """Environment variable of a container."""

    name: typing.Annotated[str, Length(1, 253), Pattern("^[-._a-zA-Z][-._a-zA-Z0-9]*$")]
    """Name of the environment variable."""
    value: typing.Annotated[str, Length(max=32768)] = ""
    """Value of the environment variable. Default: empty."""
