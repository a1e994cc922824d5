"""The status of an application, from its Deployment."""

from dataclasses import dataclass
from typing import Annotated

from windlass_plugin import Format, Phase, Range, Request, Rollout
from windlass_plugin.kinds import Deployment

from .spec import MyAppSpec

Count = Annotated[int, Range(0, 4294967295)]


@dataclass
class MyAppStatus:
    """Observed state of a MyApp."""

    phase: Phase
    """Phase of the application: Pending, Running or Failed."""
    replicas: Count
    """Number of Pods that exist."""
    ready_replicas: Count
    """Number of Ready Pods."""
    available_replicas: Count
    """Number of available Pods."""
    message: str
    """Summary of the status for users."""
    last_update_time: Annotated[str | None, Format("date-time")] = None
    """Time of the last change of this status."""

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
