"""Causes say why handlers are called, and hold the arguments of those handlers.

A cause is not changed once it is made (it is not frozen for speed: one is made for each event); its patch and its memo may
be. Its `kwargs` are the arguments of filters; handlers also get those of the attempt (`param`, `retry`, `started`,
`runtime`, `stopped`).
"""

import enum
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Self, TypeAlias

import msgspec

from ...client.resources import Resource
from .diffs import EMPTY, Diff, reduce
from .fields import FieldPath, resolve
from .patch import Patch
from .views import Body, RawEvent

Logger: TypeAlias = logging.Logger | logging.LoggerAdapter[Any]

LARGE = 2**17
"""From so many bytes of JSON on an object is large; its decoded copies may take a hundred times as much."""


class Reason(enum.StrEnum):
    """What happened to an object. The first four are handled; the others are only logged."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    RESUME = "resume"
    NOOP = "noop"
    """Nothing of interest changed."""
    FREE = "free"
    """It is being deleted, and does not wait for us."""
    GONE = "gone"
    """It does not exist any more."""


class Activity(enum.StrEnum):
    """What the operator itself is doing."""

    STARTUP = "startup"
    CLEANUP = "cleanup"
    AUTHENTICATION = "authentication"
    PROBE = "probe"
    LEADING = "leading"
    """It begins to act: as the leader, or because there is no election."""
    STANDBY = "standby"
    """Another replica is the leader."""


class Cause(msgspec.Struct, kw_only=True, eq=False):
    """What all causes have. Causes are compared by identity."""

    logger: Logger
    memo: Any
    indices: Mapping[str, Any] = msgspec.field(default_factory=dict)
    _kwargs: dict[str, Any] | None = None

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """The keyword arguments by name, made once; not to be changed. Indices win over arguments of the same name."""
        given = self._kwargs
        if given is None:
            given = self._kwargs = self._given()
            if self.indices:
                given.update(self.indices)
        return given

    def but(self, **changes: Any) -> Self:
        """The same cause with other values in some of its fields."""
        return msgspec.structs.replace(self, _kwargs=None, **changes)

    def let_go(self) -> None:
        """Forget the state of the object when the attempt has ended; its identity is kept.

        A cause lives as long as the contexts that hold it. They are copied for each timer of the loop, cancelled ones included,
        and for each task that a handler leaves behind.
        """
        self._kwargs = None

    def _given(self) -> dict[str, Any]:
        return {"memo": self.memo, "logger": self.logger}


current_cause: ContextVar[Cause] = ContextVar("current_cause")
"""The cause whose handler or filter runs in this context; threads get it with their copy of the context."""


class ActivityCause(Cause, kw_only=True, eq=False):
    """The operator starts, ends, logs in, or is probed."""

    activity: Activity
    settings: Any

    def _given(self) -> dict[str, Any]:
        return {"memo": self.memo, "logger": self.logger, "activity": self.activity, "settings": self.settings}


class ResourceCause(Cause, kw_only=True, eq=False):
    """A cause that concerns one object."""

    resource: Resource
    patch: Patch
    body: Body
    size: int = 0
    """The length of the object's JSON, in bytes."""

    def let_go(self) -> None:
        """Forget all but the metadata of a large object. For a small one this would cost more than it frees."""
        if self.size >= LARGE:
            self._let_go()

    def _let_go(self) -> None:
        self._kwargs = None
        self.body = self.body.stub()
        self.patch.let_go(self.body)
        release = getattr(self.logger, "let_go", None)  # a logger of ours; tests and users may give others
        if release is not None:
            release(self.body)

    def _given(self) -> dict[str, Any]:
        body = self.body
        meta, labels, annotations, spec, status = body._stanzas()
        metadata = body._identity()
        return {
            "resource": self.resource,
            "patch": self.patch,
            "body": body,
            "spec": spec,
            "meta": meta,
            "status": status,
            "uid": metadata.get("uid"),
            "name": metadata.get("name"),
            "namespace": metadata.get("namespace"),
            "labels": labels,
            "annotations": annotations,
            "memo": self.memo,
            "logger": self.logger,
        }


class IndexingCause(ResourceCause, kw_only=True, eq=False):
    """The index functions of an object are called. The patch is ignored."""


class WatchingCause(ResourceCause, kw_only=True, eq=False):
    """A watch event came, or the object was listed (then its type is None)."""

    event: RawEvent | Mapping[str, Any]
    type: str | None = None

    def _let_go(self) -> None:
        super()._let_go()
        self.event = {"type": self.type, "object": dict(self.body)}

    def _given(self) -> dict[str, Any]:
        given = super()._given()
        given.update(event=self.event, type=self.type)
        return given


class SpawningCause(ResourceCause, kw_only=True, eq=False):
    """The object is checked for daemons and timers to start or stop."""


class DaemonCause(ResourceCause, kw_only=True, eq=False):
    """A daemon or a timer of the object is called. `stopper` asks it to end; its handler gets a checker of it as `stopped`."""

    stopper: Any


class ChangingCause(ResourceCause, kw_only=True, eq=False):
    """The object has changed since its handlers last saw it.

    `old` and `new` are essences (None: there is none), `diff` is between them. `initial`: the object was there before
    this process, which has not finished a cause of it yet.
    """

    reason: Reason
    initial: bool = False
    old: Any = None
    new: Any = None
    diff: Diff = EMPTY

    def _let_go(self) -> None:
        super()._let_go()
        self.old = self.new = None
        self.diff = EMPTY

    def _given(self) -> dict[str, Any]:
        given = super()._given()
        given.update(reason=self.reason, old=self.old, new=self.new, diff=self.diff)
        return given

    def reduced(self, path: FieldPath, /) -> "ChangingCause":
        """The same cause for a handler of one field: the values of the field, and the differences in it."""
        return self.but(old=resolve(self.old, path), new=resolve(self.new, path), diff=reduce(self.diff, path))
