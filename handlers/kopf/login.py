"""Ask the login handlers how to reach the server, and again when the server refuses what they gave."""

import asyncio
import logging
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ...client.config.endpoint import Access
from ...client.errors import AccessError
from ...runtime import clock
from ..errors import LoginError
from ..execution.activities import ActivityError
from .connections import AiohttpSession, ConnectionInfo, as_access

logger = logging.getLogger("kopf.activities.authentication")
"""That of the login handlers' own lines: who finds frequent logins distracting disables one logger, by the name that Kopf's manual has."""

PAUSE = 1.5
"""Seconds from the end of a login to the next one, where the last did not help: many ask, again and again, while nothing is to be had."""

Credential = ConnectionInfo | AiohttpSession


class LoginFailed(LoginError, AccessError):
    """What requests get when there is no login: Kopf's error to operators, and missing credentials to whoever sends requests."""


class LoginSource:
    """The access as the login handlers give it: one of the highest priority, not expired, not refused.

    `ask` runs all login handlers and gives their results by handler id. It is run when nothing usable is left, by one
    request for all that wait, which share its end, and not more often than once in `PAUSE` seconds. The same credentials given again
    after a refusal are used again: the client backs off.
    """

    def __init__(self, ask: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        self._ask = ask
        self._known: dict[str, tuple[Credential, Access]] = {}
        self._current: Access | None = None
        # The login under way or done last, and how many wait for its end.
        self._login_task: asyncio.Task[Access] | None = None
        self._waiting = 0
        # When the last login has ended that was a second one, or came to nothing.
        self._ended_at = -math.inf
        self._asked_before = False

    async def access(self) -> Access:
        """The access in use; asks the handlers when there is none. Raises LoginError when they give nothing usable."""
        current = self._current
        if current is None or self._expired(current):
            current = self._current = self._choose()
        if current is not None:
            return current
        task = self._login_task
        if task is None or (task.done() and not self._is_too_soon):
            task = self._login_task = asyncio.create_task(self._login(), name="login")
        self._waiting += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._waiting -= 1
            if not self._waiting and not task.done():
                # Whoever waits no longer leaves it to the others, and there are none.
                task.cancel()
                self._login_task = None

    async def refused(self, access: Access) -> None:
        """Drop an access that the server refused; the next question asks the handlers, if no other one is left."""
        others = {key: known for key, known in self._known.items() if known[1] is not access}
        if self._is_too_soon and not any(not self._expired(known) for _, known in others.values()):
            # There is nothing better yet.
            return
        self._known = others
        if self._current is access:
            self._current = None

    @property
    def _is_too_soon(self) -> bool:
        return asyncio.get_running_loop().time() - self._ended_at < PAUSE

    def _expired(self, access: Access) -> bool:
        for info, known in self._known.values():
            if known is access:
                return info.expires is not None and info.expires <= clock.now()
        return False

    def _choose(self) -> Access | None:
        usable = [(info, access) for info, access in self._known.values() if not self._expired(access)]
        top = max((info.priority for info, _ in usable), default=0)
        best = [access for info, access in usable if info.priority == top]
        return random.choice(best) if best else None

    async def _login(self) -> Access:
        again, self._asked_before = self._asked_before, True
        title = "Re-authentication" if again else "Initial authentication"
        logger.info("%s has been initiated.", title)
        try:
            given = await self._ask()
        except ActivityError as exc:
            again = True
            raise LoginFailed(f"{title} has failed: {exc.__cause__ or exc}") from exc
        finally:
            if again:
                self._ended_at = asyncio.get_running_loop().time()
        for handler_id, info in given.items():
            if not isinstance(info, (ConnectionInfo, AiohttpSession)):
                raise ValueError(  # noqa: TRY004 - Kopf's class
                    f"Only ConnectionInfo/AiohttpSession instances are accepted; login handler {handler_id!r} returned "
                    f"{type(info).__name__}."
                )
            self._known[handler_id] = (info, as_access(info, handler_id))
        access = self._current = self._choose()
        if access is None:
            logger.error("%s has failed: no credentials were retrieved from the login handlers.", title)
            raise LoginFailed(
                "Ran out of valid credentials: the login handlers gave none that has not expired. Check what they "
                "return, or remove them to use the kubeconfig or the pod's service account."
            )
        logger.info("%s has finished.", title)
        return access
