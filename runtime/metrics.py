"""One Prometheus registry for one operator, fed at scrape time from integers that the hot paths count in.

Counting must cost next to nothing where 200,000 keys a second pass. So nobody on a hot path calls the metrics library:
owners count in plain attributes and in `Tally` histograms, and say their samples when they are asked.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partialmethod
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A metric: its name, help text, type, and the labels by which its samples differ.

    The names of counters end in `_total`, those of histograms have no suffix.
    """

    name: str
    help: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...] = ()


class Families(list[MetricFamily]):
    """The metrics of one module. They have some labels in common, and perhaps the beginning of their names."""

    def __init__(self, *labels: str, prefix: str = "") -> None:
        super().__init__()
        self._labels = labels
        self._prefix = prefix

    def _add(self, kind: Literal["counter", "gauge", "histogram"], name: str, help: str, *labels: str) -> MetricFamily:
        self.append(MetricFamily(self._prefix + name, help, kind, (*self._labels, *labels)))
        return self[-1]

    counter = partialmethod(_add, "counter")
    gauge = partialmethod(_add, "gauge")
    histogram = partialmethod(_add, "histogram")


class Tally:
    """A histogram in plain integers. Not safe for threads; the owner's loop writes it."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` are the upper bounds of the buckets, ascending; the bucket for everything above is added."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0
        """The sum of all observations."""

    @property
    def count(self) -> int:
        """How many observations there were."""
        return sum(self.counts)

    def add(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def plus(self, other: "Tally") -> "Tally":
        """Both together. Raises ValueError when their bounds differ."""
        if self.bounds != other.bounds:
            raise ValueError(f"Only histograms of equal bounds can be added; got {self.bounds} and {other.bounds}.")
        both = Tally(self.bounds)
        both.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        both.total = self.total + other.total
        return both

    def buckets(self) -> list[tuple[str, float]]:
        """The cumulative buckets as the exposition wants them: upper bound and count, up to `+Inf`."""
        found: list[tuple[str, float]] = []
        running = 0
        for bound, count in zip((*map(_bound, self.bounds), "+Inf"), self.counts, strict=True):
            running += count
            found.append((bound, float(running)))
        return found


def _bound(value: float) -> str:
    return repr(float(value))


class Sample(NamedTuple):
    """One value of a family, for one set of label values (in the order of the family's labels)."""

    family: MetricFamily
    labels: tuple[str, ...]
    value: float | Tally


Source = Callable[[], Iterable[Sample]]


class Metrics(Collector):
    """The metrics of one operator: a registry of its own, so that several operators live in one process.

    Sources are asked on each scrape, on the loop, in the order they were added. Samples of one family may come from many
    sources; they are put together. Those with the same labels become one: the sum, of gauges the largest. A registry accepts any other collectors of the user's too (`metrics.registry`).
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._sources: dict[int, tuple[Source, tuple[MetricFamily, ...]]] = {}
        self._next = 0
        self.registry.register(self)

    def add_source(self, source: Source, families: Iterable[MetricFamily] = ()) -> Callable[[], None]:
        """Ask this source at each scrape; returns a function that ends this, and may be called several times.

        `families` are shown by name and type also while they have no samples, so that people find them.
        """
        number, self._next = self._next, self._next + 1
        self._sources[number] = source, tuple(families)

        def remove() -> None:
            self._sources.pop(number, None)

        return remove

    def describe(self) -> Iterable[Metric]:
        """Nothing: the families are known at each scrape only (part of the library's Collector interface)."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Gather the samples of all sources into families (called by the registry)."""
        grouped: dict[MetricFamily, dict[tuple[str, ...], float | Tally]] = {}
        for source, families in tuple(self._sources.values()):
            for family in families:
                grouped.setdefault(family, {})
            for sample in source():
                known = grouped.setdefault(sample.family, {})
                before = known.get(sample.labels)
                known[sample.labels] = sample.value if before is None else _joined(sample.family, before, sample.value)
        for family, samples in grouped.items():
            yield _metric(family, samples)

    def expose(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition of the whole registry and its content type, in the form that the `Accept` header asks for."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self.registry), content_type


def _joined(family: MetricFamily, one: float | Tally, other: float | Tally) -> float | Tally:
    if isinstance(one, Tally) and isinstance(other, Tally):
        return one.plus(other)
    assert not isinstance(one, Tally)
    assert not isinstance(other, Tally)
    return max(one, other) if family.kind == "gauge" else one + other


def _metric(family: MetricFamily, samples: Mapping[tuple[str, ...], float | Tally]) -> Metric:
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
        for labels, tally in samples.items():
            assert isinstance(tally, Tally)
            histogram.add_metric(labels, tally.buckets(), tally.total)
        return histogram
    number = (CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily)(
        family.name, family.help, labels=family.labels
    )
    for labels, value in samples.items():
        assert not isinstance(value, Tally)
        number.add_metric(labels, float(value))
    return number
