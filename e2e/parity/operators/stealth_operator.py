"""Only some objects are of interest: the others are left alone entirely."""

import kopf
from recording import record


@kopf.on.create("apples", labels={"ours": "yes"})
def created(**kwargs):
    record("created", kwargs)


@kopf.on.update("apples", labels={"ours": "yes"})
def updated(**kwargs):
    record("updated", kwargs)


@kopf.on.delete("apples", labels={"ours": "yes"})
def deleted(**kwargs):
    record("deleted", kwargs)


@kopf.on.event("apples", labels={"canary": "yes"})
def event(**kwargs):
    record("event", kwargs)
