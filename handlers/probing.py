"""Answer liveness probes with what the `on.probe` handlers find (Kopf's `--liveness`)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from ..controller.httpserver import Answer, HTTPServer, Request
from .causation.causes import Activity
from .execution.activities import Stage

KEEP_SECONDS = 10.0
"""For how long what the handlers found is answered again without asking them."""


class Liveness:
    """What the probe handlers found last; requests that come together share one run of them."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._lock = asyncio.Lock()
        self._found: dict[str, Any] = {}
        self._until: float | None = None

    async def answer(self, _: Request) -> Answer:
        """The results by handler id, as JSON. Raises ActivityError when a handler failed for good: a 500 to who asked."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            if self._until is None or loop.time() >= self._until:
                self._found = await self._stage.run(Activity.PROBE)
                self._until = loop.time() + KEEP_SECONDS
        return Answer(json.dumps(self._found, default=str).encode(), content_type="application/json; charset=utf-8")


@asynccontextmanager
async def liveness(stage: Stage, endpoint: str | None) -> AsyncIterator[HTTPServer | None]:
    """Serve the liveness page at `http://host:port/path` while inside; nothing without an endpoint.

    The host is `localhost` and the port 80 where the URL does not say. Raises ValueError for another scheme than http,
    and AddressTaken when the port is in use.
    """
    if endpoint is None:
        yield None
        return
    parts = urlsplit(endpoint)
    if parts.scheme != "http":
        raise ValueError(f"Unsupported scheme: {endpoint}; liveness is served as http://HOST:PORT/PATH only.")
    server = HTTPServer(parts.hostname or "localhost", 80 if parts.port is None else parts.port)
    server.add(parts.path or "/", Liveness(stage).answer)
    await server.start()
    try:
        yield server
    finally:
        await server.stop(0.0)
