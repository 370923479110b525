"""Faults are broken answers and streams on demand; the request log is what tests assert on."""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from .reading import switched_on
from .status import Refused

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True)
class LoggedRequest:
    """One request as the server saw it. `code` is 0 while unanswered and when the connection was cut."""

    method: str
    path: str
    query: Mapping[str, str]
    user_agent: str
    content_type: str
    body: bytes
    code: int = 0

    @property
    def watching(self) -> bool:
        """Whether it asked for a watch."""
        return self.method == "GET" and switched_on(self.query, "watch")

    def json(self) -> Any:
        """The decoded body; None when there was none."""
        return msgspec.json.decode(self.body) if self.body else None


@dataclass(frozen=True)
class Match:
    """Which requests a fault is for: all given conditions must hold. `path` is a regular expression."""

    method: str | None = None
    path: str | None = None
    watching: bool | None = None
    user_agent: str | None = None
    when: Callable[[LoggedRequest], bool] | None = None

    def __call__(self, request: LoggedRequest) -> bool:
        """Whether the request meets all conditions."""
        if self.method is not None and request.method != self.method:
            return False
        if self.path is not None and not re.search(self.path, request.path):
            return False
        if self.watching is not None and request.watching != self.watching:
            return False
        if self.user_agent is not None and self.user_agent not in request.user_agent:
            return False
        return self.when is None or self.when(request)


ANY = Match()


@dataclass
class Rule:
    """One fault in force: what happens to the matching requests, and how many more (None: all).

    In order: `delay` seconds pass; then the connection is cut if `refuse`; then `answer` is given instead of
    the real one; `lose` applies the request and cuts the connection before the answer. `hits` counts.
    """

    match: Match
    times: int | None
    delay: float = 0.0
    refuse: bool = False
    lose: bool = False
    answer: Refused | None = None
    hits: int = 0


class Stream(Protocol):
    """An open watch as the faults see it."""

    request: LoggedRequest

    def end(self) -> None:
        """End it as a time-out would."""

    def cut(self) -> None:
        """Close the connection in the middle."""

    def reset(self) -> None:
        """Close the connection with a TCP reset."""

    def stall(self, stalled: bool) -> None:
        """Stay open and silent, or go on."""

    def fail(self, refused: Refused) -> None:
        """Send an ERROR event and end."""


@dataclass
class Faults:
    """The faults in force and the open streams they may act on. Nothing is broken until asked for."""

    rules: list[Rule] = field(default_factory=list)
    streams: set[Stream] = field(default_factory=set)

    def answer(
        self,
        code: int,
        reason: str = "",
        message: str = "",
        *,
        match: Match = ANY,
        times: int | None = 1,
        retry_after: int | None = None,
    ) -> Rule:
        """Answer matching requests with an error instead of serving them."""
        details = None if retry_after is None else {"retryAfterSeconds": retry_after}
        text = message or f"the sandbox was told to answer {code}"
        return self._add(Rule(match, times, answer=Refused(code, reason, text, details)))

    def delay(self, seconds: float, *, match: Match = ANY, times: int | None = None) -> Rule:
        """Let matching requests wait before they are served."""
        return self._add(Rule(match, times, delay=seconds))

    def lose_answer(self, *, match: Match = ANY, times: int | None = 1) -> Rule:
        """Apply matching requests, then close the connection without an answer."""
        return self._add(Rule(match, times, lose=True))

    def refuse(self, *, match: Match = ANY, times: int | None = 1) -> Rule:
        """Close the connection of matching requests without applying them."""
        return self._add(Rule(match, times, refuse=True))

    def clear(self) -> None:
        """Serve all requests again and let stalled streams go on."""
        self.rules.clear()
        self.resume_watches()

    def end_watches(self, match: Match = ANY) -> int:
        """End matching streams as a time-out would; returns how many, as the methods below do."""
        return self._each(match, lambda stream: stream.end())

    def cut_watches(self, match: Match = ANY) -> int:
        """Close the connections of matching streams in the middle."""
        return self._each(match, lambda stream: stream.cut())

    def reset_watches(self, match: Match = ANY) -> int:
        """Close the connections of matching streams with a TCP reset."""
        return self._each(match, lambda stream: stream.reset())

    def stall_watches(self, match: Match = ANY) -> int:
        """Keep matching streams open and silent: no events, no bookmarks."""
        return self._each(match, lambda stream: stream.stall(True))

    def resume_watches(self, match: Match = ANY) -> int:
        """Let stalled streams go on with all that they missed."""
        return self._each(match, lambda stream: stream.stall(False))

    def fail_watches(
        self, match: Match = ANY, code: int = 410, reason: str = "Expired", message: str = "too old resource version"
    ) -> int:
        """Send an ERROR event to matching streams and end them."""
        return self._each(match, lambda stream: stream.fail(Refused(code, reason, message)))

    def take(self, request: LoggedRequest) -> Iterator[Rule]:
        """The rules that apply to a request; each one's count goes down as it is taken."""
        for rule in list(self.rules):
            if rule.match(request):
                rule.hits += 1
                if rule.times is not None:
                    rule.times -= 1
                    if rule.times <= 0:
                        self.rules.remove(rule)
                yield rule

    def _add(self, rule: Rule) -> Rule:
        self.rules.append(rule)
        return rule

    def _each(self, match: Match, act: Callable[[Stream], None]) -> int:
        found = [stream for stream in self.streams if match(stream.request)]
        for stream in found:
            act(stream)
        return len(found)


class RequestLog:
    """The most recent requests in the order in which they were answered (watches: opened). It may be read from any thread."""

    def __init__(self, limit: int) -> None:
        self._entries: deque[LoggedRequest] = deque(maxlen=limit)

    def __iter__(self) -> Iterator[LoggedRequest]:
        # All at once: the server goes on to write, perhaps in another thread.
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, request: LoggedRequest) -> None:
        """Remember a request; the oldest is forgotten when the log is full."""
        self._entries.append(request)

    def clear(self) -> None:
        """Forget all requests."""
        self._entries.clear()

    def writes(self) -> list[LoggedRequest]:
        """The requests that may have changed something, refused ones too."""
        return [request for request in self if request.method in WRITES]

    def select(self, match: Match) -> list[LoggedRequest]:
        """The requests that meet a match."""
        return [request for request in self if match(request)]
