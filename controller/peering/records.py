"""Writes an operator's own record into every peering object, keeps it alive, and removes it at the end."""

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
from .rules import (
    LETTERS,
    Peer,
    PeeringOptions,
    PeeringScope,
    choose_host,
    compose_identity,
    keep_alive_pause,
    manual_identity,
)

_logger = logging.getLogger("ctl.peering")

WRITE_SECONDS = 10.0
"""Seconds that one write may take."""
REMOVAL_PAUSE = 10.0
"""Seconds until the removal of dead records is tried again after a failure."""
AT_ONCE = 8
"""The number of parallel writes."""
_RETRIES = Backoff(initial=1.0, cap=5.0, jitter=0.5)
"""The pause after a failed keep-alive. No retry policy of one request: a change of objects or of leadership ends the pause at once."""


def own_identity(*, manual: bool = False) -> str:
    """The identity of this process: `POD_ID` of the environment, else user@host/time/letters; `manual`: user@host only.

    Blocks while the name service is asked for the host's name.
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
"""Records by identity; None removes a record."""


async def write_records(
    client: Client, scope: PeeringScope, name: str, records: Records, *, channel: Channel = "renewal"
) -> bool:
    """Merge records into a peering object; false: there is none. Raises the client's errors, and TimeoutError after WRITE_SECONDS."""
    subresource = "status" if "status" in scope.resource.subresources else None
    try:
        async with asyncio.timeout(WRITE_SECONDS):
            await client.patch(
                scope.resource, name, scope.namespace, {"status": records}, subresource=subresource, channel=channel
            )
    except NotFound:
        return False
    return True


class Announcer:
    """Writes this operator's record into all peering objects while it leads, and removes it when it does not.

    `objects` returns the existing objects with their uids. Call `wake` after a change of `is_leading` or `objects`. A former leader removes
    its records, so that its successor does not find a peer of the same rank.
    """

    def __init__(
        self,
        client: Client,
        options: PeeringOptions,
        is_leading: Callable[[], bool],
        objects: Callable[[], Mapping[PeeringScope, str]],
    ) -> None:
        self._client = client
        self.options = options
        """Read at each record."""
        self._is_leading = is_leading
        self._objects = objects
        self._changed = asyncio.Event()
        # The objects with our record as of the last keep-alive, with their uids: an object that was created anew lacks it.
        self._announced: dict[PeeringScope, str] = {}
        # Where our record may be, also if the answer was lost.
        self._present: set[PeeringScope] = set()
        self._denied: set[PeeringScope] = set()
        self._removing: set[tuple[PeeringScope, str]] = set()
        # The loop times from which records of others may be removed again.
        self._removable_from: dict[PeeringScope, float] = {}
        # The scopes whose last write failed: logged once.
        self._failing: set[PeeringScope] = set()
        self._slots = asyncio.Semaphore(AT_ONCE)

    def wake(self) -> None:
        """Check `is_leading` and `objects` again."""
        self._changed.set()

    def deny(self, scope: PeeringScope) -> None:
        """Do not write there: the right is missing."""
        self._denied.add(scope)

    def allow(self, scope: PeeringScope) -> None:
        """Write there: the right has been granted."""
        self._denied.discard(scope)
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
                self._announced.clear()
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
        """Write the record where it is missing; false if a write failed."""
        objects = {scope: uid for scope, uid in self._objects().items() if scope not in self._denied}
        if not objects:
            self._report(None, exists=False)
        self._announced = {scope: uid for scope, uid in self._announced.items() if scope in objects}
        due = [(scope, uid) for scope, uid in objects.items() if self._announced.get(scope) != uid]
        return all(await asyncio.gather(*(self._write_own(scope, uid) for scope, uid in due)))

    async def _write_own(self, scope: PeeringScope, uid: str) -> bool:
        options, rank = self.options, self.options.rank
        async with self._slots:
            if not self._is_leading():
                return True
            self._present.add(scope)
            peer = Peer(rank.identity, clock.now(), rank.priority, options.lifetime, rank.lease)
            record = peer.record() if options.lifetime > 0 else None
            exists = await self._write(scope, {rank.identity: record})
        if exists is None:
            return scope in self._denied
        self._announced[scope] = uid
        self._report(scope, exists=exists)
        return True

    def _report(self, scope: PeeringScope | None, *, exists: bool) -> None:
        if self.options.stealth:
            return
        where = scope or ("cluster-wide" if self.options.clusterwide else "in the served namespaces")
        _logger.debug("Keep-alive in %r %s: %s.", self.options.name, where, "ok" if exists else "not found")

    async def remove(self, scope: PeeringScope, identities: Iterable[str]) -> None:
        """Remove records of others. After a failure the next look at them tries again, REMOVAL_PAUSE later."""
        due = {identity for identity in identities if (scope, identity) not in self._removing}
        now = asyncio.get_running_loop().time()
        if not due or scope in self._denied or not self._is_leading() or now < self._removable_from.get(scope, now):
            return
        marks = {(scope, identity) for identity in due}
        self._removing |= marks
        try:
            if await self._write(scope, dict.fromkeys(sorted(due))) is None:
                self._removable_from[scope] = now + REMOVAL_PAUSE
        finally:
            self._removing -= marks

    async def retract(self) -> None:
        """Remove our own records from all objects."""
        self._announced.clear()
        scopes = sorted(self._present, key=str)
        self._present.clear()

        async def leave(scope: PeeringScope) -> None:
            async with self._slots:
                await self._write(scope, {self.options.rank.identity: None})

        await asyncio.gather(*(leave(scope) for scope in scopes))

    async def _write(self, scope: PeeringScope, records: Records) -> bool | None:
        """Whether the object exists; None: the write failed, which is logged."""
        try:
            exists = await write_records(self._client, scope, self.options.name, records)
        except Forbidden as error:
            self.deny(scope)
            self._present.discard(scope)
            _logger.info(
                "Peers cannot see this operator %s, since the right to write its record is missing: %s", scope, error
            )
            return None
        except (APIError, RequestError, AccessError, TimeoutError) as error:
            level = logging.DEBUG if scope in self._failing else logging.WARNING
            self._failing.add(scope)
            words = in_words(error)
            _logger.log(level, "The peering object %r %s could not be written: %s", self.options.name, scope, words)
            return None
        self._failing.discard(scope)
        return exists
