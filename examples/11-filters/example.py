import ctl


def is_large(spec, **_):
    return spec.get("replicas", 1) >= 3


def is_number(value, **_):
    return isinstance(value, int)


@ctl.on.create("kopfexamples", labels={"colour": "blue"})
def with_label_value(logger, **_):
    logger.info("labelled blue")


@ctl.on.create("kopfexamples", labels={"colour": ctl.PRESENT}, annotations={"ignored": ctl.ABSENT})
def with_any_colour(labels, logger, **_):
    logger.info("labelled with some colour: %s", labels["colour"])


@ctl.on.create("kopfexamples", labels={"colour": lambda value, **_: value in {"red", "blue"}})
def with_callback(logger, **_):
    logger.info("labelled red or blue")


@ctl.on.create("kopfexamples", when=is_large)
@ctl.on.update("kopfexamples", when=is_large)
def when_large(logger, **_):
    logger.info("it is large")


@ctl.on.create("kopfexamples", when=ctl.all_([is_large, ctl.not_(lambda labels, **_: "colour" in labels)]))
def when_large_and_plain(logger, **_):
    logger.info("it is large, and has no colour")


@ctl.on.update("kopfexamples", field="spec.replicas", old=1, new=is_number)
def from_one(old, new, logger, **_):
    logger.info("from %s to %s", old, new)


@ctl.on.event("kopfexamples", field="spec.field", value="shown")
def shown(name, type, logger, **_):
    logger.info("event %s shows", type)
