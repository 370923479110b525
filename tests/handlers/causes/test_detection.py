from typing import Any

import pytest

from ctl.handlers.causes.causes import FinalizerStep, Reason, decide_finalizer, detect_reason
from ctl.handlers.causes.diffs import EMPTY, diff

CHANGED = diff({}, {"a": 1})


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize(
    ("situation", "reason"),
    [
        ({"gone": True, "deleting": True, "finalizer": True, "old": {}, "diff": CHANGED}, Reason.GONE),
        ({"gone": True, "deleting": False, "finalizer": False, "old": None, "diff": EMPTY}, Reason.GONE),
        ({"deleting": True, "finalizer": False, "old": {}, "diff": CHANGED}, Reason.FREE),
        ({"deleting": True, "finalizer": False, "old": None, "diff": EMPTY}, Reason.FREE),
        ({"deleting": True, "finalizer": True, "old": {}, "diff": CHANGED}, Reason.DELETE),
        ({"deleting": True, "finalizer": True, "old": None, "diff": EMPTY}, Reason.DELETE),
        ({"deleting": False, "finalizer": False, "old": None, "diff": CHANGED}, Reason.CREATE),
        ({"deleting": False, "finalizer": True, "old": None, "diff": EMPTY}, Reason.CREATE),
        ({"deleting": False, "finalizer": True, "old": {}, "diff": CHANGED}, Reason.UPDATE),
    ],
)
def test_reasons(situation: dict[str, Any], reason: Reason, initial: bool) -> None:
    assert detect_reason(initial=initial, **situation) == (reason, initial and reason is not Reason.CREATE)


@pytest.mark.parametrize(("initial", "reason"), [(True, Reason.RESUME), (False, Reason.NOOP)])
def test_an_unchanged_object(initial: bool, reason: Reason) -> None:
    assert detect_reason(finalizer=True, deleting=False, old={}, diff=EMPTY, initial=initial) == (reason, initial)


@pytest.mark.parametrize(
    ("needed", "present", "deleting", "busy", "step"),
    [
        (True, False, False, False, FinalizerStep.ADD),
        (True, True, False, False, FinalizerStep.LEAVE),
        (False, False, False, False, FinalizerStep.LEAVE),
        (False, True, False, False, FinalizerStep.DROP),
        (True, False, True, False, FinalizerStep.LEAVE),
        (False, False, True, False, FinalizerStep.LEAVE),
        (True, True, True, True, FinalizerStep.LEAVE),
        (True, True, True, False, FinalizerStep.RELEASE),
        (False, True, True, False, FinalizerStep.RELEASE),
    ],
)
def test_finalizers(needed: bool, present: bool, deleting: bool, busy: bool, step: FinalizerStep) -> None:
    assert decide_finalizer(needed=needed, present=present, deleting=deleting, busy=busy) is step
