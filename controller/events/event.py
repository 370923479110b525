"""Events about objects, and their form in the API: Event objects of the core group's version 1, with the fields that Kopf writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

LONGEST_MESSAGE = 1024
"""The API refuses longer messages."""
CLUSTER_NAMESPACE = "default"
"""The namespace of events about cluster-scoped objects; the API accepts it and kube-system only."""

REFERENCE = ("apiVersion", "kind", "name", "uid", "namespace")
"""The fields of a reference to an object."""

_CUT = "..."


@dataclass(frozen=True, slots=True)
class EventSource:
    """The reporting component."""

    component: str = "kopf"
    instance: str = "dev"
    name_prefix: str = "kopf-event-"


@dataclass(frozen=True, slots=True)
class Event:
    """An event about one object. In `reference` unknown fields are absent."""

    reference: Mapping[str, str]
    type: str
    reason: str
    message: str

    @property
    def object_key(self) -> tuple[str | None, ...]:
        """The same for all events about one object: they are written in order."""
        reference = self.reference
        uid = reference.get("uid")
        return (uid,) if uid else tuple(reference.get(key) for key in ("apiVersion", "kind", "namespace", "name"))

    @property
    def repeat_key(self) -> tuple[str | None, ...]:
        """The same for equal events: they are counted instead of repeated."""
        return (*self.similar_key, self.message)

    @property
    def similar_key(self) -> tuple[str | None, ...]:
        """The same for events that differ in their messages only: many of them are combined."""
        return (*(self.reference.get(key) for key in REFERENCE), self.type, self.reason)

    @property
    def is_about_event(self) -> bool:
        """Whether the object is itself an Event of the core group: events about events would never end."""
        return self.reference.get("apiVersion") == "v1" and self.reference.get("kind") == "Event"


def build_event(event: Event, reporter: EventSource, now: datetime) -> dict[str, Any]:
    """The Event object to create, in the namespace of its metadata. About a cluster-scoped object it names no namespace, as client-go's.

    `now` has an offset. The message is cut in its middle when it is too long.
    """
    moment = stamp(now)
    return {
        "metadata": {"namespace": namespace_of(event), "generateName": reporter.name_prefix},
        # The word is what Kopf has always written there; the API requires any, and other tools may look for it.
        "action": "Action?",
        "type": event.type,
        "reason": event.reason,
        "message": cut_message(event.message),
        "reportingComponent": reporter.component,
        "reportingInstance": reporter.instance,
        "source": {"component": reporter.component},
        "involvedObject": dict(event.reference),
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "eventTime": moment,
    }


def namespace_of(event: Event) -> str:
    """The namespace of an event: its object's, or `default`."""
    return event.reference.get("namespace") or CLUSTER_NAMESPACE


def stamp(moment: datetime) -> str:
    """A time in the format of events: with microseconds and the offset."""
    return moment.isoformat(timespec="microseconds")


def cut_message(message: str, limit: int = LONGEST_MESSAGE) -> str:
    """Shorten a message in its middle: the ends of an error tell most."""
    if len(message) <= limit:
        return message
    left = limit - len(_CUT)
    tail = left // 2
    return f"{message[: left - tail]}{_CUT}{message[len(message) - tail :]}"
