"""Says for each scenario which differences are meant, and where `docs/compatibility.md` tells why."""

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Expected:
    """A difference that is meant."""

    path: str
    """Where, as `comparing` names it, with `*` for any part."""
    anchor: str
    """The `<a id=...>` in the document."""
    added: bool = False
    """Kopf has nothing there."""
    always: bool = True
    """It occurs each time, whatever the server."""

    def covers(self, path: str, text: str) -> bool:
        """Whether this is the difference there."""
        return fnmatchcase(path, self.path) and (not self.added or text.startswith("kopf: (absent)"))


EVERYWHERE: tuple[Expected, ...] = ()
"""Meant wherever they occur."""

_ROUND, _OWN_PATCH, _SEEN = "one-round", "own-patch", "diff-base-of-the-seen"

EXPECTED: dict[str, tuple[Expected, ...]] = {
    "retries": (Expected("debug/one", "refused-before-the-call"),),
    "lifecycles": (Expected("calls/one/backwards/*", _ROUND),),
    # Parents are not called again for each of their sub-handlers.
    "other_clients": (Expected("debug/one", _ROUND),),
    "filters": (Expected("calls/five/noting/*", "filters-are-asked-once"),),
    "own_changes": (Expected("calls/one/after/0/kwargs/*", _OWN_PATCH),),
    "patches": (
        Expected("calls/evented/evented/*", "status-first"),
        Expected("logs/evented/evented", "status-first"),
    ),
    "live": (
        Expected("calls/one/deleted/*", "deletion-with-daemons"),
        Expected("logs/one/*", "deletion-with-daemons"),
    ),
    "pruned": (
        # Where the server prunes.
        Expected("calls/one/after/0/kwargs/*", "seen-before-pruned", always=False),
    ),
    "prefix": (Expected("objects/apples/one/metadata/annotations/*/seen", "digest-of-the-seen", added=True),),
    "embedded_tasks": (
        Expected("calls/None/ended", "only-own-tasks"),
        Expected("order/None", "only-own-tasks"),
        Expected("exit/codes", "only-own-tasks"),
    ),
    "signatures": (
        Expected("calls/None/*", "more-names", added=True),
        Expected("calls/None/login_*/said/is_/parameters", "login-without-settings"),
    ),
    "declarations": (Expected("calls/None/refused/16/said/kind", "admission-comes-later"),),
    "crate_like": (
        # The step that says itself that it was too slow.
        Expected("logs/one/-", "own-timeout-errors"),
        Expected("logs/one/cluster_update/scale", "own-timeout-errors"),
    ),
    "mysql_like": (
        # Its spec was changed while its creation was tried again.
        Expected("calls/invalid/on_spec/*", _SEEN),
        Expected("objects/apples/invalid/status/handled", _SEEN),
    ),
    "superseding": (
        Expected("calls/*/deleted/0/kwargs/patch/metadata", _OWN_PATCH),
        Expected("calls/freed/updated", _SEEN),
        Expected("order/freed", _SEEN),
        Expected("logs/freed/*", _SEEN),
        Expected("debug/freed", _SEEN),
    ),
}
"""Scenario -> what is different in it, each time."""
