"""Copies in namespaces: which there are is in the status, by a client that writes the whole object as it has read it."""

import os
import re

import kopf
from another_client import call, patch, path_of
from recording import record, without

kopf.set_default_lifecycle(kopf.lifecycles.asap)

TOKEN = os.environ["NAMESPACE"]
known = {}


def ours(name, **_):
    return TOKEN in name


def matching(body):
    names = [item["metadata"]["name"] for item in call("GET", "/api/v1/namespaces")["items"]]
    wanted = body.get("matchNamespace", default=["nothing"])
    return sorted(name for name in names for pattern in wanted if re.fullmatch(f"{TOKEN}{pattern}", name))


def copy(namespace, body, data):
    metadata = {"name": body["metadata"]["name"], "namespace": namespace, "labels": body["metadata"].get("labels", {})}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    secret["type"] = body.get("type", default="Opaque")
    path = path_of(secret)
    if call("GET", path) is None:
        call("POST", path.rpartition("/")[0], secret)
    else:
        call("PUT", path, secret)


def drop(namespace, name):
    call("DELETE", f"/api/v1/namespaces/{namespace}/secrets/{name}")


def keep(body, synced):
    whole = call("GET", path_of(body))
    # As the library's users do: everything is written again, the framework's annotations too.
    patch(whole, {**whole, "status": {"create_fn": {"syncedns": synced}}})
    patch(whole, {"status": {"create_fn": {"syncedns": synced}}}, "status")


@kopf.on.startup()
async def remembered(**_):
    for item in call("GET", "/apis/parity.ctl.test/v1/orchards")["items"]:
        if ours(item["metadata"]["name"]):
            known[item["metadata"]["uid"]] = {"body": item, "syncedns": item["status"]["create_fn"]["syncedns"]}
    record("remembered", {}, names=sorted(one["body"]["metadata"]["name"] for one in known.values()))


@kopf.on.delete(group="parity.ctl.test", version="v1", kind="Orchard", when=ours)
def on_delete(body, uid, name, logger, **kwargs):
    synced = body.get("status", {}).get("create_fn", {}).get("syncedns", [])
    record("on_delete", {"name": name}, synced=synced, known=known.pop(uid, None) is not None)
    for namespace in synced:
        logger.info("deleting secret %s", name)
        drop(namespace, name)


@kopf.on.field(group="parity.ctl.test", version="v1", kind="orchards", field="matchNamespace", when=ours)
def plural_for_kind(**kwargs):
    record("plural_for_kind", {"name": kwargs["name"]})


@kopf.on.field("parity.ctl.test", "v1", "orchards", field="matchNamespace", when=ours)
@kopf.on.field("parity.ctl.test", "v1", "orchards", field="avoidNamespaces", when=ours)
def on_namespaces(old, new, name, body, uid, reason, **kwargs):
    synced = body.get("status", {}).get("create_fn", {}).get("syncedns", [])
    record("on_namespaces", {"name": name}, old=old, new=new, synced=synced, reason=reason == "create")
    if old is None:
        return
    wanted = matching(body)
    for namespace in sorted({*wanted} - {*synced}):
        copy(namespace, body, body["data"])
    for namespace in sorted({*synced} - {*wanted}):
        drop(namespace, name)
    known[uid] = {"body": body, "syncedns": wanted}
    keep(body, wanted)


@kopf.on.field("parity.ctl.test", "v1", "orchards", field="data", when=ours)
def on_data(old, new, body, name, **kwargs):
    synced = body.get("status", {}).get("create_fn", {}).get("syncedns", [])
    record("on_data", {"name": name}, old=old, new=new, synced=synced)
    if old is not None:
        for namespace in synced:
            copy(namespace, body, new)


@kopf.on.resume("parity.ctl.test", "v1", "orchards", when=ours)
@kopf.on.create("parity.ctl.test", "v1", "orchards", when=ours)
async def create_fn(uid, body, **kwargs):
    wanted = matching(body)
    record("create_fn", without({"body": body, "name": kwargs["name"]}, "body"), wanted=wanted)
    for namespace in wanted:
        copy(namespace, body, body["data"])
    known[uid] = {"body": body, "syncedns": wanted}
    return {"syncedns": wanted}


@kopf.on.create("", "v1", "namespaces", when=ours)
async def namespace_watcher(meta, **_):
    wanted = []
    for one in known.values():
        body = one["body"]
        wanted = matching(body)
        record("namespace_watcher", {"name": meta.name}, before=one["syncedns"], wanted=wanted, data=body["data"])
        if meta.name in wanted:
            copy(meta.name, body, body["data"])
            # What an earlier call was given is changed in place.
            body["metadata"].setdefault("annotations", {})["touched"] = "yes"
            one["syncedns"] = wanted
            keep(body, wanted)
    return {"syncedns": wanted}
