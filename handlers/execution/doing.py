"""Log lines say for which cause, and for which handler, they were written."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ...runtime.log_context import LogContext, next_number, unique_name
from ..causes.causes import ActivityCause, Cause, ChangingCause, IndexingCause, ResourceCause, WatchingCause
from ..declaration.specs import DaemonSpec, HandlerSpec, TimerSpec
from ..loggers import reference

_KINDS: Final[tuple[tuple[type[Cause], str], ...]] = ((WatchingCause, "event"), (IndexingCause, "index"))
_TASKS: Final[tuple[tuple[type[HandlerSpec], str], ...]] = ((DaemonSpec, "daemon"), (TimerSpec, "timer"))


class Doing(msgspec.Struct, eq=False):
    """A cause that is being handled, or one handler's attempt for it; within the attempt of a key (`outer`), if there is one."""

    cause: Cause
    outer: LogContext | None
    spec: HandlerSpec | None = None
    retries: int = 0
    number: int = msgspec.field(default_factory=next_number)

    def fields(self) -> Mapping[str, Any]:
        """Cause, handler, attempt (1 for the first), the object, and a name that all lines of the key's attempt have in common."""
        outer = self.outer
        name = unique_name(self.number) if outer is None else outer.fields().get("reconcile_id")
        told: dict[str, Any] = {"cause": word(self.cause, self.spec), "reconcile_id": name}
        if self.spec is not None:
            told |= {"handler": str(self.spec.id), "attempt": self.retries + 1}
        if isinstance(self.cause, ResourceCause):
            told["k8s_ref"] = reference(self.cause.body)
        return told


def word(cause: Cause, spec: HandlerSpec | None = None) -> str:
    """What a cause is called: create, update, delete, resume; event, index, daemon, timer; startup, cleanup and so on."""
    if isinstance(cause, ChangingCause):
        return cause.reason.value
    if isinstance(cause, ActivityCause):
        return cause.activity.value
    found = next((text for kind, text in _KINDS if isinstance(cause, kind)), None)
    return found or next((text for kind, text in _TASKS if isinstance(spec, kind)), "other")
