"""Causes say why handlers are called, and hold what those handlers are given.

A cause is not changed once it is made (that it could be is for speed: one is made for each event); what it refers to may
be (the patch, the memo). Its `kwargs` are what filters are given, and what
handlers are given before the execution adds what it knows (`param`, `retry`, `started`, `runtime`, `stopped`).
"""

import enum
import logging
from collections.abc import Mapping
from typing import Any, Self, TypeAlias

import msgspec

from ...client.resources import Resource
from .diffs import EMPTY, Diff, reduce
from .fields import FieldPath, resolve
from .patch import Patch
from .views import Body, RawEvent

Logger: TypeAlias = logging.Logger | logging.LoggerAdapter[Any]

LARGE = 2**17
"""From how many bytes of JSON on an object is large; decoded, in several copies, it takes up to a hundred times as much."""


class Reason(enum.StrEnum):
    """What happened to an object. The first four are handled; the others are only told."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    RESUME = "resume"
    NOOP = "noop"
    """Nothing of interest changed."""
    FREE = "free"
    """It is being deleted and does not wait for us."""
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
    """Another one acts."""


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
        """What was done for it is over: forget the state of the object, and keep what it is known by.

        A cause lives as long as the contexts that it is in, which are copied for each timer, cancelled ones included, and for each
        task that a handler leaves behind. The object does not.
        """
        self._kwargs = None

    def _given(self) -> dict[str, Any]:
        return {"memo": self.memo, "logger": self.logger}


class ActivityCause(Cause, kw_only=True, eq=False):
    """The operator starts, ends, logs in, or is asked how it does."""

    activity: Activity
    settings: Any

    def _given(self) -> dict[str, Any]:
        return {"memo": self.memo, "logger": self.logger, "activity": self.activity, "settings": self.settings}


class ResourceCause(Cause, kw_only=True, eq=False):
    """Something concerns one object."""

    resource: Resource
    patch: Patch
    body: Body
    size: int = 0
    """How many bytes of JSON the object is."""

    def let_go(self) -> None:
        """Keep the identity and the metadata; a small object stays as it is, since to part with it costs more than to keep it."""
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
    """The object is, or may be, to be indexed. The patch is thrown away."""


class WatchingCause(ResourceCause, kw_only=True, eq=False):
    """An event came over the wire, or the object was listed (then its type is None)."""

    event: RawEvent | Mapping[str, Any]
    type: str | None = None

    def _let_go(self) -> None:
        super()._let_go()
        self.event = {"type": self.type, "object": dict(self.body)}

    def _given(self) -> dict[str, Any]:
        given = super()._given()
        given["event"] = self.event
        given["type"] = self.type
        return given


class SpawningCause(ResourceCause, kw_only=True, eq=False):
    """The object is looked at for the daemons and timers it is to have."""


class DaemonCause(ResourceCause, kw_only=True, eq=False):
    """A daemon or a timer of the object runs. `stopper` tells it to end; the execution passes it on as `stopped`."""

    stopper: Any


class ChangingCause(ResourceCause, kw_only=True, eq=False):
    """The object changed since its handlers last saw it.

    `old` and `new` are essences (None: there is none), `diff` is between them. `initial`: the object was there before
    this process and none of its causes was finished yet.
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
        """The same cause as a handler of one field sees it: the field's values, and what differs under it."""
        return self.but(old=resolve(self.old, path), new=resolve(self.new, path), diff=reduce(self.diff, path))


class WebhookCause(ResourceCause, kw_only=True, eq=False):
    """The API server asks about a request. `warnings` is a list that handlers add to; the others are as it was sent."""

    dryrun: bool
    headers: Mapping[str, str]
    sslpeer: Mapping[str, Any]
    userinfo: Mapping[str, Any]
    warnings: list[str]
    operation: str | None = None
    subresource: str | None = None
    old: Body | None = None
    new: Body | None = None
    diff: Diff = EMPTY

    def _given(self) -> dict[str, Any]:
        names = (
            "dryrun",
            "headers",
            "sslpeer",
            "userinfo",
            "warnings",
            "operation",
            "subresource",
            "old",
            "new",
            "diff",
        )
        return {**super()._given(), **{name: getattr(self, name) for name in names}}
