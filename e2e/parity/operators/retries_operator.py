"""Handlers that fail: temporarily, for good, by exceptions of their own; with limits of attempts and time."""

import kopf
from recording import record


@kopf.on.create("apples")
def succeeds(**kwargs):
    record("succeeds", kwargs)
    return "done"


@kopf.on.create("apples")
def twice(retry, **kwargs):
    record("twice", {**kwargs, "retry": retry})
    if retry < 2:
        raise kopf.TemporaryError("not yet", delay=0.1)
    return {"retries": retry}


@kopf.on.create("apples")
async def permanent(**kwargs):
    record("permanent", kwargs)
    raise kopf.PermanentError("never")


@kopf.on.create("apples", retries=3, backoff=0.1)
def limited(**kwargs):
    record("limited", kwargs)
    raise ValueError("again and again")


@kopf.on.create("apples", retries=2)
def limited_temporary(**kwargs):
    record("limited_temporary", kwargs)
    raise kopf.TemporaryError("twice at most", delay=0.1)


@kopf.on.create("apples", retries=1)
def once(**kwargs):
    record("once", kwargs)
    raise kopf.TemporaryError("once", delay=0.1)


@kopf.on.create("apples", timeout=5)
def timed(**kwargs):
    record("timed", kwargs)
    raise kopf.TemporaryError("too late then", delay=10)


@kopf.on.create("apples", timeout=5, backoff=20)
def timed_exception(**kwargs):
    record("timed_exception", kwargs)
    raise RuntimeError("too late then")


@kopf.on.create("apples", errors=kopf.ErrorsMode.IGNORED)
def ignored(**kwargs):
    record("ignored", kwargs)
    raise ValueError("who cares")


@kopf.on.create("apples", errors=kopf.ErrorsMode.PERMANENT)
def fatal(**kwargs):
    record("fatal", kwargs)
    raise ValueError("for good")


@kopf.on.create("apples", errors=kopf.ErrorsMode.TEMPORARY, backoff=0.1)
def eventually(retry, **kwargs):
    record("eventually", {**kwargs, "retry": retry})
    if not retry:
        raise ValueError("")


@kopf.on.create("apples", retries=0)
def forbidden(**kwargs):
    record("forbidden", kwargs)


@kopf.on.create("apples")
def at_once(retry, **kwargs):
    record("at_once", {**kwargs, "retry": retry})
    if not retry:
        raise kopf.TemporaryError("at once", delay=None)
