"""Versions, past states and the window, against a model that remembers everything."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.sandbox.builtin import builtin_resources
from ctl.sandbox.history import History
from ctl.sandbox.selecting import Selection
from ctl.sandbox.status import Refused
from ctl.sandbox.store import Store

CONFIGMAPS = next(resource for resource in builtin_resources() if resource.plural == "configmaps")
ALL = Selection()


def body(name: str, value: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"}, "data": {"v": str(value)}}


def state(store: Store, version: int) -> list[tuple[str, int]]:
    return [(item.name, item.version) for item in store.select_at(CONFIGMAPS, ALL, version)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40), st.integers(1, 10))
def test_every_kept_version_can_be_read_and_no_other(writes: list[tuple[str, bool]], window: int) -> None:
    history = History(100, window)
    store = Store(history)
    model: dict[int, list[tuple[str, int]]] = {100: []}
    for count, (name, delete) in enumerate(writes):
        stored = store.get(CONFIGMAPS, "ns", name)
        if delete and stored is not None:
            store.remove(CONFIGMAPS, stored)
        else:
            store.put(CONFIGMAPS, body(name, count))
        model[history.current] = [(item.name, item.version) for item in store.select(CONFIGMAPS, ALL)]
    assert history.current == 100 + len(writes)
    assert history.current - history.compacted == min(len(writes), window)
    for version, expected in model.items():
        if version >= history.compacted:
            assert state(store, version) == expected
        else:
            with pytest.raises(Refused) as caught:
                state(store, version)
            assert (caught.value.code, caught.value.reason) == (410, "Expired")


def test_a_deletion_carries_the_last_state_under_its_own_version() -> None:
    store = Store(History(100, 10))
    stored = store.put(CONFIGMAPS, body("a", 1))
    gone = store.remove(CONFIGMAPS, stored)
    assert gone.version == 102
    assert gone.decode() == {**stored.decode(), "metadata": {**stored.decode()["metadata"], "resourceVersion": "102"}}


def test_keys_are_ordered_as_paths() -> None:
    store = Store(History(100, 10))
    for place in ("a", "a-b", "a.b"):
        one = body("x", 1)
        one["metadata"]["namespace"] = place
        store.put(CONFIGMAPS, one)
    assert [item.namespace for item in store.select(CONFIGMAPS, ALL)] == ["a-b", "a.b", "a"]
    assert [item.namespace for item in store.select(CONFIGMAPS, Selection("a"))] == ["a"]
