"""What a reconciler is: a function of a key, and what it is told about the attempt."""

import inspect
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ...client.objects import Object
from ...informers.deltas import DeltaKind
from .result import Result

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class Reason(msgspec.Struct, frozen=True, gc=False):
    """Why a key waits to be attempted: the first thing that asked for it since its last attempt began.

    `trigger` is the name of the watch; or `retry` after a failure, `requeue_after` for a `Result(requeue_after=...)`, `add` for a direct
    add to the queue, `resumed` when an attempt was cut short by the gate.
    """

    trigger: str
    at: float | None = None
    """The loop's time when it was heard; None if nobody noted it."""
    # In words only when somebody asks: a reason is made for each change, and seldom read.
    _kind: DeltaKind | None = None
    _resource: str = ""
    _object: Object | None = None

    @property
    def object(self) -> str | None:
        """What changed, as text: `plural.version.group namespace/name`; None if it was no object."""
        return None if self._object is None else f"{self._resource} {self._object.key}"

    @property
    def change(self) -> str | None:
        """How it changed: the name of a delta's kind; None if it was no object."""
        return None if self._kind is None else self._kind.name


ADDED = Reason("add")
"""The reason of keys that were added to the queue directly."""


class Attempt(msgspec.Struct, Generic[K], frozen=True):
    """One attempt of one key, as the reconciler is told of it."""

    key: K
    number: int
    """1 for the first attempt since the last success; one more with each failure."""
    reason: Reason = ADDED
    priority: int = 0
    started: float = 0.0
    """The loop's time."""
    deadline: float | None = None
    """The loop's time at which the attempt is cancelled; None without a limit."""


class Reconciler(Protocol[K_contra]):
    """Brings the world into the state that an object asks for.

    What the author may rely on: one attempt of a key at a time; an attempt after each change that a trigger maps to the key,
    though several changes become one attempt; an attempt again, with back-off, after an exception. What the author has to bear:
    attempts without any change, cancellation at any `await`, and a state of the world in which half of the last attempt was done.
    So reconcile by level: look at what is, not at what changed; `attempt.reason` is for logs.
    """

    async def reconcile(self, key: K_contra, attempt: Attempt[Any]) -> Result | None:
        """Make one attempt. None is `Result()`: all is well until something changes.

        TerminalError says that trying again is of no use; any other exception is a failure with back-off.
        """


Reconcile = Callable[[K, Attempt[K]], Awaitable[Result | None]]
"""A reconciler as a function."""


def as_function(reconciler: "Reconciler[K] | Callable[..., Awaitable[Result | None]]") -> Reconcile[K]:
    """Take a reconciler in any of its forms: an object with `reconcile`, a function of key and attempt, a function of the key.

    The builder's reconcilers get a context in the place of the attempt. Raises TypeError for anything that cannot be called with one or
    two arguments.
    """
    function = getattr(reconciler, "reconcile", reconciler)
    if not callable(function):
        raise TypeError(f"A reconciler is a function of a key, or has a method `reconcile`; got {reconciler!r}.")
    try:
        signature = inspect.signature(function)
    except ValueError:  # a built-in that does not tell: take it at its word
        return function
    if _takes(signature, 2):
        return function
    if _takes(signature, 1):
        return lambda key, _: function(key)
    raise TypeError(
        f"A reconciler takes a key, or a key and an attempt (the context, if it is given to ctl.controller); {function!r} takes {signature}."
    )


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True
