"""The metrics of a queue, with the names and labels of client-go and controller-runtime."""

from collections.abc import Iterator
from typing import Any

from ..runtime.metrics import Families, Sample, Tally
from .ledger import Ledger

FAMILIES = Families("name", "controller")
DEPTH = FAMILIES.gauge("workqueue_depth", "Current depth of workqueue by workqueue and priority", "priority")
ADDS = FAMILIES.counter("workqueue_adds_total", "Total number of adds handled by workqueue")
RETRIES = FAMILIES.counter(
    "workqueue_retries_total", "Total number of keys added for later: after a back-off, or a delay that was asked for"
)
QUEUE_DURATION = FAMILIES.histogram(
    "workqueue_queue_duration_seconds", "How long in seconds an item stays in workqueue before being requested"
)
WORK_DURATION = FAMILIES.histogram(
    "workqueue_work_duration_seconds", "How long in seconds processing an item from workqueue takes."
)
UNFINISHED = FAMILIES.gauge(
    "workqueue_unfinished_work_seconds",
    "How many seconds of work has been done that is in progress and hasn't been observed by work_duration. "
    "Large values indicate stuck tasks; the rate of increase is their number.",
)
LONGEST = FAMILIES.gauge(
    "workqueue_longest_running_processor_seconds", "How many seconds the longest running processor has been running."
)


BUCKETS = tuple(10.0**power for power in range(-8, 4))
"""controller-runtime's twelve: 1e-8 to 1e3 seconds."""

PRIORITIES = 25
"""How many values of the label `priority` there are at most; the rest share one (controller-runtime's limit and word)."""
OVERFLOW = "exceeded_cardinality_limit"


class QueueMetrics:
    """The counts of one queue: plain numbers, written by the queue on its loop."""

    __slots__ = ("_known", "adds", "in_queue", "in_work", "labels", "retries")

    def __init__(self, name: str, controller: str | None = None) -> None:
        self.labels = (name, controller if controller is not None else name)
        self.adds = 0
        self.retries = 0
        self.in_queue = Tally(BUCKETS)
        """Seconds from the add to the handing out."""
        self.in_work = Tally(BUCKETS)
        """Seconds from the handing out to the end of the work."""
        self._known: dict[int, str] = {}

    def samples(self, ledger: Ledger[Any], now: float) -> Iterator[Sample]:
        """All samples of the queue at this moment."""
        depths: dict[str, int] = dict.fromkeys(self._known.values(), 0) or {"0": 0}
        for priority, depth in ledger.depths().items():
            label = self._priority(priority)
            depths[label] = depths.get(label, 0) + depth
        for label, depth in depths.items():
            yield Sample(DEPTH, (*self.labels, label), depth)
        running = [max(0.0, now - entry.since) for entry in ledger.in_work.values()]
        yield Sample(ADDS, self.labels, self.adds)
        yield Sample(RETRIES, self.labels, self.retries)
        yield Sample(QUEUE_DURATION, self.labels, self.in_queue)
        yield Sample(WORK_DURATION, self.labels, self.in_work)
        yield Sample(UNFINISHED, self.labels, sum(running))
        yield Sample(LONGEST, self.labels, max(running, default=0.0))

    def _priority(self, priority: int) -> str:
        label = self._known.get(priority)
        if label is None:
            label = str(priority) if len(self._known) < PRIORITIES else OVERFLOW
            if label is not OVERFLOW:
                self._known[priority] = label
        return label
