import ctl


@ctl.on.create("kopfexamples")
async def create_fn(name, logger, **_):
    logger.info("called: %s", name)
