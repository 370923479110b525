import ctl


@ctl.on.create("kopfexamples")
def create_fn(spec, name, logger, **_):
    logger.info("%s was created and wants %r", name, spec.get("field"))
    return {"message": f"hello, {name}"}
