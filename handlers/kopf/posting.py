"""Handlers post Kubernetes Events about objects.

`event`, `info`, `warn` and `exception` return at once: Events are written in the background, in order for each object, and
equal ones are counted in one Event (see `recorder`). They work in the handlers of objects, in callbacks of filters, in the
threads of sync handlers, and in tasks that these start. Elsewhere (startup, cleanup, login and probe handlers, threads and
tasks of the program's own) they raise LookupError.
"""

import logging
import sys
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any, TypeAlias

from ...client.rest import Client
from ...controller.api.access_review import Rights
from ...controller.events.correlator import CorrelatorOptions
from ...controller.events.event import Event, EventSource
from ...controller.events.recorder import Recorder
from ..causes.causes import ActivityCause, current_cause
from ..settings import OperatorSettings
from .object_adapters import each

_LEVELS = (
    (logging.CRITICAL, "Fatal"),
    (logging.ERROR, "Error"),
    (logging.WARNING, "Warning"),
    (logging.INFO, "Normal"),
)


def posts_about(objs: Any, *, type: str, reason: str, message: str) -> Iterator[Event]:
    """The Events about one object, or about all in nested iterables; there are none about Events.

    Objects are those of `object_adapters`; TypeError for other values.
    """
    for manifest in each(objs, writable=False):
        post = Event(manifest.reference(), type, reason, message)
        if not post.is_about_event:
            yield post


def type_of_level(level: int) -> str:
    """The type of an Event for a log message: Debug, Normal, Warning, Error or Fatal."""
    return next((word for limit, word in _LEVELS if level >= limit), "Debug")


SIMILAR = 10
"""From so many different messages with one reason about one object within 10 minutes on, they are combined (client-go's number)."""
SIMILAR_LOGS = 100
"""The same for log messages, which all have one reason."""


Backoffs: TypeAlias = float | Iterable[float] | None
"""The pauses between the attempts to post, in seconds; None: `settings.posting.default_backoffs`."""


class Posting:
    """The way from handlers to the recorder of the operator they belong to; a component, for all that is started after it."""

    name = "posting"

    def __init__(self, client: Client, settings: OperatorSettings, rights: Rights) -> None:
        how = settings.posting
        reporter = EventSource(how.reporting_component, how.reporting_instance, how.event_name_prefix)
        self.settings = settings
        self._recorder = Recorder(client, reporter, rights, concurrency=how.worker_limit)
        self._poster = _Poster(self._recorder, settings)

    async def start(self) -> None:
        """Post from now on, in this context."""
        await self._recorder.start()
        _posting.set(self)
        # Only when asked for: with any handler there, Python's last resort for programs without logging falls silent.
        if self.settings.posting.loggers:
            _objects.addHandler(self._poster)

    async def stop(self, grace: float) -> None:
        """Write what waits, within `grace` seconds."""
        _objects.removeHandler(self._poster)
        await self._recorder.stop(grace)

    def say(self, objs: Any, type: str, reason: str, message: str, backoffs: Backoffs) -> None:
        """Post about all of the objects, if posting is enabled."""
        settings = self.settings.posting
        if settings.enabled:
            way = CorrelatorOptions(settings.default_backoffs if backoffs is None else backoffs, SIMILAR)
            for post in posts_about(objs, type=type, reason=reason, message=message):
                self._recorder.add(post, way)


_posting: ContextVar[Posting] = ContextVar("posting")


def event(objs: Any, *, type: str, reason: str, message: str = "", backoffs: Backoffs = None) -> None:
    """Post an Event of any type about an object, or about all in nested iterables.

    Objects are bodies, dicts, pykube objects, or models of the kubernetes clients; TypeError for others. `backoffs` are the pauses
    between the attempts, in seconds, in place of `settings.posting.default_backoffs`: one, or an iterable that can be iterated again.
    LookupError outside the handlers of objects.
    """
    _here().say(objs, type, reason, message, backoffs)


def info(objs: Any, *, reason: str, message: str = "", backoffs: Backoffs = None) -> None:
    """Post an Event of type Normal, unless `settings.posting.level` is higher than INFO; see `event`."""
    _say_at(logging.INFO, objs, "Normal", reason, message, backoffs)


def warn(objs: Any, *, reason: str, message: str = "", backoffs: Backoffs = None) -> None:
    """Post an Event of type Warning, unless `settings.posting.level` is higher than WARNING; see `event`."""
    _say_at(logging.WARNING, objs, "Warning", reason, message, backoffs)


def exception(
    objs: Any, *, reason: str = "", message: str = "", exc: BaseException | None = None, backoffs: Backoffs = None
) -> None:
    """Post an Event of type Error about an exception, by default the current one; see `event`.

    The reason is the exception's class unless given; the exception's text follows the message. Nothing is posted when
    `settings.posting.level` is higher than ERROR.
    """
    found = exc if exc is not None else sys.exc_info()[1]
    if found is not None:
        reason, message = reason or type(found).__name__, f"{message} {found}" if message else str(found)
    _say_at(logging.ERROR, objs, "Error", reason, str(message), backoffs)


_objects = logging.getLogger("kopf.objects")


class _Poster(logging.Handler):
    """Posts what the handlers of one operator log about their objects."""

    def __init__(self, recorder: Recorder, settings: OperatorSettings) -> None:
        super().__init__()
        self._recorder = recorder
        self._settings = settings

    def emit(self, record: logging.LogRecord) -> None:
        settings = self._settings.posting
        known = vars(record)
        if known.get("settings") is not self._settings or known.get("k8s_skip") or not known.get("k8s_ref"):
            return
        if not (settings.enabled and settings.loggers and record.levelno >= settings.level):
            return
        try:
            reference = {key: value for key, value in known["k8s_ref"].items() if value}
            post = Event(reference, type_of_level(record.levelno), "Logging", self.format(record))
            if not post.is_about_event:
                self._recorder.add(post, CorrelatorOptions(settings.logging_backoffs, SIMILAR_LOGS))
        except Exception:  # as all logging handlers do: a message that cannot be formatted is reported on stderr
            self.handleError(record)


def _say_at(level: int, objs: Any, type: str, reason: str, message: str, backoffs: Backoffs) -> None:
    found = _here()
    if found.settings.posting.level <= level:
        found.say(objs, type, reason, message, backoffs)


def _here() -> Posting:
    found = _posting.get(None)
    if found is None or isinstance(current_cause.get(None), ActivityCause):
        raise LookupError(
            "Events can be posted while handlers of objects run, from them and from what they start; this is called from "
            "elsewhere (a startup, cleanup, login or probe handler, or a thread or task of the program's own)."
        )
    return found
