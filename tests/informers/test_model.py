"""Random wire scripts: whatever the wire does, the copy and all its subscribers come to the server's truth."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctl.client.resources import Resource
from ctl.client.watch import WatchEvent
from ctl.informers.informer import Informer
from ctl.informers.listwatch import ObjectSelection
from ctl.informers.settings import InformerSettings
from ctl.informers.subscription import Subscription
from ctl.testing.time import VirtualTimeLoop

from .mirror import Mirror
from .world import ERRORS, Source, Stream, World

THINGS = Resource("", "v1", "things", kind="Thing", namespaced=True)
NAMES = st.sampled_from(["a", "b", "c"])

STEPS = st.one_of(
    st.tuples(st.just("write"), NAMES),
    st.tuples(st.just("write"), NAMES),
    st.tuples(st.just("write"), NAMES),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("own"), st.tuples(NAMES, st.booleans())),
    st.tuples(st.just("own_delete"), NAMES),
    st.tuples(st.just("churn"), NAMES),
    st.tuples(st.just("gap"), st.lists(NAMES, max_size=3)),
    st.tuples(st.just("slow_own"), NAMES),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("end"), st.sampled_from([None, "internal", "expired", "broken", "forbidden"])),
    st.tuples(st.just("stall"), st.none()),
    st.tuples(st.just("repeat"), st.integers(1, 6)),
    st.tuples(st.just("swap"), st.none()),
    st.tuples(st.just("refuse"), st.lists(st.sampled_from(sorted(ERRORS)), min_size=1, max_size=3)),
    st.tuples(st.just("sleep"), st.sampled_from([0.0, 0.015, 1.0, 70.0, 200.0])),
    st.tuples(st.just("subscribe"), st.tuples(st.booleans(), st.booleans(), st.booleans())),
    st.tuples(st.just("take"), st.none()),
)


class Script:
    """Carries out one random history against one informer."""

    def __init__(self, *, streams: bool) -> None:
        self.world = World()
        self.source = Source(self.world, streams_lists=streams)
        tight = InformerSettings(page_size=2, subscriber_limit=3, subscriber_hard_limit=8, batch_limit=2)
        self.informer = Informer(THINGS, ObjectSelection(), self.source, tight, chance=lambda: 0.5)
        self.followers: list[tuple[Subscription, Mirror, asyncio.Task[None]]] = []
        self.slow: list[tuple[Subscription, Mirror]] = []
        self.writers: set[asyncio.Task[None]] = set()

    async def run(self, steps: list[tuple[str, Any]]) -> None:
        self.subscribe((False, False, False))
        self.informer.start()
        for kind, argument in steps:
            outcome = getattr(self, kind)(argument)
            if isinstance(outcome, Coroutine):
                await outcome
        await self.quiet()
        self.check()
        for subscription, _, task in self.followers:
            subscription.close()
            await task
        await self.informer.stop()

    # The world.

    def write(self, name: str) -> None:
        self.world.write(name)

    def delete(self, name: str) -> None:
        self.world.delete(name)

    def compact(self, _: None) -> None:
        self.world.compact()

    def churn(self, name: str) -> None:
        """Another object of the same name, and then some."""
        self.world.delete(name)
        self.world.write(name)
        self.world.write(name)

    def gap(self, names: list[str]) -> None:
        """Things happen while nobody looks, and are forgotten."""
        self.end(None)
        for name in names:
            self.world.delete(name)
        for name in names[1:]:
            self.world.write(name)
        self.world.compact()

    # Own writes: what was answered is visible at once and stays so.

    async def own(self, argument: tuple[str, bool]) -> None:
        name, late = argument
        obj = self.world.write(name)
        if late:
            await asyncio.sleep(0.05)
        if self.informer.add_own_write(obj):
            seen = self.informer.store.get(obj.key)
            if self.world.objects.get(obj.key) is obj:
                assert seen is obj or (seen is not None and seen.resource_version == obj.resource_version)

    def own_delete(self, name: str) -> None:
        obj = self.world.delete(name)
        if obj is not None:
            self.informer.add_own_deletion(obj.key, obj.uid)
            seen = self.informer.store.get(obj.key)
            assert seen is None or seen.uid != obj.uid

    def slow_own(self, name: str) -> None:
        async def write() -> None:
            obj = self.world.write(name)
            with self.informer.writing(obj.key):
                await asyncio.sleep(2.0)
                self.informer.add_own_write(obj)

        task = asyncio.get_running_loop().create_task(write())
        self.writers.add(task)
        task.add_done_callback(self.writers.discard)

    # The wire.

    def _stream(self) -> Stream | None:
        return next(self.source.open(), None)

    def end(self, error: str | None) -> None:
        stream = self._stream()
        if stream is not None:
            stream.end(None if error is None else ERRORS[error]())

    def stall(self, _: None) -> None:
        stream = self._stream()
        if stream is not None:
            stream.stalled = True

    def swap(self, _: None) -> None:
        stream = self._stream()
        if stream is not None:
            stream.swapped = True

    def repeat(self, count: int) -> None:
        """Send again what was sent before."""
        stream = self._stream()
        if stream is not None and not stream.initial:
            old = [entry for entry in self.world.history if entry[0] <= stream.pos][-count:]
            stream.extra.extend(WatchEvent(kind, obj) for _, kind, obj in old)
            stream.wake.set()

    def refuse(self, errors: list[str]) -> None:
        self.source.refusals.extend(ERRORS[error]() for error in errors)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # Subscribers.

    def subscribe(self, how: tuple[bool, bool, bool]) -> None:
        slow, relisted, resync = how
        subscription = self.informer.subscribe("model", relisted=relisted, resync=30.0 if resync else None)
        mirror = Mirror()
        if slow:
            self.slow.append((subscription, mirror))
        else:
            task = asyncio.get_running_loop().create_task(mirror.follow(subscription))
            self.followers.append((subscription, mirror, task))

    async def take(self, _: None) -> None:
        for subscription, mirror in self.slow:
            if subscription.depth:
                mirror.take(await anext(subscription))

    # The end.

    async def quiet(self) -> None:
        self.source.refusals.clear()
        await asyncio.sleep(600.0)
        for _, _, task in self.followers:
            assert not task.done() or task.result() is None
        for subscription, mirror in self.slow:
            while subscription.depth:
                mirror.take(await anext(subscription))

    def check(self) -> None:
        truth = self.world.state()
        store = {obj.key: (obj.uid, obj.resource_version) for obj in self.informer.store}
        assert store == truth
        assert self.informer.store.nbytes == sum(len(obj.raw) for obj in self.informer.store)
        assert self.informer.own_writes_pending == 0
        for _, mirror, _ in self.followers:
            assert mirror.state() == truth
        for subscription, mirror in self.slow:
            assert mirror.state() == truth
            assert subscription.depth == 0
        assert self.informer.state.error is None


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "pages"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, max_size=40))
def test_everyone_comes_to_the_truth(streams: bool, steps: list[tuple[str, Any]]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(Script(streams=streams).run(steps))
