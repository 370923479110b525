"""Call a user's plain function in a thread, so that it may take as long as it likes."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from .pools import Pool


async def in_thread(
    fn: Callable[..., Any], kwargs: Mapping[str, Any], executor: Executor | None, pool: Pool, name: str
) -> Any:
    """Call a plain function in the executor, with a copy of the context, and give what it returns; its exceptions pass through.

    None is the loop's own executor. The call is counted in the `pool` under a name. A thread cannot be interrupted: a cancellation
    takes effect when the function has returned. One that still waits for a thread is not called any more.
    """
    job, future = pool.submit(name, executor, (fn, kwargs))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if job.withdraw():
            future.cancel()
            raise
        # The thread still uses the object and the patch: whoever cancels must not go on before it has ended.
        await asyncio.wait([future])
        if not future.cancelled():
            # What it raised is nobody's any more; asyncio would tell of it as never retrieved.
            future.exception()
        raise
