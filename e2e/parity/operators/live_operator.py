"""What a daemon sees of its object while that changes."""

import asyncio

import kopf
from recording import record


@kopf.daemon("apples")
async def watches(body, spec, meta, labels, annotations, status, stopped, **kwargs):
    while not stopped:
        if spec.get("field") == "b" and labels.get("l") == "2" and status.get("phase") == "x":
            record(
                "watches",
                {"body": body, "spec": spec, "labels": labels, "annotations": annotations},
                phase=status["phase"],
            )
            break
        await asyncio.sleep(0.05)
    await stopped.wait()


@kopf.daemon("apples", cancellation_polling=0.5)
async def stubborn(stopped, patch, **kwargs):
    record("stubborn", kwargs)
    await stopped.wait()
    # Longer than one look of who waits for it.
    await asyncio.sleep(1)
    record("stubborn-end", kwargs)


@kopf.on.create("apples")
def created(**kwargs):
    record("created", kwargs)
    return "created"


@kopf.on.delete("apples")
def deleted(**kwargs):
    record("deleted", kwargs)
