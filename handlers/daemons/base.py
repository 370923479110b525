"""A companion is a daemon or a timer of one object: what both kinds share, and the object that they accompany."""

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import Executor
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from ...client.objects import Object
from ...client.rest import Client
from ...runtime import clock
from ..causes.causes import DaemonCause
from ..causes.patch import Patch, PatchFn
from ..causes.views import Body
from ..declaration.registry import OperatorRegistry
from ..declaration.specs import HandlerId, SpawningSpec
from ..environment.memories import Memories
from ..execution.attempts import Call, attempt
from ..execution.outcomes import Outcome, label
from ..execution.possible_writes import PossibleWrites
from ..execution.progression import Progress
from ..execution.results import deliver
from ..loggers import ObjectLogger
from ..patching.writer import Copy, KeepsChanging, Writer, is_refused_for_good
from ..settings import OperatorSettings
from .stoppers import Stopper

_objects = logging.getLogger("kopf.objects")

SpecT = TypeVar("SpecT", bound=SpawningSpec)


class Ground(Protocol):
    """What companions need of the operator they belong to."""

    @property
    def registry(self) -> OperatorRegistry:
        """The declared handlers."""

    @property
    def settings(self) -> OperatorSettings:
        """The settings."""

    @property
    def client(self) -> Client:
        """The way to the server."""

    @property
    def memo(self) -> Any:
        """The operator's memo."""

    @property
    def memories(self) -> Memories:
        """Where the objects' memos are."""

    @property
    def indices(self) -> Mapping[str, Any]:
        """What every handler gets by name."""


class Host:
    """An object with companions.

    `obj` is the version that was observed last, `mark` what of it counts as a change for idle timers, `changed` when that
    changed (loop time). `exited` are the ids of companions that ended by themselves: they are not started again. `shown`
    are the bodies that running companions look at. `observed`: an attempt is looking at the companions, or the object is gone, so that
    nobody need be told of their ends.
    """

    __slots__ = ("changed", "companions", "exited", "mark", "memo", "obj", "observed", "place", "shown")

    def __init__(self, obj: Object, place: Copy, memo: Any) -> None:
        self.obj = obj
        self.place = place
        self.memo = memo
        self.exited: set[HandlerId] = set()
        self.companions: dict[HandlerId, Companion[Any]] = {}
        self.mark: object = None
        self.changed = asyncio.get_running_loop().time()
        self.shown: list[Body] = []
        self.observed = False

    def current(self) -> Object | None:
        """The newest known version; None when the object is gone, whoever has its name now."""
        latest = self.place.latest()
        return latest if latest is not None and latest.uid == self.obj.uid else None

    def logger(self, settings: OperatorSettings) -> ObjectLogger:
        """A logger that speaks of the object."""
        return ObjectLogger(body=self.obj.stub(), settings=settings)

    def show(self, obj: Object) -> None:
        """Take in a version of the object; running companions see it in their arguments at once."""
        if obj is self.obj:
            return
        self.obj = obj
        for body in self.shown:
            # Each has a decoded copy of its own, so that a mutation reaches no neighbour.
            body._replace_with(obj.body())


