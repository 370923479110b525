"""Write a patch to the object: one request for each endpoint that it touches, in an order that survives a crash.

What handlers want goes first, then, or with the last of it, the records as the commit (see `ordering`): a crash in between
repeats a handler rather than loses its result. Functions of `patch.fns` follow what the patch merges, as JSON patches that
hold only for the version they were computed for; then the commit is the records alone, after them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...client.errors import (
    APIError,
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
    RequestEntityTooLarge,
    RequestError,
    ServerError,
    is_outcome_unknown,
)
from ...client.objects import Object, is_older, without_bookkeeping
from ...client.patches import PatchError, copy, json_diff, json_patch, pointer
from ...client.resources import Resource
from ...client.rest import Client, PatchKind
from ...client.wire.request import plain
from ...runtime.texts import cut
from ..causes.diffs import unfulfilled
from ..causes.fields import FieldPath
from ..causes.patch import Patch, PatchFn, compose
from ..storage.secrets import Shown
from .ordering import MAIN, STATUS, Parts, Request, arrange, part

Logger = logging.Logger | logging.LoggerAdapter[Any]
Ops = Sequence[Mapping[str, Any]]

VERSION_ATTEMPTS = 5
READ_SECONDS = 5.0
"""How long the next handler waits for the object to be read."""
BREATH = 0.2
"""Seconds after an answer that was lost: a server that closes a connection after each answer is heard to do so before the next write."""


class KeepsChanging(Exception):
    """A write that holds for one version only was refused again and again; the attempt is to be made anew."""


class _Astray(Exception):
    """What was meant for one object has reached another one with its name; `answer` is that one."""

    def __init__(self, answer: Object) -> None:
        super().__init__(answer)
        self.answer = answer


class Copy(Protocol):
    """The local copy of the object, under its namespace and name; it is to show our writes before the watch does."""

    @property
    def resource(self) -> Resource:
        """The resource of the object."""

    def latest(self) -> Object | None:
        """The newest known version, own writes included; None when there is no object of the name."""

    def writing(self) -> AbstractContextManager[None]:
        """While inside, a write is on its way."""

    async def seen(self, obj: Object, *, written: bool = True) -> None:
        """Take in an answer of the server; `written`: to a write."""


@dataclass(slots=True)
class Writer:
    """Writes to one object."""

    client: Client
    copy: Copy
    logger: Logger
    keep: Callable[[Object], Awaitable[None]] | None = None
    """Writes what is remembered of the object elsewhere, when everything else is written."""
    own: Callable[[Object, Collection[str]], Collection[str]] | None = None
    """Which annotations of these names are records, and the commit therefore; None: there are none of them."""
    fields: Sequence[FieldPath] = ()
    """Where records and baselines are beside annotations."""
    astray: Callable[[Object], None] | None = None
    """Told of an object that has the name of one that vanished, and has got what was meant for its status, records included."""
    resource: Resource = field(init=False)
    """The resource of the object."""

    def __post_init__(self) -> None:
        """Ask the copy once."""
        self.resource = self.copy.resource

    async def write(self, base: Object, patch: Patch) -> Object | None:
        """Send the patch; give the server's newest answer.

        Once its functions were applied, only what follows them is left in the patch: it may be sent again when that fails. The
        answer is None when the object vanished or another one took its name: that is logged, not raised. KeepsChanging is raised
        when the functions met a conflict again and again, any other refusal as the client's error; a 404 of an object that is still
        listed is one of them.
        """
        try:
            return await self._write(base, patch)
        except NotFound as exc:
            await self._missed(base, exc)
        except Invalid as exc:
            if "metadata.uid" not in exc.message:
                raise
            await self._missed(base, exc)
        except _Astray as exc:
            if self.astray is not None:
                self.astray(exc.answer)
            self._vanished()
        return None

    async def _write(self, base: Object, patch: Patch) -> Object | None:
        latest = base
        split = "status" in self.resource.subresources
        parts = self._parts(base, patch)
        if patch.fns:
            for request in arrange(Parts(parts.rest), split=split):
                latest = await self._merge(base, request)
            found = await self._apply(latest, patch, split=split)
            if found is None:
                self._vanished()
                return None
            latest, parts = found, Parts({}, parts.kept, parts.gone)
            dict.clear(patch)
            compose(patch, parts.kept)
            compose(patch, parts.gone)
        for request in arrange(parts, split=split):
            latest = await self._merge(base, request)
        if self.keep is not None:
            await self.keep(latest)
        return latest

    def _parts(self, base: Object, patch: Patch) -> Parts:
        annotations = (patch.get("metadata") or {}).get("annotations") or {}
        own = self.own(base, annotations) if self.own is not None and annotations else ()
        return part(patch, own, self.fields)

    async def _merge(self, base: Object, request: Request) -> Object:
        merge = dict(request.content)
        if request.endpoint == STATUS:
            self.logger.debug("Merge-patching the status with: %r", self._shown(merge))
            answer = await self._send(base, merge, PatchKind.MERGE, STATUS)
            # Servers ignore a uid in what is sent to the status of custom resources.
            if base.uid and answer.uid != base.uid:
                raise _Astray(answer)
            self._compare(merge, answer)
            return answer
        if self.logger.isEnabledFor(logging.DEBUG):
            self.logger.debug("Merge-patching the resource with: %r", self._shown(merge))
        # No record or diff-base may land on a namesake: the server refuses a uid that is not the object's.
        if base.uid:
            merge = {**merge, "metadata": {**(merge.get("metadata") or {}), "uid": base.uid}}
        answer = await self._send(base, merge, PatchKind.MERGE)
        if merge.keys() != {"metadata"}:
            self._compare({key: value for key, value in merge.items() if key != "metadata"}, answer)
        return answer

    def _compare(self, patch: Mapping[str, Any], answer: Object) -> None:
        """Say what the server did not take over, as it does with fields that are not in the resource's schema."""
        left = unfulfilled(patch, answer.body()) if patch else ()
        if left:
            self.logger.warning("Merge-patching finished with inconsistencies: %r", self._shown(tuple(left)))

    def _shown(self, value: Any) -> Shown:
        """As it may be logged."""
        return Shown(value, is_secret=(self.resource.group, self.resource.plural) == ("", "secrets"))

    def _vanished(self) -> None:
        self.logger.debug("Patching was skipped: the object does not exist anymore.")

    async def _missed(self, base: Object, exc: NotFound | Invalid) -> None:
        """After a refusal that may mean so: say that the object vanished; raises the refusal if the object is still listed.

        Servers that are starting do not know their addresses yet, and webhooks answer in words of their own.
        """
        if await self.read(base) is not None:
            raise exc
        self._vanished()

    async def _apply(self, latest: Object, patch: Patch, *, split: bool) -> Object | None:
        """Apply the functions, and take them out of the patch as they are; None: the object vanished."""
        for endpoint in (MAIN, STATUS) if split else (None,):
            refused: APIError | RequestError | None = None
            for _ in range(VERSION_ATTEMPTS):
                body = latest.body()
                ops = json_diff(body, change(body, patch.fns, self.logger))
                concerned = [op for op in ops if endpoint is None or _is_status(op) is (endpoint == STATUS)]
                if not concerned:
                    break
                found, refused = await self._apply_part(latest, concerned, endpoint or None)
                if found is None:
                    return None
                latest = found
                if refused is None:
                    break
            else:
                raise _exhausted(
                    f"Functions of patch.fns could not be applied to {self.resource!r} {latest.key}", refused
                )
            # What they do to the object itself is done: they are not to do it again when that to the status has to wait.
            patch.fns[:] = [_status_of(list(patch.fns), self.logger)] if endpoint == MAIN else []
        return latest

    async def _look_again(self, base: Object, exc: APIError | RequestError) -> Object | None:
        """The object after a write that is perhaps for another version, or applied; raises the refusal where it is neither."""
        if not _is_open(exc):
            raise exc
        found = await self.read(base)
        if isinstance(exc, RequestError):
            await asyncio.sleep(BREATH)
        is_for_version = isinstance(exc, (Invalid, Conflict))
        if is_for_version and found is not None and found.resource_version == base.resource_version:
            raise exc  # nobody was faster: the server, or a webhook of it, will not take it
        return found

    async def _apply_part(
        self, base: Object, part: Ops, subresource: str | None
    ) -> tuple[Object | None, APIError | RequestError | None]:
        """Send operations that hold for one version; give the newest version, and why they are not in it."""
        self.logger.debug("JSON-patching the %s with: %r", subresource or "resource", self._shown(part))
        try:
            return await self._send(base, _guarded(base, part), PatchKind.JSON, subresource), None
        except (APIError, RequestError) as exc:
            found = await self._look_again(base, exc)
            if found is None or (is_outcome_unknown(exc) and _holds(found, base, part)):
                return found, None
            self.logger.debug("Could not apply the patch in full due to conflicts; it will be tried again: %s", exc)
            return found, exc

    async def _send(
        self, base: Object, content: Mapping[str, Any] | Ops, kind: PatchKind, subresource: str | None = None
    ) -> Object:
        with self.copy.writing():
            answer = await self.client.patch(
                self.resource, base.name, base.namespace, content, kind=kind, subresource=subresource
            )
            await self.copy.seen(answer)
        return answer

    async def read(self, base: Object) -> Object | None:
        """Read the object from the server: by a list, so that the right to `get` is never needed. None: it vanished."""
        found = await self._find(base)
        if found is not None:
            await self.copy.seen(found, written=False)
        return found

    async def _find(self, base: Object, *, retry: bool = True) -> Object | None:
        found = await self.client.find(self.resource, base.name, base.namespace, retry=retry)
        return found if found is not None and found.uid == base.uid else None

    async def newest(self, base: Object) -> Object | None:
        """The object as it is now, for handlers to see; None: it vanished.

        It is read once, for READ_SECONDS at most. Where that fails it is as the copy has it, for a reader has to go on.
        """
        try:
            async with asyncio.timeout(READ_SECONDS):
                found = await self._find(base, retry=False)
        except Exception as exc:  # whatever it was: what is known will do
            self.logger.debug("The object could not be read; it is shown as it is known: %r", exc)
            found = base
        else:
            if found is None:
                return None
            await self.copy.seen(found, written=False)
        latest = self.copy.latest()
        if latest is None or latest.uid != base.uid:
            return found
        # As the copy keeps it, if it is the same: without what nobody needs.
        is_shown = latest.resource_version == found.resource_version
        return latest if is_shown or is_older(found, latest) else found

    async def add_finalizer(self, base: Object, finalizer: str) -> Object | None:
        """Put the finalizer on the object; give the newest version, or None when the object vanished.

        An object that is being deleted by now is given back without it: the server allows no new finalizers there.
        """
        self.logger.debug("Adding the finalizer, thus preventing the actual deletion.")

        def ops(latest: Object) -> Ops:
            metadata = latest.metadata()
            known = metadata.finalizers or ()
            if finalizer in known or metadata.deletion_timestamp is not None:
                return []
            if not known:
                return [{"op": "add", "path": "/metadata/finalizers", "value": [finalizer]}]
            return [{"op": "add", "path": "/metadata/finalizers/-", "value": finalizer}]

        return await self._change_finalizers(base, ops)

    async def remove_finalizer(self, base: Object, finalizer: str, annotations: Collection[str] = ()) -> Object | None:
        """Take every occurrence of the finalizer off the object; give the newest version, or None when it vanished.

        Those of the annotations that are there go in the same write.
        """

        def ops(latest: Object) -> Ops:
            metadata = latest.metadata()
            known = metadata.finalizers or ()
            if known and all(name == finalizer for name in known):
                return [{"op": "remove", "path": "/metadata/finalizers"}]
            found = [index for index, name in enumerate(known) if name == finalizer]
            there = [name for name in annotations if found and name in (metadata.annotations or {})]
            return [
                *({"op": "remove", "path": f"/metadata/finalizers/{index}"} for index in reversed(found)),
                *({"op": "remove", "path": pointer(("metadata", "annotations", name))} for name in there),
            ]

        return await self._change_finalizers(base, ops)

    async def _change_finalizers(self, base: Object, ops: Callable[[Object], Ops]) -> Object | None:
        # The list may be changed by others at any time: each try holds for the version it was computed for.
        latest: Object | None = base
        refused: APIError | RequestError | None = None
        for _ in range(VERSION_ATTEMPTS):
            if latest is None:
                return None
            wanted = ops(latest)
            if not wanted:
                return latest
            try:
                self.logger.debug("JSON-patching the resource with: %r", self._shown(wanted))
                return await self._send(latest, _guarded(latest, wanted), PatchKind.JSON)
            except NotFound as exc:
                await self._missed(latest, exc)
                return None
            except (APIError, RequestError) as exc:
                refused = exc
                latest = await self._look_again(latest, exc)
        raise _exhausted(f"The finalizers of {self.resource!r} {base.key} could not be changed", refused)


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


def _exhausted(what: str, last: APIError | RequestError | None) -> Exception:
    """What to raise after so many attempts: what the server said, unless it is that somebody else was faster each time."""
    if last is not None and not isinstance(last, (Invalid, Conflict)):
        return last
    return KeepsChanging(
        f"{what}: the object changed under each of {VERSION_ATTEMPTS} attempts. It will be tried again. The last answer was {last}"
    )


def _is_open(exc: APIError | RequestError) -> bool:
    """Refused for the version, or applied with a lost answer: the object itself tells which."""
    return isinstance(exc, (Invalid, Conflict)) or is_outcome_unknown(exc)


def _holds(found: Object, base: Object, ops: Ops) -> bool:
    """Whether an object is what the operations make of its earlier version."""
    try:
        wanted = json_patch(base.body(), ops)
    except PatchError:
        return False
    return without_bookkeeping(found.body()) == without_bookkeeping(wanted)


def _is_status(op: Mapping[str, Any]) -> bool:
    path = str(op["path"])
    return path == "/status" or path.startswith("/status/")


def _guarded(base: Object, ops: Ops) -> Ops:
    return [{"op": "test", "path": "/metadata/resourceVersion", "value": base.resource_version}, *ops]
