"""Attempts that do not wait share tasks; nothing else is shared."""

import asyncio
from contextvars import ContextVar

import pytest

from ctl.controller.kernel.controller import Controller
from ctl.controller.leader.gate import ManualGate

pytestmark = pytest.mark.virtual_time

NUMBER = 500
_seen: ContextVar[int] = ContextVar("seen", default=0)


async def controlled(controller: "Controller[int]", done: asyncio.Event) -> None:
    await controller.start()
    async with asyncio.timeout(60):
        await done.wait()
    await controller.stop(1)


async def test_attempts_that_do_not_wait_take_few_tasks_and_have_contexts_of_their_own() -> None:
    tasks: set[asyncio.Task[object] | None] = set()
    left, done = set(range(NUMBER)), asyncio.Event()

    async def reconcile(key: int) -> None:
        assert _seen.get() == 0
        _seen.set(key + 1)
        tasks.add(asyncio.current_task())
        left.discard(key)
        if not left:
            done.set()

    controller: Controller[int] = Controller("quick", reconcile, concurrency=None)
    for key in range(NUMBER):
        controller.queue.add(key)
    await controlled(controller, done)
    assert not left
    assert len(tasks) < NUMBER / 2


@pytest.mark.parametrize("concurrency", [None, 3])
async def test_those_that_wait_run_beside_each_other(concurrency: int | None) -> None:
    running, most, left, done = 0, 0, set(range(NUMBER)), asyncio.Event()

    async def reconcile(key: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1 if key % 3 else 0)
        running -= 1
        left.discard(key)
        if not left:
            done.set()

    controller: Controller[int] = Controller("slow", reconcile, concurrency=concurrency)
    for key in range(NUMBER):
        controller.queue.add(key)
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(NUMBER):
        await controller.start()
        await done.wait()
    await controller.stop(1)
    if concurrency is None:
        assert most > NUMBER / 2
        assert loop.time() - began < 5
    else:
        assert most == concurrency


async def test_the_loop_turns_between_attempts_that_never_wait() -> None:
    turns, done = 0, asyncio.Event()
    left = set(range(NUMBER))

    async def turn() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    async def reconcile(key: int) -> None:
        left.discard(key)
        if not left:
            done.set()

    controller: Controller[int] = Controller("quick", reconcile, concurrency=None)
    for key in range(NUMBER):
        controller.queue.add(key)
    ticker = asyncio.create_task(turn())
    await controlled(controller, done)
    await ticker
    assert turns > 1


async def test_a_handler_that_cancels_its_own_task_concerns_nobody_else() -> None:
    left, done = set(range(20)), asyncio.Event()

    async def reconcile(key: int) -> None:
        if key == 5 and key in left:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        left.discard(key)
        if not left:
            done.set()

    controller: Controller[int] = Controller("quick", reconcile, concurrency=None)
    for key in range(20):
        controller.queue.add(key)
    await controlled(controller, done)
    assert not left


async def test_an_attempt_that_is_cancelled_before_it_begins_is_made_later() -> None:
    gate, seen, done = ManualGate(is_open=True), [], asyncio.Event()

    async def reconcile(key: str) -> None:
        seen.append(key)
        done.set()

    controller: Controller[str] = Controller("gated", reconcile, concurrency=None, gate=gate)
    await controller.start()
    await asyncio.sleep(0.1)
    controller.queue.add("a")
    while not controller.running:  # noqa: ASYNC110 - until the key is handed to a task, which has not begun then
        await asyncio.sleep(0)
    assert seen == []
    gate.revoke()
    await asyncio.sleep(1)
    assert seen == []
    assert controller.running == ()
    gate.open()
    async with asyncio.timeout(60):
        await done.wait()
    assert seen == ["a"]
    await controller.stop(1)


@pytest.mark.parametrize("priority", [-100, 0])
async def test_a_backlog_pauses_and_live_changes_do_not(priority: int) -> None:
    begun, most, left, done, may = 0, 0, set(range(NUMBER)), asyncio.Event(), asyncio.Event()

    async def reconcile(key: int) -> None:
        nonlocal begun, most
        begun += 1
        most = max(most, begun)
        await asyncio.sleep(1)
        begun -= 1
        may.set()
        left.discard(key)
        if not left:
            done.set()

    async def pause() -> None:
        while begun > NUMBER / 10:
            may.clear()
            await may.wait()

    controller: Controller[int] = Controller("pausing", reconcile, concurrency=None)
    controller.pace(pause)
    for key in range(NUMBER):
        controller.queue.add(key, priority=priority)
    await controlled(controller, done)
    assert (NUMBER / 10 < most < NUMBER / 5) is (priority < 0)
