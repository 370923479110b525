import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.objects import Object
from ctl.informers.deltas import Delta, DeltaKind, annihilate, collapse
from ctl.informers.settings import InformerSettings
from ctl.informers.subscription import Subscription

from .mirror import Mirror
from .world import make

pytestmark = pytest.mark.virtual_time

TIGHT = InformerSettings(subscriber_limit=10, subscriber_hard_limit=40, batch_limit=4)


class Tale:
    """Makes deltas that tell one consistent story."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.versions = itertools.count(100)
        self.uids = itertools.count(1)

    def write(self, name: str, *, echo: bool = False) -> Delta:
        old = self.objects.get(name)
        uid = old.uid if old is not None else f"u{next(self.uids)}"
        obj = self.objects[name] = make(name, next(self.versions), uid)
        if old is None:
            return Delta(DeltaKind.ADDED, obj, None, False, "ADDED")
        return Delta(DeltaKind.UPDATED, obj, old, False, "MODIFIED", echo)

    def delete(self, name: str) -> list[Delta]:
        old = self.objects.pop(name, None)
        if old is None:
            return []
        obj = make(name, next(self.versions), old.uid)
        return [Delta(DeltaKind.DELETED, obj, old, False, "DELETED")]

    def state(self) -> dict[tuple[str | None, str], tuple[str, str]]:
        return {obj.key: (obj.uid, obj.resource_version) for obj in self.objects.values()}


def subscription(settings: InformerSettings = TIGHT, *present: Object) -> Subscription:
    return Subscription("test", settings, lambda: list(present))


WORDS = st.lists(st.tuples(st.sampled_from(["write", "write", "delete"]), st.sampled_from("abc")), max_size=60)


@given(WORDS, st.booleans(), st.integers(0, 30))
def test_joined_deltas_tell_the_same_story(
    words: list[tuple[str, str]],
    forgetful: bool,
    known: int,
) -> None:
    tale, mirror = Tale(), Mirror()
    deltas: list[Delta] = []
    for word, name in words:
        deltas += [tale.write(name)] if word == "write" else tale.delete(name)
    for delta in deltas[:known]:
        mirror.take([delta])
    rest = (annihilate if forgetful else collapse)(deltas[known:])
    for delta in rest:
        mirror.take([delta])
    assert mirror.state() == tale.state()
    if forgetful:
        assert len(rest) <= 2 * 3
    else:
        kinds = [delta for delta in deltas[known:] if delta.kind is not DeltaKind.UPDATED]
        assert [delta for delta in rest if delta.kind is not DeltaKind.UPDATED] == kinds, "in their order"


def test_joined_updates_reach_from_the_first_to_the_last_and_are_an_echo_only_if_all_are() -> None:
    tale = Tale()
    tale.write("a")
    first, second = tale.write("a", echo=True), tale.write("a")
    [joint] = collapse([first, second])
    assert (joint.old, joint.object, joint.echo, joint.wire_type) == (first.old, second.object, False, "MODIFIED")
    [echo] = collapse([tale.write("a", echo=True), tale.write("a", echo=True)])
    assert echo.echo


async def test_a_prompt_subscriber_gets_every_delta() -> None:
    tale, mirror, sub = Tale(), Mirror(), subscription()
    sub.begin([])
    task = asyncio.create_task(mirror.follow(sub))
    for _ in range(100):
        await asyncio.sleep(0)
        sub.offer([tale.write("a"), tale.write("a")])
        await asyncio.sleep(0.001)
    assert len(mirror.seen) == 200
    assert sub.joined == 0
    sub.close()
    await task


async def test_a_slow_subscriber_holds_a_bounded_number_and_ends_at_the_truth() -> None:
    tale, mirror, sub = Tale(), Mirror(), subscription()
    sub.begin([])
    for number in range(100_000):
        name = f"o{number % 7}"
        sub.offer(tale.delete(name) if number % 5 == 0 else [tale.write(name)])
        assert sub.depth <= 2 * 40 + 1
    while sub.depth:
        mirror.take(await anext(sub))
    assert mirror.state() == tale.state()
    assert sub.joined > 0


async def test_what_is_found_comes_first_in_batches_and_then_it_is_synced() -> None:
    objects = [make(f"o{number}", number + 1, f"u{number}") for number in range(10)]
    sub = subscription()
    sub.begin(objects)
    sub.offer([Delta(DeltaKind.UPDATED, make("o0", 99, "u0"), objects[0], False, "MODIFIED")])
    batches = [await anext(sub) for _ in range(3)]
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert all(delta.initial and delta.wire_type is None for batch in batches for delta in batch)
    assert not sub.synced.is_set()
    [live] = await anext(sub)
    assert sub.synced.is_set()
    assert not live.initial


async def test_an_empty_beginning_is_synced_at_once() -> None:
    sub = subscription()
    assert not sub.synced.is_set()
    sub.begin([])
    assert sub.synced.is_set()


async def test_others_run_between_two_batches() -> None:
    sub = subscription(InformerSettings(batch_limit=1))
    sub.begin([make(f"o{number}", number + 1, f"u{number}") for number in range(50)])
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(turn())
    for _ in range(50):
        await anext(sub)
    task.cancel()
    assert turns >= 49


async def test_a_cancelled_wait_loses_nothing() -> None:
    tale, sub = Tale(), subscription()
    sub.begin([])
    waiting = asyncio.ensure_future(anext(sub))
    await asyncio.sleep(0.01)
    sub.offer([tale.write("a")])
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert [delta.object.name for delta in await anext(sub)] == ["a"]


async def test_a_resync_shows_the_newest_state_behind_all_that_waits() -> None:
    tale = Tale()
    sub = Subscription("test", TIGHT, lambda: list(tale.objects.values()))
    mirror = Mirror()
    sub.begin([])
    sub.resync_every(10)
    sub.offer([tale.write("a"), tale.write("b")])
    await asyncio.sleep(25)
    sub.offer([tale.write("a")])
    while True:
        batch = await anext(sub)
        mirror.take(batch)
        if batch[0].kind is DeltaKind.SYNCED:
            break
    assert [(delta.object.name, delta.kind.name) for delta in mirror.seen] == [
        ("a", "ADDED"),
        ("b", "ADDED"),
        ("a", "UPDATED"),
        ("a", "SYNCED"),
        ("b", "SYNCED"),
    ]
    sub.close()


async def test_closing_ends_the_iteration_and_waits_for_a_batch_in_work_on_request() -> None:
    tale, sub, done = Tale(), subscription(), []

    async def work() -> None:
        async for batch in sub:
            await asyncio.sleep(5)
            done.append(batch)

    sub.begin([])
    task = asyncio.create_task(work())
    sub.offer([tale.write("a")])
    await asyncio.sleep(1)
    sub.close()
    sub.close()
    assert not await sub.join(timeout=1)
    assert await sub.join(timeout=10)
    assert len(done) == 1
    await task
    assert await sub.join(), "nobody is at work"
    sub.offer([tale.write("a")])
    assert sub.depth == 0


async def test_a_consumer_that_dies_at_work_is_waited_for_no_longer() -> None:
    tale, sub = Tale(), subscription()

    async def work() -> None:
        async for _ in sub:
            await asyncio.sleep(5)
            raise ValueError

    sub.begin([])
    task = asyncio.create_task(work())
    sub.offer([tale.write("a")])
    await asyncio.sleep(1)
    assert await sub.join(timeout=10)
    await asyncio.gather(task, return_exceptions=True)


async def test_lag_is_the_age_of_the_oldest_that_waits() -> None:
    tale, sub = Tale(), subscription()
    sub.begin([])
    assert sub.lag == 0
    sub.offer([tale.write("a")])
    await asyncio.sleep(7)
    assert sub.lag == pytest.approx(7)
    await anext(sub)
    assert sub.lag == 0


async def test_an_idle_subscriber_is_never_woken() -> None:
    sub, woken = subscription(), 0

    async def work() -> None:
        nonlocal woken
        async for _ in sub:
            woken += 1

    sub.begin([])
    task = asyncio.create_task(work())
    await asyncio.sleep(86_400)
    assert woken == 0
    sub.close()
    await task
