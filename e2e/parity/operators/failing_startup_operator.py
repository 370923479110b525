"""A start that fails, and nothing is served."""

import kopf
from recording import record


@kopf.on.startup()
def started(**kwargs):
    record("started", kwargs)
    raise kopf.PermanentError("not today")


@kopf.on.startup()
def started_too(**kwargs):
    record("started_too", kwargs)


@kopf.on.create("apples")
def created(**kwargs):
    record("created", kwargs)


@kopf.on.cleanup()
def cleaned(**kwargs):
    record("cleaned", kwargs)
