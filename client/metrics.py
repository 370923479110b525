"""Counts of what the client did, as plain integers that a collector reads when it is asked."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple


class RequestLabels(NamedTuple):
    """The labels of `rest_client_requests_total`, as client-go names them."""

    code: str
    """The HTTP status, or `<error>` when no answer came."""
    method: str
    host: str


@dataclass
class ClientMetrics:
    """What one client did since it was made. Written by the client on its loop, read by anyone."""

    retries: int = 0
    """Attempts after the first of a request."""
    throttled: int = 0
    """Requests that waited for the client-side rate limit."""
    throttled_seconds: float = 0.0
    lost_answers: int = 0
    """Requests that were sent and never answered."""
    refusals: int = 0
    """Answers 401."""
    bytes_received: int = 0
    _requests: Counter[RequestLabels] = field(default_factory=Counter)

    def count(self, code: int | None, method: str, host: str) -> None:
        """Count one HTTP exchange; without a code no answer came."""
        self._requests[RequestLabels("<error>" if code is None else str(code), method, host)] += 1

    def requests(self) -> dict[RequestLabels, int]:
        """A snapshot of `rest_client_requests_total`."""
        return dict(self._requests)
