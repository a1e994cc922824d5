"""The spec of an application."""

from dataclasses import dataclass, field
from typing import Annotated

from windlass_plugin import Length, ListMap, Positive, Quantity, Range
from windlass_plugin.types import DnsSubdomain, EnvVar, Image


@dataclass
class Resources:
    """What each Pod asks of its node."""

    cpu: Annotated[Quantity, Positive()] = Quantity("100m")
    """Processors, like 100m."""
    memory: Annotated[Quantity, Positive()] = Quantity("128Mi")
    """Memory, like 128Mi."""


@dataclass
class MyAppSpec:
    """A web application."""

    image: Annotated[Image, Length(max=1024)]
    """The image that it runs."""
    replicas: Annotated[int, Range(1, 100)] = 1
    """How many Pods."""
    port: Annotated[int, Range(1, 65535)] = 8080
    """The port on which it listens, and its Service."""
    resources: Resources = field(default_factory=Resources)
    """What each Pod asks of its node."""
    env: Annotated[list[EnvVar], Length(max=500), ListMap("name")] = field(default_factory=list)
    """Environment variables."""
    ingress_host: DnsSubdomain | None = None
    """The host name under which an Ingress makes it known. Without it there is no Ingress."""
