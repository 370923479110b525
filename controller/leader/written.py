"""What a leader leaves to its successor: the newest version that it wrote of each resource."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...client.objects import version_order
from ...client.resources import Resource

WRITTEN = "ctl.dev/written"
"""The annotation of a Lease with the versions: JSON of `plural.group` to a version; `?` where a write may have been applied, and nobody
knows as which version."""
UNKNOWN = "?"
LIMIT = 200
"""How many resources are remembered: those written last. What was written before them was seen by everybody long ago."""

Versions = Mapping[str, str | None]
"""By the names of resources; None: nobody knows."""


class Written:
    """The newest version of each resource that was written under a lease. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The order is that of the last writes.
        self._versions: dict[str, str | None] = {}
        # Of whose writes by this process an answer was lost: such a write may be applied after others that were answered.
        self._lost: set[str] = set()

    def note(self, resource: Resource, version: str | None) -> None:
        """A write was answered with this version. None: it may have been applied all the same; then the newest stays unknown."""
        name = resource.name
        with self._lock:
            if version is None:
                self._lost.add(name)
            self._put(name, None if name in self._lost else version)

    def inherit(self, versions: Versions) -> None:
        """What a predecessor wrote is left to the successor as well, who may have missed it too."""
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
            told = {name: UNKNOWN if version is None else version for name, version in self._versions.items()}
        return json.dumps(told, separators=(",", ":"), sort_keys=True)


def read(annotations: Mapping[str, str] | None) -> Versions:
    """The versions of an annotation; nothing where there is none, or what cannot be read."""
    try:
        found = json.loads((annotations or {}).get(WRITTEN) or "{}")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        name: None if version == UNKNOWN else version for name, version in found.items() if isinstance(version, str)
    }


@dataclass(frozen=True, slots=True)
class Legacy:
    """What is known of those who led before."""

    written: Versions = field(default_factory=dict)
    until: float | None = None
    """The moment, in the time of the loop that renews, up to which the last one may have written more than it told of; None: it
    told everything, since it gave the lease back after its last write, or there was nobody."""


def _newer(one: str, other: str) -> str:
    first, second = version_order(one), version_order(other)
    # What cannot be compared came later.
    return one if first is not None and second is not None and first > second else other
