"""The state machine that decides a reflector's next action. Pure: no sockets, no clocks.

The rules are those of client-go's reflector with two exceptions: lists are consistent by default, and a silent watch is a failure. The
flow:

    list (streamed, or in pages) --> watch from its version --> watch again from the last version seen --> ...
       ^                                 |
       +--- the version is too old, or from a future that never was (410, 504 ResourceVersionTooLarge)

What ends an action, and what follows (after a streamed list that failed always pages):

    ended by                  while listing                            while watching
    410, version too large    between pages: list anew, the second     list anew; after a pause if the version was
                              time in one piece; else back-off         listed just now
    400, 422                  streamed: only pages from now on;        list anew, after a back-off
                              else back-off
    404, 403, 405             parked: as a back-off, but `retry_now`   parked
                              is expected to end it
    a broken connection       back-off; not in the middle of a         watch again; the third time at one version list
                              streamed list                            anew; back-off if nothing came
    silence                   pages; the second time for good          watch again; the second time without any event
                                                                       ask for the server's version
    the server, in order      pages                                    watch again; back-off if nothing came at once
    another error             back-off                                 back-off

Back-offs grow, have jitter, and never end. They begin small after an expired version: a server that drops its history for some seconds
is caught up with soon after.

The driver takes an action from `next`, carries it out, and reports the result. Times are in seconds of a monotonic clock; `random`
is in [0, 1).
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from ..client.errors import (
    AnswerTooLarge,
    APIError,
    BadRequest,
    Forbidden,
    Gone,
    Invalid,
    MethodNotAllowed,
    NotFound,
    StreamBroken,
)
from ..client.objects import version_order
from ..runtime.backoff import Backoff, Delays
from .settings import InformerSettings

POISONED = 3
"""After how many breaks in a row at one version the state is listed."""
PATIENCE = 10
"""The longest wait, as a multiple of the server's Retry-After."""
UNENDED = 2
"""After how many silent streamed lists in a row the server is listed in pages for good."""
FLEETING = 0.1
"""The pause after the second watch in a row that brings an event and ends at once; it doubles with each further one."""
EXPIRY = Backoff(initial=0.1, factor=1.25, cap=30.0, jitter=0.25)
"""The pauses before a list when the last one has expired at once. With this factor a pause is about a quarter of the time since the
first failure. (client-go has one sequence for everything: from 0.8 s, doubling.)"""
MARGIN = 5.0
"""Seconds that are added to the longest interval of bookmarks: they are jittered, and networks are late."""
LENIENCE = 1.25
REMEMBERED_GAPS = 4
SILENT = 2
"""After how many watches in a row without any event the server is asked for its version."""


class Phase(Enum):
    """The phase of a reflector, as people see it."""

    STARTING = "starting"
    LISTING = "listing"
    STREAMING = "streaming a list"
    WATCHING = "watching"
    EXPIRED = "expired"
    """The server has dropped the history after our version; a list is next."""
    BACKING_OFF = "backing off"
    """An action failed and is retried after a delay. This phase lasts until an action succeeds."""
    PARKED = "parked"
    """The server has no such resource, or denies access. Retried as when backing off."""
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for so many seconds, or until `retry_now`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class FetchPage:
    """Fetch one page of a list; without `continue_token` the first one of a new list."""

    resource_version: str | None
    resource_version_match: str | None
    limit: int | None
    continue_token: str | None = None
    consistent: bool = True


@dataclass(frozen=True, slots=True)
class StreamList:
    """Open a watch that begins with a list, and use it as the live watch after that."""

    timeout: int


@dataclass(frozen=True, slots=True)
class OpenWatch:
    """Open a watch from a version."""

    resource_version: str
    timeout: int


@dataclass(frozen=True, slots=True)
class FetchVersion:
    """Fetch a page of one object, for the server's present version."""


Action: TypeAlias = Wait | FetchPage | StreamList | OpenWatch | FetchVersion
PARKING = (NotFound, Forbidden, MethodNotAllowed)


