"""The rollout of a Deployment, from its status."""

from __future__ import annotations

import dataclasses
import typing

from ._request import Object
from ._status import conditions_of


@dataclasses.dataclass(frozen=True)
class Rollout:
    """The Pods of a Deployment, and how far its last change is rolled out.

    The default is the rollout of a Deployment that does not exist: no Pods, and still progressing.
    """

    desired: int = 0
    """Pods that the Deployment's spec desires (`spec.replicas`); an autoscaler writes it too."""
    replicas: int = 0
    """Pods that exist, with those of older revisions."""
    updated: int = 0
    """Pods of the current revision."""
    ready: int = 0
    """Pods that are Ready."""
    available: int = 0
    """Pods that have been Ready for at least `spec.minReadySeconds`."""
    is_outdated: bool = False
    """Whether the status is older than the spec: then the counts are of the spec before."""
    state: typing.Literal["Progressing", "Complete", "Failed"] = "Progressing"
    """The state by the rules of kstatus.

    `Complete`: all desired Pods are available and of the current revision, and there are no others. `Failed`: the rollout
    does not go on without a change.
    """
    failure: str = ""
    """The message of the condition of a failed rollout."""

    @classmethod
    def of(cls, deployment: Object | None) -> Rollout:
        """Return the rollout of a live Deployment; counts that cannot be read are 0."""
        if deployment is None:
            return cls()

        def count(*path: str, default: int = 0) -> int:
            value = deployment.get(*path)
            return value if type(value) is int else default

        # The API server's default.
        desired = count("spec", "replicas", default=1)
        replicas, updated, ready, available = (
            count("status", f"{name}eplicas") for name in ("r", "updatedR", "readyR", "availableR")
        )
        is_outdated = count("status", "observedGeneration") < count("metadata", "generation")
        rollout = cls(desired, replicas, updated, ready, available, is_outdated)
        if is_outdated:
            return rollout
        for condition in conditions_of(deployment.json):
            if (condition.type == "ReplicaFailure" and condition.is_true) or (
                condition.type == "Progressing" and condition.reason == "ProgressDeadlineExceeded"
            ):
                return dataclasses.replace(rollout, state="Failed", failure=condition.message)
        if replicas == updated == ready == available == desired:
            return dataclasses.replace(rollout, state="Complete")
        return rollout

    def message(self, desired: int) -> str:
        """Return a message for users: `2/3 replicas ready`, followed by the message of a failed rollout.

        `desired` is the parent's number of replicas.
        """
        ready = f"{self.ready}/{desired} replicas ready"
        return f"{ready}: {self.failure}" if self.state == "Failed" else ready
