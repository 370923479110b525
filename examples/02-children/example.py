import asyncio

import ctl
from ctl import Client, Resource, load_access

CONFIGMAPS = Resource("", "v1", "configmaps", namespaced=True)


@ctl.on.startup()
async def connect(memo, **_):
    memo.client = Client(load_access())


@ctl.on.cleanup()
async def disconnect(memo, **_):
    await memo.client.close()


@ctl.on.create("kopfexamples")
async def create_fn(spec, memo, logger, **_):
    children = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"item": item}}
        for item in spec.get("items", ["first", "second"])
    ]
    # Children are named after the object, live in its namespace, carry its labels, and are deleted with it.
    ctl.adopt(children)
    made = [await memo.client.create(CONFIGMAPS, child) for child in children]
    logger.info("made %s", ", ".join(child.name for child in made))
    return {"children": [child.name for child in made]}


@ctl.on.event("configmaps", labels={"from-example": ctl.PRESENT})
async def child_fn(type, name, logger, **_):
    logger.info("child event %s of %s", type, name)


@ctl.on.update("kopfexamples", field="metadata.labels")
async def relabel_fn(status, memo, namespace, old, new, logger, **_):
    old, new = old or {}, new or {}  # None: no labels
    changes = {key: new.get(key) for key in {**old, **new} if old.get(key) != new.get(key)}
    patch = {"metadata": {"labels": changes}}
    children = status.get("create_fn", {}).get("children", [])
    await asyncio.gather(*(memo.client.patch(CONFIGMAPS, child, namespace, patch) for child in children))
    logger.info("relabelled %d children: %r", len(children), changes)
