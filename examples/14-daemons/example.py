import asyncio

import ctl


@ctl.daemon("kopfexamples", initial_delay=0.5)
def in_a_thread(stopped, spec, logger, **_):
    while not stopped:
        logger.info("The thread sees %r.", spec.get("field"))
        stopped.wait(1)
    logger.info("The thread ends.")


@ctl.daemon("kopfexamples", cancellation_backoff=0.5, cancellation_timeout=3)
async def in_a_task(spec, logger, **_):
    try:
        while True:
            logger.info("The task sees %r.", spec.get("field"))
            await asyncio.sleep(1)
    except asyncio.CancelledError:
        logger.info("The task is cancelled.")
        raise


@ctl.daemon("kopfexamples", labels={"watched": "yes"})
async def while_it_matches(stopped, logger, **_):
    logger.info("The object is watched.")
    await stopped.wait()
    logger.info("The object is watched no more: %s.", stopped.reason)


@ctl.daemon("kopfexamples", backoff=0.5)
async def until_it_is_done(retry, **_):
    await asyncio.sleep(0.2)
    if retry < 2:
        raise ctl.TemporaryError("Not yet.", delay=0.2)
    return {"attempts": retry + 1}
