"""The metrics of a controller: controller-runtime's under their names, and latencies."""

from collections import Counter
from collections.abc import Iterator

from ...runtime.metrics import Families, Sample, Tally
from .outcome import TERMINAL, TIMED_OUT, AttemptOutcome

FAMILIES = Families("controller")
RECONCILES = FAMILIES.counter(
    "controller_runtime_reconcile_total", "Total number of reconciliations per controller", "result"
)
ERRORS = FAMILIES.counter(
    "controller_runtime_reconcile_errors_total", "Total number of reconciliation errors per controller"
)
TERMINAL_ERRORS = FAMILIES.counter(
    "controller_runtime_terminal_reconcile_errors_total",
    "Total number of terminal reconciliation errors per controller",
)
PANICS = FAMILIES.counter(
    "controller_runtime_reconcile_panics_total",
    "Total number of reconciliation panics per controller. Always 0: an exception is an error.",
)
TIMEOUTS = FAMILIES.counter(
    "controller_runtime_reconcile_timeouts_total", "Total number of reconciliation timeouts per controller"
)
TIME = FAMILIES.histogram(
    "controller_runtime_reconcile_time_seconds", "Length of time per reconciliation per controller"
)
MAXIMUM = FAMILIES.gauge(
    "controller_runtime_max_concurrent_reconciles",
    "Maximum number of concurrent reconciles per controller; 0 is no limit",
)
ACTIVE = FAMILIES.gauge("controller_runtime_active_workers", "Number of currently used workers per controller")
TO_START = FAMILIES.histogram(
    "ctl_event_to_start_seconds",
    "Time from the arrival of a change to the start of the attempt that it triggered",
    "trigger",
)
TO_DONE = FAMILIES.histogram(
    "ctl_event_to_done_seconds",
    "Time from the arrival of a change to the end of the attempt that it triggered",
    "trigger",
)
TRIGGER_ERRORS = FAMILIES.counter(
    "ctl_trigger_errors_total", "Changes that were lost because a mapper or predicate raised", "trigger"
)
OPEN = FAMILIES.gauge("ctl_controller_gate_open", "1 while the controller may act, 0 while its gate is closed")

# controller-runtime's buckets.
BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class ControllerMetrics:
    """The counts of one controller: plain numbers, written in its loop."""

    def __init__(self, name: str, concurrency: int | None) -> None:
        self._name = name
        self._concurrency = concurrency or 0
        self.active = 0
        """Running attempts."""
        self.results = dict.fromkeys(("success", "error", "requeue", "requeue_after"), 0)
        self.errors = 0
        self.terminal_errors = 0
        self.timeouts = 0
        self.time = Tally(BUCKETS)
        self.trigger_errors: dict[str, int] = {}
        # The number of sources by name; and by trigger the times from a change to the start of its attempt, and to the end.
        self._sources: Counter[str] = Counter()
        self._latencies: dict[str, tuple[Tally, Tally]] = {}

    def source_added(self, trigger: str) -> None:
        """Count a source; several may have one name."""
        self._sources[trigger] += 1

    def source_removed(self, trigger: str) -> None:
        """Drop the counts of a name with its last source."""
        self._sources[trigger] -= 1
        if not self._sources[trigger]:
            del self._sources[trigger]
            self._latencies.pop(trigger, None)
            self.trigger_errors.pop(trigger, None)

    def started(self, trigger: str, waited: float | None) -> None:
        """Count the start of an attempt; `waited` is the time since its change arrived, if that was noted."""
        self.active += 1
        if waited is not None:
            (self._latencies.get(trigger) or self._latency(trigger))[0].add(waited)

    def ended(self, outcome: AttemptOutcome, seconds: float) -> None:
        """Count the end of an attempt that took some seconds."""
        self.active -= 1
        self.time.add(seconds)
        if outcome.label is not None:
            self.results[outcome.label] += 1
        self.errors += outcome.is_error
        self.terminal_errors += outcome is TERMINAL
        self.timeouts += outcome is TIMED_OUT

    def done(self, trigger: str, waited: float) -> None:
        """Count a success; `waited` is the time since the change arrived."""
        (self._latencies.get(trigger) or self._latency(trigger))[1].add(waited)

    def _latency(self, trigger: str) -> tuple[Tally, Tally]:
        tallies = Tally(LATENCY_BUCKETS), Tally(LATENCY_BUCKETS)
        if trigger in self._sources:
            self._latencies[trigger] = tallies
        return tallies

    def samples(self, *, is_open: bool) -> Iterator[Sample]:
        """The metrics at this moment."""
        name = (self._name,)
        for result, count in self.results.items():
            yield Sample(RECONCILES, (self._name, result), count)
        yield Sample(ERRORS, name, self.errors)
        yield Sample(TERMINAL_ERRORS, name, self.terminal_errors)
        yield Sample(PANICS, name, 0)
        yield Sample(TIMEOUTS, name, self.timeouts)
        yield Sample(TIME, name, self.time)
        yield Sample(MAXIMUM, name, self._concurrency)
        yield Sample(ACTIVE, name, self.active)
        yield Sample(OPEN, name, int(is_open))
        for trigger, (to_start, to_done) in self._latencies.items():
            yield Sample(TO_START, (self._name, trigger), to_start)
            yield Sample(TO_DONE, (self._name, trigger), to_done)
        for trigger, count in self.trigger_errors.items():
            yield Sample(TRIGGER_ERRORS, (self._name, trigger), count)
