"""What is answered to who asks how it goes."""

import kopf
from recording import record


@kopf.on.probe(id="now")
def probe(**kwargs):
    record("probe", kwargs)
    return "2031-01-01"


@kopf.on.probe()
async def counted(**kwargs):
    return {"count": 1}


@kopf.on.probe()
def nothing(**kwargs):
    return None


@kopf.on.event("apples")
def event(**kwargs):
    record("event", kwargs)
