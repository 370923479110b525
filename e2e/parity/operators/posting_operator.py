"""Messages about objects: to the log and to the events of the cluster."""

import kopf
from recording import record


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.reporting_component = "orchard-keeper"
    settings.posting.reporting_instance = "one"


@kopf.on.create("apples")
def created(body, logger, **kwargs):
    record("created", kwargs)
    kopf.event(body, type="SomeType", reason="SomeReason", message="of a type")
    kopf.info(body, reason="Info", message="told")
    kopf.warn(body, reason="Warned", message="warned")
    try:
        raise ValueError("told twice")
    except ValueError as error:
        kopf.exception(body, reason="Failed", message="with a reason")
        kopf.exception(body, exc=error)
        kopf.exception(body, message="with a message", exc=error)
    kopf.info(
        [body, [{**body, "metadata": {**body["metadata"], "name": "other"}}]], reason="Several", message="for two"
    )
    kopf.event(body, type="Normal", reason="Long", message="x" * 2000)
    kopf.info(body, reason="Empty")
    logger.info("This is in the log only.")
    logger.warning("So is %s.", "this")


@kopf.on.event("apples", labels={"evented": "yes"})
async def event(body, type, **kwargs):
    record("event", {"body": body})
    if type == "ADDED":
        kopf.info(body, reason="Event", message="from an event handler")
