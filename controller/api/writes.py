"""Guarded writes to objects, for handlers and for reconcilers.

A merge patch bears the uid of its object, a JSON patch holds for one version. After a refusal, or an answer that was lost, the object
itself is read: it tells whether the write was made, whether there is something else to write now (`Outdated`), or whether the server
refuses the write for another reason than the version, as admission webhooks do with any code.

Readers of the informers see the answer of a write when the write returns, and its echo on the watch triggers nothing. That the answer
has a version does not make the version the write's own: a write that changes nothing is answered with the object as it is, and the
version may be that of another write, which the watch has yet to tell of. An author's answer is an echo only if everything that is new in it
was sent, and if readers did not see its version before. A false "no echo" costs an attempt that finds nothing to do; a false echo
would hide a change for ever. Handlers have no author: they compare each answer with what they have handled.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NoReturn, TypeVar

import tenacity

from ...client.errors import APIError, Conflict, Invalid, NotFound, RequestError, is_outcome_unknown
from ...client.objects import Metadata, Object, without_bookkeeping
from ...client.patches import PatchError, json_patch
from ...client.resources import Key, Resource
from ...client.rest import Client, PatchKind
from ...informers.informer import Informer
from . import finalizers
from .desired import Sent, explains, for_version, guarded

T = TypeVar("T")
Patch = Mapping[str, Any]
Operations = Sequence[Mapping[str, Any]]

TRIES = 10
"""How often a write that holds for one version is computed anew."""
PAUSE = 0.02
"""The longest pause before the second try, in seconds; for later ones it grows by as much each time."""
BREATH = 0.2
"""Seconds after an answer that was lost: a server that closes a connection after each answer is heard to do so before the next write."""
PATIENCE = 5.0
"""Seconds that a write waits for the watch, where its answer cannot be shown at once (see `Informer.add_own_write`)."""


class KeepsChanging(Exception):
    """A write that holds for one version only was refused again and again; the attempt is to be made anew, after a back-off."""


class Outdated(Exception):
    """A write was for an object, or for a version of it, that is no more; `found` has the name now (None: nothing has)."""

    def __init__(self, found: Object | None, refusal: APIError | RequestError) -> None:
        super().__init__(found, refusal)
        self.found = found
        self.refusal = refusal


class NamesakeWritten(Exception):
    """What was meant for one object has reached another one with its name: `answer`."""

    def __init__(self, answer: Object) -> None:
        super().__init__(answer)
        self.answer = answer


class GuardedWrites:
    """The writes to the objects of one resource, and the reads that they need. All raise what `Client` raises, unless they say otherwise."""

    __slots__ = ("_author", "_client", "_informers", "_log", "_patience", "resource")

    def __init__(
        self,
        client: Client,
        resource: Resource,
        informers: Iterable[Informer],
        *,
        author: str | None = None,
        patience: float = PATIENCE,
        log: Callable[[Patch | Operations, str | None], None] | None = None,
    ) -> None:
        """`author`: whose echoes they are; None: everybody's. `log` is told of each guarded patch and its subresource, without the guard."""
        self._client = client
        self.resource = resource
        self._informers = tuple(informer for informer in informers if informer.resource == resource)
        self._author = author
        self._patience = patience
        self._log = log

    # Reads.

    async def find(self, key: Key, *, retry: bool = True) -> Object | None:
        """The object as the server has it now, or None; by a list, so that the right to `get` is never needed."""
        return await self._client.find(self.resource, key.name, key.namespace, retry=retry)

    async def read(self, key: Key) -> Object | None:
        """The same, and readers of the informers see it too."""
        found = await self.find(key)
        return None if found is None else await self.show(found)

    async def show(self, obj: Object) -> Object:
        """Show what was read, or has become of a write that is no echo; returns when readers see it, or patience is over."""
        for informer in self._informers:
            await self._show(informer, obj, echo=False)
        return obj

    async def _show(self, informer: Informer, obj: Object, *, echo: bool) -> None:
        if not informer.add_own_write(obj, author=self._author if echo else None, echo=echo):
            await informer.wait_for(obj, self._patience)

    # Guarded writes.

    async def merge(
        self, base: Object, patch: Patch, subresource: str | None = None, *, versioned: bool = False
    ) -> Object:
        """Merge a patch into this object and no namesake, if versioned into this version of it only. Raises Outdated.

        Servers ignore a uid in what is sent to the status of custom resources: where nothing else guards it, NamesakeWritten is raised.
        """
        if self._log is not None:
            self._log(patch, subresource)
        content = {**patch} if subresource and not versioned else guarded(patch, base, versioned=versioned)
        try:
            answer = await self.patch(base.key, content, subresource=subresource)
        except (NotFound, Conflict, Invalid) as exc:
            if isinstance(exc, Invalid) and "metadata.uid" not in exc.message:
                raise
            raise await self._outdated(base, exc) from exc
        if base.uid and answer.uid != base.uid:
            raise NamesakeWritten(answer)
        return answer

    async def edit(self, base: Object, operations: Operations, subresource: str | None = None) -> Object:
        """Apply the operations of a JSON patch to this version of the object only. Raises Outdated.

        The client does not repeat them when the answer is lost: if the object is what they make of it, that is success.
        """
        return await self._edit(base, for_version(operations, base.resource_version), subresource)

    async def _edit(self, base: Object, operations: Operations, subresource: str | None = None) -> Object:
        if self._log is not None:
            self._log(operations[1:], subresource)
        try:
            return await self.patch(base.key, operations, kind=PatchKind.JSON, subresource=subresource)
        except (APIError, RequestError) as exc:
            is_unknown = is_outcome_unknown(exc)
            if not isinstance(exc, (NotFound, Conflict, Invalid)) and not is_unknown:
                raise
            outdated = await self._outdated(base, exc)
            if is_unknown and outdated.found is not None and _holds(outdated.found, base, operations):
                return outdated.found
            raise outdated from exc

    async def _outdated(self, base: Object, exc: APIError | RequestError) -> Outdated:
        """What a refusal, or a lost answer, means; raises the refusal if the object is as it was."""
        found = await self.read(base.key)
        if isinstance(exc, RequestError):
            await asyncio.sleep(BREATH)
        is_as_it_was = found is not None and (found.uid, found.resource_version) == (base.uid, base.resource_version)
        if is_as_it_was and not is_outcome_unknown(exc):
            raise exc
        return Outdated(found, exc)

    async def until_taken(
        self, base: Object | None, attempt: Callable[[Object | None], Awaitable[T]], tries: int = TRIES
    ) -> T:
        """Attempt guarded writes until none is outdated, each time with the object as it is then (None: it is not there).

        Raises KeepsChanging after so many tries, or the error with which the last answer was lost.
        """
        try:
            return await attempt(base)
        except Outdated as exc:
            outdated = exc

        async def again() -> T:
            nonlocal outdated
            try:
                return await attempt(outdated.found)
            except Outdated as exc:
                outdated = exc
                raise

        await asyncio.sleep(PAUSE * random.random())
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(Outdated),
            stop=tenacity.stop_after_attempt(tries - 1),
            wait=lambda state: PAUSE * (state.attempt_number + 1) * random.random(),
            reraise=True,
        )
        try:
            return await retrying(again)
        except Outdated as exc:
            self._give_up(exc, base, tries)

    def _give_up(self, outdated: Outdated, base: Object | None, tries: int) -> NoReturn:
        last, obj = outdated.refusal, outdated.found or base
        if is_outcome_unknown(last):
            raise last
        raise KeepsChanging(
            f"{self.resource!r} {'' if obj is None else obj.key} could not be written: the object changed under each of {tries} attempts. "
            f"It will be tried again. The last answer was {last}"
        )

    # Finalizers.

    async def add_finalizer(self, base: Object, finalizer: str) -> Object | None:
        """Add a finalizer to this object, at the end; gives the newest version, None when the object is gone.

        An object that is marked for deletion accepts none: it is given back without.
        """
        return await self._finalize(base, lambda metadata: finalizers.adding(metadata, finalizer))

    async def remove_finalizer(
        self, base: Object, finalizer: str, annotations: Collection[str] = (), *, tries: int = TRIES
    ) -> Object | None:
        """Remove a finalizer from this object, all occurrences; gives the newest version, None when the object is gone.

        Those of the annotations that are there are removed by the same write, unless this is the last finalizer.
        """
        return await self._finalize(base, lambda metadata: finalizers.removing(metadata, finalizer, annotations), tries)

    async def _finalize(
        self, base: Object, operations: Callable[[Metadata], Operations], tries: int = TRIES
    ) -> Object | None:
        async def attempt(latest: Object | None) -> Object | None:
            if latest is None or latest.uid != base.uid:
                return None
            wanted = operations(latest.metadata())
            return await self._edit(latest, wanted) if wanted else latest

        return await self.until_taken(base, attempt, tries)

    # Deletions.

    async def delete(self, obj: Object, *, propagation: str | None = None, grace_period: int | None = None) -> None:
        """Delete this object, by its uid; nothing happens when it is gone. An object that its finalizers keep is seen as marked for deletion.

        Raises Conflict when the deletion is refused for anything but the uid, as admission webhooks may do.
        """
        request = self._client.delete(
            self.resource, obj.name, obj.namespace, uid=obj.uid, propagation=propagation, grace_period=grace_period
        )
        try:
            if await self.send(obj.key, request, Sent({})) is not None:
                return
        except NotFound:
            pass
        except Conflict:
            # For the uid, or for a reason of some webhook's: the object itself tells.
            found = await self.read(obj.key)
            if found is not None and found.uid == obj.uid:
                raise
        for informer in self._informers:
            informer.add_own_deletion(obj.key, obj.uid)

    # Single requests.

    async def patch(
        self,
        key: Key,
        patch: Patch | Operations,
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str | None = None,
        manager: str | None = None,
        force: bool | None = None,
    ) -> Object:
        """Send a patch as it is."""
        request = self._client.patch(
            self.resource,
            key.name,
            key.namespace,
            patch,
            kind=kind,
            subresource=subresource,
            field_manager=manager,
            force=force,
        )
        return await self.send(key, request, Sent(patch))

    async def send(self, key: Key, request: Awaitable[T], sent: Sent) -> T:
        """Await a request that writes; readers see its answer when this returns, or when patience is over."""
        with ExitStack() as stack:
            for informer in self._informers:
                stack.enter_context(informer.writing(key))
            # What readers saw before: deltas of the object are held back from now on.
            known = [informer.store.get(key) for informer in self._informers] if self._author is not None else ()
            answer = await request
            if isinstance(answer, Object):
                for number, informer in enumerate(self._informers):
                    echo = self._author is None or _is_own(known[number], informer.slim(answer), sent)
                    await self._show(informer, answer, echo=echo)
        return answer


def _is_own(before: Object | None, after: Object, sent: Sent) -> bool:
    # A version that was there before the write is not its own.
    return before is not None and before.resource_version != after.resource_version and explains(sent, before, after)


def _holds(found: Object, base: Object, operations: Operations) -> bool:
    """Whether an object is what the operations make of its earlier version."""
    try:
        wanted = json_patch(base.body(), operations)
    except PatchError:
        return False
    return found.uid == base.uid and without_bookkeeping(found.body()) == without_bookkeeping(wanted)
