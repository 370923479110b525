"""Causes say why handlers are called, and hold what those handlers are given.

A cause is not changed once it is made (that it could be is for speed: one is made for each event); what it refers to may
be (the patch, the memo). Its `kwargs` are what filters are given, and what
handlers are given before the execution adds what it knows (`param`, `retry`, `started`, `runtime`, `stopped`).
"""

import enum
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ...client.resources import Resource
from .diffs import EMPTY, Diff, reduce
from .fields import FieldPath, resolve
from .patch import Patch
from .views import Body, RawEvent

Logger: TypeAlias = logging.Logger | logging.LoggerAdapter[Any]


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


@dataclass(kw_only=True, eq=False)
class Cause:
    """What all causes have. Causes are compared by identity."""

    logger: Logger
    memo: Any
    indices: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """The keyword arguments by name, made once; not to be changed. Indices win over arguments of the same name."""
        # Not a cached_property: that takes a lock on Python 3.11, once for each event of each object.
        given = self.__dict__.get("_kwargs")
        if given is None:
            given = self.__dict__["_kwargs"] = self._given()
            if self.indices:
                given.update(self.indices)
        return given

    def _given(self) -> dict[str, Any]:
        return {"memo": self.memo, "logger": self.logger}


@dataclass(kw_only=True, eq=False)
class ActivityCause(Cause):
    """The operator starts, ends, logs in, or is asked how it does."""

    activity: Activity
    settings: Any

    def _given(self) -> dict[str, Any]:
        return {"memo": self.memo, "logger": self.logger, "activity": self.activity, "settings": self.settings}


@dataclass(kw_only=True, eq=False)
class ResourceCause(Cause):
    """Something concerns one object."""

    resource: Resource
    patch: Patch
    body: Body

    def _given(self) -> dict[str, Any]:
        body = self.body
        meta = body.metadata
        metadata = meta._data
        return {
            "resource": self.resource,
            "patch": self.patch,
            "body": body,
            "spec": body.spec,
            "meta": meta,
            "status": body.status,
            "uid": metadata.get("uid"),
            "name": metadata.get("name"),
            "namespace": metadata.get("namespace"),
            "labels": meta.labels,
            "annotations": meta.annotations,
            "memo": self.memo,
            "logger": self.logger,
        }


@dataclass(kw_only=True, eq=False)
class IndexingCause(ResourceCause):
    """The object is, or may be, to be indexed. The patch is thrown away."""


@dataclass(kw_only=True, eq=False)
class WatchingCause(ResourceCause):
    """An event came over the wire, or the object was listed (then its type is None)."""

    event: RawEvent | Mapping[str, Any]
    type: str | None = None

    def _given(self) -> dict[str, Any]:
        given = super()._given()
        given["event"] = self.event
        given["type"] = self.type
        return given


@dataclass(kw_only=True, eq=False)
class SpawningCause(ResourceCause):
    """The object is looked at for the daemons and timers it is to have."""


@dataclass(kw_only=True, eq=False)
class DaemonCause(ResourceCause):
    """A daemon or a timer of the object runs. `stopper` tells it to end; the execution passes it on as `stopped`."""

    stopper: Any


@dataclass(kw_only=True, eq=False)
class ChangingCause(ResourceCause):
    """The object changed since its handlers last saw it.

    `old` and `new` are essences (None: there is none), `diff` is between them. `initial`: the object was there before
    this process and none of its causes was finished yet.
    """

    reason: Reason
    initial: bool = False
    old: Any = None
    new: Any = None
    diff: Diff = EMPTY

    def _given(self) -> dict[str, Any]:
        given = super()._given()
        given.update(reason=self.reason, old=self.old, new=self.new, diff=self.diff)
        return given

    def reduced(self, path: FieldPath, /) -> "ChangingCause":
        """The same cause as a handler of one field sees it: the field's values, and what differs under it."""
        return replace(self, old=resolve(self.old, path), new=resolve(self.new, path), diff=reduce(self.diff, path))


@dataclass(kw_only=True, eq=False)
class WebhookCause(ResourceCause):
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
