"""Many objects: what is gone is gone everywhere, finalizers of others survive, and a change costs one write."""

import asyncio
import gc
import logging
import os
import random
import weakref
from typing import Any

import pytest

import ctl

from .pages import Site
from .world import FINALIZER, KEX, Calls, World, messages, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

FULL = bool(os.environ.get("SOAK_ROUNDS"))
"""`make soak` looks at all of them, every other run at a part."""


def _body(name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": KEX.api_version, "kind": KEX.kind, "metadata": metadata, "spec": spec}


async def test_objects_deleted_in_a_gap_are_gone_from_everywhere(world: World) -> None:
    number = 1000 if FULL else 200
    told: list[str] = []
    running_daemons: set[str] = set()
    ticked: list[str] = []
    indices: dict[str, Any] = {}
    memos: dict[str, weakref.ref[ctl.Memo]] = {}
    site = Site()

    @ctl.index(KEX.plural, id="names")
    def names(name: str, **_: Any) -> dict[str, str]:
        return {name: name}

    @ctl.on.event(KEX.plural)
    async def event(type: str | None, name: str, names: Any, memo: ctl.Memo, **_: Any) -> None:
        indices["names"] = names
        memos[name] = weakref.ref(memo)
        if type == "DELETED":
            told.append(name)

    @ctl.daemon(KEX.plural)
    async def daemon(name: str, stopped: Any, **_: Any) -> None:
        running_daemons.add(name)
        await stopped.wait()
        running_daemons.discard(name)

    @ctl.timer(KEX.plural, interval=10)
    async def timer(name: str, **_: Any) -> None:
        ticked.append(name)

    async def kept() -> float:
        samples = await site.samples()
        (found,) = (v for k, v in samples.items() if k.startswith("ctl_informer_store_objects{") and KEX.plural in k)
        return found

    async with world.running(http=site.http):
        for index in range(number):
            world.sandbox.create(_body(f"o{index}"))
        world.sandbox.create(_body("stays"))
        await world.until(lambda: len(running_daemons) == number + 1)
        await rest(5)
        assert await kept() == len(memos) == number + 1
        # Nobody hears of the deletions: streams are silent, and the history is forgotten before they are opened again.
        world.sandbox.faults.stall_watches()
        for index in range(number):
            await world.patch({"metadata": {"finalizers": None}}, f"o{index}")
            await world.delete(f"o{index}")
        world.sandbox.compact()
        world.sandbox.faults.cut_watches()
        await world.until(lambda: len(told) == number, seconds=300)
        await world.until(lambda: running_daemons == {"stays"}, seconds=300)
        await rest(30)
        assert sorted(told) == sorted(f"o{index}" for index in range(number))
        assert set(indices["names"]) == {"stays"}
        assert await kept() == 1
        gc.collect()
        # Of those that are gone only such are left as idle connections have in the contexts that they were opened in.
        left = {name for name, memo in memos.items() if memo() is not None} - {"stays"}
        assert len(left) < number / 2
        ticked.clear()
        await rest(60)
        assert set(ticked) == {"stays"}


async def test_concurrent_edits_of_foreign_finalizers_lose_none(world: World, caplog: pytest.LogCaptureFixture) -> None:
    number = 1000 if FULL else 200
    chance = random.Random(5)

    @ctl.on.delete(KEX.plural)
    async def delete(**_: Any) -> None: ...

    objects = 20
    wanted: dict[str, set[str]] = {f"o{index}": set() for index in range(objects)}

    async def edit(name: str, edits: int) -> None:
        for turn in range(edits):
            mark = f"others.io/f{turn}"
            await world.json_patch([{"op": "add", "path": "/metadata/finalizers/-", "value": mark}], name)
            wanted[name].add(mark)
            if turn % 4 == 3:
                # Others come and go at any place of the list.
                known = world.get(name)["metadata"]["finalizers"]
                gone = f"others.io/f{turn - 2}"
                path = f"/metadata/finalizers/{known.index(gone)}"
                await world.json_patch(
                    [{"op": "test", "path": path, "value": gone}, {"op": "remove", "path": path}], name
                )
                wanted[name].discard(gone)
            await asyncio.sleep(chance.choice([0, 0.001, 0.01]))

    async with world.running():
        for name in wanted:
            # With one already, so that others can append while ours is put there.
            body = _body(name)
            body["metadata"]["finalizers"] = ["others.io/first"]
            world.sandbox.create(body)
        await asyncio.gather(*(edit(name, number // objects) for name in wanted))
        for name in wanted:
            await world.until(lambda name=name: FINALIZER in world.get(name)["metadata"]["finalizers"])  # type: ignore[misc]
        for name, marks in wanted.items():
            assert set(world.get(name)["metadata"]["finalizers"]) == marks | {"others.io/first", FINALIZER}
            await world.delete(name)
        for name, marks in wanted.items():
            await world.until(lambda name=name: FINALIZER not in world.get(name)["metadata"]["finalizers"])  # type: ignore[misc]
            assert set(world.get(name)["metadata"]["finalizers"]) == marks | {"others.io/first"}
    # Somebody who never pauses may keep us waiting, but what the server refused for the version is no error.
    loud = messages([record for record in caplog.records if record.levelno >= logging.WARNING])
    assert [text for text in loud if "the object changed under each of" not in text] == []


async def test_objects_without_a_delete_handler_have_no_finalizer(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural)
    @ctl.on.update(KEX.plural)
    @ctl.on.delete(KEX.plural, optional=True)
    @ctl.on.event(KEX.plural)
    async def handle(**kwargs: Any) -> None:
        calls("handle", kwargs)

    async with world.running():
        await world.create()
        body = await world.handled()
        assert "finalizers" not in body["metadata"]
        await world.delete()
        await world.gone()


async def test_five_handlers_of_one_change_cost_one_write(world: World, calls: Calls) -> None:
    def declare(index: int) -> None:
        @ctl.on.update(KEX.plural, id=f"update-{index}")
        async def update(**kwargs: Any) -> None:
            calls(f"update-{index}", kwargs)

    for index in range(5):
        declare(index)
    async with world.running():
        await world.create()
        await world.handled()
        before = len(world.writes())
        await world.patch({"spec": {"field": "other", "more": [1]}})
        await world.handled()
        assert len(world.writes()) == before + 1
    assert calls.names == [f"update-{index}" for index in range(5)]
    given = [(call["old"], call["new"], tuple(call["diff"])) for _, call in calls.made]
    assert all(one == given[0] for one in given)


async def test_handlers_do_not_run_ahead_of_the_writes_that_end_their_rounds(world: World, calls: Calls) -> None:
    number, ahead = 600, 0

    @ctl.on.create(KEX.plural)
    async def create(**kwargs: Any) -> None:
        nonlocal ahead
        ahead = max(ahead, calls("create", kwargs) + 1 - len(world.writes()))

    for one in range(number):
        await world.create(f"o{one}")
    world.sandbox.faults.delay(0.05, match=world.own_patches())
    async with world.running():
        await world.until(lambda: len(world.writes()) == number, 600)
        await world.handled(f"o{number - 1}")
    assert len(calls) == number
    # Four requests for each of 32 connections, and those that had begun when the last of them came.
    assert 32 < ahead < number / 2


async def test_a_server_that_takes_no_writes_keeps_handlers_from_nothing(world: World, calls: Calls) -> None:
    number = 400

    @ctl.on.create(KEX.plural)
    async def create(**kwargs: Any) -> None:
        calls("create", kwargs)

    for one in range(number):
        await world.create(f"o{one}")
    world.sandbox.faults.delay(60, match=world.own_patches())
    async with world.running() as running:
        await world.until(lambda: len(calls) == number, 30)
        world.sandbox.faults.clear()
        await world.crash(running)
