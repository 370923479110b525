"""Indexers, listers, scopes, the rhythm of bookmarks, the watchdog."""

import asyncio
import gc
import random
import weakref
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.objects import Object
from ctl.client.watch import WatchEvent
from ctl.informers.indexers import Indexer, by_label, by_namespace, by_owner
from ctl.informers.lister import Lister
from ctl.informers.listwatch import ObjectSelection, SelectionMatcher
from ctl.informers.reader import Readers
from ctl.informers.reflector import StallTimer
from ctl.informers.reflector_state import Cadence
from ctl.informers.settings import InformerSettings

from .local import Local


def thing(name: str, namespace: str | None = "ns", version: int = 1, **extra: Any) -> Object:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), **extra.pop("metadata", {})}
    metadata |= {} if namespace is None else {"namespace": namespace}
    return Object.from_body({"apiVersion": "v1", "kind": "Thing", "metadata": metadata, **extra})


def stored(*objects: Object) -> Local:
    store = Local()
    store.relist(*objects, version=100)
    return store


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sets(st.sampled_from("xyz"))), max_size=40))
def test_an_indexer_follows_values_that_come_and_go(changes: list[tuple[str, set[str]]]) -> None:
    indexer = Indexer(lambda obj: obj.body()["values"])
    state: dict[str, Object] = {}
    for name, values in changes:
        new = thing(name, values=sorted(values)) if values else None
        indexer.update(("ns", name), state.pop(name, None), new)
        if new is not None:
            state[name] = new
        for value in "xyz":
            expected = {("ns", found) for found, obj in state.items() if value in obj.body()["values"]}
            assert set(indexer.names(value)) == expected
        assert set(indexer.values()) == {value for obj in state.values() for value in obj.body()["values"]}


def test_an_index_function_that_fails_leaves_the_object_out_and_is_counted() -> None:
    indexer = Indexer(lambda obj: obj.body()["values"])
    indexer.add([(("ns", "a"), thing("a")), (("ns", "b"), thing("b", values=["x"]))])
    assert indexer.names("x") == [("ns", "b")]
    assert indexer.errors == 1


def test_ready_made_index_functions() -> None:
    obj = thing("a", metadata={"labels": {"tier": "x"}, "ownerReferences": [{"uid": "o1"}, {"uid": "o2"}]})
    assert by_namespace(obj) == ("ns",)
    assert by_namespace(thing("a", None)) == ("",)
    assert tuple(by_label("tier")(obj)) == ("x",)
    assert tuple(by_label("other")(obj)) == ()
    assert tuple(by_label("other")(thing("b"))) == ()
    assert tuple(by_owner(obj)) == ("o1", "o2")


def test_a_lister_reads_by_name_namespace_selector_and_index() -> None:
    store = stored(
        thing("a", metadata={"labels": {"tier": "x"}}),
        thing("b", metadata={"labels": {"tier": "y"}}),
        thing("c", "other", metadata={"labels": {"tier": "x"}}),
    )
    lister = Lister(store)
    assert [obj.name for obj in lister.list()] == ["a", "b", "c"]
    assert [obj.name for obj in lister.list("other")] == ["c"]
    assert [obj.name for obj in lister.list(selector="tier=x")] == ["a", "c"]
    assert [obj.name for obj in lister.list("ns", "tier in (x, z)")] == ["a"]
    store.apply([WatchEvent("ADDED", thing("d", "other", 101))])
    assert [obj.name for obj in lister.list("other")] == ["c", "d"]
    store.add_indexer("tier", by_label("tier"))
    assert [obj.name for obj in lister.by_index("tier", "x")] == ["a", "c"]
    assert store.index_values("tier") == ["x", "y"]
    assert lister.get("a", "ns") is store.get(("ns", "a"))
    assert lister.get("a") is None


def test_typed_reads_give_structs_and_dataclasses() -> None:
    class Spec(msgspec.Struct):
        replicas: int = 1

    class Model(msgspec.Struct):
        spec: Spec

    @dataclass
    class Plain:
        spec: dict[str, int]

    store = stored(thing("a", spec={"replicas": 3}), thing("b", spec={"replicas": "many"}))
    lister = Lister(store)
    found = lister.typed(Model).get("a", "ns")
    assert found is not None
    assert found.spec.replicas == 3
    assert lister.typed(Plain).get("a", "ns") == Plain({"replicas": 3})
    assert lister.typed(Model).get("z", "ns") is None
    with pytest.raises(msgspec.ValidationError, match=r"spec\.replicas"):
        lister.typed(Model).list("ns")
    store.add_indexer("namespace", by_namespace)
    assert len(lister.typed(msgspec.Raw).by_index("namespace", "ns")) == 2


def test_a_body_is_decoded_once_while_somebody_holds_it() -> None:
    store = stored(thing("a", spec={"x": 1}))
    lister = Lister(store)
    view = lister.view("a", "ns")
    assert view is not None
    assert lister.view("a", "ns") is view
    assert view.body is view.body
    assert view.metadata is view.metadata
    assert view.body["spec"] == {"x": 1}
    with pytest.raises(TypeError):
        view.body["spec"] = {}  # type: ignore[index]
    store.apply([WatchEvent("MODIFIED", thing("a", version=101, spec={"x": 2}))])
    newer = lister.view("a", "ns")
    assert newer is not None
    assert (view.body["spec"], newer.body["spec"]) == ({"x": 1}, {"x": 2})
    gone = weakref.ref(view)
    del view
    gc.collect()
    assert gone() is None
    assert lister.view("z", "ns") is None


