"""Handlers that look at the records of each other: in annotations of the operator's own prefix."""

import json

import kopf
from recording import record, without

kopf.set_default_lifecycle(kopf.lifecycles.asap)

PREFIX = "parity.example.com"


@kopf.on.startup()
def configure(settings, **kwargs):
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX)


def records(annotations):
    """What they say, without times, without what only one of two frameworks writes, and how often parents were called."""
    found = {name: text for name, text in annotations.items() if name.startswith(PREFIX) and '"retries"' in text}
    volatile = {"started", "stopped", "delayed", "seen"}
    return {
        name: {
            key: value
            for key, value in json.loads(text).items()
            if key not in volatile and not (key == "retries" and "subrefs" in text)
        }
        | {"is_stopped": '"stopped"' in text, "is_delayed": '"delayed"' in text}
        for name, text in found.items()
    }


def looking(handler, *on, fails=False):
    """A handler that does nothing before those that it depends on have succeeded."""

    async def step(annotations, retry, **kwargs):
        record(handler, without({**kwargs, "retry": retry}, "patch"), found=records(annotations))
        for other in on:
            known = json.loads(annotations.get(f"{PREFIX}/upgrade.{other}", "{}"))
            if not known.get("success"):
                raise kopf.TemporaryError(f"waiting for {other}", delay=1)
        if fails:
            raise kopf.PermanentError("no way")
        return {"done": handler}

    return step


kopf.on.create("apples", id="first")(looking("first"))
kopf.on.create("apples", id="failing")(looking("failing", fails=True))
kopf.on.create("apples", id="last")(looking("last"))


kopf.on.update("apples", id="before")(looking("before"))


@kopf.on.update("apples")
async def upgrade(**kwargs):
    for name, on in {"start": ("scale", "stop"), "scale": ("stop",), "stop": ()}.items():
        kopf.register(looking(f"upgrade/{name}", *on), id=name)
