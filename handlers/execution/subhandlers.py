"""Run the handlers that a handler declares while it runs, as a part of its own attempt.

Sub-handlers are handlers of the same cause with the parent's id before theirs. Their records stand beside the
parent's; the parent is called again, in later rounds, until all of them are finished.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from ...runtime import clock
from ..causes.causes import ChangingCause
from ..causes.patch import Patch, compose
from ..causes.views import Body
from ..declaration.declaring import Kind, RegisterOptions, declare_subhandler
from ..declaration.registry import OperatorRegistry, SubRegistry, current_subregistry
from ..declaration.specs import ChangingSpec
from .outcomes import Outcome, UnfinishedSubhandlers
from .possible_writes import PossibleWrites
from .progression import Progression

Lifecycle = Callable[..., Sequence[ChangingSpec]]

_PART = Kind("execute", ChangingSpec, RegisterOptions)


class Runner(Protocol):
    """What an offspring needs of the round that it belongs to."""

    progression: Progression
    writes: PossibleWrites

    def body_now(self, wanted: Patch | None = None) -> Body:
        """The object as the handlers so far leave it, and then as a running one wants it."""

    async def attempt_due(
        self,
        specs: Sequence[ChangingSpec],
        attempt_one: Callable[[ChangingSpec], Awaitable[None]],
        lifecycle: Lifecycle | None = None,
    ) -> None:
        """Attempt those of the handlers that are due, each at most once."""

    async def attempt_spec(self, spec: ChangingSpec, cause: ChangingCause) -> None:
        """Attempt one active sub-handler."""


class Offspring:
    """The sub-handlers of one attempt of one handler."""

    def __init__(
        self, parent: ChangingSpec, cause: ChangingCause, runner: Runner, root: ChangingSpec | None = None
    ) -> None:
        self.root = root or parent
        """The handler that is no sub-handler, above all of them."""
        self.declared = SubRegistry(parent)
        self.cause = cause
        self._runner: Runner | None = runner
        self._seen: dict[str, None] = {}
        self._executed = False

    def __enter__(self) -> None:
        """Let declarations, and `execute`, find this offspring for as long as the handler runs."""
        self._declaring = current_subregistry.set(self.declared)
        self._executing = current_offspring.set(self)

    def __exit__(self, *exc: object) -> None:
        current_offspring.reset(self._executing)
        current_subregistry.reset(self._declaring)
        # The contexts of timers and tasks may know of it for long.
        self._runner = None

    @property
    def runner(self) -> Runner:
        """Raises LookupError when the handler has ended."""
        if self._runner is None:
            raise LookupError("The handler has ended, and its sub-handlers with it: execute them while it runs.")
        return self._runner

    def subrefs(self) -> Collection[str]:
        """The ids of the sub-handlers that took part, at all levels."""
        if not self._seen:
            return ()
        records = self.runner.progression.records
        below = (subref for known in self._seen if known in records for subref in records[known].subrefs)
        return [*self._seen, *below]

    def waiting(self) -> tuple[str, Outcome]:
        """The handler, and how its attempt would end now if it were called again for its next sub-handler."""
        return self.declared.parent.id, Outcome(False, 0.0, None, UnfinishedSubhandlers(None), self.subrefs())

    async def run_declared(self, lifecycle: Lifecycle | None = None, cause: ChangingCause | None = None) -> None:
        """Run the declared sub-handlers, once: when the handler asks for it, else when it returns."""
        if not self._executed:
            self._executed = True
            if self.declared.specs:
                await self.run(self.declared.changing(cause or self.cause), lifecycle)

    async def run(self, specs: Sequence[ChangingSpec], lifecycle: Lifecycle | None = None) -> None:
        """Attempt the due sub-handlers. Raises UnfinishedSubhandlers while any of them is not finished."""
        progression = self.runner.progression
        progression.activate((spec.id for spec in specs), clock.now())
        progression.adopt(self.declared.parent.id, (spec.id for spec in specs))
        self._seen.update(dict.fromkeys(spec.id for spec in specs))
        with self.runner.writes.interrupted():
            await self.runner.attempt_due(specs, self._attempt, lifecycle)
        left = [known for spec in specs if not (known := progression.records[spec.id]).finished]
        if left:
            now = clock.now()
            waits = [0.0 if known.delayed is None else (known.delayed - now).total_seconds() for known in left]
            raise UnfinishedSubhandlers(max(0.0, min(waits)) or None)

    async def _attempt(self, spec: ChangingSpec) -> None:
        body = self.runner.body_now(self.cause.patch)
        cause = self.cause.but(patch=Patch(body=body), body=body)
        await self.runner.attempt_spec(spec, cause if spec.field is None else cause.reduced(spec.field))
        # The parent finds in its patch what its sub-handlers want, and what it wanted before them does not win over it.
        compose(self.cause.patch, dict(cause.patch))

    def show(self) -> None:
        """Let the running handler see in its arguments what its sub-handlers have left."""
        self.cause.body._become(self.runner.body_now(self.cause.patch))


current_offspring: ContextVar[Offspring] = ContextVar("current_offspring")
"""Whose sub-handlers are executed now; not set where no change handler runs."""


async def execute(
    *,
    fns: Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]] | None = None,
    handlers: Iterable[ChangingSpec] | None = None,
    registry: OperatorRegistry | SubRegistry | None = None,
    lifecycle: Lifecycle | None = None,
    cause: ChangingCause | None = None,
) -> None:
    """Run sub-handlers of the running handler now, instead of when it returns (Kopf's function).

    `fns` are functions, or functions by id; `handlers` are specs; `registry` is asked for the handlers of the cause;
    without any of them the ones declared so far are run, once; those are run at the end of the handler otherwise. Raises TypeError when more
    than one is given or `handlers` is no list, ValueError when `fns` is none (as Kopf), LookupError when no change handler runs, and a TemporaryError that the
    handler lets pass while a sub-handler is not finished.
    """
    if sum(given is not None for given in (fns, handlers, registry)) > 1:
        raise TypeError(
            "Only one of the fns, handlers, registry can be passed. Got more: leave the others out of execute()."
        )
    if not isinstance(fns, Iterable | None):
        raise ValueError(  # noqa: TRY004 - as Kopf
            f"fns must be a mapping or an iterable, got {type(fns)}. execute(fns=...) takes a list of functions, or functions by "
            f"their ids in a dict; got {fns!r}."
        )
    if not isinstance(handlers, Iterable | None):
        raise TypeError(f"execute(handlers=...) takes a list of handlers; got {handlers!r}.")
    try:
        offspring = current_offspring.get()
    except LookupError:
        raise LookupError(
            "execute() runs sub-handlers of a running change handler; no such handler runs here."
        ) from None
    cause = cause or offspring.cause
    if fns is not None:
        fresh = SubRegistry(offspring.declared.parent)
        named = fns.items() if isinstance(fns, Mapping) else ((None, fn) for fn in fns)
        for name, fn in named:
            declare_subhandler(_PART, fresh, {"id": name})(fn)
        specs = fresh.changing(cause)
    elif handlers is not None:
        specs = list(handlers)
    elif registry is not None:
        specs = registry.changing(cause)
    else:
        await offspring.run_declared(lifecycle, cause)
        offspring.show()
        return
    await offspring.run(specs, lifecycle)
    offspring.show()
