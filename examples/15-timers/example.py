import asyncio
import time

import ctl


@ctl.timer("kopfexamples", interval=1, initial_delay=0.5)
def every_second(spec, logger, **_):
    logger.info("The field is %r.", spec.get("field"))


@ctl.timer("kopfexamples", interval=2, sharp=True)
async def on_a_grid(logger, **_):
    logger.info("Even though this takes a while, the next call is two seconds after this one.")
    await asyncio.sleep(0.7)


@ctl.timer("kopfexamples", idle=2)
async def when_it_rests(spec, **_):
    return {"field": spec.get("field"), "at": int(time.time())}


@ctl.timer("kopfexamples", interval=1, backoff=0.5)
async def with_errors(retry, **_):
    if retry < 2:
        raise RuntimeError("The interval begins when this succeeds.")


@ctl.on.create("kopfexamples")
async def create(**_):
    pass
