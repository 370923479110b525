"""What one operator counts of its handlers' calls, and the threads that the sync ones share.

Whoever runs an operator makes a `Statistics` and enters it; every attempt made in that context, and in the tasks born there,
is counted in it. Counting is a few additions to plain numbers on the loop; nothing is kept for each object.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from weakref import WeakKeyDictionary

from ...runtime.metrics import MetricFamily, Sample, Tally
from ..declaration.specs import (
    ActivitySpec,
    DaemonSpec,
    HandlerSpec,
    IndexingSpec,
    TimerSpec,
    WatchingSpec,
    WebhookSpec,
)
from .pools import FAMILIES as POOL_FAMILIES
from .pools import Pool

_LABELS = ("handler", "kind")
CALLS = MetricFamily(
    "ctl_handler_calls_total",
    "Attempts of handlers by how they ended: succeeded; retried (another one comes); failed (for good); ignored (raised, and its "
    "errors are ignored); waiting (for its sub-handlers); cancelled.",
    "counter",
    (*_LABELS, "outcome"),
)
SECONDS = MetricFamily("ctl_handler_duration_seconds", "How long attempts of handlers took.", "histogram", _LABELS)
RUNNING = MetricFamily("ctl_handler_calls_in_progress", "Attempts of handlers that run now.", "gauge", _LABELS)
FAMILIES = (CALLS, SECONDS, RUNNING, *POOL_FAMILIES)

BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600)
OUTCOMES = ("succeeded", "retried", "failed", "ignored", "waiting", "cancelled")

_KINDS: tuple[tuple[type[HandlerSpec], str], ...] = (
    (ActivitySpec, "activity"),
    (DaemonSpec, "daemon"),
    (TimerSpec, "timer"),
    (IndexingSpec, "index"),
    (WatchingSpec, "event"),
    (WebhookSpec, "webhook"),
)
BELOW = "subhandler"
"""The kind of what counts for all sub-handlers of a handler together."""


class HandlerCounts:
    """The attempts of one handler."""

    __slots__ = ("labels", "outcomes", "running", "seconds")

    def __init__(self, labels: tuple[str, str]) -> None:
        self.labels = labels
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self.running = 0
        self.seconds = Tally(BUCKETS)

    def ended(self, outcome: str, seconds: float) -> None:
        """An attempt that was `running` ended after so many seconds."""
        self.running -= 1
        self.outcomes[outcome] += 1
        self.seconds.add(seconds)


class Statistics:
    """The counts of one operator. Belongs to its loop.

    `pool` are the threads of sync handlers, `threads` those that sync daemons have of their own.
    """

    def __init__(self) -> None:
        self.pool = Pool("handlers")
        self.threads = Pool("daemons")
        self._handlers: dict[tuple[str, str], HandlerCounts] = {}
        # Of the handlers that are there for as long as the operator is; of others; and of what is below one of them.
        self._expected: dict[HandlerSpec, HandlerCounts] = {}
        self._by_spec: WeakKeyDictionary[HandlerSpec, HandlerCounts] = WeakKeyDictionary()
        self._below: WeakKeyDictionary[HandlerSpec, HandlerCounts] = WeakKeyDictionary()

    def of(self, spec: HandlerSpec, root: HandlerSpec | None = None) -> HandlerCounts:
        """The counts of a handler; of a sub-handler those that all below one handler (`root`) share, since their ids may come from objects."""
        if root is not None:
            below = self._below.get(root)
            if below is None:
                below = self._below[root] = self._labelled((str(root.id), BELOW))
            return below
        counts = self._expected.get(spec) or self._by_spec.get(spec)
        if counts is None:
            counts = self._by_spec[spec] = self._find(spec)
        return counts

    def _find(self, spec: HandlerSpec) -> HandlerCounts:
        # Two handlers of one kind and id are one in the records, the log, and here.
        return self._labelled((str(spec.id), next((kind for cls, kind in _KINDS if isinstance(spec, cls)), "change")))

    def _labelled(self, labels: tuple[str, str]) -> HandlerCounts:
        counts = self._handlers.get(labels)
        if counts is None:
            counts = self._handlers[labels] = HandlerCounts(labels)
        return counts

    def expect(self, specs: Iterable[HandlerSpec]) -> None:
        """Show these handlers from now on, before they are called for the first time: a rate needs a zero to begin with."""
        for spec in specs:
            self._expected[spec] = self._find(spec)

    def samples(self) -> Iterator[Sample]:
        """Everything there is to say at this moment (a source for `ctl.runtime.metrics`)."""
        for counts in tuple(self._handlers.values()):
            for outcome, number in counts.outcomes.items():
                yield Sample(CALLS, (*counts.labels, outcome), number)
            yield Sample(SECONDS, counts.labels, counts.seconds)
            yield Sample(RUNNING, counts.labels, counts.running)
        yield from self.pool.samples()
        yield from self.threads.samples()


_current: ContextVar[Statistics | None] = ContextVar("statistics", default=None)
_nobodys = Statistics()


def current() -> Statistics:
    """The statistics of the operator in whose context this is called; outside of any, some that nobody reads."""
    return _current.get() or _nobodys


@contextmanager
def counting(statistics: Statistics) -> Iterator[None]:
    """Count in these statistics while inside, also in the tasks that begin there."""
    token = _current.set(statistics)
    try:
        yield
    finally:
        _current.reset(token)
