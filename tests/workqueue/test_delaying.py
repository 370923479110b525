"""The delaying queue on the loops that operators run on."""

import asyncio
import sys
from collections.abc import Callable

import pytest

from ctl.workqueue import RateLimitingQueue

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop]
if sys.platform != "win32":
    import uvloop

    LOOPS.append(uvloop.new_event_loop)


@pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"][: len(LOOPS)])
def test_keys_whose_time_has_come_while_the_loop_was_busy_are_given_out(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def late() -> list[str]:
        queue: RateLimitingQueue[str] = RateLimitingQueue("test")
        now = asyncio.get_running_loop().time()
        # Uvloop gives another kind of handle for a time that has come.
        queue._put_at("first", now - 1, 0)
        queue._put_at("second", now - 2, 0)
        async with asyncio.timeout(10):
            return sorted([await queue.get(), await queue.get()])

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(late()) == ["first", "second"]
