"""The life of an object: created, updated, deleted; results of several shapes."""

import kopf
from recording import record


@kopf.on.create("apples")
def created(**kwargs):
    record("created", kwargs)
    return {"url": "http://example.com", "nested": {"a": [1, 2]}}


@kopf.on.create("apples")
async def created_too(**kwargs):
    record("created_too", kwargs)
    return "a string"


@kopf.on.create("apples", id="named")
async def created_last(**kwargs):
    record("named", kwargs)
    return [1, 2]


@kopf.on.update("apples")
def updated(**kwargs):
    record("updated", kwargs)
    return {"updated": True}


@kopf.on.delete("apples")
def deleted(**kwargs):
    record("deleted", kwargs)
    return "never seen"
