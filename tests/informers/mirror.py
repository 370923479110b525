"""What a subscriber believes, checked with each delta."""

from ctl.client.objects import Object
from ctl.informers.deltas import Delta, DeltaKind
from ctl.informers.subscription import Subscription


def order(version: str) -> int:
    return int(version)


class Mirror:
    """Folds deltas into a state, and asserts that they tell one consistent story."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str | None, str], Object] = {}
        self.versions: dict[str, str] = {}
        self.seen: list[Delta] = []

    def take(self, deltas: list[Delta]) -> None:
        assert deltas, "batches are never empty"
        for delta in deltas:
            self._take(delta)

    def _take(self, delta: Delta) -> None:
        self.seen.append(delta)
        obj, known = delta.object, self.objects.get(delta.object.key)
        last = self.versions.get(obj.uid)
        if delta.kind is DeltaKind.ADDED:
            assert known is None
            assert delta.old is None
            assert last is None or order(last) < order(obj.resource_version), "an object came back from the dead"
            self.objects[obj.key] = obj
        elif delta.kind is DeltaKind.DELETED:
            assert (known is None) == (delta.old is None)
            if known is not None:
                assert known.uid == obj.uid
                assert order(known.resource_version) <= order(obj.resource_version)
                del self.objects[obj.key]
        else:
            assert known is not None
            assert known.uid == obj.uid
            repeated = delta.kind is DeltaKind.SYNCED or delta.wire_type is None
            assert order(known.resource_version) < order(obj.resource_version) or repeated
            assert order(known.resource_version) <= order(obj.resource_version)
            assert delta.old is not None
            assert delta.old.resource_version == known.resource_version
            self.objects[obj.key] = obj
        self.versions[obj.uid] = obj.resource_version

    def state(self) -> dict[tuple[str | None, str], tuple[str, str]]:
        return {name: (obj.uid, obj.resource_version) for name, obj in self.objects.items()}

    async def follow(self, subscription: Subscription) -> None:
        async for batch in subscription:
            self.take(batch)
