"""An access source of one loop is asked from another one."""

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ...client.config.access import Access, AccessSource
from ...client.errors import AccessError

T = TypeVar("T")


class BridgedSource:
    """Gives what a source that lives in another loop has given last, so that a blocked loop keeps nobody from the server.

    It is looked for news at each question, without waiting for them; only when nothing is known, or what was known is refused, is the
    other loop waited for. An access with a ready HTTP session cannot cross (AccessError): the session belongs to the other loop.
    """

    def __init__(self, source: AccessSource, home: asyncio.AbstractEventLoop) -> None:
        self._source = source
        self._home = home
        self._known: Access | None = None
        self._news: concurrent.futures.Future[Access] | None = None

    async def access(self) -> Access:
        """The access given last; asks for it when there is none. Raises what the source raises then."""
        if self._known is None:
            self._known = _crossing(await self._ask(self._source.access))
        elif self._news is None or self._news.done():
            self._learn()
            if not self._home.is_closed():
                self._news = asyncio.run_coroutine_threadsafe(_coroutine(self._source.access), self._home)
        return self._known

    def _learn(self) -> None:
        news, self._news = self._news, None
        if news is not None and not news.cancelled() and news.exception() is None:
            self._known = _crossing(news.result())

    async def refused(self, access: Access) -> None:
        """Pass a refusal on; the next question waits for what the source gives then."""
        if self._known is access:
            self._known = self._news = None
        await self._ask(lambda: self._source.refused(access))

    async def _ask(self, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._home.is_closed():
            raise AccessError("The loop in which the logins are made is closed; nobody can be asked for credentials.")
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_coroutine(question), self._home))


async def _coroutine(question: Callable[[], Coroutine[Any, Any, T]]) -> T:
    # Called in the home loop, where the source may look at the loop it runs in.
    return await question()


def _crossing(access: Access) -> Access:
    if access.session is not None:
        raise AccessError(
            f"{access.origin} gave a ready HTTP session, which belongs to the operator's loop: a lease cannot be renewed by it from "
            "a thread. Give connection info instead, or have the lease renewed in the operator's loop."
        )
    return access
