"""The desired children."""

from typing import Any

from windlass_plugin import Request
from windlass_plugin.kinds import Deployment, Ingress, Service

from .spec import MyAppSpec
from .status import MyAppStatus

AppRequest = Request[MyAppSpec, MyAppStatus]


def labels(request: AppRequest) -> dict[str, str]:
    """Return the labels of all children. A Deployment's selector is immutable, so they never change."""
    return {"app": request.name, "managed-by": "windlass"}


def deployment(request: AppRequest) -> dict[str, Any]:
    """Return the Deployment."""
    spec = request.spec
    container = {
        "name": "app",
        "image": spec.image,
        "ports": [{"name": "http", "containerPort": spec.port}],
        "env": spec.env,
        "resources": {"requests": spec.resources},
    }
    return Deployment(
        request.name,
        labels=labels(request),
        spec={
            "replicas": spec.replicas,
            "selector": {"matchLabels": {"app": request.name}},
            "template": {"metadata": {"labels": labels(request)}, "spec": {"containers": [container]}},
        },
    )


def service(request: AppRequest) -> dict[str, Any]:
    """Return the Service."""
    return Service(
        request.name,
        labels=labels(request),
        spec={
            "type": "ClusterIP",
            "selector": {"app": request.name},
            "ports": [{"name": "http", "port": request.spec.port, "targetPort": "http"}],
        },
    )


def ingress(request: AppRequest) -> dict[str, Any] | None:
    """Return the Ingress, if there is a host name."""
    host = request.spec.ingress_host
    if host is None:
        return None
    backend = {"service": {"name": request.name, "port": {"name": "http"}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    rules = [{"host": host, "http": {"paths": [path]}}]
    return Ingress(request.name, labels=labels(request), spec={"rules": rules})
