"""Own writes are seen by all readers at once, and trigger nothing when the watch tells of them.

That the answer to a write has a version does not make it the write's own: a write that changes nothing is answered with the object
as it is, and the version may be somebody else's, of whom nobody has heard yet. So an answer is an echo only if all that is new in it
was sent, and if it is new: what was shown already, by a read or by another controller's answer, is that one's. A doubt costs an
attempt that finds nothing to do; an echo that is none would hide a change for ever.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from ...client.objects import Object, without_bookkeeping
from ...client.patches import PatchError, json_patch
from ...client.resources import Key, Resource
from ...informers.factory import SharedInformerFactory
from ...informers.informer import Informer

PATIENCE = 5.0
"""Seconds that a write waits for the watch, where its answer cannot be shown at once (see `Informer.overlay`)."""


class Wish(NamedTuple):
    """What a write sends."""

    content: Mapping[str, Any] | Sequence[Any]
    """A body, what is merged into one, or the operations of a JSON patch."""
    whole: bool = False
    """It takes the place of what is there."""

    def explains(self, before: Object, after: Object) -> bool:
        """Whether everything that is new in an answer was sent, so that nobody else has a part in it."""
        old, new = without_bookkeeping(before.body()), without_bookkeeping(after.body())
        if isinstance(self.content, Mapping):
            return _explains(self.content, old, new, whole=self.whole)
        try:
            return _explains(without_bookkeeping(json_patch(before.body(), self.content)), old, new, whole=True)
        except PatchError:
            return False


class Write:
    """One write that is on its way."""

    def __init__(self, informers: Sequence[Informer], key: Key, wish: Wish, author: str) -> None:
        self._wish = wish
        self._author = author
        # As everybody knows it: of what the watch tells from now on, nobody hears before the end.
        self._before = [(informer, informer.store.get(key)) for informer in informers]

    async def answered(self, obj: Object) -> Object:
        """Show the answer to all readers; returns when they see it, PATIENCE at the latest."""
        for informer, before in self._before:
            echo = before is not None and self._is_own(before, obj, informer)
            await _show(informer, obj, self._author if echo else None, echo=echo)
        return obj

    def _is_own(self, before: Object, obj: Object, informer: Informer) -> bool:
        # A version that was there before the write is of whoever has made it.
        return before.resource_version != obj.resource_version and self._wish.explains(before, informer.slim(obj))


class Echoes:
    """Shows the answers of the server to everyone who reads from the informers of a factory."""

    def __init__(self, factory: SharedInformerFactory, author: str) -> None:
        self._factory = factory
        self._author = author

    @contextmanager
    def writing(self, resource: Resource, key: Key, wish: Wish) -> Iterator[Write]:
        """While inside, an own write to this object is on its way: nobody is told of changes of it."""
        informers = self._of(resource)
        with ExitStack() as stack:
            for informer in informers:
                stack.enter_context(informer.writing(key))
            yield Write(informers, key, wish, self._author)

    async def read(self, resource: Resource, obj: Object) -> Object:
        """Show what was read, or has become of a write that is nobody's echo; returns when readers see it, PATIENCE at the latest."""
        for informer in self._of(resource):
            await _show(informer, obj, None, echo=False)
        return obj

    def gone(self, resource: Resource, key: Key, uid: str) -> None:
        """Hide what an own write has deleted for good."""
        for informer in self._of(resource):
            informer.overlay_deleted(key, uid)

    def _of(self, resource: Resource) -> list[Informer]:
        return [informer for informer in self._factory.informers if informer.resource == resource]


async def _show(informer: Informer, obj: Object, author: str | None, *, echo: bool) -> None:
    if not informer.overlay(obj, author=author, echo=echo):
        await informer.wait_for(obj, PATIENCE)


def _explains(sent: Any, old: Any, new: Any, *, whole: bool) -> bool:
    """Whether what is different was sent so. What the server adds to that (defaults) was there before, or is a difference."""
    if old == new:
        return True
    if isinstance(sent, Mapping) and (new is None or isinstance(new, Mapping)):
        old, new = _mapping(old), _mapping(new)
        return all(
            _explains(sent[key], old.get(key), new.get(key), whole=whole) if key in sent else whole and key not in new
            for key in old.keys() | new.keys()
            if old.get(key) != new.get(key)
        )
    if new == sent:
        return True
    if isinstance(sent, list) and isinstance(old, list) and isinstance(new, list) and len(sent) == len(old) == len(new):
        return all(_explains(*items, whole=whole) for items in zip(sent, old, new, strict=True))
    return False


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
