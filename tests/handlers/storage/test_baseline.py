import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.objects import Object
from ctl.client.patches import merge_patch
from ctl.handlers.causes.patch import Patch
from ctl.handlers.causes.views import Body
from ctl.handlers.storage.baseline import RESTORING, Baseline, Known, digest
from ctl.handlers.storage.diffbase import (
    AnnotationsDiffBaseStorage,
    DiffBaseStorage,
    MultiDiffBaseStorage,
    StatusDiffBaseStorage,
)
from ctl.handlers.storage.naming import StoredStateError
from ctl.handlers.storage.progress import SmartProgressStorage

STORAGES: list[DiffBaseStorage] = [
    AnnotationsDiffBaseStorage(),
    AnnotationsDiffBaseStorage(prefix="my.example.com"),
    AnnotationsDiffBaseStorage(prefix="kopf.example.com"),
    StatusDiffBaseStorage(),
    MultiDiffBaseStorage([StatusDiffBaseStorage(), AnnotationsDiffBaseStorage(prefix="my.example.com")]),
]

specs = st.dictionaries(st.sampled_from("abc"), st.integers(0, 3) | st.none(), max_size=3)


def _baseline(storage: DiffBaseStorage | None = None, **kwargs: Any) -> Baseline:
    return Baseline(storage or AnnotationsDiffBaseStorage(), SmartProgressStorage(), frozenset(), **kwargs)


def _body(spec: Any, uid: str = "u1", **annotations: str) -> dict[str, Any]:
    metadata = {"name": "n", "uid": uid, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "a/v1", "kind": "A", "metadata": metadata, "spec": spec}


def _kept(baseline: Baseline, raw: dict[str, Any], *, thrift: int = 0, size: int = 0) -> dict[str, Any]:
    body, patch = Body(raw), Patch()
    baseline.keep(body, patch, baseline.essence(body), baseline.room(size), thrift)
    kept: dict[str, Any] = merge_patch(raw, patch)
    return kept


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("thrift", [0, 1])
def test_what_is_kept_is_recalled_and_is_no_part_of_the_essence(storage: DiffBaseStorage, thrift: int) -> None:
    baseline = _baseline(storage)
    raw = _body({"a": 1})
    essence = baseline.essence(Body(raw))
    kept = _kept(baseline, raw, thrift=thrift)
    body = Body(kept)
    assert baseline.essence(body) == essence
    assert baseline.is_on(body)
    found = baseline.recall(body, essence, Known())
    assert (found.essence, found.misplaced, found.compact) == (essence, False, thrift == 1)


@pytest.mark.parametrize("storage", STORAGES)
def test_the_forms_replace_each_other_and_both_can_be_removed(storage: DiffBaseStorage) -> None:
    baseline = _baseline(storage)
    full = _kept(baseline, _body({"a": 1}))
    brief = _kept(baseline, full, thrift=1)
    assert brief != full
    assert storage.fetch(body=Body(brief)) is None
    assert _kept(baseline, brief) in (full, {**full, "metadata": {**full["metadata"], "annotations": {}}})
    for raw in (full, brief):
        patch = Patch()
        baseline.disown(Body(raw), patch, ["handler"])
        assert not baseline.is_on(Body(merge_patch(raw, patch)))


@given(specs, specs, specs)
def test_the_process_outweighs_what_is_not_of_the_object(handled: Any, now: Any, copied: Any) -> None:
    baseline, known = _baseline(), Known()
    known.learn(baseline.essence(Body(_body(handled))))
    new = baseline.essence(Body(_body(now)))
    stripped = baseline.recall(Body(_body(now)), new, known)
    assert (stripped.essence == new) is (handled == now or new == {})
    annotations = _kept(baseline, _body(copied))["metadata"]["annotations"]
    body = Body(_body(now, **annotations))
    found = baseline.recall(body, new, known)
    expected = now if handled == now else copied
    assert found.essence == baseline.essence(Body(_body(expected)))


