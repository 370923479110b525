"""Daemons, as tasks and as threads, that end when they are asked to."""

import asyncio

import kopf
from recording import record, without


@kopf.on.startup()
def configure(settings, **_):
    # Who ends at once is not waited for in stages, however fast threads are here.
    settings.background.instant_exit_timeout = 1


@kopf.daemon("apples")
async def waits(stopped, **kwargs):
    record("waits", {**kwargs, "stopped": stopped})
    await stopped.wait()
    record("waits-end", kwargs, reason=stopped.reason, truth=bool(stopped), is_set=stopped.is_set())


@kopf.daemon("apples")
def thread(stopped, **kwargs):
    record("thread", {**kwargs, "stopped": stopped})
    while not stopped.wait(0.1):
        pass
    record("thread-end", kwargs, reason=stopped.reason, truth=bool(stopped))


@kopf.daemon("apples", cancellation_backoff=0.1, cancellation_timeout=30)
async def cancelled(**kwargs):
    record("cancelled", kwargs)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        record("cancelled-end", kwargs)
        raise


@kopf.daemon("apples")
async def done(retry, patch, **kwargs):
    record("done", {**without(kwargs, "body", "status"), "retry": retry})
    patch.status["tries"] = retry + 1
    if retry < 2:
        raise kopf.TemporaryError("again", delay=0.1)
    return {"tries": retry + 1}


@kopf.daemon("apples", errors=kopf.ErrorsMode.PERMANENT)
async def broken(**kwargs):
    record("broken", kwargs)
    raise ValueError("for good")


@kopf.daemon("apples", labels={"watched": "yes"}, initial_delay=lambda **_: 0.1)
async def labelled(stopped, name, **kwargs):
    record("labelled", {**kwargs, "stopped": stopped, "name": name})
    await stopped.wait()
    record("labelled-end", {**kwargs, "name": name}, reason=stopped.reason)


@kopf.daemon("apples", retries=2, backoff=0.1)
def limited(**kwargs):
    record("limited", without(kwargs, "body", "status"))
    raise RuntimeError("twice at most")
