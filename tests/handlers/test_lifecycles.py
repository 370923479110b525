import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

import ctl
from ctl.handlers.declaration.specs import HandlerId, HandlerSpec
from ctl.handlers.execution import lifecycles

from .world import KEX, Calls, World


@dataclass
class State:
    retries: int = 0


def fn(**_: Any) -> None: ...


SPECS = [HandlerSpec(id=HandlerId(name), fn=fn) for name in ("a", "b", "c")]


def states(*retries: int) -> Mapping[Any, State]:
    return {spec.id: State(count) for spec, count in zip(SPECS, retries, strict=True)}


def objects(count: int = 300) -> Iterator[dict[str, Any]]:
    return ({"uid": f"uid-{number}", "meta": {"resourceVersion": "1"}, "spec": {}} for number in range(count))


def test_all_at_once() -> None:
    assert list(lifecycles.all_at_once(SPECS, state=states(3, 0, 1), uid="x")) == SPECS


def test_one_by_one() -> None:
    assert list(lifecycles.one_by_one(SPECS, state=states(3, 0, 1), uid="x")) == SPECS[:1]


@pytest.mark.parametrize(("retries", "first"), [((0, 0, 0), 0), ((1, 0, 0), 1), ((2, 2, 1), 2), ((1, 1, 1), 0)])
def test_asap_prefers_who_was_tried_least_and_stands_first(retries: tuple[int, ...], first: int) -> None:
    assert list(lifecycles.asap(SPECS, state=states(*retries), uid="x")) == [SPECS[first]]


@pytest.mark.parametrize("handlers", [[1, 2, 3], (1, 2, 3), ["a", object(), None]])
@pytest.mark.parametrize("state", [None, {}])
def test_lifecycles_take_any_sequence_of_anything(handlers: Any, state: Any) -> None:
    assert lifecycles.all_at_once(handlers, state=state) is handlers
    assert list(lifecycles.one_by_one(handlers, state=state)) == [handlers[0]]
    assert sorted(map(repr, lifecycles.shuffled(handlers, state=state))) == sorted(map(repr, handlers))
    assert lifecycles.randomized(handlers, state=state)[0] in handlers
    for lifecycle in (lifecycles.all_at_once, lifecycles.one_by_one, lifecycles.shuffled, lifecycles.randomized):
        assert list(lifecycle([], state=state)) == []


def test_anything_is_shuffled_anew_each_time() -> None:
    assert len({tuple(lifecycles.shuffled([1, 2, 3], state={})) for _ in range(100)}) == 6
    assert len({tuple(lifecycles.randomized((1, 2, 3), state={})) for _ in range(100)}) == 3


def test_asap_takes_what_is_known_by_itself() -> None:
    assert list(lifecycles.asap(["a", "b"], state={"a": State(1), "b": State(0)})) == ["b"]


def test_shuffled_gives_all_in_every_order() -> None:
    orders = {
        tuple(spec.id for spec in lifecycles.shuffled(SPECS, state=states(0, 0, 0), **kwargs)) for kwargs in objects()
    }
    assert len(orders) == 6
    assert {frozenset(order) for order in orders} == {frozenset("abc")}


def test_randomized_gives_each_its_share() -> None:
    chosen = [lifecycles.randomized(SPECS, state=states(0, 0, 0), **kwargs) for kwargs in objects()]
    assert {len(specs) for specs in chosen} == {1}
    for spec in SPECS:
        assert 70 <= sum(specs == [spec] for specs in chosen) <= 130


def test_another_attempt_or_version_draws_anew() -> None:
    def drawn(retries: int, version: int) -> tuple[str, ...]:
        meta = {"resourceVersion": str(version)}
        shuffled = lifecycles.shuffled(SPECS, state=states(retries, 0, 0), uid="x", meta=meta)
        return tuple(spec.id for spec in shuffled)

    assert len({drawn(retries, 1) for retries in range(30)}) > 1
    assert len({drawn(0, version) for version in range(30)}) > 1
    assert drawn(1, 1) == drawn(1, 1)


def test_lifecycles_of_users_may_hand_on_the_handlers_alone() -> None:
    orders = {tuple(spec.id for spec in lifecycles.shuffled(SPECS)) for _ in range(300)}
    assert len(orders) == 6
    assert {len(lifecycles.randomized(SPECS)) for _ in range(30)} == {1}
    assert {lifecycles.randomized(SPECS)[0].id for _ in range(300)} == set("abc")
    assert list(lifecycles.one_by_one(SPECS)) == SPECS[:1]


@pytest.mark.parametrize(
    "lifecycle",
    [
        lifecycles.all_at_once,
        lifecycles.one_by_one,
        lifecycles.asap,
        lifecycles.shuffled,
        lifecycles.randomized,
    ],
)
def test_of_none_there_is_none(lifecycle: Any) -> None:
    assert list(lifecycle([], state={}, uid="x")) == []


def test_the_default_can_be_changed_with_a_warning_and_back(caplog: pytest.LogCaptureFixture) -> None:
    assert lifecycles.get_default_lifecycle() is lifecycles.all_at_once
    try:
        with caplog.at_level(logging.WARNING):
            lifecycles.set_default_lifecycle(lifecycles.asap)
        assert lifecycles.get_default_lifecycle() is lifecycles.asap
        assert "asap" in caplog.text
    finally:
        lifecycles.set_default_lifecycle(None)
    assert lifecycles.get_default_lifecycle() is lifecycles.all_at_once


@pytest.mark.parametrize("name", ["all_at_once", "one_by_one", "asap", "shuffled", "randomized"])
@pytest.mark.virtual_time
async def test_an_operator_works_with_each_of_them(world: World, calls: Calls, name: str) -> None:
    @ctl.on.create(KEX.plural, id="first")
    async def first(retry: int, **kwargs: Any) -> None:
        calls("first", kwargs)
        if not retry:
            raise ctl.TemporaryError("the other goes on", delay=5)

    @ctl.on.create(KEX.plural, id="second")
    async def second(**kwargs: Any) -> None:
        calls("second", kwargs)

    async with world.running(lifecycle=getattr(lifecycles, name)):
        await world.create()
        await world.handled()
    assert sorted(calls.names) == ["first", "first", "second"]
