"""The settings of the client, with their defaults."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .._version import VERSION


@dataclass(frozen=True)
class ClientSettings:
    """The settings of a client. Times are in seconds; None means no limit, where nothing else is written.

    `error_backoffs` are the pauses between attempts of one request after connection errors, timeouts, 429 and 5xx: one
    attempt more than there are pauses. One number means one retry; the iterable may be infinite and is iterated
    anew for each request. A longer pause that the server asks for takes its place; with `enforce_retry_after`
    a shorter one does so too. A pause longer than `request_timeout` is not waited: the error is raised at once.
    """

    request_timeout: float | None = 300.0
    """One attempt, from the wait for a free connection to the last byte of the answer. Not for watches."""
    connect_timeout: float | None = None
    """Until a connection is established; None is `request_timeout`."""
    watch_connect_timeout: float | None = None
    """The same for watches; None is `connect_timeout`."""
    error_backoffs: float | Iterable[float] = (1, 1, 2, 3, 5, 8, 13, 21)
    enforce_retry_after: bool = False
    refused_backoff: float = 1.0
    """Pause before the same credentials are tried again after a 401."""
    refused_retries: int = 2
    """How often a 401 is followed by another attempt with the same credentials; new ones are tried at once."""
    connections: int = 32
    """How many requests are in flight at once. Watches and renewals do not count."""
    qps: float | None = None
    """Client-side rate limit for requests and the starts of watches; None is off."""
    burst: int | None = None
    """How many requests may exceed `qps` for a moment; None is twice the rate, at least 1."""
    page_size: int = 500
    """How many objects `Client.list` asks for at once."""
    credentials_period: float = 60.0
    """How old a token, certificate or CA read from a file may be before the file is read again."""
    discovery_timeout: float = 15.0
    """How long one API group may take to describe itself before it counts as broken."""
    largest_answer: int | None = 2**30
    """How many bytes of JSON one answer may have, a page of a list for instance; None is any number. A page of 500 of the largest objects
    that servers take by default fits."""
    largest_event: int | None = 2**26
    """How many bytes of JSON one event of a watch may have; None is any number."""
    trust_env: bool = False
    """Whether HTTPS_PROXY, HTTP_PROXY and NO_PROXY are honoured; a `proxy-url` of the kubeconfig always is."""
    user_agent: str = f"ctl/{VERSION}"

    def backoffs(self) -> Iterable[float]:
        """The pauses of one request, as an iterable."""
        return (self.error_backoffs,) if isinstance(self.error_backoffs, (int, float)) else self.error_backoffs

    def bucket_size(self) -> int:
        """The burst in effect: 0 when there is no rate limit."""
        if self.qps is None:
            return 0
        return max(1, self.burst if self.burst is not None else math.ceil(self.qps * 2))
