"""The newest version of each resource that a leader wrote. It stands on the Lease, and a successor waits until its caches show it."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...client.objects import version_order
from ...client.resources import Resource

WRITTEN_ANNOTATION = "ctl.dev/written"
"""The annotation of a Lease with the versions: JSON of `plural.group` to a version; `?`: a write may have been applied as an unknown version."""
UNKNOWN = "?"
LIMIT = 200
"""The number of resources that are remembered: those written last. Older writes were seen by all long ago."""

Versions = Mapping[str, str | None]
"""Versions by the names of resources; None: unknown."""


class WrittenVersions:
    """The newest version of each resource that was written under a lease. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The order is that of the last writes.
        self._versions: dict[str, str | None] = {}
        # Resources with a write whose answer was lost: the server may apply that write after later ones.
        self._lost: set[str] = set()

    def note(self, resource: Resource, version: str | None) -> None:
        """Note the version of a write. None: its answer was lost, and it may have been applied; then the newest version stays unknown."""
        name = resource.name
        with self._lock:
            if version is None:
                self._lost.add(name)
            self._put(name, None if name in self._lost else version)

    def inherit(self, versions: Versions) -> None:
        """Pass the versions of a predecessor on to the successor, which may not have seen them either."""
        with self._lock:
            for name, version in versions.items():
                if self._versions.get(name, "") is not None:
                    self._put(name, version)

    def _put(self, name: str, version: str | None) -> None:
        known = self._versions.pop(name, None)
        self._versions[name] = version if known is None or version is None else _newer(known, version)
        while len(self._versions) > LIMIT:
            oldest = next(iter(self._versions))
            del self._versions[oldest]
            self._lost.discard(oldest)

    def text(self) -> str:
        """The value of the annotation."""
        with self._lock:
            shown = {name: UNKNOWN if version is None else version for name, version in self._versions.items()}
        return json.dumps(shown, separators=(",", ":"), sort_keys=True)


def read_versions(annotations: Mapping[str, str] | None) -> Versions:
    """The versions in the annotation of a Lease; none if it is absent or cannot be read."""
    try:
        found = json.loads((annotations or {}).get(WRITTEN_ANNOTATION) or "{}")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        name: None if version == UNKNOWN else version for name, version in found.items() if isinstance(version, str)
    }


@dataclass(frozen=True, slots=True)
class PredecessorWrites:
    """What earlier leaders wrote."""

    versions: Versions = field(default_factory=dict)
    until: float | None = None
    """The time of the renewing loop until which the last leader may have written newer versions than these.

    None: it wrote none, since it released the lease after its last write, or there was no leader.
    """


def _newer(one: str, other: str) -> str:
    first, second = version_order(one), version_order(other)
    # Versions that cannot be compared: the later write wins.
    return one if first is not None and second is not None and first > second else other
