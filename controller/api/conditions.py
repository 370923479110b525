"""Conditions tell people and programs in `status.conditions` how an object fares; here lists of them are read and brought up to date.

Pure functions of decoded bodies; the time is an argument. The rules are those of the Kubernetes API conventions (`metav1.Condition`): one
entry for each type, and `lastTransitionTime` moves only when the status flips.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ...client.patches import copy

UNKNOWN = "Unknown"
"""The status of what cannot be told."""

_TRANSITION = "lastTransitionTime"
_GENERATION = "observedGeneration"


@dataclass(frozen=True, slots=True)
class Condition:
    """What is to be said about one aspect of an object.

    `type` names the aspect (`Ready`). `status` is True or False, or None for Unknown. `reason` is one CamelCase word for programs; the API
    wants one, so by default it is the type. `message` is for people. Raises ValueError for an empty type or reason.
    """

    type: str
    status: bool | None
    reason: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        if not self.type:
            raise ValueError("A condition needs a type, such as 'Ready'; got an empty one.")
        if not self.reason:
            object.__setattr__(self, "reason", self.type)

    @property
    def text(self) -> str:
        """The status as it is written: `True`, `False` or `Unknown`."""
        return UNKNOWN if self.status is None else str(self.status)


def merged(
    known: Sequence[Mapping[str, Any]] | None,
    wanted: Iterable[Condition],
    *,
    now: datetime,
    generation: int | None = None,
) -> list[dict[str, Any]]:
    """The list as it is to be: equal to `known` when it says what is wanted already.

    Conditions of other types, the order, and fields that are unknown here stay as they are; new ones come at the end. `generation` is
    that of the spec which was looked at, for `observedGeneration`; None leaves it as it is. `now` has an offset.
    """
    found: list[dict[str, Any]] = [copy(entry) for entry in known or ()]
    places = {entry.get("type"): index for index, entry in reversed([*enumerate(found)])}
    for condition in wanted:
        index = places.get(condition.type)
        entry = {"type": condition.type} if index is None else found[index]
        if entry.get("status") != condition.text or not entry.get(_TRANSITION):
            entry[_TRANSITION] = stamp(now)
        entry |= {"status": condition.text, "reason": condition.reason, "message": condition.message}
        if generation is not None:
            entry[_GENERATION] = generation
        if index is None:
            places[condition.type] = len(found)
            found.append(entry)
    return found


def without(known: Sequence[Mapping[str, Any]] | None, *types: str) -> list[dict[str, Any]]:
    """The list without the conditions of some types."""
    return [copy(entry) for entry in known or () if entry.get("type") not in types]


def find(body: Mapping[str, Any], type: str) -> Mapping[str, Any] | None:
    """The condition of a type on a body, or None."""
    known = (body.get("status") or {}).get("conditions") or ()
    return next((entry for entry in known if entry.get("type") == type), None)


def is_true(body: Mapping[str, Any], type: str) -> bool:
    """Whether a body has the condition, and it holds. For an older spec than the body's own it does not count."""
    found = find(body, type)
    if found is None or found.get("status") != "True":
        return False
    generation, observed = (body.get("metadata") or {}).get("generation"), found.get(_GENERATION)
    return generation is None or observed is None or bool(observed >= generation)


def stamp(now: datetime) -> str:
    """A time as conditions have it: in UTC, to the second."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def timeless(value: Any) -> Any:
    """A copy of a JSON value without the times of transitions, for comparisons that are not to depend on when they are made."""
    if isinstance(value, Mapping):
        return {key: timeless(item) for key, item in value.items() if key != _TRANSITION}
    if isinstance(value, (list, tuple)):
        return [timeless(item) for item in value]
    return value
