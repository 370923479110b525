"""Changes in the middle of others."""

import asyncio

import kopf
from recording import record


@kopf.on.create("apples")
def first(**kwargs):
    record("first", kwargs)


@kopf.on.create("apples", when=lambda spec, **_: spec.get("stuck"))
@kopf.on.update("apples", when=lambda spec, **_: spec.get("stuck"))
def stuck(retry, **kwargs):
    record("stuck", kwargs)
    raise kopf.TemporaryError("stuck", delay=100)


@kopf.on.create("apples", labels={"slow": "yes"})
async def slow(memo, **kwargs):
    record("slow", kwargs)
    await asyncio.sleep(1)
    record("slow-end", kwargs)


@kopf.on.update("apples")
def updated(**kwargs):
    record("updated", kwargs)


@kopf.on.delete("apples", labels={"slow": kopf.ABSENT})
def deleted(retry, **kwargs):
    record("deleted", {**kwargs, "retry": retry})
    if not retry:
        raise kopf.TemporaryError("once more", delay=0.1)
