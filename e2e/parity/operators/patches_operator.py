"""What handlers do with the patch: stanzas, labels, removals, functions of the whole body."""

import kopf
from recording import record


@kopf.on.create("apples", labels={"by": "stanzas"})
def stanzas(patch, **kwargs):
    record("stanzas", {**kwargs, "patch": patch}, truth=bool(patch))
    patch.spec["added"] = {"nested": [1, 2]}
    patch.status["phase"] = "new"
    patch.meta.labels["one"] = "1"
    patch.metadata.annotations["note"] = "changed"
    patch.metadata.annotations["dropped"] = None
    patch["extra"] = {"top": "level"}
    patch.setdefault("status", {})["more"] = {"a": None, "b": 1}


@kopf.on.create("apples", labels={"by": "functions"})
async def functions(patch, **kwargs):
    record("functions", {**kwargs, "patch": patch})

    def append(body):
        body.setdefault("spec", {}).setdefault("list", []).append("by a function")
        body.setdefault("status", {}).setdefault("conditions", []).append({"type": "Ready"})

    patch.fns.append(append)
    record("functions-after", kwargs, truth=bool(patch), count=len(patch.fns))


@kopf.on.create("apples", labels={"by": "failing"})
def failing(retry, patch, **kwargs):
    record("failing", {**kwargs, "retry": retry, "patch": patch})
    patch.status["attempts"] = retry + 1
    if not retry:
        raise kopf.TemporaryError("the patch stays", delay=0.1)


@kopf.on.update("apples", field="spec.field", labels={"by": "updated"})
def updated(patch, **kwargs):
    record("updated", kwargs)
    patch.spec["field"] = None
    patch.spec["was"] = kwargs["old"]


@kopf.on.create("apples", labels={"by": "updated"})
def created(**kwargs):
    record("created", kwargs)


@kopf.on.event("apples", labels={"evented": "yes"}, annotations={"evented-done": kopf.ABSENT})
def evented(patch, name, **kwargs):
    record("evented", {"patch": patch, "name": name})
    patch.meta.annotations["evented-done"] = "yes"
    patch.status["from-event"] = "patched"
    return {"result": "of an event"}
