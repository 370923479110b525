"""Raw events alone: each change is told, nothing is written."""

import kopf
from recording import record


@kopf.on.event("pears")
async def event(**kwargs):
    record("event", kwargs)


@kopf.on.event("pears", labels={"watched": kopf.PRESENT})
def labelled(**kwargs):
    record("labelled", kwargs)


@kopf.on.event("pears", field="spec.field", value="b")
def with_field(**kwargs):
    record("with_field", kwargs)


@kopf.on.event("pears", when=lambda type, **_: type == "DELETED")
def only_deletions(**kwargs):
    record("only_deletions", kwargs)


@kopf.on.event("pears", id="failing")
def failing(**kwargs):
    record("failing", kwargs)
    if kwargs["type"] == "MODIFIED":
        raise kopf.TemporaryError("nobody tries again")
    raise ValueError("nobody cares")
