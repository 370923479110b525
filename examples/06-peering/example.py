import ctl


@ctl.on.startup()
def configure(settings, **_):
    settings.peering.name = "example"
    settings.peering.mandatory = True


@ctl.on.event("kopfexamples")
def event_fn(type, name, logger, **_):
    logger.info("event %s of %s", type, name)


@ctl.timer("kopfexamples", interval=0.5)
def tick(name, logger, **_):
    logger.info("tick of %s", name)
