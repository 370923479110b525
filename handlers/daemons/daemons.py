"""Daemons and timers of one object: what both kinds share, and the daemon, which runs for as long as its object matches."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from itertools import islice
from numbers import Real
from typing import Any, Generic, ParamSpec, TypeVar

from ...client.objects import Object
from ...controller.api.writes import KeepsChanging
from ...runtime import clock
from ..causes.causes import DaemonCause
from ..causes.patch import Patch, PatchFn
from ..declaration.specs import DaemonSpec, HandlerId, SpawningSpec
from ..environment.environment import Environment
from ..execution.attempts import Call, attempt
from ..execution.outcomes import LONGEST_DELAY, Outcome, deliver, label, leads_to_date
from ..execution.possible_writes import PossibleWrites
from ..execution.progression import Progress
from ..loggers import ObjectLogger
from ..patching.writer import CachedObject, Writer, is_refused_for_good
from ..settings import OperatorSettings
from .live import DecodedBodies, LiveBody
from .stoppers import Stopper

_objects = logging.getLogger("kopf.objects")

SpecT = TypeVar("SpecT", bound=SpawningSpec)
P = ParamSpec("P")
T = TypeVar("T")


def seconds(given: Any) -> float:
    """A declared number of seconds; one that leads to no date becomes the longest delay that does: it is never reached."""
    number: Any = given if isinstance(given, Real) else float(given)
    if not leads_to_date(number):
        return -LONGEST_DELAY if number < 0 else LONGEST_DELAY
    return number if isinstance(number, (int, float)) else float(number)


@dataclass(slots=True, eq=False)
class ObjectDaemons:
    """The daemons and timers of one object."""

    obj: Object
    """The version observed last."""
    place: CachedObject
    memo: Any
    bodies: DecodedBodies
    exited: set[HandlerId] = field(default_factory=set)
    """The handlers that ended by themselves: they are not started again."""
    spawned: "dict[HandlerId, Spawned[Any]]" = field(default_factory=dict)
    mark: object = None
    """What of the object counts as a change for idle timers."""
    changed: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    """When that changed (loop time)."""
    shown: list[LiveBody] = field(default_factory=list)
    """The bodies that running functions have as arguments."""
    observed: bool = False
    """An attempt is observing the object, or it is gone, so that ends of its daemons need not wake it."""

    @property
    def busy(self) -> bool:
        """Whether the finalizer must stay: a daemon was asked to end and has not ended. Its end wakes the object."""
        return any(one.stopper.is_set() and one.running and not one.abandoned for one in self.spawned.values())

    def current(self) -> Object | None:
        """The newest known version; None when the object is gone, also when its name was taken by another one."""
        latest = self.place.latest()
        return latest if latest is not None and latest.uid == self.obj.uid else None

    def logger(self, settings: OperatorSettings) -> ObjectLogger:
        """A logger for the object."""
        return ObjectLogger(body=self.obj.stub(), settings=settings)

    def show(self, obj: Object) -> None:
        """Take in a version of the object; running functions see it in their arguments at once."""
        if obj is self.obj:
            return
        self.obj = obj
        for body in self.shown:
            body.show(obj)


@dataclass(slots=True, eq=False, repr=False)
class Spawned(Generic[SpecT]):
    """One daemon or timer of one object."""

    spec: SpecT
    owner: ObjectDaemons
    env: Environment
    stopper: Stopper = field(default_factory=Stopper, init=False)
    progress: Progress | None = field(default=None, init=False)
    left: list[PatchFn] = field(default_factory=list, init=False)
    """Functions of `patch.fns` that were not applied because of a conflict: they go with the next attempt."""
    wrote: float | None = field(default=None, init=False)
    """The end of the last attempt (loop time) if it may have written by another client."""
    task: asyncio.Task[None] | None = field(default=None, init=False)
    """Runs the function, in a thread if it is sync."""
    waiter: asyncio.Task[None] | None = field(default=None, init=False)
    """Waits for its end once it was asked to end."""
    abandoned: bool = field(default=False, init=False)

    def __str__(self) -> str:
        return f"{self.spec.id} of {self.owner.obj.key}"

    @property
    def running(self) -> bool:
        """Whether its function runs, or will."""
        return self.task is not None and not self.task.done()

    def log(self, text: str, *args: object, level: int) -> None:
        """Log a sentence that begins with the name of the handler."""
        if _objects.isEnabledFor(level):
            self.owner.logger(self.env.settings).log(level, f"%s {text}", label(self.spec), *args)

    def cause(self, obj: Object) -> DaemonCause:
        """The cause of a call for a version of the object. Its patch begins with the functions left by the last call."""
        body = LiveBody(obj, self.owner.bodies)
        return DaemonCause(
            logger=ObjectLogger(body=body, settings=self.env.settings),
            memo=self.owner.memo,
            indices=self.env.indices,
            resource=self.owner.place.resource,
            patch=Patch(body=body, fns=self.left),
            body=body,
            size=len(obj.raw),
            stopper=self.stopper,
        )

    async def newest(self) -> Object | None:
        """The version for the next attempt; None when the object is gone.

        If the last attempt may have written by another client, the object is read, unless there was time for the watch to
        deliver that.
        """
        known, wrote = self.owner.current(), self.wrote
        self.wrote = None
        settings = self.env.settings
        if known is None or wrote is None:
            return known
        if asyncio.get_running_loop().time() - wrote >= settings.persistence.consistency_timeout:
            return known
        return await Writer(self.env.client, self.owner.place, self.owner.logger(settings)).newest(known)

    async def call(self, cause: DaemonCause, executor: Executor | None = None) -> Outcome:
        """Attempt the function once; put its result into the patch, and keep the record of the attempt."""
        self.left = []
        progress = self.progress or Progress(started=clock.now())
        checker = self.stopper.checker(in_thread=not self.spec.is_async)
        writes = PossibleWrites()
        call = Call(self.spec, cause, progress, extra={"stopped": checker}, executor=executor, writes=writes)
        shown, shown_body = self.owner.shown, cause.body
        assert isinstance(shown_body, LiveBody)  # by `cause`
        shown.append(shown_body)
        try:
            outcome = await attempt(call, self.env.settings)
        finally:
            # By identity: bodies are equal by their content.
            shown[:] = [body for body in shown if body is not shown_body]
            self.wrote = asyncio.get_running_loop().time() if writes.found else None
        self.progress = None if outcome.final else progress.after(outcome, clock.now())
        if outcome.result is not None:
            deliver(cause.patch, self.spec.id, outcome.result, cause.logger)
        return outcome

    async def write(self, patch: Patch, *, again: bool) -> None:
        """Write the patch of an attempt; after errors of the server again, with pauses as the settings say.

        `again`: there will be another attempt, which takes the functions that met a conflict. Never raises an error of the
        server: what it refuses for good, and what is unwritten when the end is asked for, is logged and dropped.
        """
        if not patch:
            return
        settings = self.env.settings
        logger = self.owner.logger(settings)
        writer = Writer(self.env.client, self.owner.place, logger)
        tries = 0
        while True:
            # They may be infinite.
            delays = list(islice(settings.queueing.error_delays, tries + 1))
            base = self.owner.current()
            if base is None:
                logger.debug("Patching was skipped: the object does not exist anymore.")
                return
            try:
                if await writer.write(base, patch) is not None:
                    # The answer shows all earlier writes.
                    self.wrote = None
            except KeepsChanging as exc:
                if again or self.stopper.is_set() or not delays:
                    self.left = list(patch.fns)
                    return
                self.log("%s", exc, level=logging.WARNING)
            except Exception as exc:  # the daemon or timer goes on, whatever the server says
                if is_refused_for_good(exc) or self.stopper.is_set() or not delays:
                    self.log("left a patch that could not be written and is dropped: %r", exc, level=logging.ERROR)
                    return
                self.log("left a patch that could not be written; it will be tried again: %r", exc, level=logging.ERROR)
            else:
                return
            await self.stopper.wait(delays[-1])
            tries += 1


@dataclass(slots=True, eq=False, repr=False)
class Daemon(Spawned[DaemonSpec]):
    """One daemon of one object."""

    delay: float
    """The seconds before it starts."""

    async def run(self) -> None:
        """Call the function until it succeeds, fails for good, or is asked to end; after failures wait as they say.

        After each attempt its result and its patch are written.
        """
        if self.delay > 0 and await self.stopper.wait(self.delay):
            return
        # A thread of its own: in the handlers' pool, a few daemons would take all threads for ever.
        executor = OwnThread(f"daemon {self}") if not self.spec.is_async else None
        self.progress = Progress(started=clock.now())
        while not self.stopper.is_set():
            cause = self.cause(await self.newest() or self.owner.obj)
            if self.stopper.is_set():
                return
            outcome = await self.call(cause, executor)
            await self.write(cause.patch, again=not outcome.final)
            if outcome.final or await self.stopper.wait(outcome.delay or 0.0):
                return


class OwnThread(Executor):
    """Runs each job in a new thread of the given name.

    The number of threads is limited by the system only: a thread that cannot be started is a RuntimeError of the job. The
    threads do not keep the process alive: an abandoned daemon ends with it.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start the job at once."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result: Any = fn(*args, **kwargs)
            except BaseException as exc:  # raised again where the job is awaited
                future.set_exception(exc)
            else:
                future.set_result(result)

        threading.Thread(target=work, name=self._name, daemon=True).start()
        return future
