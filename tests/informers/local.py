"""A watch cache and own writes without an informer, joined as the informer joins them."""

from collections.abc import Iterable

from ctl.client.objects import Object
from ctl.client.resources import Key
from ctl.informers.deltas import Delta
from ctl.informers.own_writes import OwnWrites
from ctl.informers.reader import Reader
from ctl.informers.relist import Listing
from ctl.informers.watch_cache import ObjectEvent, WatchCache


class Local(Reader):
    """What a reader sees, and what a subscriber is told."""

    def __init__(self, limit: int = 20_000) -> None:
        self.cache = WatchCache()
        self.own = OwnWrites(self.cache, limit)
        super().__init__(self.cache, self.own)

    @property
    def overlaid(self) -> int:
        return len(self.own)

    def delivered(self) -> list[Object]:
        return list(self.cache.objects.values())

    def apply(self, events: Iterable[ObjectEvent]) -> list[Delta]:
        return self.own.follow(self.cache.apply(events), 0.0)

    def overlay(self, obj: Object) -> bool:
        return self.own.answered(obj, None, echo=True, hidden=False)

    def overlay_deleted(self, key: Key, uid: str) -> None:
        self.own.deleted(key, uid)

    def relist(self, *objects: Object, version: int | str, consistent: bool = True) -> list[Delta]:
        listing = Listing(self.cache, consistent=consistent)
        listing.add(objects)
        return self.finish(listing, version)

    def finish(self, listing: Listing, version: int | str) -> list[Delta]:
        """Complete a list."""
        for _ in listing.prepare(str(version)):
            pass
        changes = listing.finish()
        number, consistent, rewound = listing.number, listing.consistent, listing.rewound
        return changes + self.own.relisted(number, consistent=consistent, rewound=rewound, gone=changes)
