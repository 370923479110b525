"""A program that runs its operator in a loop of its own; a thread and another client write to the same objects."""

import asyncio
import importlib.metadata
import logging
import os
import threading
import time

import kopf
from another_client import call, patch
from kopf._cogs.structs.bodies import Body
from recording import record, without

MEMBER = "parity.example.com/membership"
stopping = threading.Event()


def monitor():
    """Counts in the status of each object, from outside of all handlers."""
    path = f"/apis/parity.ctl.test/v1/namespaces/{os.environ['NAMESPACE']}/apples"
    while not stopping.wait(0.2):
        for item in call("GET", path)["items"]:
            status = item.get("status", {})
            if "created" in status and "members" not in status and "deletionTimestamp" not in item["metadata"]:
                patch(item, {"status": {"members": len(item["spec"].get("members", []))}}, "status")


watcher = threading.Thread(target=monitor, daemon=True)


@kopf.on.login()
def login(**kwargs):
    return kopf.login_with_kubeconfig(**kwargs)


@kopf.on.startup()
def on_startup(settings: kopf.OperatorSettings, logger, *args, **_):
    settings.posting.level = logging.INFO
    settings.posting.enabled = False
    settings.peering.standalone = True
    version = importlib.metadata.version("kopf")
    record("on_startup", {}, args=list(args), priority=settings.peering.priority > 0, version=version.count("."))
    watcher.start()


@kopf.on.cleanup()
def on_shutdown(logger, *args, **kwargs):
    stopping.set()
    watcher.join(timeout=10)
    record("on_shutdown", {}, alive=watcher.is_alive())


@kopf.on.create("parity.ctl.test", "v1", "apples")
def on_create(name, namespace, body: Body, logger, **kwargs):
    record("on_create", {"name": name}, is_body=isinstance(body, Body), status=dict(body.get("status") or {}))
    if not body["spec"].get("members"):
        patch(body, {"status": {"cluster": "INVALID"}}, "status")
        raise kopf.TemporaryError("no members", delay=0.5)
    patch(body, {"metadata": {"annotations": {"parity.example.com/fqdn": f"{name}.{namespace}"}}})
    if not (body.get("status") or {}).get("created"):
        child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-conf"}, "data": {"a": "1"}}
        kopf.adopt(child)
        call("POST", f"/api/v1/namespaces/{namespace}/configmaps", child)
        patch(body, {"metadata": {"finalizers": [*body["metadata"]["finalizers"], MEMBER]}})
        patch(body, {"status": {"created": True, "cluster": "PENDING"}}, "status")
    return 0


@kopf.on.field("parity.ctl.test", "v1", "apples", field="spec")
def on_spec(body: Body, diff, old, new, logger, **kwargs):
    parts = sorted(key for key in {*(old or {}), *(new or {})} if (old or {}).get(key) != (new or {}).get(key))
    record("on_spec", {"name": kwargs["name"]}, old=old, new=new, parts=parts)
    if old:
        patch(body, {"status": {"handled": parts}}, "status")


@kopf.on.field("parity.ctl.test", "v1", "apples", field="spec.router.options")
def on_options(old, new, body: Body, **kwargs):
    if old != new:
        record("on_options", {"name": kwargs["name"]}, old=old, new=new, handled=body["status"].get("handled"))


@kopf.on.field("parity.ctl.test", "v1", "apples", field="spec.schedules")
def on_schedules(old, new, body: Body, retry, **kwargs):
    if "members" not in body["status"]:
        raise kopf.TemporaryError("not ready", delay=0.3)
    record("on_schedules", {"name": kwargs["name"]}, old=old, new=new, members=body["status"]["members"])


@kopf.on.field("parity.ctl.test", "v1", "apples", field="spec.service")
def on_service(old, new, **kwargs):
    record("on_service", {"name": kwargs["name"]}, old=old, new=new, which=1)


@kopf.on.field("parity.ctl.test", "v1", "apples", field="spec.inner")
def on_service(old, new, **kwargs):  # noqa: F811 (two functions of one name: the fields tell them apart)
    record("on_service", {"name": kwargs["name"]}, old=old, new=new, which=2)


@kopf.on.delete("parity.ctl.test", "v1", "apples")
def on_delete(body: Body, name, **kwargs):
    record("on_delete", {"name": name}, finalizers=list(body["metadata"]["finalizers"]))
    kept = [finalizer for finalizer in body["metadata"]["finalizers"] if finalizer != MEMBER]
    patch(body, {"metadata": {"finalizers": kept}})
    # What the framework has read is brought up to date by hand.
    body["metadata"]["finalizers"].remove(MEMBER)


@kopf.on.create("", "v1", "pods", labels={"component": "server"})
def on_pod_create(body: Body, **kwargs):
    configured = body["metadata"]["annotations"].get("configured") if "annotations" in body["metadata"] else None
    if not configured:
        raise kopf.TemporaryError("not configured", delay=0.3)
    record("on_pod_create", {"name": kwargs["name"]}, configured=configured)
    patch(body, {"metadata": {"finalizers": [MEMBER]}}, kind="strategic-merge-patch")


@kopf.on.event("", "v1", "pods", labels={"component": "server"})
def on_pod_event(event, body: Body, **kwargs):
    tries = 0
    while True:
        try:
            tries += 1
            if tries < 3:
                raise kopf.TemporaryError("once more", delay=0.05)
            break
        except kopf.TemporaryError as error:
            time.sleep(error.delay)
    if event["type"] == "DELETED":
        record("on_pod_event", {"name": kwargs["name"]}, tries=tries)


@kopf.on.delete("", "v1", "pods", labels={"component": "server"})
def on_pod_delete(body: Body, **kwargs):
    record("on_pod_delete", {"name": kwargs["name"]}, mine=MEMBER in body["metadata"]["finalizers"])
    change = {"metadata": {"$deleteFromPrimitiveList/finalizers": [MEMBER]}}
    patch(body, change, kind="strategic-merge-patch")
    if MEMBER in body["metadata"]["finalizers"]:
        body["metadata"]["finalizers"].remove(MEMBER)


def of_ours(namespace, name, **_):
    return namespace == os.environ["NAMESPACE"] and name == "tls"


@kopf.on.create("", "v1", "secrets", when=of_ours)
@kopf.on.update("", "v1", "secrets", when=of_ours)
def on_secret(name, namespace, spec, new, **kwargs):
    record("on_secret", without({"name": name, "spec": spec, "new": new}, "new"), data=new["data"])


def main():
    kopf.configure(verbose=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s - [%(levelname)s] [%(name)s] %(message)s")
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop = asyncio.get_event_loop()
    namespace = os.environ["NAMESPACE"]
    loop.run_until_complete(kopf.operator(namespace=namespace, priority=int(time.time() * 1000000)))
    record("main", {}, closed=loop.is_closed())


if __name__ == "__main__":
    main()
