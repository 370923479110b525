"""An operator written for Kopf. HOLD keeps its second handler from succeeding."""

import os

import kopf


@kopf.on.startup()
def configure(settings, **_):
    # On a machine that is very busy an own change may be told late: Kopf would handle once more what it has handled.
    settings.persistence.consistency_timeout = 60


@kopf.on.create("kopfexamples")
def first(name, logger, **_):
    logger.info("first: %s", name)
    return {"done": True}


@kopf.on.create("kopfexamples")
def second(name, retry, logger, **_):
    logger.info("second: %s, retry=%s", name, retry)
    if os.environ.get("HOLD"):
        raise kopf.TemporaryError("held", delay=0.5)


@kopf.on.update("kopfexamples")
def update(name, old, new, diff, logger, **_):
    logger.info("update: %s, %r", name, [tuple(item) for item in diff])


@kopf.on.delete("kopfexamples")
async def delete(name, logger, **_):
    logger.info("delete: %s", name)


@kopf.on.event("kopfexamples")
async def event(type, name, logger, **_):
    logger.info("event: %s %s", type, name)
