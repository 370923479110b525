"""A proxy that passes bytes on, and on request cuts its connections or keeps them open and silent."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field


@dataclass
class Proxy:
    """Between a client and one address. TLS goes through as it is."""

    host: str
    port: int
    listening: int = 0
    is_closed: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _flowing: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def cut(self) -> None:
        """Reset all connections."""
        for writer in list(self._writers):
            writer.transport.abort()

    def close(self) -> None:
        """Reset all connections, and every new one, until `reopen`."""
        self.is_closed = True
        self.cut()

    def reopen(self) -> None:
        """Serve new connections again."""
        self.is_closed = False

    def stall(self) -> None:
        """Pass nothing on any more, on connections that are open now; later ones are served."""
        self._flowing.clear()
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        flowing = self._flowing
        if self.is_closed:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(self.host, self.port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, back}
        for source, target in ((reader, back), (there, writer)):
            task = asyncio.get_running_loop().create_task(self._pump(source, target, flowing))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, flowing: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                await flowing.wait()
                target.write(data)
                await target.drain()
        self._writers.discard(target)
        target.close()


@contextlib.asynccontextmanager
async def proxied(host: str, port: int) -> AsyncIterator[Proxy]:
    """A proxy on a free port of the loopback interface."""
    proxy = Proxy(host, port)
    proxy._flowing.set()
    server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
    proxy.listening = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        for task in list(proxy._tasks):
            task.cancel()
        await asyncio.gather(*proxy._tasks, return_exceptions=True)
