"""The tutorial's first step: an operator that only says that it was called."""

import kopf


@kopf.on.create("ephemeralvolumeclaims")
def create_fn(body, logger, **_):
    logger.info("Called for %s.", body["metadata"]["name"])
