"""What is remembered on objects, under names of the operator's own."""

import kopf
from recording import record

LONG = "a-handler-with-a-name-that-is-much-longer-than-what-an-annotation-may-be-called"


@kopf.on.startup()
def configure(settings, **_):
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="orchard.example.com", verbose=True)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix="orchard.example.com", key="seen")


@kopf.on.create("apples")
@kopf.on.update("apples")
def changed(**kwargs):
    record("changed", kwargs)


@kopf.on.create("apples", id=LONG)
def long(retry, **kwargs):
    record("long", {**kwargs, "retry": retry})
    raise kopf.TemporaryError("kept", delay=1000)