class Cadence:
    """The interval of one server's bookmarks for one resource, over any number of watches: it bounds how long a watch may be silent.

    API servers send a bookmark about every 60 s to each watch that asks for them, also when nothing happens.
    """

    __slots__ = ("_gaps", "_last", "_speaks", "_will_speak", "cap")

    def __init__(self, cap: float = 90.0) -> None:
        self.cap = cap
        self._last: float | None = None
        self._gaps: list[float] = []
        # Whether a watch that has brought nothing is a broken one here; and whether the one after the next watch is.
        self._speaks = False
        self._will_speak = False

    @property
    def is_known(self) -> bool:
        """Whether two bookmarks of one watch came."""
        return bool(self._gaps)

    @property
    def limit(self) -> float:
        """After how many seconds a silent watch is stalled: the cap until an interval is known, and never more."""
        if not self._gaps:
            return self.cap
        return min(self.cap, max(self._gaps) * LENIENCE + MARGIN)

    @property
    def speaks(self) -> bool:
        """Whether this server has sent bookmarks."""
        return self._will_speak

    def stalled(self) -> None:
        """A watch was silent for longer than the limit. The bookmarks before may have been a burst, so the next limit is longer."""
        self._gaps = [min(2 * gap + MARGIN, self.cap) for gap in self._gaps]

    def opened(self) -> bool:
        """A watch began. Tells whether that is a sign of life.

        It is none once bookmarks have come: proxies may accept a watch and then deliver nothing. After a streamed list the first
        watch still is one: API servers may send that stream no further bookmark until something has changed.
        """
        # The intervals of two watches have no relation.
        self._last = None
        is_life = not self._speaks
        self._speaks = self._will_speak
        return is_life

    def streamed(self) -> None:
        """The bookmark that ends a streamed list came."""
        self._will_speak = True

    def bookmark(self, now: float) -> None:
        """A bookmark came."""
        self._speaks = self._will_speak = True
        if self._last is not None:
            self._gaps = [*self._gaps[-(REMEMBERED_GAPS - 1) :], now - self._last]
        self._last = now


