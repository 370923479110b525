"""What the log says of the handling of a change: Kopf's words, which people and their tools know."""

import logging

from ..causes.causes import ChangingCause, Reason
from ..execution.progression import Counts, Progression

TITLES = {
    Reason.CREATE: "Creation",
    Reason.UPDATE: "Updating",
    Reason.DELETE: "Deletion",
    Reason.RESUME: "Resuming",
}
QUIET = {
    Reason.GONE: "Deleted, really deleted, and we are notified.",
    Reason.FREE: "Deletion, but we are done with it, and we do not care.",
    Reason.NOOP: "Something has changed, but we are not interested (the essence is the same).",
}


def tell_processed(cause: ChangingCause, progression: Progression) -> None:
    """Say how the handlers of a cause have ended, if there were any."""
    if progression.active and cause.logger.isEnabledFor(logging.INFO):
        counts = progression.told
        text = "%s is processed: %d succeeded; %d failed."
        cause.logger.info(text, TITLES[cause.reason], counts.succeeded, counts.failed)


def superseded(old: Reason, new: Reason, counts: Counts) -> str:
    """How far the handling of a cause had come when another one took its place."""
    return (
        f"{TITLES[old]} is superseded by {TITLES[new].lower()}: {counts.succeeded} succeeded; {counts.failed} failed; "
        f"{counts.left} left to the moment."
    )
