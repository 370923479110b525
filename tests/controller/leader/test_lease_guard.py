"""What is ready to run when a lease is over does not begin: the clock is asked, not whether the loop has heard."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from ctl.controller.kernel.controller import Controller
from ctl.controller.leader.gate import LeaseOverError, ManualGate, only_while_held, until_held

pytestmark = pytest.mark.virtual_time


class Lease(ManualGate):
    """A gate whose end nobody has heard of."""

    def __init__(self) -> None:
        super().__init__(is_open=True)
        self.seconds = 10.0

    def left(self) -> float:
        return self.seconds

    async def catch_up(self, cache: object) -> None: ...


async def test_an_attempt_that_is_ready_waits_for_the_lease() -> None:
    lease, began = Lease(), list[str]()

    async def reconcile(key: str) -> None:
        began.append(key)
        lease.seconds = 0.0

    controller = Controller[str]("test", reconcile, gate=lease)
    await controller.start()
    try:
        for key in ("one", "two", "three"):
            controller.queue.add(key)
        await asyncio.sleep(5)
        assert began == ["one"]
        lease.seconds = 10.0
        await asyncio.sleep(1)
        assert began == ["one", "two"]
        lease.revoke()
        lease.seconds = 10.0
        await asyncio.sleep(5)
        assert began == ["one", "two"]
    finally:
        await controller.stop(1)


async def test_who_was_cancelled_and_went_on_is_told_again() -> None:
    lease = Lease()

    async def act() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            lease.seconds = 0.0
        await until_held(lease.left)

    task = asyncio.create_task(act())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task], timeout=10)
    assert task.cancelled()


async def test_a_function_whose_turn_in_a_thread_comes_too_late_is_not_called() -> None:
    lease, called = Lease(), list[int]()

    def call(number: int) -> None:
        called.append(number)

    late = only_while_held(call, lease.left)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(late, number=1).result()
        lease.seconds = 0.0
        with pytest.raises(LeaseOverError):
            pool.submit(late, number=2).result()
    assert called == [1]
