"""Raise and await flags of any of the four kinds that embedding programs use: events and futures, of asyncio and of threads."""

import asyncio
import concurrent.futures
import threading
from typing import Any

Flag = asyncio.Event | threading.Event | asyncio.Future[Any] | concurrent.futures.Future[Any]

POLLING = 0.1


async def wait_flag(flag: Flag | None) -> Any:
    """Wait until the flag is raised; gives a future's result, and True for an event. None is never raised.

    Raises TypeError for a flag of another kind. A thread's event is looked at every tenth of a second: it cannot wake a loop.
    """
    match flag:
        case None:
            return await asyncio.get_running_loop().create_future()
        case asyncio.Event():
            return await flag.wait()
        case asyncio.Future():
            return await asyncio.shield(flag)
        case concurrent.futures.Future():
            return await asyncio.shield(asyncio.wrap_future(flag))
        case threading.Event():
            while not flag.is_set():  # noqa: ASYNC110 - a thread's event has no way to wake a loop
                await asyncio.sleep(POLLING)
            return True
        case _:
            raise TypeError(_unsupported(flag))


def raise_flag(flag: Flag | None) -> None:
    """Raise the flag from the loop's thread; one that is raised already stays so. Raises TypeError for other kinds."""
    match flag:
        case None:
            return
        case asyncio.Event() | threading.Event():
            flag.set()
        case asyncio.Future() | concurrent.futures.Future():
            if not flag.done():
                flag.set_result(None)
        case _:
            raise TypeError(_unsupported(flag))


def check_flag(flag: object) -> None:
    """Raise TypeError for what is neither None nor a flag, before anybody waits for it."""
    kinds = (asyncio.Event, asyncio.Future, threading.Event, concurrent.futures.Future)
    if flag is not None and not isinstance(flag, kinds):
        raise TypeError(_unsupported(flag))


def _unsupported(flag: object) -> str:
    return (
        f"Unsupported type of a flag: {flag!r}. A flag is an asyncio.Event, an asyncio.Future, a threading.Event or a "
        f"concurrent.futures.Future; got {type(flag).__name__}."
    )
