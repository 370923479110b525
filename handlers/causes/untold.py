"""A change does not tell everybody of everything: find the states that somebody saw and that it is silent about."""

from collections.abc import Mapping

from .diffs import diff
from .fields import FieldPath
from .views import BodyEssence


def others(seen: Mapping[str, BodyEssence], *known: BodyEssence) -> Mapping[str, BodyEssence]:
    """Those of the states, by their digests, that are none of the known ones."""
    return {name: state for name, state in seen.items() if state not in known}


def hidden(seen: Mapping[str, BodyEssence], base: BodyEssence, now: BodyEssence) -> Mapping[str, BodyEssence]:
    """Those states of which a change from the base to what is now does not tell all: who saw them needs to be told besides."""
    left = others(seen, base, now)
    if not left:
        return {}
    told = [item.field for item in diff(base, now)]

    def is_told(path: FieldPath) -> bool:
        return any(path[: len(known)] == known for known in told)

    return {known: state for known, state in left.items() if not all(is_told(item.field) for item in diff(state, now))}
