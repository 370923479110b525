"""An operator that starts itself, as those of Kopf's that are packages of their own do."""

import importlib.metadata
import logging
import sys

import kopf


@kopf.on.create("kopfexamples")
def first(name, logger, **_):
    logger.info("first: %s by %s", name, importlib.metadata.version("kopf"))
    return {"done": True}


if __name__ == "__main__":
    kopf.configure(verbose=False)
    logging.getLogger(__name__).info("It starts itself.")
    kopf.run(standalone=True, namespaces=sys.argv[1:])
