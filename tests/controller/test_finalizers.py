from collections.abc import Callable
from typing import Any

import jsonpatch
import pytest

from ctl.client.objects import Object
from ctl.controller.api import finalizers

Make = Callable[..., Object]
OURS = "kopf.dev/ours"


def _apply(obj: Object, patch: list[dict[str, Any]]) -> list[str]:
    return list(jsonpatch.apply_patch(obj.body(), patch)["metadata"].get("finalizers", []))


@pytest.mark.parametrize(("before", "after"), [([], [OURS]), (["a"], ["a", OURS]), ([OURS], [OURS])])
def test_adding(before: list[str], after: list[str], obj: Make) -> None:
    target = obj("a", finalizers=before) if before else obj("a")
    assert _apply(target, finalizers.adding(target.metadata(), OURS)) == after


@pytest.mark.parametrize(("before", "after"), [([], []), ([OURS], []), (["a", OURS, "b"], ["a", "b"])])
def test_removing(before: list[str], after: list[str], obj: Make) -> None:
    target = obj("a", finalizers=before)
    assert _apply(target, finalizers.removing(target.metadata(), OURS)) == after


@pytest.mark.parametrize("change", [finalizers.adding, finalizers.removing])
@pytest.mark.parametrize("before", [["a", OURS], ["a"], []])
def test_a_list_that_was_changed_meanwhile_is_never_overwritten(change: Any, before: list[str], obj: Make) -> None:
    seen = obj("a", finalizers=before) if before else obj("a")
    now = obj("a", 2, finalizers=["foreign", *before])
    patch = change(seen.metadata(), OURS)
    if patch:
        with pytest.raises(jsonpatch.JsonPatchTestFailed):
            _apply(now, patch)


def test_nothing_is_added_to_what_is_being_deleted(obj: Make) -> None:
    marked = obj("a", deletionTimestamp="2031-01-01T00:00:00Z", finalizers=["a"]).metadata()
    assert finalizers.adding(marked, OURS) == []
    assert not finalizers.is_deletion_ours(marked, OURS)


def test_a_deletion_waits_for_us(obj: Make) -> None:
    marked = obj("a", deletionTimestamp="2031-01-01T00:00:00Z", finalizers=["a", OURS])
    assert finalizers.is_deletion_ours(marked.metadata(), OURS)
    assert not finalizers.is_deletion_ours(obj("a", finalizers=[OURS]).metadata(), OURS)


@pytest.mark.parametrize("change", [finalizers.adding, finalizers.removing])
def test_a_namesake_keeps_its_finalizers(change: Any, obj: Make) -> None:
    seen = obj("a", finalizers=["a"] if change is finalizers.adding else ["a", OURS])
    namesake = obj("a", 2, finalizers=["a"] if change is finalizers.adding else ["a", OURS], uid="another")
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        _apply(namesake, change(seen.metadata(), OURS))
