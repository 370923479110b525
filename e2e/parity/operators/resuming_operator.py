"""An operator that is restarted: what it tells to which handlers about objects from before."""

import kopf
from recording import record


@kopf.on.create("apples")
def created(**kwargs):
    record("created", kwargs)


@kopf.on.resume("apples")
def resumed(**kwargs):
    record("resumed", kwargs)


@kopf.on.update("apples")
def updated(**kwargs):
    record("updated", kwargs)


@kopf.on.create("apples")
@kopf.on.resume("apples")
def both(**kwargs):
    record("both", kwargs)


@kopf.on.field("apples", field="spec.field")
def field(**kwargs):
    record("field", kwargs)


@kopf.on.delete("apples")
def deleted(**kwargs):
    record("deleted", kwargs)


@kopf.on.resume("apples", deleted=True)
def resumed_deleted(**kwargs):
    record("resumed_deleted", kwargs)
