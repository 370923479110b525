"""A proxy that passes requests on to an API server and keeps what was asked: which requests an operator makes, and whose they are."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web
from targets import Target

WRITES = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# Of the connection, not of the message; and whatever the client of the proxy has to say about itself.
_HOPS = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "authorization", "accept-encoding"}


@dataclass(frozen=True)
class Request:
    """One request."""

    verb: str
    """As in a log of the server: get, list, watch, create, update, patch, delete."""
    path: str
    agent: str
    """The User-Agent: the framework has its own, and so has each client library."""


@dataclass
class Proxy:
    """Between an operator and a server; plain HTTP on the loopback interface."""

    target: Target
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    _session: aiohttp.ClientSession | None = None

    def kubeconfig(self, path: Path) -> None:
        """Write a kubeconfig by which a client comes through here."""
        name = "proxied"
        found = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": name, "user": {"token": "the-proxy-has-its-own"}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        }
        path.write_text(yaml.safe_dump(found))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass one request on, and what comes back."""
        assert self._session is not None
        self.requests.append(
            Request(_verb(request), request.path_qs.partition("?")[0], request.headers.get("User-Agent", ""))
        )
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOPS}
        async with self._session.request(
            request.method,
            self.target.url + request.raw_path,
            data=await request.read() or None,
            headers={**headers, **self.target.headers},
            timeout=aiohttp.ClientTimeout(total=None),
        ) as answer:
            kept = {key: value for key, value in answer.headers.items() if key.lower() not in _HOPS}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


def _verb(request: web.Request) -> str:
    if request.method != "GET":
        return WRITES.get(request.method, request.method.lower())
    if request.query.get("watch", "false").lower() not in {"false", "0"}:
        return "watch"
    parts = request.path.strip("/").split("/")
    after = parts[parts.index("namespaces") + 2 :] if "namespaces" in parts else parts[2 if parts[0] == "api" else 3 :]
    return "list" if len(after) == 1 else "get"


def counted(requests: Iterable[Request]) -> Counter[str]:
    """How many there were: writes and reads of the framework, and those of the operator's own clients."""
    found: Counter[str] = Counter()
    for request in requests:
        mine = request.agent.startswith(("kopf/", "ctl"))
        if request.verb == "watch":
            continue
        # Reviews of one's own rights are created, and change nothing.
        kind = "writes" if request.verb in WRITES.values() and not request.path.endswith("reviews") else "reads"
        if mine and kind == "writes" and "/events" in request.path:
            kind = "events"
        found[kind if mine else f"operator's {kind}"] += 1
    return found


@contextlib.asynccontextmanager
async def proxied(target: Target) -> AsyncIterator[Proxy]:
    """A proxy on a free port of the loopback interface."""
    proxy = Proxy(target)
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True, access_log=None)
    connector = aiohttp.TCPConnector(ssl=target.tls if target.tls is not None else True, limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        proxy._session = session
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        proxy.port = runner.addresses[0][1]
        try:
            yield proxy
        finally:
            await runner.cleanup()
