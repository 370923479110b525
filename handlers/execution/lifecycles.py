"""In which order, and how many at once, the due handlers of a change are called.

A lifecycle is a function of the due handlers (in the order of declaration), their `state` and the arguments of the cause. It gives
those to be called in this round; the others wait for the next one. Users may write their own.
"""

import hashlib
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar


class Attempted(Protocol):
    """What a lifecycle may look at in the state of a handler."""

    @property
    def retries(self) -> int:
        """Attempts so far."""
        ...


class StateView(Protocol):
    """The states of the due handlers, by id."""

    def __getitem__(self, key: Any, /) -> Attempted:
        """The state of one handler."""
        ...


_T = TypeVar("_T")


LifecycleFn: TypeAlias = Callable[..., Sequence[Any]]
"""A lifecycle: called as `fn(handlers, state=..., **kwargs)`, gives the handlers to be called in this round, in their order."""

_others = itertools.count()


def all_at_once(handlers: Sequence[_T], **_: Any) -> Sequence[_T]:
    """All, in the order of declaration."""
    return handlers


def one_by_one(handlers: Sequence[_T], **_: Any) -> Sequence[_T]:
    """The first, until it is done."""
    return handlers[:1]


def randomized(handlers: Sequence[_T], *, state: StateView | None = None, **kwargs: Any) -> Sequence[_T]:
    """Any one."""
    return shuffled(handlers, state=state, **kwargs)[:1]


def shuffled(handlers: Sequence[_T], *, state: StateView | None = None, **kwargs: Any) -> Sequence[_T]:
    """All, in any order.

    The order is a digest of the object's version and the attempts made: as good as random over objects and rounds, and the same for
    the same question, so that a run can be repeated. Where lifecycles of users hand on the handlers without their state, or something
    else than handlers, each question is another one.
    """
    meta: Mapping[str, Any] = kwargs.get("meta") or {}
    salt = f"{kwargs.get('uid')} {meta.get('resourceVersion')}"
    others = next(_others)

    def lot(place: int) -> bytes:
        known = getattr(handlers[place], "id", None)
        attempts = others if state is None or known is None else state[known].retries
        return hashlib.blake2b(
            f"{salt} {place if known is None else known} {attempts}".encode(), digest_size=8
        ).digest()

    return [handlers[place] for place in sorted(range(len(handlers)), key=lot)]


def asap(handlers: Sequence[_T], *, state: StateView, **_: Any) -> Sequence[_T]:
    """The one with the fewest attempts, and of several the one declared first: nobody waits for another's failures."""
    return sorted(handlers, key=lambda handler: state[getattr(handler, "id", handler)].retries)[:1]


_logger = logging.getLogger(__name__)
_default: LifecycleFn = all_at_once


def get_default_lifecycle() -> LifecycleFn:
    """The lifecycle of operators that are given none: `all_at_once` unless changed, since a round is written once.

    (Kopf's own default is `asap`, with one write for each handler.)
    """
    return _default


def set_default_lifecycle(lifecycle: LifecycleFn | None) -> None:
    """Use another lifecycle for operators that are given none, from now on; None: the first one again. Logs a warning."""
    global _default  # noqa: PLW0603 (one per process by definition)
    _default = all_at_once if lifecycle is None else lifecycle
    _logger.warning("The default lifecycle is changed to %s.", getattr(_default, "__name__", _default))
