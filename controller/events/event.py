"""Posts are what is said about objects; here they become the Event objects of the API.

The form is that of the core group's version 1, as Kopf writes it. Nothing is sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

LONGEST_MESSAGE = 1024
"""The API refuses longer messages."""
CLUSTER_NAMESPACE = "default"
"""Where events about cluster-scoped objects are; the API takes them nowhere else (but in kube-system), unless they claim a namespace."""

REFERENCE = ("apiVersion", "kind", "name", "uid", "namespace")
"""The fields by which an object is named."""

_CUT = "..."


@dataclass(frozen=True, slots=True)
class Reporter:
    """Who says it."""

    component: str = "kopf"
    instance: str = "dev"
    name_prefix: str = "kopf-event-"


@dataclass(frozen=True, slots=True)
class Post:
    """What is said about one object. `reference` names the object; its fields that are unknown are absent."""

    reference: Mapping[str, str]
    type: str
    reason: str
    message: str

    @property
    def object_key(self) -> tuple[str | None, ...]:
        """The same for all posts about one object: those go out in order."""
        reference = self.reference
        uid = reference.get("uid")
        return (uid,) if uid else tuple(reference.get(key) for key in ("apiVersion", "kind", "namespace", "name"))

    @property
    def repeat_key(self) -> tuple[str | None, ...]:
        """The same for posts that say the same: they may be counted instead of repeated."""
        return (*self.similar_key, self.message)

    @property
    def similar_key(self) -> tuple[str | None, ...]:
        """The same for posts that differ in their message only: many of them may be said as one."""
        return (*(self.reference.get(key) for key in REFERENCE), self.type, self.reason)

    @property
    def is_about_event(self) -> bool:
        """Whether the object is itself an Event of the core group: saying something about it would never end."""
        return self.reference.get("apiVersion") == "v1" and self.reference.get("kind") == "Event"


def build_event(post: Post, reporter: Reporter, now: datetime) -> dict[str, Any]:
    """The Event object to create, in the namespace of its metadata. About a cluster-scoped object it names no namespace, as client-go's.

    `now` has an offset. The message is cut in its middle when it is too long.
    """
    moment = stamp(now)
    return {
        "metadata": {"namespace": namespace_of(post), "generateName": reporter.name_prefix},
        # The word is what Kopf has always written there; the API requires any, and other tools may look for it.
        "action": "Action?",
        "type": post.type,
        "reason": post.reason,
        "message": cut_message(post.message),
        "reportingComponent": reporter.component,
        "reportingInstance": reporter.instance,
        "source": {"component": reporter.component},
        "involvedObject": dict(post.reference),
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "eventTime": moment,
    }


def namespace_of(post: Post) -> str:
    """Where the event about an object goes: its own namespace, or `default`."""
    return post.reference.get("namespace") or CLUSTER_NAMESPACE


def stamp(moment: datetime) -> str:
    """A time as events have it: with microseconds and the offset."""
    return moment.isoformat(timespec="microseconds")


def cut_message(message: str, limit: int = LONGEST_MESSAGE) -> str:
    """The message, with dots in its middle where it is longer than the limit: both ends of an error tell most."""
    if len(message) <= limit:
        return message
    left = limit - len(_CUT)
    tail = left // 2
    return f"{message[: left - tail]}{_CUT}{message[len(message) - tail :]}"
