"""Ask the login handlers how to reach the server, and again when the server refuses what they gave."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..client.endpoint import Access
from ..runtime import clock
from .connections import AiohttpSession, ConnectionInfo, as_access
from .errors import LoginError
from .execution.activities import ActivityError

logger = logging.getLogger("kopf.activities.authentication")
"""That of the login handlers' own lines: who finds frequent logins distracting disables one logger, by the name that Kopf's manual has."""

Credential = ConnectionInfo | AiohttpSession


class LoginSource:
    """The access as the login handlers give it: one of the highest priority, not expired, not refused.

    `ask` runs all login handlers and gives their results by handler id. It is run when nothing usable is left, by one
    request for all that wait. The same credentials given again after a refusal are used again: the client backs off.
    """

    def __init__(self, ask: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        self._ask = ask
        self._known: dict[str, tuple[Credential, Access]] = {}
        self._current: Access | None = None
        self._lock: asyncio.Lock | None = None
        self._asked_before = False

    async def access(self) -> Access:
        """The access in use; asks the handlers when there is none. Raises LoginError when they give nothing usable."""
        if self._current is not None and not self._expired(self._current):
            return self._current
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if self._current is None or self._expired(self._current):
                self._current = self._choose() or await self._login()
            return self._current

    async def refused(self, access: Access) -> None:
        """Drop an access that the server refused; the next question asks the handlers, if no other one is left."""
        self._known = {key: known for key, known in self._known.items() if known[1] is not access}
        if self._current is access:
            self._current = None

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
        title = "Re-authentication" if self._asked_before else "Initial authentication"
        self._asked_before = True
        logger.info("%s has been initiated.", title)
        try:
            given = await self._ask()
        except ActivityError as exc:
            raise LoginError(f"{title} has failed: {exc.__cause__ or exc}") from exc
        for handler_id, info in given.items():
            if not isinstance(info, (ConnectionInfo, AiohttpSession)):
                raise ValueError(  # noqa: TRY004 - Kopf's class
                    f"Only ConnectionInfo/AiohttpSession instances are accepted; login handler {handler_id!r} returned "
                    f"{type(info).__name__}."
                )
            self._known[handler_id] = (info, as_access(info, handler_id))
        access = self._choose()
        if access is None:
            logger.error("%s has failed: no credentials were retrieved from the login handlers.", title)
            raise LoginError(
                "Ran out of valid credentials: the login handlers gave none that has not expired. Check what they "
                "return, or remove them to use the kubeconfig or the pod's service account."
            )
        logger.info("%s has finished.", title)
        return access
