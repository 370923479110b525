"""How an informer is doing, for readiness, logs and people."""

from dataclasses import dataclass
from datetime import datetime

from .reflector_state import Phase


@dataclass(frozen=True, slots=True)
class State:
    """One look at an informer. Times are aware; ages are in seconds."""

    phase: Phase
    since: datetime
    """When the phase began."""
    synced: bool
    """Whether a first list was completed: the store is a true, if perhaps old, state of the server."""
    last_event: datetime | None
    """When the server was heard last: an event, a bookmark or a page; a watch that it opened, where it has sent no bookmarks yet."""
    age: float | None
    """Seconds since then, by the clock that says more."""
    error: str | None
    """What is wrong; None while all is well."""

    def is_stale(self, limit: float = 90.0) -> bool:
        """Whether this informer once worked and has heard nothing for so long, for another reason than being parked."""
        return self.synced and self.phase is not Phase.PARKED and self.age is not None and self.age > limit

    def __str__(self) -> str:
        heard = "never heard" if self.age is None else f"heard {self.age:.0f} s ago"
        return f"{self.phase.value}, {heard}" + (f": {self.error}" if self.error else "")
