"""Handlers that change what the object is, not only what is said of it."""

import kopf
from recording import record

kopf.set_default_lifecycle(kopf.lifecycles.all_at_once)


@kopf.on.create("apples", labels={"alone": kopf.ABSENT})
def created(patch, **kwargs):
    record("created", kwargs)
    patch.spec["added"] = "by the handler"
    patch.meta.labels["labelled"] = "yes"


@kopf.on.create("apples", labels={"alone": kopf.ABSENT})
def after(**kwargs):
    record("after", kwargs)


@kopf.on.create("apples", labels={"alone": "yes"})
def alone(patch, **kwargs):
    record("alone", kwargs)
    patch.spec["added"] = "alone"


@kopf.on.update("apples")
def updated(**kwargs):
    record("updated", kwargs)