@given(specs, specs)
def test_a_kept_state_is_recalled_for_its_own_digest_only(handled: Any, other: Any) -> None:
    baseline, known = _baseline(), Known()
    essence = baseline.essence(Body(_body(handled)))
    known.learn(essence, keep=True)
    assert known.recalled(digest(essence)) == essence
    foreign = baseline.essence(Body(_body(other)))
    assert known.recalled(digest(foreign)) == (essence if foreign == essence else None)


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": {"c": 2, "d": [1, 2]}}) == digest({"b": {"d": [1, 2], "c": 2}, "a": 1})


def test_who_has_forgotten_believes_the_object() -> None:
    baseline, known = _baseline(), Known()
    known.learn(baseline.essence(Body(_body({"a": 1}))))
    known.unlearn()
    new = baseline.essence(Body(_body({"a": 1})))
    assert baseline.recall(Body(_body({"a": 1})), new, known).essence is None


def test_a_removed_diff_base_is_put_back_ever_more_seldom() -> None:
    known, now, times = Known(), 1000.0, []
    for _ in range(12):
        wait = known.until_restored(now)
        while wait:
            now += wait
            wait = known.until_restored(now)
        times.append(now)
        now += 1
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses[:3] == [RESTORING[0], 2 * RESTORING[0], 4 * RESTORING[0]]
    assert pauses[-1] == RESTORING[1]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"uid": "u1"}', '{"uid": "u1", "digest": "x"}'])
def test_a_foreign_digest_is_told(text: str) -> None:
    body = Body(_body({}, **{"kopf.zalando.org/last-handled-digest": text}))
    with pytest.raises(StoredStateError, match="last-handled-digest"):
        _baseline().recall(body, {}, Known())


def test_a_state_that_fits_nowhere_is_left_to_the_process() -> None:
    raw = _body({"a": 1}, foreign="x" * (256 * 1024 - 50))
    assert _kept(_baseline(), raw) == raw
    assert _kept(_baseline(), _body({"a": 1}), thrift=2) == _body({"a": 1})


def _owned(baseline: Baseline, raw: dict[str, Any], *names: str) -> set[str]:
    return baseline.own(Object.from_body(raw), names)


@pytest.mark.parametrize("storage", STORAGES)
def test_which_annotations_are_records_or_baselines_is_known_by_their_names(storage: DiffBaseStorage) -> None:
    baseline = _baseline(storage)
    for raw in (_body({"a": 1}), _body({"b": 1}, uid="u2", note="mine")):
        kept = [*_kept(baseline, raw)["metadata"].get("annotations", {}), "kopf.zalando.org/fn", "other.example.com/x"]
        ours = {name for name in kept if name not in {"note", "other.example.com/x"}}
        assert _owned(baseline, raw, *kept) == ours


def test_the_replica_set_of_a_deployment_and_another_one_have_different_baselines() -> None:
    baseline = _baseline(AnnotationsDiffBaseStorage(prefix="my.example.com"))
    plain, deployed = ({**_body({"a": 1}), "kind": "ReplicaSet"} for _ in range(2))
    deployed["metadata"] = {**deployed["metadata"], "ownerReferences": [{"kind": "Deployment"}]}
    [name], [marked] = (
        [name for name in _kept(baseline, raw)["metadata"]["annotations"] if "managed" not in name]
        for raw in (plain, deployed)
    )
    for _ in range(2):
        assert _owned(baseline, plain, name, marked) == {name}
        assert _owned(baseline, deployed, name, marked) == {marked}


class Choosy(AnnotationsDiffBaseStorage):
    """Leaves the annotation that is named in the spec out of the essence."""

    def build(self, *, body: Body, extra_fields: Any = None) -> dict[str, Any]:
        essence = super().build(body=body, extra_fields=extra_fields)
        self.remove_annotations(essence, {body.spec["hidden"]})
        return essence


def test_a_storage_of_the_users_is_asked_about_each_object() -> None:
    baseline = _baseline(Choosy())
    assert _owned(baseline, _body({"hidden": "a"}), "a", "b") == {"a"}
    assert _owned(baseline, _body({"hidden": "b"}), "a", "b") == {"b"}
