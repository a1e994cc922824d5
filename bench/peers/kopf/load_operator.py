"""The benchmark's operator (see bench/guest) on kopf, tuned as a good engineer would tune it.

uvloop, no Kubernetes events, one kept-alive HTTP pool, creates by POST and changes by server-side apply, the writes of
one parent at once, at most `workers` parents at once. kopf's own `worker_limit` would hold a worker for each object
that was seen lately, so the bound is a semaphore.
"""

import argparse
import asyncio
import base64
import json
import logging
import ssl
from datetime import datetime, timezone

import aiohttp
import kopf
import uvloop
import yaml

GROUP, VERSION, PLURAL = "bench.example", "v1", "loads"
MANAGER = "bench-kopf"
LABELS = {"app": "load"}


class Api:
    """The few requests that kopf has no words for."""

    def __init__(self, kubeconfig):
        with open(kubeconfig) as file:
            config = yaml.safe_load(file)
        cluster = config["clusters"][0]["cluster"]
        self.server = cluster["server"]
        self.token = config["users"][0]["user"]["token"]
        self.ca_data = cluster["certificate-authority-data"]
        self.tls = ssl.create_default_context(cadata=base64.b64decode(self.ca_data).decode())
        self.session = None

    async def open(self):
        self.session = aiohttp.ClientSession(
            base_url=self.server,
            connector=aiohttp.TCPConnector(ssl=self.tls, limit=64),
            headers={"Authorization": f"Bearer {self.token}"},
        )

    async def create(self, child):
        path = f"/api/v1/namespaces/{child['metadata']['namespace']}/configmaps?fieldManager={MANAGER}"
        async with self.session.post(path, json=child) as answer:
            await answer.read()
            if answer.status == 409:
                await self.apply(child)
            elif answer.status >= 300:
                raise kopf.TemporaryError(f"create: {answer.status}", delay=1)

    async def apply(self, child):
        meta = child["metadata"]
        await self._apply(f"/api/v1/namespaces/{meta['namespace']}/configmaps/{meta['name']}", child)

    async def apply_status(self, body, status):
        meta = body["metadata"]
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{meta['namespace']}/{PLURAL}/{meta['name']}/status"
        wanted = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "Load",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
            "status": status,
        }
        await self._apply(path, wanted)

    async def _apply(self, path, body):
        headers = {"Content-Type": "application/apply-patch+yaml"}
        data = json.dumps(body)
        async with self.session.patch(
            f"{path}?fieldManager={MANAGER}&force=true", data=data, headers=headers
        ) as answer:
            await answer.read()
            if answer.status >= 300:
                raise kopf.TemporaryError(f"apply: {answer.status}", delay=1)


API = None
SLOTS = None
WORKERS = 16
# Each child as it should be, and what it holds as far as its events told.
WANTED = {}
SEEN = {}


@kopf.on.startup()
async def start(settings, **_):
    global SLOTS
    SLOTS = asyncio.Semaphore(WORKERS)
    settings.posting.enabled = False
    await API.open()


@kopf.on.cleanup()
async def stop(**_):
    await API.session.close()


def children(body):
    meta, spec = body["metadata"], body["spec"]
    padding = "x" * spec["payload"]
    owner = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Load",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    for index in range(spec["children"]):
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": f"{meta['name']}-{index}",
                "namespace": meta["namespace"],
                "labels": LABELS,
                "ownerReferences": [owner],
            },
            "data": {"note": spec["note"], "payload": padding},
        }


@kopf.on.resume(GROUP, VERSION, PLURAL)
@kopf.on.create(GROUP, VERSION, PLURAL)
@kopf.on.update(GROUP, VERSION, PLURAL, field="spec")
async def reconcile(body, **_):
    async with SLOTS:
        meta = body["metadata"]
        writes = []
        for child in children(body):
            key = (meta["namespace"], child["metadata"]["name"])
            WANTED[key] = child
            if key not in SEEN:
                writes.append(API.create(child))
            elif SEEN[key] != child["data"]:
                writes.append(API.apply(child))
        await asyncio.gather(*writes)
        await report(body)


async def report(body):
    meta, status = body["metadata"], body.get("status", {})
    count = body["spec"]["children"]
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Applied",
        "message": f"{count} children are as wanted",
        "observedGeneration": meta["generation"],
    }
    before = next((dict(c) for c in status.get("conditions", []) if c["type"] == "Ready"), {})
    since = before.pop("lastTransitionTime", None)
    if before == ready and status.get("wanted") == count:
        return
    ready["lastTransitionTime"] = since or datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    wanted = {"wanted": count, "observedGeneration": meta["generation"], "conditions": [ready]}
    await API.apply_status(body, wanted)


@kopf.on.event(GROUP, VERSION, PLURAL)
async def parent_changed(event, body, **_):
    if event["type"] == "DELETED":
        for child in children(body):
            WANTED.pop((body["metadata"]["namespace"], child["metadata"]["name"]), None)


@kopf.on.event("configmaps", labels=LABELS)
async def child_changed(event, body, **_):
    key = (body["metadata"]["namespace"], body["metadata"]["name"])
    wanted = WANTED.get(key)
    if event["type"] == "DELETED":
        SEEN.pop(key, None)
        if wanted is not None:
            await API.create(wanted)
        return
    SEEN[key] = dict(body.get("data", {}))


@kopf.on.login()
def login(**_):
    return kopf.ConnectionInfo(server=API.server, token=API.token, ca_data=API.ca_data)


def main():
    global API, WORKERS
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--operator-kubeconfig", required=True)
    arguments.add_argument("--namespace", default="bench")
    arguments.add_argument("--workers", type=int, default=16)
    arguments = arguments.parse_args()
    API = Api(arguments.operator_kubeconfig)
    WORKERS = arguments.workers
    logging.basicConfig(level=logging.INFO)
    uvloop.install()
    kopf.run(standalone=True, namespaces=[arguments.namespace])


main()
