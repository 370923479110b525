"""A resource whose schema drops what it does not know: results cannot be kept, and nothing fails by that."""

import kopf
from recording import record


@kopf.on.create("plums.parity.ctl.test")
def created(patch, **kwargs):
    record("created", kwargs)
    patch.status["known"] = "kept"
    patch.status["unknown"] = "dropped"
    return {"dropped": True}


@kopf.on.create("plums.parity.ctl.test")
def after(retry, **kwargs):
    record("after", {**kwargs, "retry": retry})
    if not retry:
        raise kopf.TemporaryError("again", delay=0.1)
    return "dropped too"
