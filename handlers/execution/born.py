"""Find the tasks that handlers have started and left behind: nobody else knows of them."""

import asyncio
import gc
from collections.abc import Mapping
from contextvars import Context
from typing import Any

from ..causes.causes import Activity, ActivityCause, Cause, ChangingCause, DaemonCause, WatchingCause, current_cause

_OURS = __name__.partition(".")[0]


def born_in_handlers(indices: Mapping[str, Any]) -> dict[asyncio.Task[Any], str]:
    """The tasks of this loop that run in the context of a handler of objects, or of `on.leading`, and how people know them.

    `indices` are those of the operator: causes of others in the same loop have others. Tasks of this toolkit are left out.
    """
    found: dict[asyncio.Task[Any], str] = {}
    for task in asyncio.all_tasks():
        context = _context(task)
        cause = None if context is None else context.get(current_cause)
        if cause is not None and cause.indices is indices and _is_a_leaders(cause) and not _is_ours(task):
            found[task] = f"the task {task.get_name()!r}, which a handler has started"
    return found


def _is_a_leaders(cause: Cause) -> bool:
    if isinstance(cause, ActivityCause):
        return cause.activity is Activity.LEADING
    return isinstance(cause, (ChangingCause, DaemonCause, WatchingCause))


def _context(task: asyncio.Task[Any]) -> Context | None:
    get_context = getattr(task, "get_context", None)
    if get_context is not None:
        found: Context = get_context()
        return found
    # Python 3.11 keeps it to itself; of what a task refers to, its own context comes before those of its callbacks.
    return next((item for item in gc.get_referents(task) if isinstance(item, Context)), None)


def _is_ours(task: asyncio.Task[Any]) -> bool:
    frame = getattr(task.get_coro(), "cr_frame", None)
    return frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == _OURS
