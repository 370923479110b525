"""What a request costs the process that sends it: merge patches of custom objects, answered at once with 1 kB, 32 under way at a time.

    python tests/bench/patches.py serve
    python tests/bench/patches.py CLIENT COUNT URL

CLIENT is `ctl`, `kubernetes_asyncio` or `aiohttp` (a bare session, which reads answers and decodes nothing). Prints one line of JSON. All on uvloop,
where we have it.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import kubernetes_asyncio.client as theirs

from ctl.cli.process import new_loop, run_in
from ctl.client.config.access import Access
from ctl.client.resources import Resource
from ctl.client.rest import Client

AT_ONCE = 32
WARM_UP = 500
RESOURCE = Resource("bench.ctl.test", "v1", "widgets", kind="Widget", namespaced=True)
PATCH = {"metadata": {"annotations": {"bench.ctl.test/note": "x" * 200}}}
OBJECT = json.dumps(
    {
        "apiVersion": "bench.ctl.test/v1",
        "kind": "Widget",
        "metadata": {"name": "a", "namespace": "ns", "uid": "5f0c", "resourceVersion": "7"},
        "spec": {"note": "x" * 900},
    }
).encode()
ANSWER = (
    b"HTTP/1.1 200 OK\r\nAudit-Id: 6f1d\r\nCache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
    b"Date: Sun, 01 Nov 2026 10:00:00 GMT\r\nContent-Length: %d\r\n\r\n%b" % (len(OBJECT), OBJECT)
)

Send = Callable[[str], Awaitable[object]]


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].partition(b"\r")[0]
            await reader.readexactly(int(length or b"0"))
            writer.write(ANSWER)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


async def with_ctl(url: str, stack: AsyncExitStack) -> Send:
    client = await stack.enter_async_context(Client(Access(url)))

    async def send(name: str) -> object:
        return await client.patch(RESOURCE, name, "ns", PATCH)

    return send


async def with_kubernetes_asyncio(url: str, stack: AsyncExitStack) -> Send:
    api = await stack.enter_async_context(theirs.ApiClient(theirs.Configuration(host=url)))
    objects: Any = theirs.CustomObjectsApi(api)  # its types know nothing of the options of its calls
    place = {"group": RESOURCE.group, "version": RESOURCE.version, "namespace": "ns", "plural": RESOURCE.plural}

    async def send(name: str) -> object:
        return await objects.patch_namespaced_custom_object(
            **place, name=name, body=PATCH, _content_type="application/merge-patch+json"
        )

    return send


async def with_aiohttp(url: str, stack: AsyncExitStack) -> Send:
    session = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)))
    headers = {"Content-Type": "application/merge-patch+json"}

    async def send(name: str) -> object:
        path = RESOURCE.get_url(namespace="ns", name=name)
        async with session.patch(url + path, data=json.dumps(PATCH), headers=headers) as response:
            return await response.read()

    return send


CLIENTS = {"ctl": with_ctl, "kubernetes_asyncio": with_kubernetes_asyncio, "aiohttp": with_aiohttp}


async def measure(client: str, count: int, url: str) -> None:
    async with AsyncExitStack() as stack:
        send = await CLIENTS[client](url, stack)

        async def send_each(names: list[str]) -> None:
            for name in names:
                await send(name)

        async def send_all(total: int) -> None:
            names = [f"o{number}" for number in range(total)]
            await asyncio.gather(*(send_each(names[start::AT_ONCE]) for start in range(AT_ONCE)))

        await send_all(WARM_UP)
        began, burnt = time.perf_counter(), time.process_time()
        await send_all(count)
        seconds, cpu = time.perf_counter() - began, time.process_time() - burnt
    line = {
        "requests": count,
        "per_s": round(count / seconds),
        "per_cpu_s": round(count / cpu),
        "cpu_us": round(cpu / count * 1e6, 1),
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        run_in(new_loop(), serve())
    else:
        run_in(new_loop(), measure(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
