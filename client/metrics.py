"""Counts of what the client did, as plain integers that a collector reads when it is asked."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ..runtime.metrics import Families, Sample, Tally

FAMILIES = Families()
REQUESTS = FAMILIES.counter(
    "rest_client_requests_total",
    "Number of HTTP requests, partitioned by status code, method, and host.",
    "code",
    "method",
    "host",
)
DURATION = FAMILIES.histogram(
    "rest_client_request_duration_seconds",
    "Request latency in seconds. Broken down by verb, and host. For a watch, until it was opened.",
    "verb",
    "host",
)
RETRIES = FAMILIES.counter(
    "rest_client_request_retries_total",
    "Number of request retries, partitioned by status code, verb, and host.",
    "code",
    "verb",
    "host",
)
THROTTLED = FAMILIES.counter("ctl_client_throttled_total", "Requests that waited for the client-side rate limit.")
THROTTLED_SECONDS = FAMILIES.counter(
    "ctl_client_throttled_seconds_total", "Seconds for which requests waited for the client-side rate limit."
)
LOST = FAMILIES.counter("ctl_client_lost_answers_total", "Requests that were sent and got no answer.")
REFUSALS = FAMILIES.counter("ctl_client_refusals_total", "Answers 401: refused credentials.")
RECEIVED = FAMILIES.counter("ctl_client_received_bytes_total", "Bytes that the server sent.")

BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
"""Those of Kubernetes' own components, in seconds."""

HOSTS = 16
"""How many values of the label `host` there are at most; the rest share one, as priorities of queues do."""
OVERFLOW = "exceeded_cardinality_limit"


class RequestLabels(NamedTuple):
    """The labels of `rest_client_requests_total`, as client-go names them."""

    code: str
    """The HTTP status, or `<error>` when no answer came."""
    method: str
    host: str


@dataclass
class ClientMetrics:
    """What one client did since it was made. Written by the client on its loop, read by anyone."""

    throttled: int = 0
    """Requests that waited for the client-side rate limit."""
    throttled_seconds: float = 0.0
    lost_answers: int = 0
    """Requests that were sent and got no answer."""
    refusals: int = 0
    """Answers 401."""
    bytes_received: int = 0
    # By status code, method and host.
    _requests: Counter[tuple[int | None, str, str]] = field(default_factory=Counter)
    _retries: Counter[tuple[int | None, str, str]] = field(default_factory=Counter)
    _durations: dict[tuple[str, str], Tally] = field(default_factory=dict)
    _hosts: set[str] = field(default_factory=set)
    # Where the last exchange went: a retry is counted for the host that gave the reason for it.
    _host: str = ""

    def count(self, code: int | None, method: str, host: str, seconds: float) -> None:
        """Count one HTTP exchange of so many seconds; without a code no answer came."""
        if host not in self._hosts:
            host = self._known(host)
        self._host = host
        self._requests[code, method, host] += 1
        tally = self._durations.get((method, host))
        if tally is None:
            tally = self._durations[method, host] = Tally(BUCKETS)
        tally.add(seconds)

    def _known(self, host: str) -> str:
        """A new host as it is counted."""
        if len(self._hosts) >= HOSTS:
            return OVERFLOW
        self._hosts.add(host)
        return host

    def count_retry(self, code: int | None, method: str) -> None:
        """Count that the exchange counted last is to be repeated."""
        self._retries[code, method, self._host] += 1

    @property
    def retries(self) -> int:
        """Attempts after the first of a request."""
        return sum(self._retries.values())

    def requests(self) -> dict[RequestLabels, int]:
        """A snapshot of `rest_client_requests_total`."""
        return {_labels(*known): count for known, count in tuple(self._requests.items())}

    def samples(self) -> Iterator[Sample]:
        """Everything there is to say at this moment (a source for `ctl.runtime.metrics`); from any thread."""
        for known, count in tuple(self._requests.items()):
            yield Sample(REQUESTS, _labels(*known), count)
        for names, tally in tuple(self._durations.items()):
            yield Sample(DURATION, names, tally)
        for known, count in tuple(self._retries.items()):
            yield Sample(RETRIES, _labels(*known), count)
        yield Sample(THROTTLED, (), self.throttled)
        yield Sample(THROTTLED_SECONDS, (), self.throttled_seconds)
        yield Sample(LOST, (), self.lost_answers)
        yield Sample(REFUSALS, (), self.refusals)
        yield Sample(RECEIVED, (), self.bytes_received)


def _labels(code: int | None, method: str, host: str) -> RequestLabels:
    return RequestLabels("<error>" if code is None else str(code), method, host)
