"""Finalizers: of our own name, and those of others."""

import kopf
from recording import record


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.finalizer = "parity.ctl.test/kept"


@kopf.on.create("apples")
def created(**kwargs):
    record("created", kwargs)


@kopf.on.update("apples")
def updated(**kwargs):
    record("updated", kwargs)


@kopf.on.delete("apples", labels={"kept": "yes"})
def deleted(**kwargs):
    record("deleted", kwargs)


@kopf.on.delete("apples", optional=True)
def optional(**kwargs):
    record("optional", kwargs)


@kopf.on.event("apples", when=lambda type, **_: type == "DELETED")
def event(meta, name, **_):
    record("event", {"name": name}, deleting=bool(meta.deletion_timestamp))
