"""Answer liveness probes with what the `on.probe` handlers find (Kopf's `--liveness`)."""

import asyncio
import json
from typing import Any

from ..controller.httpserver import Answer, Request
from .causation.causes import Activity
from .execution.activities import Stage

KEEP_SECONDS = 10.0
"""For how long what the handlers found is answered again without asking them."""


class Liveness:
    """What the probe handlers found last; requests that come together share one run of them.

    Before `begin` (the startup handlers have not succeeded yet) the answer is 503.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._lock = asyncio.Lock()
        self._begun = False
        self._found: dict[str, Any] = {}
        self._until: float | None = None

    def begin(self) -> None:
        """Ask the handlers from now on."""
        self._begun = True

    async def answer(self, _: Request) -> Answer:
        """The results by handler id, as JSON. Raises ActivityError when a handler failed for good: a 500 to who asked."""
        if not self._begun:
            return Answer(b"The startup handlers have not succeeded yet.\n", 503)
        loop = asyncio.get_running_loop()
        async with self._lock:
            if self._until is None or loop.time() >= self._until:
                self._found = await self._stage.run(Activity.PROBE)
                self._until = loop.time() + KEEP_SECONDS
        return Answer(json.dumps(self._found, default=str).encode(), content_type="application/json; charset=utf-8")
