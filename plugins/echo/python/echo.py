"""A number of Pods of one image: the smallest useful operator."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from windlass_plugin import Column, CustomResource, Plugin, Range, Request, Response, Rule
from windlass_plugin.kinds import Pod
from windlass_plugin.types import Image


@dataclass
class EchoSpec:
    """Desired state of an Echo."""

    replicas: Annotated[int, Range(0, 1000)]
    """Desired number of Pods, 0 to 1000."""
    image: Image
    """Container image of the Pods."""


@dataclass
class EchoStatus:
    """Observed state of an Echo."""

    current_replicas: Annotated[int, Range(min=0)]
    """Number of Pods that exist."""
    is_ready: bool
    """Whether the desired number of Pods exists and all of them are Ready."""


class Echo(Plugin[EchoSpec, EchoStatus]):
    """The operator."""

    name = "echo"
    version = "0.1.0"
    description = "Runs the desired number of Pods of an image"
    parent = CustomResource(
        "my-operator.dev",
        "v1",
        "Echo",
        short_names=["ec"],
        columns=[Column("Desired", ".spec.replicas"), Column("Current", ".status.currentReplicas")],
        # The name is the value of a label, and the Pods' names append up to `-999` to it.
        rules=[Rule("size(self.metadata.name) <= 59", "name over 59 characters")],
    )
    children = [Pod]
    ready_means = "applied"
    resync = timedelta(minutes=5)

    def reconcile(self, request: Request[EchoSpec, EchoStatus]) -> Response[EchoStatus]:
        """Return the Pods that should exist, and the state of those that do."""
        name, spec = request.name, request.spec
        pods = [
            Pod(
                f"{name}-{index}",
                labels={"app": name, "owner": request.uid},
                spec={"containers": [{"name": "nginx", "image": spec.image}]},
            )
            for index in range(spec.replicas)
        ]
        current = request.children(Pod)
        ready = sum(pod.is_condition_true("Ready") for pod in current)
        status = EchoStatus(len(current), is_ready=ready == len(current) == spec.replicas)
        return Response(children=pods, status=status)
