"""The rollout of a Deployment, StatefulSet or DaemonSet, from its status."""

from __future__ import annotations

import dataclasses
import typing

from ._request import Object
from ._status import conditions_of


@dataclasses.dataclass(frozen=True)
class Rollout:
    """The Pods of a Deployment, StatefulSet or DaemonSet, and how far its last change is rolled out.

    The default is the rollout of an object that does not exist: no Pods, and still progressing.
    """

    desired: int = 0
    """Pods that the spec desires (`spec.replicas`, which an autoscaler writes too), or a DaemonSet for its nodes."""
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

    `Complete`: all desired Pods are available and of the current revision, and there are no others. The revision does not
    count where a StatefulSet has a partition, or where users delete Pods to update them (`OnDelete`). `Failed`: the rollout
    of a Deployment does not go on without a change.
    """
    failure: str = ""
    """The message of the condition of a failed rollout."""

    @classmethod
    def of(cls, workload: Object | None) -> Rollout:
        """Return the rollout of a live Deployment, StatefulSet or DaemonSet; counts that cannot be read are 0."""
        if workload is None:
            return cls()

        def count(*path: str, default: int = 0) -> int:
            value = workload.get(*path)
            return value if type(value) is int else default

        kind = workload.kind.name
        if kind == "DaemonSet":
            names = ("currentNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable")
            desired = count("status", "desiredNumberScheduled")
        else:
            names = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
            # The API server's default.
            desired = count("spec", "replicas", default=1)
        replicas, updated, ready, available = (count("status", name) for name in names)
        is_outdated = count("status", "observedGeneration") < count("metadata", "generation")
        rollout = cls(desired, replicas, updated, ready, available, is_outdated)
        if is_outdated:
            return rollout
        for condition in conditions_of(workload.json) if kind == "Deployment" else ():
            if (condition.type == "ReplicaFailure" and condition.is_true) or (
                condition.type == "Progressing" and condition.reason == "ProgressDeadlineExceeded"
            ):
                return dataclasses.replace(rollout, state="Failed", failure=condition.message)
        strategy = "updateStrategy"
        kept = count("spec", strategy, "rollingUpdate", "partition")
        if kind != "Deployment" and workload.get("spec", strategy, "type") == "OnDelete":
            kept = desired
        is_updated = updated >= desired - kept if kept else updated == desired
        if is_updated and replicas == ready == available == desired:
            return dataclasses.replace(rollout, state="Complete")
        return rollout

    def message(self, desired: int) -> str:
        """Return a message for users: `2/3 replicas ready`, followed by the message of a failed rollout.

        `desired` is the parent's number of replicas.
        """
        ready = f"{self.ready}/{desired} replicas ready"
        return f"{ready}: {self.failure}" if self.state == "Failed" else ready
