"""Decide which posts are said anew and which are only counted, as client-go's recorder does: time is an argument.

Posts that say the same are one line with a count. Of posts about one object that differ in their messages only, the first few
have lines of their own, and all others within the window share one, which shows the latest message.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from .event import Post

SIMILAR_WINDOW = timedelta(minutes=10)
"""How long posts must not come for their similarity to be forgotten (client-go: 600 s)."""
COMBINED = "(combined from similar events): "
"""Begins the message of a line that stands for several messages (client-go's words)."""
REMEMBERED = 4096
"""How many lines, and how many similarities, are remembered (client-go's)."""


@dataclass(frozen=True, slots=True)
class Spam:
    """How much may be written about one object: `burst` writes at once, and one more for each `refill` seconds (client-go: 25 and 300)."""

    burst: int
    refill: float


@dataclass(frozen=True, slots=True)
class Way:
    """How one sort of posts is treated.

    `backoffs`: the pauses between the attempts to post, in seconds; a number is one pause. `similar`: so many different
    messages have lines of their own before the others are combined. `spam`: how much is written about one object; None: no limit.
    What is over the limit is counted and told later; of lines that were never told more than `burst` do not wait: further ones are dropped.
    """

    backoffs: float | Iterable[float]
    similar: int
    spam: Spam | None = None

    def pause(self, failures: int) -> float | None:
        """The pause after so many failures in a row (1 at least), in seconds; None: give up."""
        pauses = (self.backoffs,) if isinstance(self.backoffs, (int, float)) else self.backoffs
        return next((float(pause) for number, pause in enumerate(pauses, 1) if number == failures), None)


@dataclass(slots=True, eq=False)
class Line:
    """One thing that is said about one object, and how often it was.

    `count` is how often it was posted, `told` how many of these the server knows, in the Event object of `name` and `namespace`;
    None: there is none to count in. `since` is when the first of the others was posted, `first` and `last` the first and the
    last of all. `writes`, `failures` (in a row) and `again` (a loop time) belong to whoever writes.
    """

    key: tuple[str | None, ...]
    post: Post
    way: Way
    first: datetime
    last: datetime
    since: datetime
    count: int = 0
    told: int = 0
    name: str | None = None
    namespace: str | None = None
    writes: int = 0
    failures: int = 0
    again: float = 0.0

    @property
    def is_told(self) -> bool:
        """Whether the server knows all."""
        return self.told >= self.count


@dataclass(slots=True)
class _Similar:
    last: datetime
    messages: set[str] = field(default_factory=set)


class Allowances:
    """How much may still be written about each object; time is an argument, in seconds of any clock that only goes forward."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        # What there was at a moment, by object.
        self._left: OrderedDict[tuple[str | None, ...], tuple[float, float]] = OrderedDict()

    def spend(self, key: tuple[str | None, ...], spam: Spam, now: float) -> float:
        """Take leave for one write: 0 when it may be made now, or the seconds until it may be asked for again."""
        left, since = self._left.pop(key, (float(spam.burst), now))
        left = min(float(spam.burst), left + (now - since) / spam.refill)
        # What was added up from fractions may be a hair less than one.
        wait = 0.0 if left > 1 - 1e-6 else (1 - left) * spam.refill
        self._left[key] = (left if wait else left - 1, now)
        if len(self._left) > self._remembered:
            self._left.popitem(last=False)
        return wait


class Repeats:
    """The lines of all objects. Those that the server knows are forgotten one day, the least recently used first."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._lines: OrderedDict[tuple[str | None, ...], Line] = OrderedDict()
        self._similar: OrderedDict[tuple[str | None, ...], _Similar] = OrderedDict()
        # By object, in the order of their first posts that the server does not know.
        self._untold: dict[tuple[str | None, ...], dict[Line, None]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[tuple[str | None, ...]]:
        """The keys of the objects about which something is to be told."""
        return iter(tuple(self._untold))

    def refuses(self, post: Post, way: Way) -> bool:
        """Whether a post is spam, to be dropped: nothing like it is known, and too much about its object waits already."""
        if way.spam is None or len(self._untold.get(post.object_key, ())) < way.spam.burst:
            return False
        return post.repeat_key not in self._lines and ("combined", *post.similar_key) not in self._lines

    def take(self, post: Post, way: Way, now: datetime) -> Line:
        """Count a post; gives its line."""
        key = post.repeat_key
        if self._is_combined(post, way, now):
            key = ("combined", *post.similar_key)
            post = replace(post, message=COMBINED + post.message)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(key, post, way, first=now, last=now, since=now)
        elif line.is_told:
            line.since = now
        line.post, line.last = post, now
        line.count += 1
        self._lines.move_to_end(key)
        self._untold.setdefault(post.object_key, {})[line] = None
        self._forget()
        return line

    def untold(self, object_key: tuple[str | None, ...]) -> list[Line]:
        """What is to be told about an object, in order."""
        return list(self._untold.get(object_key, ()))

    def told(self, line: Line, count: int) -> None:
        """So many of a line's posts are known to the server now."""
        line.told = count
        if line.is_told:
            self._settle(line)

    def drop(self, line: Line) -> None:
        """Forget a line: what comes after it is said anew."""
        self._settle(line)
        if self._lines.get(line.key) is line:
            del self._lines[line.key]

    def _settle(self, line: Line) -> None:
        lines = self._untold.get(line.post.object_key, {})
        lines.pop(line, None)
        if not lines:
            self._untold.pop(line.post.object_key, None)

    def _is_combined(self, post: Post, way: Way, now: datetime) -> bool:
        similar = self._similar.get(post.similar_key)
        if similar is None or now - similar.last > SIMILAR_WINDOW:
            similar = self._similar[post.similar_key] = _Similar(now)
        similar.last = now
        self._similar.move_to_end(post.similar_key)
        if post.message in similar.messages:
            return False
        if len(similar.messages) + 1 >= way.similar:
            return True
        similar.messages.add(post.message)
        return False

    def _forget(self) -> None:
        while len(self._similar) > self._remembered:
            self._similar.popitem(last=False)
        # At most as many looks as there are lines over the limit, so that a post costs the same whatever waits.
        for _ in range(len(self._lines) - self._remembered):
            key, line = self._lines.popitem(last=False)
            if not line.is_told:
                self._lines[key] = line