def test_a_scope_knows_what_it_takes_in() -> None:
    scope = SelectionMatcher(ObjectSelection("ns", "tier=x", "metadata.name=a"))
    assert scope.covers("ns")
    assert not scope.covers("other")
    assert scope.matches(thing("a", metadata={"labels": {"tier": "x"}}))
    assert not scope.matches(thing("a"))
    assert not scope.matches(thing("b", metadata={"labels": {"tier": "x"}}))
    assert SelectionMatcher(ObjectSelection()).covers(None)
    assert SelectionMatcher(ObjectSelection()).matches(thing("a", None))


def test_the_rhythm_of_bookmarks_is_learned_and_never_longer_than_the_cap() -> None:
    cadence = Cadence(90)
    assert (cadence.limit, cadence.is_known) == (90, False)
    cadence.opened()
    cadence.bookmark(60)
    assert not cadence.is_known
    cadence.bookmark(120)
    assert cadence.limit == 80
    cadence.opened()
    cadence.bookmark(1000)
    assert cadence.limit == 80, "the time between two watches is no rhythm"
    for now in (1010, 1020, 1030, 1040):
        cadence.bookmark(now)
    assert cadence.limit == 17.5
    cadence.bookmark(5000)
    assert cadence.limit == 90


def test_a_burst_of_bookmarks_is_no_rhythm_for_long() -> None:
    cadence = Cadence(90)
    cadence.opened()
    for now in (10, 10, 11):
        cadence.bookmark(now)
    assert cadence.limit == 6.25
    limits: list[float] = []
    while cadence.limit < 90 and len(limits) < 10:
        limits.append(cadence.limit)
        cadence.stalled()
        cadence.opened()
    assert limits == sorted(limits)
    assert len(limits) <= 5
    for now in range(100, 500, 60):
        cadence.bookmark(now)
    assert cadence.limit == 80


@pytest.mark.virtual_time
async def test_the_watchdog_does_not_spin_just_before_its_limit() -> None:
    """Sums of floats may fall short of the limit by less than a clock can tell; time stands still while the loop is busy."""
    chance, loop = random.Random(1), asyncio.get_running_loop()
    for _ in range(300):
        barks: list[float] = []
        limit, begun = chance.uniform(2, 90), loop.time()
        with StallTimer(lambda limit=limit: limit, lambda barks=barks: barks.append(loop.time())) as watchdog:  # type: ignore[misc]
            await asyncio.sleep(chance.uniform(0, limit / 2))
            begun = watchdog.hear().monotonic
            async with asyncio.timeout(200):
                while not barks:  # noqa: ASYNC110 - the watchdog is what is looked at
                    await asyncio.sleep(chance.uniform(0.1, 10))
        assert limit - 0.01 <= barks[0] - begun <= limit + 1.01


@pytest.mark.virtual_time
async def test_the_watchdog_barks_once_after_the_limit_and_not_while_something_is_heard() -> None:
    loop, barks = asyncio.get_running_loop(), []
    with StallTimer(lambda: 40.0, lambda: barks.append(loop.time())) as watchdog:
        for _ in range(10):
            await asyncio.sleep(35)
            watchdog.hear()
        assert barks == []
        heard = loop.time()
        await asyncio.sleep(500)
        assert [bark - heard for bark in barks] == [pytest.approx(40)]
    with StallTimer(lambda: 40.0, lambda: barks.append(loop.time())):
        await asyncio.sleep(10)
    await asyncio.sleep(100)
    assert len(barks) == 1


@pytest.mark.virtual_time
async def test_the_watchdog_reads_first_what_came_while_the_loop_stood_still() -> None:
    barks: list[float] = []
    loop = asyncio.get_running_loop()
    with StallTimer(lambda: 40.0, lambda: barks.append(loop.time())) as watchdog:
        await asyncio.sleep(39.5)
        watchdog.hear()
        await asyncio.sleep(39)
        assert barks == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"watch_timeouts": (10.0, 5.0)},
        {"page_size": 0},
        {"subscriber_limit": 10, "subscriber_hard_limit": 5},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must"):
        InformerSettings(**wrong)


def test_a_lister_reads_several_copies_as_one() -> None:
    ours, theirs = (
        stored(thing("a", "ours", metadata={"labels": {"app": "x"}})),
        stored(thing("b", "theirs"), thing("a", "theirs")),
    )
    lister = Lister.across([ours, theirs])
    assert [obj.key for obj in lister.list()] == [("ours", "a"), ("theirs", "b"), ("theirs", "a")]
    assert [obj.key for obj in lister.list("theirs")] == [("theirs", "b"), ("theirs", "a")]
    assert [obj.key for obj in lister.list(selector="app=x")] == [("ours", "a")]
    assert lister.get("b", "theirs") is theirs.get(("theirs", "b"))
    assert lister.get("b", "ours") is None
    by_app = by_label("app")
    theirs.add_indexer("app", by_app)
    with pytest.raises(KeyError, match="app"):
        lister.by_index("app", "x")
    reader = Readers([ours, theirs])
    reader.add_indexer("app", by_app)
    assert "app" in reader.indexers
    assert lister.by_index("app", "x") == lister.list("ours")
