"""Write a patch to the object: one request for each endpoint that it touches, in an order that survives a crash.

What handlers want goes first, then, or with the last of it, the records as the commit (see `ordering`): a crash in between
repeats a handler rather than loses its result. Functions of `patch.fns` follow what the patch merges, as JSON patches that
hold only for the version they were computed for; then the commit is the records alone, after them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from ...client.errors import BadRequest, Invalid, RequestEntityTooLarge, ServerError
from ...client.objects import Object, is_older
from ...client.patches import copy, json_diff
from ...client.resources import Key, Resource
from ...client.rest import Client
from ...client.wire.request import plain
from ...controller.api.writes import GuardedWrites, NamesakeWritten, Outdated
from ...informers.informer import Informer
from ...runtime.texts import cut
from ..causes.diffs import unfulfilled
from ..causes.fields import FieldPath
from ..causes.patch import Patch, PatchFn, compose
from ..storage.secrets import Shown
from .ordering import MAIN, STATUS, EndpointPatch, Parts, arrange, part

Logger = logging.Logger | logging.LoggerAdapter[Any]

READ_SECONDS = 5.0
"""Seconds that the next handler waits for the object to be read."""


class CachedObject(msgspec.Struct):
    """One object of an informer, whatever its version."""

    informer: Informer
    key: Key
    patience: float
    """How long a write waits for the watch where its answer cannot be shown at once, in seconds."""

    @property
    def resource(self) -> Resource:
        """The resource of the object."""
        return self.informer.resource

    def latest(self) -> Object | None:
        """The newest known version, own writes included; None: there is no object of the name."""
        return self.informer.store.get(self.key)


@dataclass(slots=True)
class Writer:
    """Writes to one object."""

    client: Client
    cached: CachedObject
    logger: Logger
    keep: Callable[[Object], Awaitable[None]] | None = None
    """Writes what is remembered of the object elsewhere, when everything else is written."""
    own: Callable[[Object, Collection[str]], Collection[str]] | None = None
    """Which annotations of these names are records, and the commit therefore; None: there are none of them."""
    fields: Sequence[FieldPath] = ()
    """Where records and baselines are beside annotations."""
    astray: Callable[[Object], None] | None = None
    """Told of an object that has the name of one that vanished, and has got what was meant for its status, records included."""
    _writes: GuardedWrites = field(init=False)

    def __post_init__(self) -> None:
        resource, informers = self.cached.resource, (self.cached.informer,)
        self._writes = GuardedWrites(self.client, resource, informers, patience=self.cached.patience, log=self._log)

    async def write(self, base: Object, patch: Patch) -> Object | None:
        """Send the patch; give the server's newest answer.

        Once its functions were applied, only what follows them is left in the patch: it may be sent again when that fails. The
        answer is None when the object vanished or another one took its name: that is logged, not raised. KeepsChanging is raised
        when the functions met a conflict again and again, any other refusal as the client's error; a 404 of an object that is still
        listed is one of them.
        """
        try:
            answer = await self._write(base, patch)
        except Outdated as exc:
            if exc.found is not None and exc.found.uid == base.uid:
                raise exc.refusal from None
            answer = None
        except NamesakeWritten as exc:
            if self.astray is not None:
                self.astray(exc.answer)
            answer = None
        return self._unless_vanished(answer)

    async def _write(self, base: Object, patch: Patch) -> Object | None:
        latest: Object | None = base
        split = "status" in self.cached.resource.subresources
        annotations = (patch.get("metadata") or {}).get("annotations") or {}
        own = self.own(base, annotations) if self.own is not None and annotations else ()
        parts = part(patch, own, self.fields)
        if patch.fns:
            for request in arrange(Parts(parts.rest), split=split):
                latest = await self._merge(base, request)
            for endpoint in (MAIN, STATUS) if split else (None,):
                latest = await self._writes.until_taken(latest, partial(self._apply, base, patch.fns, endpoint))
                if latest is None:
                    return None
                # What they do to the object itself is done: they are not to do it again when that to the status has to wait.
                patch.fns[:] = [_status_of(list(patch.fns), self.logger)] if endpoint == MAIN else []
            parts = Parts({}, parts.kept, parts.gone)
            dict.clear(patch)
            compose(patch, parts.kept)
            compose(patch, parts.gone)
        for request in arrange(parts, split=split):
            latest = await self._merge(base, request)
        if self.keep is not None and latest is not None:
            await self.keep(latest)
        return latest

    async def _merge(self, base: Object, request: EndpointPatch) -> Object:
        answer = await self._writes.merge(base, request.content, request.endpoint or None)
        # Servers drop fields that are not in the resource's schema.
        asked = {key: value for key, value in request.content.items() if key != "metadata"}
        left = unfulfilled(asked, answer.body()) if asked else ()
        if left:
            self.logger.warning("Merge-patching finished with inconsistencies: %r", self._shown(tuple(left)))
        return answer

    async def _apply(
        self, base: Object, fns: list[PatchFn], endpoint: str | None, latest: Object | None
    ) -> Object | None:
        """Apply functions to the object at one endpoint (None: there is but one); None: the object vanished."""
        if latest is None or latest.uid != base.uid:
            return None
        body = latest.body()
        ops = json_diff(body, change(body, fns, self.logger))
        concerned = [op for op in ops if endpoint is None or _is_status(op) is (endpoint == STATUS)]
        if not concerned:
            return latest
        try:
            return await self._writes.edit(latest, concerned, endpoint or None)
        except Outdated as exc:
            self.logger.debug(
                "Could not apply the patch in full due to conflicts; it will be tried again: %s", exc.refusal
            )
            raise

    def _log(self, content: Mapping[str, Any] | Sequence[Any], subresource: str | None) -> None:
        if self.logger.isEnabledFor(logging.DEBUG):
            is_merge, where = isinstance(content, Mapping), subresource or "resource"
            text = "Merge-patching the %s with: %r" if is_merge else "JSON-patching the %s with: %r"
            self.logger.debug(text, where, self._shown(dict(content) if is_merge else content))

    def _shown(self, value: Any) -> Shown:
        """As it may be logged."""
        resource = self.cached.resource
        return Shown(value, is_secret=(resource.group, resource.plural) == ("", "secrets"))

    def _unless_vanished(self, answer: Object | None) -> Object | None:
        if answer is None:
            self.logger.debug("Patching was skipped: the object does not exist anymore.")
        return answer

    async def newest(self, base: Object) -> Object | None:
        """The object as it is now, for handlers to see; None: it vanished.

        It is read once, for READ_SECONDS at most. If that fails, the cached version is given: the round has to go on.
        """
        try:
            async with asyncio.timeout(READ_SECONDS):
                found = await self._writes.find(base.key, retry=False)
        except Exception as exc:  # whatever it was: what is known will do
            self.logger.debug("The object could not be read; it is shown as it is known: %r", exc)
            found = base
        else:
            if found is None or found.uid != base.uid:
                return None
            await self._writes.show(found)
        latest = self.cached.latest()
        if latest is None or latest.uid != base.uid:
            return found
        # If it is the same version, as the cache keeps it: transformed.
        is_shown = latest.resource_version == found.resource_version
        return latest if is_shown or is_older(found, latest) else found

    async def add_finalizer(self, base: Object, finalizer: str) -> Object | None:
        """Put the finalizer on the object; give the newest version, or None when the object vanished.

        An object that is being deleted by now is given back without it: the server allows no new finalizers there.
        """
        self.logger.debug("Adding the finalizer, thus preventing the actual deletion.")
        return self._unless_vanished(await self._writes.add_finalizer(base, finalizer))

    async def remove_finalizer(self, base: Object, finalizer: str, annotations: Collection[str] = ()) -> Object | None:
        """Take every occurrence of the finalizer off the object; give the newest version, or None when it vanished.

        Those of the annotations that are there go in the same write.
        """
        return self._unless_vanished(await self._writes.remove_finalizer(base, finalizer, annotations))


def is_refused_for_good(exc: Exception) -> bool:
    """Whether a write failed for its content, so that the same will never be taken: the server says so, or it is no JSON.

    False for everything that may pass: missing rights, conflicts, refused credentials, no answer.
    """
    return isinstance(exc, (BadRequest, Invalid, RequestEntityTooLarge, TypeError))


def is_too_large(exc: Exception) -> bool:
    """Whether a write was refused because the object, its annotations or the request would have been too large."""
    if isinstance(exc, RequestEntityTooLarge):
        return True
    if isinstance(exc, Invalid):
        return "metadata.annotations: Too long" in exc.message
    # etcd's own limit comes through as an internal error.
    return isinstance(exc, ServerError) and ("request is too large" in exc.message or "larger than max" in exc.message)


def change(body: Mapping[str, Any], fns: list[PatchFn], logger: Logger) -> dict[str, Any]:
    """A copy of the body as the functions of a patch change it; those that raise are dropped from the list, and logged."""
    changed: dict[str, Any] = copy(dict(body))
    for fn in list(fns):
        trial = copy(changed)
        try:
            fn(trial)
            trial = plain(trial)
        except Exception:  # it is the user's; a function that cannot be applied now must not stop the object for ever
            fns.remove(fn)
            logger.exception("A function in patch.fns failed and is dropped: %s", cut(repr(fn)))
        else:
            changed = trial
    return changed


def _status_of(fns: list[PatchFn], logger: Logger) -> PatchFn:
    """What functions of a patch do to the status, and nothing else of what they do."""

    def apply(body: dict[str, Any]) -> None:
        changed = change(body, fns, logger)
        body.pop("status", None)
        if "status" in changed:
            body["status"] = changed["status"]

    return apply


def _is_status(op: Mapping[str, Any]) -> bool:
    path = str(op["path"])
    return path == "/status" or path.startswith("/status/")
