"""A line to the server of one replica alone, that a test can cut and mend."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit


class Line:
    """Passes bytes on between its own address and the server's, unless it is cut: then connections are aborted, old and new."""

    def __init__(self, server: str) -> None:
        self._target = urlsplit(server)
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.is_cut = False

    @property
    def url(self) -> str:
        """The address to use instead of the server's."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Let nothing pass any more."""
        self.is_cut = True
        for writer in list(self._writers):
            writer.transport.abort()

    def mend(self) -> None:
        """Let new connections pass."""
        self.is_cut = False

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.transport.abort()
            return
        assert self._target.hostname is not None
        there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
        self._writers |= {writer, back}
        for source, target in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._pump(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        self._writers.discard(target)
        target.close()


@contextlib.asynccontextmanager
async def a_line(server: str) -> AsyncIterator[Line]:
    """A line to a server, for the time of the block."""
    line = Line(server)
    line._server = await asyncio.start_server(line._connect, "127.0.0.1", 0)
    try:
        yield line
    finally:
        line._server.close()
        line.cut()
        for task in list(line._tasks):
            task.cancel()
        await asyncio.gather(*line._tasks, return_exceptions=True)
