"""The API as reconcilers see it: reads come from the caches, writes are seen there at once, and what is so already is not written."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from ...client.errors import AlreadyExists, APIError, Conflict, Invalid, NotFound, RequestError, is_outcome_unknown
from ...client.objects import Object
from ...client.patches import merge_patch
from ...client.resources import Key, Resource
from ...client.rest import Client, PatchKind
from ...informers.factory import SharedInformerFactory
from ...runtime import clock
from . import desired, finalizers
from .conditions import Condition, merged
from .requests import Requests, Where, key_of

_logger = logging.getLogger("ctl.controller")

TRIES = 10
"""How often a write that holds for one version is computed anew."""
PAUSE = 0.02
"""The longest pause before the second try, in seconds; for later ones it grows by as much each time."""

Operations = list[dict[str, Any]]
Mutate = Callable[[dict[str, Any]], object]
"""Changes a body in place; called again with a newer one when somebody else was faster."""


class KeepsChanging(Exception):
    """A write that holds for one version only was refused again and again; raised by a reconciler it is tried again after a back-off."""


class Change(Enum):
    """What a write has come to."""

    CREATED = "created"
    PATCHED = "patched"
    UNCHANGED = "unchanged"
    """Nothing was sent."""


class Written(NamedTuple):
    """The object as the server has it now, and what has become of it."""

    object: Object
    change: Change


class _Gone(Exception):
    """Another object has the name now."""


class CachedClient(Requests):
    """The client of one controller.

    Reads that are not called live come from the caches and never ask the server; they know the resources that the controller looks at
    (LookupError otherwise). Writes go to any resource. When a write returns, all readers of the caches see its answer, and its
    echo triggers nothing in this controller, though it does in others.

    `ensure`, `change`, `set_status` and the finalizers compare first and send what is missing; when somebody else was faster they
    compare anew, TRIES times (KeepsChanging). Every method that asks the server raises what `Client` raises, unless it says otherwise.
    """

    def __init__(self, client: Client, factory: SharedInformerFactory, *, author: str) -> None:
        super().__init__(client, factory, author=author)
        self._remembered = desired.Remembered()
        self._warned: set[tuple[Resource, str]] = set()

    async def ensure(self, where: Where, wanted: Mapping[str, Any]) -> Written:
        """Create the object, or patch what of it is not as wanted (see `desired.missing`); nothing is sent when nothing is missing.

        The name is given, not generated (ValueError). A wanted `status` is written to the subresource where there is one.
        What the server writes in other words than the wish (defaults, quantities, pruned fields) is not sent again and again.
        """
        resource, key = await self.resource(where), key_of(wanted)
        current = await self._known(resource, key)
        change, refused = Change.UNCHANGED, None
        for tried in range(TRIES):
            await _pause(tried)
            try:
                if current is None:
                    current, change = await self._create(resource, wanted), Change.CREATED
                body = current.body()
                for subresource, patch in _parts(resource, desired.missing(body, wanted)):
                    if self._is_settled(resource, current, patch, subresource):
                        continue
                    versioned = subresource is not None or desired.joins_lists(patch)
                    current = await self._merge(resource, current, patch, subresource, versioned=versioned)
                    change = Change.PATCHED if change is Change.UNCHANGED else change
            except (AlreadyExists, NotFound, Conflict, Invalid) as exc:
                if not _is_outdated(exc) or (current is None and isinstance(exc, NotFound)):
                    raise
                current, refused = await self._look_again(resource, key, current, exc), exc
            else:
                return Written(current, change)
        raise _keeps_changing(resource, key, refused)

    async def change(self, where: Where, key: Key, mutate: Mutate, *, subresource: str | None = None) -> Written | None:
        """Read, let a function change the body in place, write the difference; None when there is no such object.

        No change of anybody else is ever lost: the write holds for the version that was read, and when somebody was faster the function
        is called anew, with the newest body. Nothing is sent when it changes nothing.
        """
        resource = await self.resource(where)
        current = await self._known(resource, key)
        refused = None
        for tried in range(TRIES):
            await _pause(tried)
            if current is None:
                return None
            before, body = current.body(), current.body()
            mutate(body)
            patch = desired.changed(before, body)
            if self._is_settled(resource, current, patch, subresource):
                return Written(current, Change.UNCHANGED)
            try:
                stored = await self._merge(resource, current, patch, subresource, versioned=True)
                return Written(stored, Change.PATCHED)
            except (NotFound, Conflict, Invalid) as exc:
                if not _is_outdated(exc):
                    raise
                current, refused = await self._look_again(resource, key, current, exc), exc
        raise _keeps_changing(resource, key, refused)

    async def set_status(
        self,
        where: Where,
        obj: Object,
        status: Mapping[str, Any] | None = None,
        conditions: Iterable[Condition] = (),
        *,
        generation: int | None = None,
    ) -> Written | None:
        """Merge something into the status of this very object, and bring its conditions up to date; None when it is gone.

        Nothing is sent when the status says so already. `generation` is that of the spec which was looked at, for the conditions'
        `observedGeneration`. It is written to the subresource where there is one; where there is none, the server raises the generation
        with each status too, and it is left out. Fields that the server drops since the schema of the resource does not know them
        are told of in a warning, once, and do not make the write repeat.
        """
        resource = await self.resource(where)
        subresource = "status" if "status" in resource.subresources else None
        observed = generation if subresource else None
        wanted = tuple(conditions)

        def mutate(body: dict[str, Any]) -> None:
            if (body["metadata"].get("uid") or "") != obj.uid:
                raise _Gone
            new: dict[str, Any] = merge_patch(body.get("status") or {}, status or {})
            if wanted:
                new["conditions"] = merged(new.get("conditions"), wanted, now=clock.now(), generation=observed)
            if new:
                body["status"] = new

        try:
            return await self.change(resource, obj.key, mutate, subresource=subresource)
        except _Gone:
            return None

    async def add_finalizer(self, where: Where, obj: Object, finalizer: str) -> Object | None:
        """Put a finalizer on this very object, at the end; gives the newest version, None when it is gone.

        An object that is marked for deletion takes none: it is given back without.
        """
        return await self._finalize(where, obj, lambda known: finalizers.adding(known.metadata(), finalizer))

    async def remove_finalizer(self, where: Where, obj: Object, finalizer: str) -> Object | None:
        """Take a finalizer off this very object; gives the newest version, None when it is gone already."""
        return await self._finalize(where, obj, lambda known: finalizers.removing(known.metadata(), finalizer))

    async def _finalize(self, where: Where, obj: Object, operations: Callable[[Object], Operations]) -> Object | None:
        resource = await self.resource(where)
        current = await self._known(resource, obj.key)
        refused: APIError | RequestError | None = None
        for tried in range(TRIES):
            await _pause(tried)
            if current is None or current.uid != obj.uid:
                return None
            wanted = operations(current)
            if not wanted:
                return current
            try:
                return await self.patch(resource, obj.key, wanted, kind=PatchKind.JSON)
            except NotFound:
                return None
            except (APIError, RequestError) as exc:
                # A `test` that fails is answered with 422: somebody was faster.
                if not isinstance(exc, (Invalid, Conflict)) and not is_outcome_unknown(exc):
                    raise
                current, refused = await self._look_again(resource, obj.key, current, exc), exc
        raise _keeps_changing(resource, obj.key, refused)

    async def _look_again(
        self, resource: Resource, key: Key, base: Object | None, exc: APIError | RequestError
    ) -> Object | None:
        """The object after a write to `base` was refused, as the server has it; raises the refusal if the object is as it was.

        Such a refusal is not for the version: an admission webhook may answer with any code, 409 included.
        """
        found = await self.get_live(resource, key)
        if (
            isinstance(exc, APIError)
            and not is_outcome_unknown(exc)
            and base is not None
            and found is not None
            and (found.uid, found.resource_version) == (base.uid, base.resource_version)
        ):
            raise exc
        return found

    async def _known(self, resource: Resource, key: Key) -> Object | None:
        """The object as the caches have it, or, where they would not have it, as the server has it."""
        found = self._cached(resource, key)
        if found is not None or any(copy.resource == resource and copy.tells_of(key) for copy in self._copies.values()):
            return found
        return await self.get_live(resource, key)

    async def _create(self, resource: Resource, wanted: Mapping[str, Any]) -> Object:
        stored = await self.create(resource, wanted)
        # What it lacks now are the server's own words.
        self._remember(resource, stored, *_parts(resource, desired.missing(stored.body(), wanted))[0])
        return stored

    async def _merge(
        self, resource: Resource, base: Object, patch: Mapping[str, Any], subresource: str | None, *, versioned: bool
    ) -> Object:
        content = desired.guarded(patch, base, versioned=versioned)
        stored = await self.patch(resource, base.key, content, subresource=subresource)
        body = stored.body()
        self._remember(resource, stored, subresource, desired.changed(body, merge_patch(body, patch)))
        self._warn(resource, desired.lost(body, patch))
        return stored

    def _remember(self, resource: Resource, stored: Object, subresource: str | None, left: Mapping[str, Any]) -> None:
        self._remembered.note((resource, stored.uid, subresource), left, stored.body() if left else {})

    def _is_settled(
        self, resource: Resource, current: Object, patch: Mapping[str, Any], subresource: str | None
    ) -> bool:
        if not patch:
            return True
        return self._remembered.knows((resource, current.uid, subresource), patch, current.body())

    def _warn(self, resource: Resource, paths: list[str]) -> None:
        for path in paths:
            if (resource, path) not in self._warned:
                self._warned.add((resource, path))
                _logger.warning(
                    "The server does not keep %s of %r, which %s writes: expected the schema of the resource to know the field, found "
                    "it dropped. Add it to the CRD (or write it to the right subresource).",
                    path,
                    resource,
                    self.author,
                )


def _parts(resource: Resource, patch: Mapping[str, Any]) -> list[tuple[str | None, dict[str, Any]]]:
    """What of a merge patch goes to which endpoint: the main one, and the status where it is a subresource."""
    if "status" not in resource.subresources:
        return [(None, dict(patch))]
    main = {key: value for key, value in patch.items() if key != "status"}
    return [(None, main), ("status", {key: value for key, value in patch.items() if key == "status"})]


def _is_outdated(exc: APIError) -> bool:
    """Whether a refusal says that the world is not as it was thought to be; other refusals are for good."""
    return not isinstance(exc, Invalid) or "metadata.uid" in exc.message


async def _pause(tried: int) -> None:
    if tried:
        await asyncio.sleep(PAUSE * tried * random.random())


def _keeps_changing(resource: Resource, key: Key, last: APIError | RequestError | None) -> KeepsChanging:
    return KeepsChanging(
        f"{resource!r} {key} could not be written: it was changed by others under each of {TRIES} tries. "
        f"Let the attempt fail: it is repeated after its back-off. The last answer was {last}"
    )
