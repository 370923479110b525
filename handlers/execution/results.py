"""Put what a handler returns into the status of the object."""

from collections.abc import Mapping
from typing import Any

from ...client.wire.request import plain
from ..causes.causes import Logger
from ..causes.patch import Patch


def deliver(patch: Patch, handler_id: str, result: Any, logger: Logger) -> None:
    """Put a handler's result into the status under its id: mappings merge at the top level (Kopf behaviour).

    One that is nothing for JSON is logged and dropped: the handler has done its work, and is not called again for that.
    """
    try:
        told = plain(result)
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        logger.error(  # noqa: TRY400 - where it was encoded tells the author of the handler nothing
            "The result of handler %r cannot be written to the status, and is dropped: %s", handler_id, exc
        )
        return
    known = patch.status.get(handler_id)
    if isinstance(told, dict):
        patch.status[handler_id] = {**(known if isinstance(known, Mapping) else {}), **told}
    else:
        patch.status[handler_id] = told
