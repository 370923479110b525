"""Objects that were half handled before: records of several ages and places."""

import kopf
from recording import record


@kopf.on.create("apples")
def first(**kwargs):
    record("first", kwargs)


@kopf.on.create("apples")
def second(retry, **kwargs):
    record("second", {**kwargs, "retry": retry})


@kopf.on.update("apples")
def updated(**kwargs):
    record("updated", kwargs)
