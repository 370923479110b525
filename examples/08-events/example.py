import ctl


@ctl.on.event("kopfexamples")
def every_event(type, name, logger, **_):
    logger.info("event %s of %s", type, name)


@ctl.on.event("kopfexamples", labels={"watched": ctl.PRESENT})
def labelled_event(event, patch, logger, **_):
    logger.info("a labelled object: %s", event["object"]["metadata"]["labels"])
    patch.status["seen"] = True
