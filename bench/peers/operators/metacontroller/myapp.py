"""A web application: a Deployment, a Service and, for a host name, an Ingress."""

import json
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def sync(app, live, now):
    deployment = live["Deployment.apps/v1"].get(app["metadata"]["name"])
    status = status_of(app, deployment, now)
    response = {"children": children(app), "status": status}
    if status["phase"] == "Failed":
        response["resyncAfterSeconds"] = 30
    return response


def finalize(app):
    # At this place an operator cleans up outside the cluster: a DNS record, for example.
    print(f"Nothing of {app['metadata']['name']} is left outside the cluster", flush=True)
    return {"children": [], "status": app.get("status", {}), "finalized": True}


def children(app):
    name, spec = app["metadata"]["name"], app["spec"]
    # A Deployment's selector is immutable, so the labels never change.
    labels = {"app": name, "managed-by": "windlass"}
    meta = {"name": name, "labels": labels}
    container = {
        "name": "app",
        "image": spec["image"],
        "ports": [{"name": "http", "containerPort": spec["port"]}],
        "env": spec["env"],
        "resources": {"requests": {key: str(value) for key, value in spec["resources"].items()}},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {
            "replicas": spec["replicas"],
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {
            "type": "ClusterIP",
            "selector": {"app": name},
            "ports": [{"name": "http", "port": spec["port"], "targetPort": "http"}],
        },
    }
    if not spec.get("ingressHost"):
        return [deployment, service]
    backend = {"service": {"name": name, "port": {"name": "http"}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": meta,
        "spec": {"rules": [{"host": spec["ingressHost"], "http": {"paths": [path]}}]},
    }
    return [deployment, service, ingress]


def status_of(app, deployment, now):
    desired, before = app["spec"]["replicas"], app.get("status", {})
    state, live, failure = rollout(deployment)
    phase = "Pending"
    if state == "Failed":
        phase = "Failed"
    # Until a change of the spec is applied, the rollout of the old spec is complete.
    elif state == "Complete" and is_applied(app) and deployment["spec"]["replicas"] == desired:
        phase = "Running"
    status = {
        "phase": phase,
        "replicas": live.get("replicas", 0),
        "readyReplicas": live.get("readyReplicas", 0),
        "availableReplicas": live.get("availableReplicas", 0),
        "message": f"{live.get('readyReplicas', 0)}/{desired} replicas ready{failure}",
    }
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    is_same = all(before.get(key) == value for key, value in status.items())
    status["lastUpdateTime"] = before["lastUpdateTime"] if is_same else time
    condition = {
        "type": "Ready",
        "status": str(phase == "Running"),
        "reason": phase,
        "message": status["message"],
        "observedGeneration": app["metadata"]["generation"],
        "lastTransitionTime": time,
    }
    last = next(iter(before.get("conditions", [])), {})
    if last.get("status") == condition["status"]:
        condition["lastTransitionTime"] = last["lastTransitionTime"]
    # metacontroller adds the observedGeneration.
    status["conditions"] = [condition]
    return status


def is_applied(app):
    return app.get("status", {}).get("observedGeneration") == app["metadata"]["generation"]


def rollout(deployment):
    if deployment is None:
        return "Progressing", {}, ""
    live = deployment.get("status", {})
    if live.get("observedGeneration", 0) < deployment["metadata"]["generation"]:
        return "Progressing", live, ""
    for one in live.get("conditions", []):
        is_refused = one["type"] == "ReplicaFailure" and one["status"] == "True"
        if is_refused or one.get("reason") == "ProgressDeadlineExceeded":
            return "Failed", live, f": {one['message']}"
    counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
    if all(live.get(count, 0) == deployment["spec"]["replicas"] for count in counts):
        return "Complete", live, ""
    return "Progressing", live, ""


class Hooks(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/finalize":
            response = finalize(request["parent"])
        else:
            response = sync(request["parent"], request["children"], datetime.now(timezone.utc))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(response).encode())


if __name__ == "__main__":
    ThreadingHTTPServer(("", 8080), Hooks).serve_forever()
