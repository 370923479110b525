"""What handlers remember, of one object and of the whole operator."""

import kopf
from recording import record


@kopf.on.startup()
def started(memo, **kwargs):
    memo["shared"] = ["from the start"]
    memo.number = 1
    record("started", {**kwargs, "memo": memo})


@kopf.on.create("apples")
def created(memo, name, **kwargs):
    memo.number += 1
    memo.shared.append(name)
    memo["mine"] = name
    record("created", {**kwargs, "memo": memo, "name": name}, missing=_missing(memo))


@kopf.on.update("apples")
def updated(memo, **kwargs):
    memo.number += 1
    record("updated", {**kwargs, "memo": memo})
    del memo.mine


@kopf.on.event("apples", labels={"evented": "yes"})
def event(memo, **kwargs):
    record("event", {"memo": memo})


@kopf.on.delete("apples")
def deleted(memo, **kwargs):
    record("deleted", {**kwargs, "memo": memo}, has="mine" in memo)


@kopf.on.cleanup()
def cleaned(memo, **kwargs):
    record("cleaned", {**kwargs, "memo": memo})


def _missing(memo):
    try:
        return memo.nowhere
    except AttributeError:
        return "AttributeError"
