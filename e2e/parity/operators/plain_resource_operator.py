"""Results, patches and sub-handlers on a resource without a status subresource."""

import kopf
from recording import record


@kopf.on.create("pears")
def created(patch, **kwargs):
    record("created", kwargs)
    patch.status["phase"] = "new"
    return {"result": 1}


@kopf.on.create("pears")
def retried(retry, **kwargs):
    record("retried", {**kwargs, "retry": retry})
    if not retry:
        raise kopf.TemporaryError("again", delay=0.1)
    return 2


@kopf.on.update("pears")
def updated(**kwargs):
    record("updated", kwargs)
    return 3


@kopf.on.delete("pears")
def deleted(patch, **kwargs):
    record("deleted", kwargs)
    patch.status["phase"] = "old"
