"""Kinds of Kubernetes objects, and names of the most common ones.

A kind selects live objects (`request.children(Pod)`), and makes desired ones:

    Pod("web-0", labels={"app": "web"}, spec={"containers": [{"name": "web", "image": "nginx"}]})

Another kind is `Kind("example.com/v1", "Widget")`.
"""

from __future__ import annotations

import typing


class Kind(typing.NamedTuple):
    """A kind, by the fields `apiVersion` and `kind` of its objects."""

    api_version: str
    """As in an object's `apiVersion`: `apps/v1`."""
    name: str
    """As in an object's `kind`: `Deployment`."""

    def __call__(
        self,
        name: str,
        /,
        *,
        namespace: str | None = None,
        labels: typing.Mapping[str, str] | None = None,
        annotations: typing.Mapping[str, str] | None = None,
        **fields: typing.Any,
    ) -> dict[str, typing.Any]:
        """Make an object of this kind, as a dict. `fields` are those beside `metadata`: `spec`, `data`, ….

        Leave out the namespace of a child that is in the parent's: the host sets it.
        """
        metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}
        return {
            "apiVersion": self.api_version,
            "kind": self.name,
            "metadata": {field: value for field, value in metadata.items() if value is not None},
            **fields,
        }


ConfigMap = Kind("v1", "ConfigMap")
"""`v1` ConfigMap."""
LimitRange = Kind("v1", "LimitRange")
"""`v1` LimitRange."""
Namespace = Kind("v1", "Namespace")
"""`v1` Namespace."""
PersistentVolumeClaim = Kind("v1", "PersistentVolumeClaim")
"""`v1` PersistentVolumeClaim."""
Pod = Kind("v1", "Pod")
"""`v1` Pod."""
ResourceQuota = Kind("v1", "ResourceQuota")
"""`v1` ResourceQuota."""
Secret = Kind("v1", "Secret")
"""`v1` Secret."""
Service = Kind("v1", "Service")
"""`v1` Service."""
ServiceAccount = Kind("v1", "ServiceAccount")
"""`v1` ServiceAccount."""
DaemonSet = Kind("apps/v1", "DaemonSet")
"""`apps/v1` DaemonSet."""
Deployment = Kind("apps/v1", "Deployment")
"""`apps/v1` Deployment."""
StatefulSet = Kind("apps/v1", "StatefulSet")
"""`apps/v1` StatefulSet."""
HorizontalPodAutoscaler = Kind("autoscaling/v2", "HorizontalPodAutoscaler")
"""`autoscaling/v2` HorizontalPodAutoscaler."""
CronJob = Kind("batch/v1", "CronJob")
"""`batch/v1` CronJob."""
Job = Kind("batch/v1", "Job")
"""`batch/v1` Job."""
Ingress = Kind("networking.k8s.io/v1", "Ingress")
"""`networking.k8s.io/v1` Ingress."""
NetworkPolicy = Kind("networking.k8s.io/v1", "NetworkPolicy")
"""`networking.k8s.io/v1` NetworkPolicy."""
ClusterRole = Kind("rbac.authorization.k8s.io/v1", "ClusterRole")
"""`rbac.authorization.k8s.io/v1` ClusterRole."""
ClusterRoleBinding = Kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding")
"""`rbac.authorization.k8s.io/v1` ClusterRoleBinding."""
Role = Kind("rbac.authorization.k8s.io/v1", "Role")
"""`rbac.authorization.k8s.io/v1` Role."""
RoleBinding = Kind("rbac.authorization.k8s.io/v1", "RoleBinding")
"""`rbac.authorization.k8s.io/v1` RoleBinding."""
PodDisruptionBudget = Kind("policy/v1", "PodDisruptionBudget")
"""`policy/v1` PodDisruptionBudget."""
PriorityClass = Kind("scheduling.k8s.io/v1", "PriorityClass")
"""`scheduling.k8s.io/v1` PriorityClass."""
