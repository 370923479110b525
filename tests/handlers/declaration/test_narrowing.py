"""Which label selector the server may be given for a resource that is only indexed."""

from typing import Any

import pytest

from ctl.handlers.declaration.filters import ABSENT, PRESENT, narrow_labels
from ctl.handlers.declaration.specs import HandlerId, IndexingSpec


def spec(labels: Any) -> IndexingSpec:
    async def fn(**_: Any) -> None:
        """Do nothing."""

    return IndexingSpec(id=HandlerId("x"), fn=fn, selector=None, labels=labels)


@pytest.mark.parametrize(
    ("filters", "selector"),
    [
        ([], ""),
        ([None], ""),
        ([{"a": "b"}], "a=b"),
        ([{"a": "b", "c": PRESENT, "x.io/d": ABSENT}], "!x.io/d,a=b,c"),
        ([{"a": "b", "c": lambda value, **_: True}], "a=b"),
        ([{"a": "b"}, {"a": "b", "c": "d"}], "a=b"),
        ([{"a": "b"}, {"a": "c"}], ""),
        ([{"a": "b"}, None], ""),
        ([{"a": "not a label", "b": "-", "not a key": "x", "c": ""}], "c="),
        ([{"a": "b,c in (d)"}], ""),
    ],
)
def test_what_all_filters_have_in_common(filters: list[Any], selector: str) -> None:
    assert narrow_labels(spec(labels).label_criteria for labels in filters) == selector
