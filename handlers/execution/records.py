"""Records of handlers are put on the object as far as they fit there; those that do not stay in the process alone."""

from collections.abc import Sequence

import msgspec

from ..causes.patch import Patch, compose
from ..causes.views import Body, BodyEssence
from ..storage.baseline import Baseline, Known
from ..storage.outside import OutsideProgressStorage
from .progression import Progression

SHORT_MESSAGE = 100
"""To how many characters the messages of errors are cut where all of them do not fit."""


class Records(msgspec.Struct):
    """How the records of one object are written: beside which baseline, which is `old` now, and what is known of it.

    `outside` are the storages that keep them elsewhere.
    """

    baseline: Baseline
    known: Known
    old: BodyEssence | None
    outside: Sequence[OutsideProgressStorage] = ()

    def put(self, progression: Progression, body: Body, patch: Patch, size: int) -> bool:
        """Put the records of an object of this size into a patch; false when they do not fit, and a crash would lose them.

        Where it is too tight for them the messages are cut, then the baseline makes room.
        """
        if self.known.thrift == 0 and self._try(progression, body, patch, size, None):
            return True
        if self.known.thrift > 1:
            return False
        if self._try(progression, body, patch, size, SHORT_MESSAGE):
            return True
        if not self.old or not self.baseline.is_on(body):
            return False
        smaller = Patch()
        self.baseline.keep(body, smaller, self.old, self.baseline.room(size), 1)
        compose(patch, smaller)
        self.known.learn(self.old, keep=True)
        return self._try(progression, body, patch, size, SHORT_MESSAGE)

    def are_unwritten(self, body: Body) -> bool:
        """Whether a storage outside of the object waits for a write."""
        return any(storage.is_unwritten(body) for storage in self.outside)

    def _try(self, progression: Progression, body: Body, patch: Patch, size: int, longest: int | None) -> bool:
        records = Patch()
        progression.store(body, records, self.baseline.progress, longest)
        if not self.baseline.room(size).has(body, patch, records):
            return False
        compose(patch, records)
        return True
