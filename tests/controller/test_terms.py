"""Controllers behind a gate that opens after others have acted."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from ctl.client.objects import Object
from ctl.client.resources import Key
from ctl.controller.kernel import mappers, source
from ctl.controller.kernel.controller import Controller
from ctl.controller.kernel.reconciler import Attempt, Result
from ctl.controller.kernel.source import Channel
from ctl.controller.leader.gate import Cache, ManualGate

from .conftest import Feed

pytestmark = pytest.mark.virtual_time

Make = Callable[..., Object]


class Inheritance(ManualGate):
    """A gate that has predecessors, who wrote version 7."""

    def left(self) -> float:
        return 10.0

    async def catch_up(self, cache: Cache) -> None:
        await cache.catch_up("7", None)


class Log:
    def __init__(self, work: float = 0.0) -> None:
        self.keys: list[str] = []
        self.work = work

    async def __call__(self, key: Key, attempt: Attempt[Key]) -> Result | None:
        self.keys.append(key.name)
        await asyncio.sleep(self.work)
        return None

    def drain(self) -> list[str]:
        keys, self.keys = sorted(self.keys), []
        return keys


@contextlib.asynccontextmanager
async def running(controller: Controller[Any]) -> AsyncIterator[None]:
    await controller.start()
    try:
        yield
    finally:
        async with asyncio.timeout(100):
            await controller.stop(10)


async def test_a_source_asks_for_nothing_until_its_copy_has_caught_up_and_then_for_everything(
    feed: Feed, obj: Make
) -> None:
    gate, log, other = Inheritance(), Log(), Feed()
    feed.caught_up.clear()
    controller: Controller[Key] = Controller("test", log, gate=gate, concurrency=None)
    behind = controller.watch(feed, mappers.for_object(), name="behind")
    ahead = controller.watch(other, mappers.for_object(), name="ahead")
    async with running(controller):
        feed.put(obj("a"))
        other.put(obj("b"))
        await asyncio.sleep(1)
        assert log.drain() == []
        assert [behind.is_open, ahead.is_open] == [False, False]
        gate.open()
        await asyncio.sleep(1)
        assert log.drain() == ["b"], "one that lags behind holds up no other"
        assert [behind.is_open, ahead.is_open] == [False, True]
        assert feed.asked == other.asked == [("7", None)]
        feed.put(obj("c"))
        await asyncio.sleep(1)
        assert log.drain() == []
        feed.caught_up.set()
        await asyncio.sleep(1)
        assert log.drain() == ["a", "c"]
        assert [behind.is_open, ahead.is_open] == [True, True]
        feed.put(obj("a", 2))
        await asyncio.sleep(1)
        assert log.drain() == ["a"]


async def test_a_copy_that_could_not_be_brought_up_to_date_is_tried_again(feed: Feed, obj: Make) -> None:
    class Faulty(Inheritance):
        failures = 3

        async def catch_up(self, cache: Cache) -> None:
            if self.failures:
                self.failures -= 1
                raise RuntimeError("Cannot change state of expiring Timeout")
            await super().catch_up(cache)

    gate, log = Faulty(), Log()
    controller: Controller[Key] = Controller("test", log, gate=gate)
    controller.watch(feed, mappers.for_object())
    async with running(controller):
        feed.put(obj("a"))
        gate.open()
        await asyncio.sleep(1.5)
        assert log.drain() == []
        await asyncio.sleep(5)
        assert log.drain() == ["a"]


async def test_an_awaited_source_holds_up_the_whole_controller_in_each_term(feed: Feed, obj: Make) -> None:
    gate, log, children = Inheritance(is_open=True), Log(), Feed()
    controller: Controller[Key] = Controller("test", log, gate=gate, concurrency=None)
    controller.watch(feed, mappers.for_object(), wait=True)
    controller.watch(children, lambda delta: (), wait=True)
    feed.put(obj("a"))
    async with running(controller):
        await asyncio.sleep(1)
        assert log.drain() == ["a"]
        gate.revoke()
        children.caught_up.clear()
        gate.open()
        await asyncio.sleep(1)
        assert log.drain() == []
        children.caught_up.set()
        await asyncio.sleep(1)
        assert log.drain() == ["a"]


async def test_a_term_begins_with_nothing_of_the_one_before(feed: Feed, obj: Make) -> None:
    gate, log = Inheritance(is_open=True), Log(work=5)
    controller: Controller[Key] = Controller("test", log, gate=gate, concurrency=1)
    controller.watch(feed, mappers.for_object())
    async with running(controller):
        feed.put(obj("in work"))
        await asyncio.sleep(1)
        controller.queue.add(Key("default", "waiting"))
        controller.queue.add_after(Key("default", "delayed"), 3)
        gate.revoke()
        await asyncio.sleep(1)
        assert log.drain() == ["in work"]
        feed.caught_up.clear()
        gate.open()
        await asyncio.sleep(60)
        assert log.drain() == [], "what was cut, waited or was delayed is not attempted by an old copy"
        feed.caught_up.set()
        await asyncio.sleep(60)
        assert log.drain() == ["in work"], "what is stored is"


async def test_a_term_begins_with_no_reasons_of_the_one_before(feed: Feed, obj: Make) -> None:
    gate, log = Inheritance(is_open=True), Log(work=5)
    controller: Controller[Key] = Controller("test", log, gate=gate, concurrency=1)
    controller.watch(feed, mappers.for_object())
    async with running(controller):
        feed.put(obj("in work"))
        feed.put(obj("waiting"))
        await asyncio.sleep(1)
        gate.revoke()
        await asyncio.sleep(1)
        feed.remove(Key("default", "waiting"))
        gate.open()
        await asyncio.sleep(60)
        told = controller.explain(Key("default", "waiting"))
        assert (told.state, told.reason) == ("at rest", None)


async def test_a_key_in_hand_when_a_term_ends_is_put_down(feed: Feed, obj: Make) -> None:
    gate, log = Inheritance(is_open=True), Log()
    controller: Controller[Key] = Controller("test", log, gate=gate)
    async with running(controller):
        await asyncio.sleep(1)  # the dispatcher waits for a key
        gate.revoke()
        controller.queue.add(Key("default", "in hand"))
        await asyncio.sleep(1)
        gate.open()
        await asyncio.sleep(1)
        assert log.drain() == []
        assert controller.queue.working() == ()
        controller.queue.add(Key("default", "in hand"))
        await asyncio.sleep(1)
        assert log.drain() == ["in hand"]


async def test_a_pause_is_no_end_of_a_term(feed: Feed, obj: Make) -> None:
    gate, log = Inheritance(is_open=True), Log()
    controller: Controller[Key] = Controller("test", log, gate=gate)
    controller.watch(feed, mappers.for_object())
    feed.put(obj("a"))
    async with running(controller):
        await asyncio.sleep(1)
        assert log.drain() == ["a"]
        controller.queue.add_after(Key("default", "delayed"), 3)
        gate.close()
        await asyncio.sleep(1)
        gate.open()
        await asyncio.sleep(10)
        assert log.drain() == ["a", "delayed"]
        assert len(feed.asked) == 1


async def test_a_pause_during_the_catching_up_asks_for_everything_at_its_end(feed: Feed, obj: Make) -> None:
    gate, log = Inheritance(), Log()
    feed.caught_up.clear()
    controller: Controller[Key] = Controller("test", log, gate=gate)
    controller.watch(feed, mappers.for_object())
    feed.put(obj("a"))
    async with running(controller):
        gate.open()
        await asyncio.sleep(1)
        gate.close()
        feed.caught_up.set()
        await asyncio.sleep(1)
        assert log.drain() == []
        gate.open()
        await asyncio.sleep(1)
        assert log.drain() == ["a"]


async def test_a_term_that_ends_before_the_copy_has_caught_up_lets_nothing_through(feed: Feed, obj: Make) -> None:
    gate, log = Inheritance(is_open=True), Log()
    feed.caught_up.clear()
    controller: Controller[Key] = Controller("test", log, gate=gate)
    watched = controller.watch(feed, mappers.for_object())
    feed.put(obj("a"))
    async with running(controller):
        await asyncio.sleep(1)
        gate.revoke()
        feed.caught_up.set()
        await asyncio.sleep(1)
        assert not watched.is_open
        feed.caught_up.clear()
        gate.open()
        await asyncio.sleep(1)
        assert log.drain() == []
        feed.caught_up.set()
        await asyncio.sleep(1)
        assert log.drain() == ["a"]


async def test_a_source_that_is_added_in_a_term_catches_up_as_well(feed: Feed, obj: Make) -> None:
    gate, log = Inheritance(is_open=True), Log()
    controller: Controller[Key] = Controller("test", log, gate=gate)
    feed.put(obj("a"))
    async with running(controller):
        await asyncio.sleep(1)
        feed.caught_up.clear()
        controller.watch(feed, mappers.for_object())
        await asyncio.sleep(1)
        assert log.drain() == []
        feed.caught_up.set()
        await asyncio.sleep(1)
        assert log.drain() == ["a"]


async def test_a_stopped_source_that_never_synced_holds_up_nobody(unsynced_feed: Feed, feed: Feed, obj: Make) -> None:
    log = Log()
    controller: Controller[Key] = Controller("test", log)
    awaited = controller.watch(unsynced_feed, mappers.for_object(), wait=True)
    controller.watch(feed, mappers.for_object())
    feed.put(obj("a"))
    async with running(controller):
        await asyncio.sleep(1)
        assert log.drain() == []
        await awaited.stop()
        await asyncio.sleep(1)
        assert log.drain() == ["a"], "the dispatcher waits no more"


async def test_a_controller_whose_source_never_synced_stops_at_once(unsynced_feed: Feed) -> None:
    controller: Controller[Key] = Controller("test", Log())
    controller.watch(unsynced_feed, mappers.for_object(), wait=True)
    await controller.start()
    controller.queue.add(Key("default", "a"))
    await asyncio.sleep(1)
    began = asyncio.get_running_loop().time()
    await controller.stop(30)
    assert asyncio.get_running_loop().time() - began < 2


async def test_what_a_source_asks_for_behind_a_closed_gate_comes_at_the_opening_once(feed: Feed, obj: Make) -> None:
    gate, log, channel = Inheritance(), Log(), Channel[str]()
    controller: Controller[Key] = Controller("test", log, gate=gate)
    controller.watch(feed, mappers.for_object(), wait=True)
    controller.follow(channel, lambda name: [Key(None, name)], name="channel")
    feed.caught_up.clear()
    channel.send("before the start")
    async with running(controller):
        for name in ("x", "y", "x"):
            channel.send(name)
        await asyncio.sleep(1)
        assert log.drain() == []
        gate.open()
        await asyncio.sleep(1)
        assert log.drain() == [], "nobody acts on the past"
        feed.caught_up.set()
        await asyncio.sleep(1)
        assert log.drain() == ["before the start", "x", "y"]
        gate.close()
        channel.send("paused")
        await asyncio.sleep(1)
        gate.open()
        await asyncio.sleep(1)
        assert log.drain() == ["paused"]
        gate.revoke()
        gate.open()
        await asyncio.sleep(1)
        assert log.drain() == [], "what is done is not asked for again"


async def test_what_a_source_has_asked_for_and_a_lost_term_left_undone_is_done_in_the_next(feed: Feed) -> None:
    gate, log, channel = Inheritance(is_open=True), Log(work=10), Channel[str]()
    controller: Controller[Key] = Controller("test", log, gate=gate)
    controller.follow(channel, lambda name: [Key(None, name)], name="channel")
    passed_over = Channel[str]()
    controller.follow(passed_over, lambda name: [Key(None, name)], name="passed over", remember=False)
    async with running(controller):
        channel.send("done")
        await asyncio.sleep(11)
        channel.send("cut")
        channel.send("queued")
        passed_over.send("another")
        await asyncio.sleep(1)
        assert log.drain() == ["cut", "done"]
        gate.revoke()
        await asyncio.sleep(1)
        passed_over.send("one more")
        await asyncio.sleep(1)
        gate.open()
        await asyncio.sleep(25)
        assert log.drain() == ["cut", "queued"]


async def test_of_too_many_keys_the_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "REMEMBERED_KEYS", 3)
    gate, log, channel = Inheritance(), Log(), Channel[str]()
    controller: Controller[Key] = Controller("test", log, gate=gate)
    controller.follow(channel, lambda name: [Key(None, name)], name="channel")
    async with running(controller):
        for name in ("1", "2", "3", "1", "4"):
            channel.send(name)
        await asyncio.sleep(1)
        assert controller.metrics.trigger_errors == {"channel": 1}
        gate.open()
        await asyncio.sleep(1)
        assert log.drain() == ["1", "3", "4"]
        for name in ("5", "6", "7", "8"):
            channel.send(name)
        await asyncio.sleep(1)
        assert controller.metrics.trigger_errors == {"channel": 1}, "they were attempted: nothing is lost"
