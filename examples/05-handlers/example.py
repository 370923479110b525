import ctl


@ctl.on.resume("kopfexamples")
def resume_fn(name, logger, **_):
    logger.info("%s was here before this operator", name)


@ctl.on.create("kopfexamples")
def create_fn_1(logger, **_):
    logger.info("the first handler of the creation")


@ctl.on.create("kopfexamples")
def create_fn_2(logger, **_):
    logger.info("the second handler of the creation")
    return {"created": True}


@ctl.on.update("kopfexamples")
def update_fn(old, new, diff, logger, **_):
    logger.info("changed: %r", [tuple(item) for item in diff])


@ctl.on.field("kopfexamples", field="spec.field")
def field_fn(old, new, logger, **_):
    logger.info("the field changed: %r -> %r", old, new)


@ctl.on.delete("kopfexamples")
def delete_fn(name, logger, **_):
    logger.info("%s is about to be deleted", name)
