"""Log messages that are events too."""

import logging

import kopf
from recording import record


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.loggers = True
    settings.posting.level = logging.WARNING


@kopf.on.create("apples", retries=1)
def created(logger, body, **kwargs):
    record("created", kwargs)
    logger.debug("too fine")
    logger.info("not important enough")
    logger.warning("a warning with %s", "an argument")
    logger.error("an error")
    kopf.info(body, reason="Info", message="below the level")
    kopf.event(body, type="Normal", reason="Event", message="whatever the level")


@kopf.on.create("apples")
def failing(logger, **kwargs):
    raise kopf.PermanentError("as the log says")


@kopf.on.event("apples", when=lambda type, **_: type != "MODIFIED")
def event(logger, **kwargs):
    logger.warning("never an event")