class ReflectorState:
    """The state machine of one reflector.

    Invariants: `version` is None while a list is needed; `_continue` is set only between two pages of one list; `_delay` is set only
    after a failure, or for a pause between watches, until `next` has returned it.
    """

    def __init__(self, settings: InformerSettings, now: float) -> None:
        self._settings = settings
        self.phase = Phase.STARTING
        self.since = now
        """When the phase began."""
        self.error: Exception | None = None
        """The present error; None while there is none."""
        self.version: str | None = None
        """The version to watch from."""
        self.cadence = Cadence(settings.silence_limit)
        self._delays = settings.backoff.start()
        self._expiries = EXPIRY.start()
        self._delay: float | None = None
        self._streams = settings.stream_lists
        self._pages_next = False
        self._unended = 0
        self._continue: str | None = None
        self._limit: int | None = settings.page_size
        self._restarted = False
        self._seen: str | None = None
        self._consistent = settings.consistent
        self._opened_at: float | None = None
        self._heard = False
        self._from: str | None = None
        self._doubted_at: float | None = None
        self._synced_at: float | None = None
        self._broken = 0
        # The pause after this watch, if it ends at once after an event, as those before it did.
        self._fleeting = 0.0
        self._silent = 0
        self._probing = False

    def next(self, random: float) -> Action:
        """Return the next action."""
        if self._delay is not None:
            delay, self._delay = self._delay, None
            return Wait(delay)
        if self._probing:
            return FetchVersion()
        low, high = self._settings.watch_timeouts
        timeout = int(low + (high - low) * random)
        if self.version is not None:
            return OpenWatch(self.version, timeout)
        if self._is_streaming:
            return StreamList(timeout)
        if self._continue is not None:
            return FetchPage(None, None, self._limit, self._continue, self._consistent)
        if self._consistent:
            return FetchPage(None, None, self._limit)
        if self._seen is None:
            return FetchPage("0", None, self._limit, consistent=False)
        return FetchPage(self._seen, "NotOlderThan", self._limit, consistent=False)

    def begun(self, now: float, action: Action) -> None:
        """An action begins. The phase shows it, except that back-off and parked last until an action succeeds."""
        self._opened_at = None
        self._heard = False
        self._from = self.version
        if self.phase in {Phase.BACKING_OFF, Phase.PARKED}:
            return
        if isinstance(action, FetchPage):
            self._enter(Phase.LISTING, now)
        elif isinstance(action, StreamList):
            self._enter(Phase.STREAMING, now)

    # Lists.

    def paged(self, now: float, version: str, continue_token: str | None) -> bool:
        """A page came. Tells whether it was the last one."""
        if continue_token is not None:
            self._recovered(Phase.LISTING, now)
            self._continue = continue_token
            return False
        self._synced(now, version)
        self._recovered(Phase.LISTING, now)
        return True

    def streamed(self, now: float, version: str) -> None:
        """The bookmark that ends a streamed list came; the stream goes on as a watch."""
        self._unended = 0
        self.cadence.streamed()
        self._synced(now, version)
        self._recovered(Phase.WATCHING, now)

    def _synced(self, now: float, version: str) -> None:
        self.version = self._seen = version
        self._continue = None
        self._restarted = False
        self._limit = self._settings.page_size
        self._consistent = self._settings.consistent
        self._pages_next = False
        self._synced_at = now
        self._silent = 0

    def probed(self, version: str) -> None:
        """The server's version came. If it is before ours, the server went back in time: list anew."""
        self._probing = False
        self._silent = 0
        ours, theirs = version_order(self.version or ""), version_order(version)
        if ours is not None and theirs is not None and theirs < ours:
            self._expire()

    # Watches.

    def opened(self, now: float) -> bool:
        """The server accepted a watch. Tells whether that is a sign of life: after a failure it is; else see `Cadence.opened`."""
        self._opened_at = now
        is_life = self.cadence.opened() or self.phase in {Phase.BACKING_OFF, Phase.PARKED}
        if self.phase is Phase.BACKING_OFF:
            # After an outage the server may have been restored from a backup: ask for its version after the first silent watch.
            self._silent = max(self._silent, SILENT - 1)
        if self.version is not None:
            self._recovered(Phase.WATCHING, now)
        elif self.phase in {Phase.BACKING_OFF, Phase.PARKED}:
            self._recovered(Phase.STREAMING, now)
        return is_life

    def progressed(self, version: str) -> None:
        """Events or a bookmark came; the copy now has this version."""
        self._heard = True
        self._silent = 0
        if version != self.version:
            self._broken = 0
        if self.version is not None:
            self.version = self._seen = version

    def doubted(self, now: float) -> bool:
        """Events came that are older than the watch's version: the server may have gone back in time. Tells whether to ask for its version.

        Not when that was done lately: some servers repeat events again and again.
        """
        if self.version is None or (self._doubted_at is not None and now - self._doubted_at < self.cadence.cap):
            return False
        self._doubted_at = now
        self._probing = True
        return True

    def ended(self, now: float, random: float) -> None:
        """A watch ended: the next one begins at its last version."""
        if self.version is None:
            self._pages_next = True
        if self._is_fruitless(now):
            self._back_off(now, random, StreamBroken("The watch ended at once, without any event."))
        else:
            self._breathe(now, self._settings.stream_pause)

    def stalled(self) -> None:
        """A watch was silent for too long: the next one begins at its last version; a silent streamed list is replaced by pages."""
        if self.version is None:
            self._pages_next = True
            self._unended += 1
            self._streams = self._streams and self._unended < UNENDED
            return
        self.cadence.stalled()
        self._silent = 0 if self._heard else self._silent + 1
        if self._silent >= SILENT:
            # A watch from a version that the server has not reached is accepted and stays silent.
            self._probing = self.cadence.speaks

    # Failures.

    def failed(self, now: float, random: float, error: Exception) -> None:
        """An action, or an open watch, ended with an error."""
        if self._probing:
            self._probing = False
            self._back_off(now, random, error)
        elif isinstance(error, Gone) or _is_too_large(error):
            self._expired(now, random, error)
        elif self.version is None:
            self._list_failed(now, random, error)
        else:
            self._watch_failed(now, random, error)

    def _expired(self, now: float, random: float, error: Exception) -> None:
        if self._continue is not None:
            # Between two pages: list anew, and the second time in one piece (as client-go does).
            self._continue = None
            self._consistent = True
            self._limit = None if self._restarted else self._limit
            self._restarted = True
            return
        if self.version is None:
            self._pages_next = self._is_streaming
            hopeless = self._consistent
        else:
            hopeless = self._synced_at is not None and now - self._synced_at < self._settings.short_watch
        self._expire()
        if hopeless:
            self._back_off(now, random, error, self._expiries if isinstance(error, Gone) else None)
        else:
            self._expiries.reset()
            self._recovered(Phase.EXPIRED, now)

    def _expire(self) -> None:
        self.version = None
        self._continue = None
        self._consistent = True
        self._silent = 0

    def _list_failed(self, now: float, random: float, error: Exception) -> None:
        self._continue = None
        if not self._is_streaming:
            self._back_off(now, random, error)
            self._pages_next = False
            return
        self._pages_next = True
        if isinstance(error, (BadRequest, Invalid)):
            # Servers without streamed lists refuse the parameter.
            self._streams = False
        elif isinstance(error, APIError) or not self._heard:
            # A list that broke in the middle may be too long for a stream; try pages at once.
            self._back_off(now, random, error)

    def _watch_failed(self, now: float, random: float, error: Exception) -> None:
        if isinstance(error, StreamBroken):
            self._broken += 1
            if self._broken >= POISONED:
                self._broken = 0
                self._expire()
            elif not isinstance(error, AnswerTooLarge) and not self._is_fruitless(now):
                self._breathe(now)
                return
        elif isinstance(error, (BadRequest, Invalid)):
            # The version is not this server's: another server has taken its place.
            self._expire()
        elif not isinstance(error, APIError) and not self._is_fruitless(now) and self.phase is Phase.WATCHING:
            self._breathe(now)
            return
        self._back_off(now, random, error)

    @property
    def _is_streaming(self) -> bool:
        """Whether the next list, or the present one, is a streamed one."""
        return self._streams and not self._pages_next

    def _is_fruitless(self, now: float) -> bool:
        # Repetitions do not count.
        if self._heard and (self.version is None or self.version != self._from):
            return False
        return self._opened_at is None or now - self._opened_at < self._settings.short_watch

    def _breathe(self, now: float, pause: float = 0.0) -> None:
        """Pause before the next watch: a server that ends each watch after an event must not be asked thousands of times a second."""
        short = self._settings.short_watch
        if self._opened_at is None or now - self._opened_at >= short:
            self._fleeting = 0.0
        else:
            pause = max(pause, self._fleeting)
            self._fleeting = min(max(2 * self._fleeting, FLEETING), short)
        if pause > 0:
            self._delay = pause

    def _back_off(self, now: float, random: float, error: Exception, delays: Delays | None = None) -> None:
        delay = (delays or self._delays).next(now, random)
        # Retry-After is limited to the longest silence of a watch.
        asked = min(error.retry_after or 0.0, self.cadence.cap) if isinstance(error, APIError) else 0.0
        # Retry-After bounds the back-off.
        self._delay = max(min(delay, PATIENCE * asked), asked) if asked else delay
        self.error = error
        self._enter(Phase.PARKED if isinstance(error, PARKING) else Phase.BACKING_OFF, now)

    def _recovered(self, phase: Phase, now: float) -> None:
        self.error = None
        self._enter(phase, now)

    def retry_now(self) -> None:
        """Retry at once, and begin the back-off anew: the cause of the failure may be gone."""
        self._delays.reset()
        self._expiries.reset()
        if self._delay is not None:
            self._delay = 0.0

    def relist(self) -> None:
        """Make a consistent list the next action."""
        if self.version is not None:
            self._expire()

    def stop(self, now: float) -> None:
        """The reflector was stopped."""
        self._enter(Phase.STOPPED, now)

    def _enter(self, phase: Phase, now: float) -> None:
        if phase is not self.phase:
            self.phase = phase
            self.since = now


def _is_too_large(error: Exception) -> bool:
    """Whether the server has not reached the requested version (it may have been restored from a backup)."""
    if not isinstance(error, APIError) or error.code not in {500, 504}:
        return False
    causes = error.details.get("causes")
    return isinstance(causes, list) and any(
        isinstance(cause, dict) and cause.get("reason") == "ResourceVersionTooLarge" for cause in causes
    )
