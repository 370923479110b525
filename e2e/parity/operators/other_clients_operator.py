"""Handlers that keep what they have made in the status by another client, and look there for what is to be done."""

import kopf
from another_client import patch, patch_async
from recording import record, without

kopf.set_default_lifecycle(kopf.lifecycles.asap)


@kopf.on.create("apples")
def created(**kwargs):
    record("created", kwargs)
    return {"synced": ["a"]}


@kopf.on.update("apples", field="spec.wider")
def wider(body, status, **kwargs):
    record("wider", {"body": body, "status": status, **without(kwargs, "patch")})
    synced = [*status["created"]["synced"], "b"]
    patch(body, {"status": {"created": {"synced": synced}}}, "status")
    patch(body, {"status": {"created": {"synced": [*synced, "c"]}}}, "status")


@kopf.on.update("apples", field="spec.blocking")
async def blocking(body, status, **kwargs):
    record("blocking", {"body": body, "status": status, **without(kwargs, "patch")})
    # As one should not, and many do.
    patch(body, {"status": {"created": {"synced": [*status["created"]["synced"], "d"]}}}, "status")


@kopf.on.update("apples", field="spec.narrower")
async def narrower(body, status, **kwargs):
    record("narrower", {"body": body, "status": status, **without(kwargs, "patch")})
    synced = [name for name in status["created"]["synced"] if name != "b"]
    await patch_async(body, {"status": {"created": {"synced": synced}}}, "status")


@kopf.on.update("apples", field="spec.parts")
async def parts(body, new, **kwargs):
    for part in new:

        @kopf.subhandler(id=part)
        async def made(body, status, part=part, **kwargs):
            record(f"parts/{part}", {"body": body, "status": status, **without(kwargs, "patch")})
            await patch_async(body, {"status": {"made": [*status.get("made", []), part]}}, "status")


@kopf.on.delete("apples")
async def first_of_the_end(body, status, retry, **kwargs):
    record("first_of_the_end", {"status": status, "retry": retry})
    await patch_async(body, {"status": {"ended": retry}}, "status")
    if not retry:
        raise kopf.TemporaryError("once more", delay=0.1)


@kopf.on.delete("apples")
def end(status, retry, **kwargs):
    record("end", {"status": status, "retry": retry, "name": kwargs["name"]})


@kopf.timer("apples", labels={"ticks": "yes"}, interval=0.2)
async def ticks(body, status, **kwargs):
    if status.get("ticks", 0) < 5:
        record("ticks", {"status": status, "name": kwargs["name"]})
        await patch_async(body, {"status": {"ticks": status.get("ticks", 0) + 1}}, "status")


@kopf.daemon("apples", labels={"ticks": "yes"})
def tries(body, status, retry, **kwargs):
    record("tries", {"status": {"tried": status.get("tried")}, "retry": retry, "name": kwargs["name"]})
    patch(body, {"status": {"tried": retry}}, "status")
    if retry < 3:
        raise kopf.TemporaryError("again", delay=0.5)
