"""The reconciler, its argument and its result, with the names of controller-runtime where it has them."""

import inspect
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ...client.objects import Object
from ...informers.deltas import DeltaKind

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class Trigger(msgspec.Struct, frozen=True, gc=False):
    """The first thing that requested an attempt of a key since its last attempt began."""

    name: str
    """The name of the source; or `retry` after a failure, `requeue_after` for a `Result(requeue_after=...)`, `add` for a key that was
    added to the queue directly, `resumed` after a cancelled attempt."""
    at: float | None = None
    """The loop's time at which the request came; None where that is not noted."""
    # Formatted on demand: there is a trigger for each change, and few are read.
    _kind: DeltaKind | None = None
    _resource: str = ""
    _object: Object | None = None

    @property
    def object(self) -> str | None:
        """The object that changed, as `plural.version.group namespace/name`; None where no object did."""
        return None if self._object is None else f"{self._resource} {self._object.key}"

    @property
    def change(self) -> str | None:
        """Its change, by the name of a `DeltaKind`; None where no object changed."""
        return None if self._kind is None else self._kind.name

    def __str__(self) -> str:
        return " ".join(part for part in (self.name, self.change, self.object) if part)


ADDED = Trigger("add")
"""The trigger of keys that were added to the queue directly."""


class Attempt(msgspec.Struct, Generic[K], frozen=True):
    """One attempt of one key."""

    key: K
    number: int
    """1 for the first attempt since the last success; one more with each failure."""
    trigger: Trigger = ADDED
    """For logs. Decide by the present state of the objects, not by what has changed."""
    priority: int = 0
    started: float = 0.0
    """In the loop's time."""
    deadline: float | None = None
    """The loop's time at which the attempt is cancelled; None without a timeout."""


@dataclass(frozen=True, slots=True)
class Result:
    """When a reconciler that has returned is called again.

    `requeue_after`: reconcile the key again after this many seconds, also if nothing changes; 0: at once, behind the keys that wait
    already; None: only after a change. `priority`: the priority of that attempt; None: the one of this attempt.
    `error`: the attempt failed, and the next one is due after `requeue_after` instead of the back-off. It is counted as an error and
    shown where the state of a key is explained.

    Raises ValueError for a negative time and for an error without a time, TypeError for a time or a priority that is no number.
    """

    requeue_after: float | None = None
    priority: int | None = None
    error: Exception | None = None

    def __post_init__(self) -> None:
        if self.error is not None and self.requeue_after is None:
            raise ValueError(
                "A result with an error needs the seconds until the next attempt; got requeue_after=None. For the back-off of the "
                "queue raise the error."
            )
        if self.requeue_after is not None:
            if not isinstance(self.requeue_after, (int, float)):
                raise TypeError(f"requeue_after is a number of seconds; got requeue_after={self.requeue_after!r}.")
            if not self.requeue_after >= 0:
                raise ValueError(
                    f"requeue_after is a number of seconds, 0 or more; got requeue_after={self.requeue_after}."
                )
        if self.priority is not None and not isinstance(self.priority, int):
            raise TypeError(f"A priority is an integer, higher before lower; got priority={self.priority!r}.")


class TerminalError(Exception):
    """Raised by a reconciler: do not retry. The key is not attempted until something changes, and its failures are forgotten.

    The message says what is wrong, or the cause does (`raise TerminalError(...) from exc`).
    """


class Reconciler(Protocol[K_contra]):
    """Brings the actual state of the cluster to the state that an object asks for.

    A reconciler can rely on: one attempt of a key at a time; an attempt after each change that a mapper maps to the key, although
    several changes may share one attempt; another attempt, after a back-off, when it raises. It has to expect: attempts without any
    change, cancellation at any `await`, and a state in which half of the last attempt was done. So it looks at the present state,
    not at the change.
    """

    async def reconcile(self, key: K_contra, attempt: Attempt[Any]) -> Result | None:
        """Make one attempt. None is `Result()`: the next attempt follows the next change.

        After a TerminalError there is no retry. Any other exception is a failure, with a retry after a back-off.
        """


Reconcile = Callable[[K, Attempt[K]], Awaitable[Result | None]]
"""A reconciler as a function."""


def as_function(reconciler: "Reconciler[K] | Callable[..., Awaitable[Result | None]]") -> Reconcile[K]:
    """Return any form of a reconciler (an object with `reconcile`, a function of key and attempt, of the key alone) as a function of both.

    The reconcilers of the builder take a context in the place of the attempt. Raises TypeError for anything that cannot be called with
    one or two arguments.
    """
    function = getattr(reconciler, "reconcile", reconciler)
    if not callable(function):
        raise TypeError(f"A reconciler is a function of a key, or has a method `reconcile`; got {reconciler!r}.")
    try:
        signature = inspect.signature(function)
    except ValueError:  # a built-in function without a signature
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
