"""Timers: how often, since when, until when."""

import kopf
from recording import record, without

LIMIT = 3


@kopf.on.startup()
async def configure(settings, **_):
    # A plain function that happens to run when the object is deleted: Kopf looks for its end only now and then.
    settings.background.cancellation_polling = 1


@kopf.timer("apples", interval=0.2)
async def ticks(memo, patch, **kwargs):
    memo.ticks = memo.get("ticks", 0) + 1
    if memo.ticks <= LIMIT:
        record("ticks", kwargs)
        patch.status["ticks"] = memo.ticks


@kopf.timer("apples", interval=0.2, sharp=True, initial_delay=0.1)
def sharp(memo, **kwargs):
    memo.sharp = memo.get("sharp", 0) + 1
    if memo.sharp <= LIMIT:
        record("sharp", without(kwargs, "body", "status", "memo"))


@kopf.timer("apples", interval=0.1, initial_delay=lambda spec, **_: spec["delay"])
def retried(retry, memo, **kwargs):
    memo.retried = memo.get("retried", 0) + 1
    if memo.retried <= LIMIT:
        record("retried", {**without(kwargs, "body", "status"), "retry": retry})
    if retry < 1:
        raise kopf.TemporaryError("again", delay=0.1)


@kopf.timer("apples", interval=0.1)
async def permanent(memo, **kwargs):
    memo.permanent = memo.get("permanent", 0) + 1
    if memo.permanent <= LIMIT:
        record("permanent", without(kwargs, "body", "status", "memo"))
    raise kopf.PermanentError("and yet again")


@kopf.timer("apples")
async def once(**kwargs):
    record("once", without(kwargs, "body", "status", "memo"))


@kopf.timer("apples", interval=0.1, labels={"timed": "yes"})
async def labelled(memo, **kwargs):
    if not memo.get("labelled"):
        memo.labelled = True
        record("labelled", without(kwargs, "body", "status", "memo"))


@kopf.on.delete("apples")
def deleted(**kwargs):
    record("deleted", without(kwargs, "memo"))
