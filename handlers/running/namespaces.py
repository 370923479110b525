"""Which namespaces match the patterns, as namespaces come and go."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from ...client.resources import Resource
from ...controller.api.access_review import Rights
from ...informers.deltas import DeltaKind
from ...informers.factory import SharedInformerFactory
from ...informers.informer import Informer
from ...runtime.tasks import Tasks
from ..declaration.namespaces import NamespacePattern, exact_namespaces, match_namespaces

logger = logging.getLogger(__name__)

NAMESPACES = Resource("", "v1", "namespaces", kind="Namespace", namespaced=False)
LINGER = 5.0
"""How long a namespace is served after it is gone, in seconds: the deletions of its last objects come by other streams."""
STOP_GRACE = 1.0
"""How long a change that is being followed may take at the end, in seconds."""
PATIENCE = 30.0
"""How often the log says that the namespaces cannot be listed, in seconds."""
ASK_AGAIN = (40.0, 60.0)
"""How long to wait before the rights to list and watch them are asked for again, in seconds; at random between these."""


class Namespaces:
    """The namespaces that are served now: those named outright, whether they exist or not, and those that match a pattern.

    Nothing is asked of the server when all of them are named outright. With patterns the namespaces are listed and watched; while
    that is not allowed, or not wanted (`settings.scanning.disabled`), only the names are served. A namespace under deletion is
    served until it is gone, and LINGER seconds longer.
    """

    def __init__(self, patterns: frozenset[NamespacePattern], factory: SharedInformerFactory, rights: Rights) -> None:
        self._patterns = patterns
        self._factory = factory
        self._rights = rights
        self._exact = exact_namespaces(patterns)
        self._found: set[str] = set()
        self._informer: Informer | None = None
        self._tasks = Tasks("namespaces")

    @property
    def names(self) -> frozenset[str]:
        """Those that are served now."""
        return self._exact | self._found

    async def start(self, changed: Callable[[], Awaitable[None]], *, scan: bool = True) -> None:
        """List the namespaces; then call `changed` after each change, until stopped."""
        if len(self._exact) == len(self._patterns):
            return
        if not scan or not await self._rights.have_all(("list", "watch"), NAMESPACES):
            reason = "settings.scanning.disabled is set" if not scan else "the right to list and watch them is missing"
            logger.info(
                "Namespaces are not looked for by patterns: %s. Served are: %s.",
                reason,
                ", ".join(sorted(self._exact)) or "none",
            )
            if scan:
                self._tasks.spawn(self._wait_for_rights(changed), name="rights")
            return
        await self._look(changed)

    async def _wait_for_rights(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Roles are often applied a moment too late."""
        while True:
            await asyncio.sleep(random.uniform(*ASK_AGAIN))
            if await self._rights.have_all(("list", "watch"), NAMESPACES):
                await self._look(changed)
                await changed()
                return

    async def _look(self, changed: Callable[[], Awaitable[None]]) -> None:
        informer = self._informer = self._factory.informer(NAMESPACES)
        while not await informer.wait_synced(PATIENCE):
            logger.warning(
                "The namespaces could not be listed yet; nothing is served until they are: %s", informer.state
            )
        self._found = {obj.name for obj in informer.store.values() if match_namespaces(obj.name, self._patterns)}
        self._tasks.spawn(self._follow(informer, changed), name="coming and going")

    async def stop(self) -> None:
        """Look for no other namespaces, and call back no more."""
        await self._tasks.stop(STOP_GRACE)
        if self._informer is not None:
            await self._factory.release(self._informer)
            self._informer = None

    async def _follow(self, informer: Informer, changed: Callable[[], Awaitable[None]]) -> None:
        async for batch in informer.subscribe(name="namespaces"):
            names = {delta.object.name for delta in batch if match_namespaces(delta.object.name, self._patterns)}
            gone = {delta.object.name for delta in batch if delta.kind is DeltaKind.DELETED} & names
            for name in sorted(gone):
                self._tasks.spawn(self._part(informer, name, changed), name=f"the end of {name}")
            if not names - gone <= self._found:
                self._found |= names - gone
                await changed()

    async def _part(self, informer: Informer, name: str, changed: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(LINGER)
        if name in self._found and not any(obj.name == name for obj in informer.store.values()):
            self._found.discard(name)
            await changed()
