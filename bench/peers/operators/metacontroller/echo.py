"""A number of Pods of one image."""

import json
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def sync(echo, children, now):
    live = list(children["Pod.v1"].values())
    return {"children": pods(echo), "status": status_of(echo, live, now)}


def pods(echo):
    meta, spec = echo["metadata"], echo["spec"]
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{meta['name']}-{index}",
                "labels": {"app": meta["name"], "owner": meta["uid"]},
            },
            "spec": {"containers": [{"name": "nginx", "image": spec["image"]}]},
        }
        for index in range(spec["replicas"])
    ]


def status_of(echo, live, now):
    desired = echo["spec"]["replicas"]
    ready = sum(is_ready(pod) for pod in live)
    done = ready == len(live) == desired
    before = next(iter(echo.get("status", {}).get("conditions", [])), {})
    condition = {
        "type": "Ready",
        "status": str(done),
        "reason": "Running" if done else "Pending",
        "message": f"{ready}/{desired} Pods are ready",
        "observedGeneration": echo["metadata"]["generation"],
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if before.get("status") == condition["status"]:
        condition["lastTransitionTime"] = before["lastTransitionTime"]
    # metacontroller adds the observedGeneration.
    return {"currentReplicas": len(live), "isReady": done, "conditions": [condition]}


def is_ready(pod):
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


class Hooks(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = sync(request["parent"], request["children"], datetime.now(timezone.utc))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(response).encode())


if __name__ == "__main__":
    ThreadingHTTPServer(("", 8080), Hooks).serve_forever()