class Companion(Generic[SpecT]):
    """One daemon or timer of one object.

    `left` are functions of `patch.fns` that a conflict left over: they go with the next attempt. `wrote` is when the last attempt ended
    (loop time) that may have written by another client. `task` runs its function, now or for all its life, in a thread if
    `in_thread`; `waiter` waits for its end once it was asked to.
    """

    __slots__ = (
        "abandoned",
        "ground",
        "host",
        "in_thread",
        "left",
        "progress",
        "spec",
        "stopper",
        "task",
        "waiter",
        "wrote",
    )

    def __init__(self, spec: SpecT, host: Host, ground: Ground) -> None:
        self.spec = spec
        self.in_thread = not spec.is_async
        self.host = host
        self.ground = ground
        self.stopper = Stopper()
        self.progress: Progress | None = None
        self.left: list[PatchFn] = []
        self.wrote: float | None = None
        self.task: asyncio.Task[None] | None = None
        self.waiter: asyncio.Task[None] | None = None
        self.abandoned = False

    def __str__(self) -> str:
        return f"{self.spec.id} of {self.host.obj.key}"

    @property
    def running(self) -> bool:
        """Whether its function runs, or is going to."""
        return self.task is not None and not self.task.done()

    def log(self, text: str, *args: object, level: int) -> None:
        """Log a sentence that begins with the name of the handler."""
        if _objects.isEnabledFor(level):
            self.host.logger(self.ground.settings).log(level, f"%s {text}", label(self.spec), *args)

    def cause(self, obj: Object) -> DaemonCause:
        """Why its function is called now, for a version of the object. The patch begins with what is left of the last."""
        body = Body(obj.body())
        return DaemonCause(
            logger=ObjectLogger(body=body, settings=self.ground.settings),
            memo=self.host.memo,
            indices=self.ground.indices,
            resource=self.host.place.resource,
            patch=Patch(body=body, fns=self.left),
            body=body,
            size=len(obj.raw),
            stopper=self.stopper,
        )

    async def newest(self) -> Object | None:
        """The version that the next attempt is for; None when the object is gone.

        What the last attempt may have written by another client is read, unless there was time for the watch to tell of it.
        """
        known, wrote = self.host.current(), self.wrote
        self.wrote = None
        settings = self.ground.settings
        if known is None or wrote is None:
            return known
        if asyncio.get_running_loop().time() - wrote >= settings.persistence.consistency_timeout:
            return known
        return await Writer(self.ground.client, self.host.place, self.host.logger(settings)).newest(known)

    async def call(self, cause: DaemonCause, executor: Executor | None = None) -> Outcome:
        """Attempt the function once, and gather its result and the record of the attempt."""
        self.left = []
        progress = self.progress or Progress(started=clock.now())
        checker = self.stopper.checker(in_thread=self.in_thread)
        writes = PossibleWrites()
        call = Call(self.spec, cause, progress, extra={"stopped": checker}, executor=executor, writes=writes)
        shown, shown_body = self.host.shown, cause.body
        shown.append(shown_body)
        try:
            outcome = await attempt(call, self.ground.settings)
        finally:
            # By identity: bodies are equal by their content.
            shown[:] = [body for body in shown if body is not shown_body]
            self.wrote = asyncio.get_running_loop().time() if writes.found else None
        self.progress = None if outcome.final else progress.after(outcome, clock.now())
        if outcome.result is not None:
            deliver(cause.patch, self.spec.id, outcome.result, cause.logger)
        return outcome

    async def write(self, patch: Patch, *, again: bool) -> None:
        """Bring what an attempt left to the object; errors of the server are tried again as the settings say.

        `again`: there will be another attempt, with which functions that met a conflict can go. Never raises an error of the
        server: what it refuses for good, and what is left when the end was asked for, is logged and dropped.
        """
        if not patch:
            return
        settings = self.ground.settings
        logger = self.host.logger(settings)
        writer = Writer(self.ground.client, self.host.place, logger)
        tries = 0
        while True:
            # They may be infinite.
            delays = list(islice(settings.queueing.error_delays, tries + 1))
            base = self.host.current()
            if base is None:
                logger.debug("Patching was skipped: the object does not exist anymore.")
                return
            try:
                if await writer.write(base, patch) is not None:
                    # The answer shows what was written before it by whomever.
                    self.wrote = None
            except KeepsChanging as exc:
                if again or self.stopper.is_set() or not delays:
                    self.left = list(patch.fns)
                    return
                self.log("%s", exc, level=logging.WARNING)
            except Exception as exc:  # the companion goes on, whatever the server says
                if is_refused_for_good(exc) or self.stopper.is_set() or not delays:
                    self.log("left a patch that could not be written and is dropped: %r", exc, level=logging.ERROR)
                    return
                self.log("left a patch that could not be written; it will be tried again: %r", exc, level=logging.ERROR)
            else:
                return
            await self.stopper.wait(delays[-1])
            tries += 1
