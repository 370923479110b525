"""Kopf's own order: who was tried least is tried next."""

import kopf
from recording import record

kopf.set_default_lifecycle(kopf.lifecycles.asap)


@kopf.on.create("apples")
def first(retry, **kwargs):
    record("first", {**kwargs, "retry": retry})
    if retry < 2:
        raise kopf.TemporaryError("the others go on", delay=0.1)


@kopf.on.create("apples")
def second(retry, **kwargs):
    record("second", {**kwargs, "retry": retry})
    if retry < 1:
        raise kopf.TemporaryError("the others go on", delay=0.1)


@kopf.on.create("apples")
def third(**kwargs):
    record("third", kwargs)
