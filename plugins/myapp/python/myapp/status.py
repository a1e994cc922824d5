"""The status of an application, from its Deployment."""

from dataclasses import dataclass
from typing import Annotated

from windlass_plugin import Format, Phase, Range, Request, Rollout
from windlass_plugin.kinds import Deployment

from .spec import MyAppSpec

Count = Annotated[int, Range(0, 4294967295)]


@dataclass
class MyAppStatus:
    """What became of an application."""

    phase: Phase
    """Where it stands."""
    replicas: Count
    """Pods that exist."""
    ready_replicas: Count
    """Pods that are Ready."""
    available_replicas: Count
    """Pods that can be relied on."""
    message: str
    """The same for people."""
    last_update_time: Annotated[str | None, Format("date-time")] = None
    """When anything in this status was last another."""

    @classmethod
    def of(cls, request: Request[MyAppSpec, "MyAppStatus"]) -> "MyAppStatus":
        """Return the status without its time."""
        desired = request.spec.replicas
        rollout = Rollout.of(request.child(Deployment, request.name))
        phase = Phase.PENDING
        if rollout.state == "Failed":
            phase = Phase.FAILED
        # Until a change of the spec is applied, the rollout of the old spec is complete.
        elif rollout.state == "Complete" and rollout.desired == desired and request.is_spec_applied:
            phase = Phase.RUNNING
        return cls(phase, rollout.replicas, rollout.ready, rollout.available, rollout.message(desired))
