"""Let the server leave out objects that no handler can match, where nobody would notice that they are there.

This is only for resources that are indexed and nothing else: an object that does not match any more is gone for the watch, and
from the indices it is to go anyway. For other handlers it would look deleted.
"""

import re
from collections.abc import Iterable

from ...client.selectors import Operator, Requirement
from .criteria import ABSENT, PRESENT, MetaCriterion
from .specs import ResourceSpec

_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def narrow_labels(specs: Iterable[ResourceSpec]) -> str:
    """The label selector that every object fulfils which any of the specs matches; empty when there is none.

    Conditions that the API has no words for, callbacks first of all, are left to the filters.
    """
    wanted = [{found for item in spec.label_criteria if (found := _requirement(item)) is not None} for spec in specs]
    common = set.intersection(*wanted) if wanted else set()
    return ",".join(sorted(map(str, common)))


def _requirement(item: MetaCriterion) -> Requirement | None:
    key, criterion = item
    if not _KEY.fullmatch(key):
        return None
    if criterion is PRESENT:
        return Requirement(key, Operator.EXISTS)
    if criterion is ABSENT:
        return Requirement(key, Operator.ABSENT)
    if isinstance(criterion, str) and _VALUE.fullmatch(criterion):
        return Requirement(key, Operator.IN, (criterion,))
    return None
