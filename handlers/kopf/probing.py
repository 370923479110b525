"""Answer liveness probes with the results of the `on.probe` handlers (Kopf's `--liveness`)."""

import asyncio
import json
from typing import Any

from ...controller.http.pages import CheckResult
from ...controller.http.server import PageRequest, PageResponse
from ..causes.causes import Activity
from ..execution.activities import Activities, ActivityError

KEEP_SECONDS = 10.0
"""For so many seconds the last results are answered again."""


class Liveness:
    """The last results of the probe handlers; concurrent requests share one run of them.

    Before `begin` (the startup handlers have not succeeded yet) the page answers 503.
    """

    def __init__(self, stage: Activities) -> None:
        self._stage = stage
        self._begun = False
        # A run goes on when its request is gone: otherwise, handlers that are retried would never finish.
        self._run: asyncio.Task[dict[str, Any]] | None = None
        self._found: dict[str, Any] = {}
        self._until: float | None = None

    def begin(self) -> None:
        """Call the handlers from now on."""
        self._begun = True

    async def end(self) -> None:
        """Call them no more."""
        self._begun = False
        if self._run is not None:
            self._run.cancel()
            await asyncio.gather(self._run, return_exceptions=True)

    async def find(self) -> dict[str, Any]:
        """The results by handler id. Raises ActivityError when a handler failed for good."""
        loop = asyncio.get_running_loop()
        if self._until is not None and loop.time() < self._until:
            return self._found
        if self._run is None:
            self._run = loop.create_task(self._stage.run(Activity.PROBE), name="probe handlers")
            self._run.add_done_callback(self._ended)
        return await asyncio.shield(self._run)

    def _ended(self, run: asyncio.Task[dict[str, Any]]) -> None:
        self._run = None
        # Asking for the error also keeps asyncio from logging it when no request waits for it.
        if not run.cancelled() and run.exception() is None:
            self._found = run.result()
            self._until = asyncio.get_running_loop().time() + KEEP_SECONDS

    async def answer(self, _: PageRequest) -> PageResponse:
        """The results as JSON. Raises ActivityError when a handler failed for good: status 500."""
        if not self._begun:
            return PageResponse(b"The startup handlers have not succeeded yet.\n", 503)
        found = await self.find()
        return PageResponse(json.dumps(found, default=str).encode(), content_type="application/json; charset=utf-8")

    async def check(self) -> CheckResult:
        """Whether the process is alive, as far as the handlers can tell; before they may be asked, it is."""
        if not self._begun:
            return CheckResult(ok=True, text="not asked yet")
        try:
            return CheckResult(ok=True, text=json.dumps(await self.find(), default=str))
        except ActivityError as error:
            return CheckResult(ok=False, text=str(error))
