"""Objects of the whole cluster."""

import os

import kopf
from recording import record

TOKEN = os.environ["NAMESPACE"]


def ours(name, **_):
    return TOKEN in name


@kopf.on.create("orchards", when=ours)
def created(body, **kwargs):
    record("created", {**kwargs, "body": body})
    kopf.info(body, reason="Planted", message="an orchard")
    child = {}
    kopf.adopt(child)
    record("adopted", {"body": body}, child=child)
    return {"planted": True}


@kopf.on.update("orchards", when=ours)
def updated(**kwargs):
    record("updated", kwargs)


@kopf.on.delete("orchards", when=ours)
def deleted(**kwargs):
    record("deleted", kwargs)


@kopf.on.create("namespaces", when=ours)
def namespace(**kwargs):
    record("namespace", {key: kwargs[key] for key in ("name", "namespace", "reason", "resource")})
    return "seen"


@kopf.on.create("apples")
def apple(**kwargs):
    record("apple", kwargs)
