"""The spec of an application."""

from dataclasses import dataclass, field
from typing import Annotated

from windlass_plugin import Invalid, Length, ListMap, Positive, Quantity, Range
from windlass_plugin.types import DnsSubdomain, EnvVar, Image


@dataclass
class Resources:
    """Compute resources that each Pod requests."""

    cpu: Annotated[Quantity, Positive()] = Quantity("100m")
    """CPU request of each Pod, as in `500m`. Default: 100m."""
    memory: Annotated[Quantity, Positive()] = Quantity("128Mi")
    """Memory request of each Pod, as in `256Mi`. Default: 128Mi."""


@dataclass
class MyAppSpec:
    """Desired state of a MyApp."""

    image: Annotated[Image, Length(max=1024)]
    """Container image of the Pods."""
    replicas: Annotated[int, Range(1, 100)] = 1
    """Desired number of Pods, 1 to 100. Default: 1."""
    port: Annotated[int, Range(1, 65535)] = 8080
    """Port of the container and of the Service, 1 to 65535. Default: 8080."""
    resources: Resources = field(default_factory=Resources)
    """Compute resources that each Pod requests."""
    env: Annotated[list[EnvVar], Length(max=500), ListMap("name")] = field(default_factory=list)
    """Environment variables of the container, at most 500. Their names must be unique."""
    ingress_host: DnsSubdomain | None = None
    """Host name of the Ingress. If unset, there is no Ingress."""

    def check(self) -> None:
        """Check what only CEL rules of the schema say. Raises `Invalid`, naming the field."""
        for name, quantity in (("cpu", self.resources.cpu), ("memory", self.resources.memory)):
            if not quantity.is_positive:
                raise Invalid(f"spec.resources.{name}", f"{quantity} is not more than 0")
