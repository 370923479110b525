"""Call a user's function, sync or async, with the keyword arguments it was promised."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from .pools import Pool


def is_async(fn: Callable[..., Any]) -> bool:
    """Tell whether calling the function gives a coroutine; partials and wrapped functions are looked through."""
    while True:
        if inspect.iscoroutinefunction(fn):
            return True
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif hasattr(fn, "__wrapped__"):
            fn = fn.__wrapped__
        else:
            return inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004 (callable objects)


async def invoke(
    fn: Callable[..., Any],
    kwargs: Mapping[str, Any],
    executor: Executor | None,
    pool: Pool | None = None,
    name: str = "",
) -> Any:
    """Call the function and give what it returns; its exceptions pass through.

    A coroutine function runs in this task. A plain function runs in the executor with a copy of the context (None: the
    loop's own executor), and is counted in the `pool` under a name. A thread cannot be interrupted: a cancellation takes effect when
    the function has returned.
    """
    if is_async(fn):
        return await fn(**kwargs)
    future = (pool or Pool("")).submit(name, executor, (fn, kwargs))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        # The thread still uses the object and the patch: whoever cancels must not go on before it has ended.
        await asyncio.wait([future])
        raise
