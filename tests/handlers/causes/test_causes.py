import logging
from typing import Any

import pytest

from ctl.client.resources import Resource
from ctl.handlers.causes.causes import (
    Activity,
    ActivityCause,
    ChangingCause,
    DaemonCause,
    IndexingCause,
    Reason,
    ResourceCause,
    SpawningCause,
    WatchingCause,
)
from ctl.handlers.causes.diffs import diff
from ctl.handlers.causes.patch import Patch
from ctl.handlers.causes.views import Body
from ctl.handlers.environment.memories import Memo

LOGGER = logging.getLogger("test")
OBJECT = {
    *("resource", "patch", "body", "spec", "meta", "status", "uid", "name", "namespace", "labels", "annotations"),
    *("memo", "logger"),
}


def common(**more: Any) -> dict[str, Any]:
    raw = {"metadata": {"name": "n", "namespace": "ns", "uid": "u", "labels": {"l": "1"}}, "spec": {"x": 1}}
    given = {
        "logger": LOGGER,
        "memo": Memo(),
        "resource": Resource("", "v1", "pods"),
        "patch": Patch(),
        "body": Body(raw),
    }
    return {**given, **more}


@pytest.mark.parametrize("cls", [IndexingCause, SpawningCause])
def test_what_every_handler_of_objects_is_given(cls: type[ResourceCause]) -> None:
    cause = cls(**common())
    kwargs = cause.kwargs
    assert set(kwargs) == OBJECT
    assert kwargs["body"] is cause.body
    assert kwargs["spec"] == {"x": 1}
    assert kwargs["meta"] is cause.body.metadata
    assert (kwargs["uid"], kwargs["name"], kwargs["namespace"]) == ("u", "n", "ns")
    assert (kwargs["labels"], kwargs["annotations"], kwargs["status"]) == ({"l": "1"}, {}, {})
    assert (kwargs["patch"], kwargs["memo"], kwargs["logger"]) == (cause.patch, cause.memo, LOGGER)
    assert cause.kwargs is kwargs


def test_what_handlers_of_raw_events_are_given() -> None:
    event: Any = {"type": "ADDED", "object": {}}
    kwargs = WatchingCause(**common(event=event, type="ADDED")).kwargs
    assert set(kwargs) == OBJECT | {"event", "type"}
    assert kwargs["event"] is event


def test_filters_of_daemons_are_not_given_how_to_stop() -> None:
    assert set(DaemonCause(**common(stopper=object())).kwargs) == OBJECT


def test_what_handlers_of_the_operator_are_given() -> None:
    settings = object()
    cause = ActivityCause(logger=LOGGER, memo=None, activity=Activity.STARTUP, settings=settings)
    assert cause.kwargs == {"logger": LOGGER, "memo": None, "activity": "startup", "settings": settings}


def test_what_handlers_of_changes_are_given() -> None:
    old, new = {"spec": {"x": 1}}, {"spec": {"x": {"y": 2}}}
    cause = ChangingCause(**common(reason=Reason.UPDATE, old=old, new=new, diff=diff(old, new)))
    assert set(cause.kwargs) == OBJECT | {"reason", "old", "new", "diff"}
    assert cause.kwargs["reason"] == "update"
    reduced = cause.reduced(("spec", "x"))
    assert (reduced.old, reduced.new) == (1, {"y": 2})
    assert reduced.diff == (("change", (), 1, {"y": 2}),)
    assert (reduced.kwargs["old"], reduced.kwargs["new"], reduced.kwargs["diff"]) == (1, {"y": 2}, reduced.diff)
    assert reduced.patch is cause.patch
    assert cause.kwargs["old"] is old
    assert cause.reduced(("spec", "absent")).kwargs["new"] is None


def test_indices_win_over_arguments_of_the_same_name() -> None:
    index = object()
    kwargs = SpawningCause(**common(indices={"by_label": index, "spec": index})).kwargs
    assert kwargs["by_label"] is kwargs["spec"] is index
    activity = ActivityCause(logger=LOGGER, memo=None, activity=Activity.PROBE, settings=None, indices={"x": index})
    assert activity.kwargs["x"] is index


def test_a_cause_with_another_body_and_patch_has_arguments_of_its_own() -> None:
    cause = ChangingCause(**common(), reason=Reason.UPDATE, initial=True, old={"x": 0}, new={"x": 1}, diff=diff(0, 1))
    assert cause.kwargs["patch"] is cause.patch
    body, patch = Body({"spec": {"x": 2}}), Patch()
    own = cause.but(body=body, patch=patch)
    assert all(own.kwargs[name] is cause.kwargs[name] for name in ("old", "new", "diff", "memo", "resource", "logger"))
    assert own.kwargs["body"] is own.body is body
    assert own.kwargs["spec"] == {"x": 2}
    assert own.kwargs["patch"] is own.patch is patch


def test_reasons_are_words() -> None:
    assert [str(reason) for reason in Reason] == ["create", "update", "delete", "resume", "noop", "free", "gone"]
    kopfs, ours = ["startup", "cleanup", "authentication", "probe"], ["leading", "standby"]
    assert [f"{activity}" for activity in Activity] == [*kopfs, *ours]


def test_memos_are_dicts_with_attributes() -> None:
    import copy
    import pickle

    memo = Memo(x=1)
    memo.y = 2
    memo["z"] = [3]
    assert (memo["x"], memo.x, memo["y"], memo.z) == (1, 1, 2, [3])
    del memo.x
    with pytest.raises(AttributeError, match="has no 'x'; it has: 'y', 'z'"):
        memo.x  # noqa: B018
    with pytest.raises(AttributeError, match="no 'x' to delete"):
        del memo.x
    with pytest.raises(KeyError):
        memo["x"]
    copied, deep, pickled = copy.copy(memo), copy.deepcopy(memo), pickle.loads(pickle.dumps(memo))
    assert type(copied) is type(deep) is type(pickled) is Memo
    copied.new = 1
    assert copied.z is memo.z
    assert deep == pickled == memo == {"y": 2, "z": [3]}
    assert deep.z is not memo.z
