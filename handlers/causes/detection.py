"""Detection says from one look at an object what happened to it, and what its finalizer needs."""

import enum
from collections.abc import Mapping
from typing import Any

from .causes import Reason
from .diffs import Diff


def detect_reason(
    *,
    finalizer: bool,
    deleting: bool,
    old: Mapping[str, Any] | None,
    diff: Diff,
    initial: bool,
    gone: bool = False,
) -> tuple[Reason, bool]:
    """Why the object's handlers are to be called, and whether it still counts as initial.

    `finalizer`: ours is on the object; `deleting`: it has a deletion timestamp; `gone`: it was deleted. `old` is the
    stored essence (None: never handled), `diff` what changed since. An object that was never handled is created,
    wherever it was first seen, and so is not initial: resume handlers leave it alone (Kopf behaviour).
    """
    if gone:
        return Reason.GONE, initial
    if deleting:
        return (Reason.DELETE if finalizer else Reason.FREE), initial
    if old is None:
        return Reason.CREATE, False
    if not diff:
        return (Reason.RESUME if initial else Reason.NOOP), initial
    return Reason.UPDATE, initial


class FinalizerStep(enum.Enum):
    """What is to be done about our finalizer."""

    LEAVE = "leave"
    ADD = "add"
    """Before anything with side effects runs."""
    DROP = "drop"
    """Nobody needs it, and the object lives on."""
    RELEASE = "release"
    """The object waits for nothing else of ours, and may vanish."""


def decide_finalizer(*, needed: bool, present: bool, deleting: bool, busy: bool = False) -> FinalizerStep:
    """What is to be done about our finalizer now.

    `needed`: a handler must be asked before the object vanishes. `busy`: a handler or a daemon is not done with a
    deletion. An object under deletion never gets a finalizer: the API refuses it.
    """
    if deleting:
        return FinalizerStep.RELEASE if present and not busy else FinalizerStep.LEAVE
    if needed is present:
        return FinalizerStep.LEAVE
    return FinalizerStep.ADD if needed else FinalizerStep.DROP
