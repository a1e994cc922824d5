"""A plugin for the tests of calls: its kind has a field of each type."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from windlass_plugin import (
    CustomResource,
    Length,
    ListMap,
    ListSet,
    Name,
    Phase,
    Plugin,
    Positive,
    Quantity,
    Range,
    Request,
    Response,
)
from windlass_plugin.kinds import ConfigMap, Namespace, Pod, Secret
from windlass_plugin.testing import call
from windlass_plugin.types import EnvVar


@dataclasses.dataclass
class Port:
    name: str
    port: Annotated[int, Range(1, 65535)]


@dataclasses.dataclass
class Spec:
    replicas: Annotated[int, Range(0, 1000)] = 1
    offset: Annotated[int, Range(min=0)] = 0
    ratio: float = 0.5
    title: Annotated[str, Length(1, 3)] = "abc"
    mode: Literal["a", "b"] = "a"
    flag: bool = False
    size: Annotated[Quantity, Positive()] = Quantity("1")
    ports: Annotated[list[Port], Length(max=3), ListMap("name")] = dataclasses.field(default_factory=list)
    env: list[EnvVar] = dataclasses.field(default_factory=list)
    tags: Annotated[list[str], ListSet()] = dataclasses.field(default_factory=list)
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    host_ip: Annotated[str | None, Name("hostIP")] = None
    free: Any = None

    def __post_init__(self) -> None:
        if self.title == "bad":
            raise ValueError("the title is bad")


@dataclasses.dataclass
class Status:
    phase: Phase
    pods: int
    updated: str | None = None


@dataclasses.dataclass
class Config:
    region: str
    zones: int = 3


class Base(Plugin[Spec, Status]):
    name = "base"
    version = "1.0.0"
    parent = CustomResource("example.com", "v1", "Base")


def parent(spec: Any = None, **fields: Any) -> dict[str, Any]:
    document = {"apiVersion": "example.com/v1", "kind": "Base", "metadata": {"name": "web", "namespace": "default"}}
    return {**document, **({} if spec is None else {"spec": spec}), **fields}


def returning(respond: Any) -> type[Base]:
    class Returned(Base):
        children = (ConfigMap, Pod, Secret)
        related = (Namespace, Secret)
        config = Config

        def reconcile(self, request: Request[Spec, Status]) -> Response[Status]:
            response: Response[Status] = respond(request)
            return response

    return Returned


def spec_of(spec: Any) -> Spec:
    seen: list[Spec] = []

    def respond(request: Request[Spec, Status]) -> Response[Status]:
        seen.append(request.spec)
        return Response()

    call(returning(respond), parent(spec))
    return seen[0]


def request_of(document: dict[str, Any], **arguments: Any) -> Request[Spec, Status]:
    seen: list[Request[Spec, Status]] = []

    def respond(request: Request[Spec, Status]) -> Response[Status]:
        seen.append(request)
        return Response()

    call(returning(respond), document, **arguments)
    return seen[0]
