"""An operator's own record is kept alive in every peering object that there is, and taken out of them at the end."""

import asyncio
import getpass
import logging
import os
import random
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...client.errors import AccessError, APIError, Forbidden, NotFound, RequestError, in_words
from ...client.rest import Channel, Client
from ...runtime import clock
from ...runtime.backoff import Backoff
from .rules import LETTERS, Peer, PeeringOptions, Spot, choose_host, compose_identity, keep_alive_pause, manual_identity

_logger = logging.getLogger("ctl.peering")

WRITE_SECONDS = 10.0
"""How long one writing may take."""
REMOVAL_PAUSE = 10.0
"""For how many seconds the records of the dead are left alone where removing them has failed."""
AT_ONCE = 8
"""How many objects are written to at the same time."""
_RETRIES = Backoff(initial=1.0, cap=5.0, jitter=0.5)


def own_identity(*, manual: bool = False) -> str:
    """Who this process is among peers: `POD_ID` of the environment, else user@host/time/letters; `manual`: user@host alone.

    May ask the name service for the host's name, and wait for that.
    """
    given = os.environ.get("POD_ID")
    if given:
        return given
    user, host = _user(), _host()
    if manual:
        return manual_identity(user, host)
    return compose_identity(user, host, clock.now(), "".join(random.choices(LETTERS, k=3)))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container may run as a user without a name
        return str(os.getuid()) if hasattr(os, "getuid") else "user"


def _host() -> str:
    name = socket.gethostname()
    try:
        canonical, aliases, _ = socket.gethostbyaddr(name)
    except OSError:
        return choose_host([name], name)
    return choose_host([canonical, *aliases], name)


Records = Mapping[str, Mapping[str, Any] | None]
"""Records by identity; None takes one out."""


async def write_records(
    client: Client, spot: Spot, name: str, records: Records, *, channel: Channel = "renewal"
) -> bool:
    """Merge records into a peering object; false when there is none. Raises the client's errors, TimeoutError after WRITE_SECONDS."""
    subresource = "status" if "status" in spot.resource.subresources else None
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            await client.patch(
                spot.resource, name, spot.namespace, {"status": records}, subresource=subresource, channel=channel
            )
    except NotFound:
        return False
    return True


class Announcer:
    """Writes this operator's record into all peering objects while it is to announce itself.

    `is_leading` says whether it is; `objects` gives the objects that there are, with their uids. After a change of either `wake` is to
    be called. Whoever leads no more takes its records out, so that a successor does not find a rival of its own rank.
    """

    def __init__(
        self,
        client: Client,
        options: PeeringOptions,
        is_leading: Callable[[], bool],
        objects: Callable[[], Mapping[Spot, str]],
    ) -> None:
        self._client = client
        self.options = options
        """Read at each record."""
        self._is_leading = is_leading
        self._objects = objects
        self._changed = asyncio.Event()
        # The objects that hold our record as of the last round, with their uids: one that is made anew is none of them.
        self._told: dict[Spot, str] = {}
        # Where our record may be, also if the answer was lost.
        self._present: set[Spot] = set()
        self._denied: set[Spot] = set()
        self._removing: set[tuple[Spot, str]] = set()
        # From when on records of others may be removed again, by the time of the loop.
        self._removable_from: dict[Spot, float] = {}
        # Where the last writing failed: that is told once.
        self._failing: set[Spot] = set()
        self._slots = asyncio.Semaphore(AT_ONCE)

    def wake(self) -> None:
        """Look at what has changed."""
        self._changed.set()

    def deny(self, spot: Spot) -> None:
        """Do not write there: the right to is missing."""
        self._denied.add(spot)

    def allow(self, spot: Spot) -> None:
        """Write there: the right to has come."""
        self._denied.discard(spot)
        self.wake()

    async def run(self) -> None:
        """Keep the record alive from the first `wake` on, until cancelled."""
        loop = asyncio.get_running_loop()
        await self._changed.wait()
        delays = _RETRIES.start()
        renewal = loop.time()
        while True:
            self._changed.clear()
            if not self._is_leading():
                await self.retract()
                renewal = loop.time()
                await self._changed.wait()
                continue
            if loop.time() >= renewal:
                self._told.clear()
                renewal = loop.time() + keep_alive_pause(self.options.lifetime, random.random())
            wait = renewal - loop.time()
            if not await self._announce():
                wait = min(wait, delays.next(loop.time(), random.random()))
            await self._wait(wait)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _announce(self) -> bool:
        """Write the record where it is not yet; false when that failed somewhere."""
        objects = {spot: uid for spot, uid in self._objects().items() if spot not in self._denied}
        if not objects:
            self._report(None, exists=False)
        self._told = {spot: uid for spot, uid in self._told.items() if spot in objects}
        due = [(spot, uid) for spot, uid in objects.items() if self._told.get(spot) != uid]
        return all(await asyncio.gather(*(self._tell(spot, uid) for spot, uid in due)))

    async def _tell(self, spot: Spot, uid: str) -> bool:
        options, rank = self.options, self.options.rank
        async with self._slots:
            if not self._is_leading():
                return True
            self._present.add(spot)
            peer = Peer(rank.identity, clock.now(), rank.priority, options.lifetime, rank.lease)
            record = peer.record() if options.lifetime > 0 else None
            exists = await self._write(spot, {rank.identity: record})
        if exists is None:
            return spot in self._denied
        self._told[spot] = uid
        self._report(spot, exists=exists)
        return True

    def _report(self, spot: Spot | None, *, exists: bool) -> None:
        if self.options.stealth:
            return
        where = spot or ("cluster-wide" if self.options.clusterwide else "in the served namespaces")
        _logger.debug("Keep-alive in %r %s: %s.", self.options.name, where, "ok" if exists else "not found")

    async def remove(self, spot: Spot, identities: Iterable[str]) -> None:
        """Take the records of others out; what fails is tried again when they are seen again, after a pause."""
        due = {identity for identity in identities if (spot, identity) not in self._removing}
        now = asyncio.get_running_loop().time()
        if not due or spot in self._denied or not self._is_leading() or now < self._removable_from.get(spot, now):
            return
        marks = {(spot, identity) for identity in due}
        self._removing |= marks
        try:
            if await self._write(spot, dict.fromkeys(sorted(due))) is None:
                self._removable_from[spot] = now + REMOVAL_PAUSE
        finally:
            self._removing -= marks

    async def retract(self) -> None:
        """Take our own records out of all objects."""
        self._told.clear()
        spots = sorted(self._present, key=str)
        self._present.clear()

        async def leave(spot: Spot) -> None:
            async with self._slots:
                await self._write(spot, {self.options.rank.identity: None})

        await asyncio.gather(*(leave(spot) for spot in spots))

    async def _write(self, spot: Spot, records: Records) -> bool | None:
        """Whether there is such an object; None: that could not be found out, which is logged."""
        try:
            exists = await write_records(self._client, spot, self.options.name, records)
        except Forbidden as error:
            self.deny(spot)
            self._present.discard(spot)
            _logger.info("Peers cannot be told of this operator %s, the right to is missing: %s", spot, error)
            return None
        except (APIError, RequestError, AccessError, TimeoutError) as error:
            level = logging.DEBUG if spot in self._failing else logging.WARNING
            self._failing.add(spot)
            words = in_words(error)
            _logger.log(level, "The peering object %r %s could not be written: %s", self.options.name, spot, words)
            return None
        self._failing.discard(spot)
        return exists
