import ctl


@ctl.on.create("kopfexamples")
@ctl.on.create("v1", "secrets", when=lambda name, **_: name == "large")
def create_fn(name, logger, **_):
    logger.info("created: %s", name)


@ctl.on.update("kopfexamples")
@ctl.on.update("v1", "secrets", when=lambda name, **_: name == "large")
def update_fn(name, diff, old, logger, **_):
    logger.info("updated: %s: %s, old of %d", name, [(op, field) for op, field, _, _ in diff], len(str(old)))
