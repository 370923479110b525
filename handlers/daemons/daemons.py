"""A daemon runs in a task of its own for as long as its object exists and matches."""

from ...runtime import clock
from ..declaration.specs import DaemonSpec
from ..execution.progression import Progress
from .base import Companion, Ground, Host
from .threads import OwnThread


class Daemon(Companion[DaemonSpec]):
    """One daemon of one object. `delay` are the seconds before it starts."""

    __slots__ = ("delay",)

    def __init__(self, spec: DaemonSpec, host: Host, ground: Ground, delay: float) -> None:
        super().__init__(spec, host, ground)
        self.delay = delay

    async def run(self) -> None:
        """Call the function until it succeeds, fails for good, or is asked to end; between failures wait as they say.

        After each attempt its result and its patch are written.
        """
        if self.delay > 0 and await self.stopper.wait(self.delay):
            return
        # A thread of its own: in the handlers' pool a few daemons would take all places for ever.
        executor = OwnThread(f"daemon {self}") if self.in_thread else None
        self.progress = Progress(started=clock.now())
        while not self.stopper.is_set():
            cause = self.cause(await self.newest() or self.host.obj)
            if self.stopper.is_set():
                return
            outcome = await self.call(cause, executor)
            await self.write(cause.patch, again=not outcome.final)
            if outcome.final or await self.stopper.wait(outcome.delay or 0.0):
                return
