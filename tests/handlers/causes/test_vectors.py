"""What Kopf 1.45.2 answered to the same input; `../storage/record_kopf.py` says how it was recorded."""

import json
from pathlib import Path
from typing import Any

import pytest

from ctl.client.patches import json_patch
from ctl.handlers.causes.diffs import Diff, diff, reduce
from ctl.handlers.causes.patch import Patch

VECTORS: dict[str, list[Any]] = json.loads(Path(__file__).with_name("kopf_causation.json").read_text(encoding="utf-8"))


def items(found: Diff) -> list[Any]:
    return sorted(([str(item.op), list(item.field), item.old, item.new] for item in found), key=repr)


def without_empty(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {key: without_empty(item) for key, item in value.items()}
    return {key: item for key, item in inner.items() if item != {}}


@pytest.mark.parametrize(("old", "new", "expected"), VECTORS["diff"])
def test_diffs_are_those_of_kopf(old: Any, new: Any, expected: list[Any]) -> None:
    assert items(diff(old, new)) == expected


@pytest.mark.parametrize(("old", "new", "path", "expected"), VECTORS["reduce"])
def test_reduced_diffs_are_those_of_kopf(old: Any, new: Any, path: list[str], expected: list[Any]) -> None:
    assert items(reduce(diff(old, new), tuple(path))) == expected


@pytest.mark.parametrize(("patch", "body", "expected"), VECTORS["json_patch"])
def test_json_patches_have_the_effect_of_those_of_kopf(patch: Any, body: Any, expected: Any) -> None:
    # Empty mappings aside: Kopf drops them, here they are what they are in a merge patch.
    effective = without_empty(patch)
    assert without_empty(json_patch(body, Patch(effective, body=body).as_json_patch())) == without_empty(expected)
