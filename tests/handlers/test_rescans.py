"""What the server serves is asked for again and again, whatever has gone wrong meanwhile: kinds that come later are served."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

import ctl
from ctl.client.config.access import Access, Authentication
from ctl.client.errors import AccessError
from ctl.sandbox import Match, SandboxSettings

from .world import KEX, PLAIN, Calls, World, a_world, crd, rest

pytestmark = pytest.mark.virtual_time

TROUBLES = ["login", "access", "server"]


class Breakable:
    """Credentials that may fail for a time, as the token of an exec plugin does."""

    broken = False

    async def authentication(self, *, period: float) -> Authentication:
        if self.broken:
            raise AccessError("the plugin has failed")
        return Authentication()

    async def renew(self, refused: Authentication) -> Authentication:
        return await self.authentication(period=0)


class Trouble:
    """The way to the server is broken in one of three ways, and mended."""

    def __init__(self, kind: str, world: World) -> None:
        self.kind = kind
        self.credentials = Breakable()
        self._world = world
        self._token = "first"
        self._fails = False
        if kind == "login":

            @ctl.on.login(id="login", retries=1)
            async def login(**_: Any) -> ctl.ConnectionInfo:
                if self._fails:
                    raise ctl.PermanentError("the vault is sealed")
                return ctl.ConnectionInfo(server=world.sandbox.url, token=self._token)

    @property
    def access(self) -> Access | None:
        return None if self.kind == "login" else Access(self._world.sandbox.url, credentials=self.credentials)

    def begin(self) -> None:
        self.credentials.broken, self._fails = self.kind == "access", True
        if self.kind == "login":
            self._world.sandbox.take_tokens({"second", "user"})
        elif self.kind == "server":
            self._world.sandbox.faults.answer(503, match=Match(path="^/apis?$", user_agent="ctl/"), times=None)

    def end(self) -> None:
        self.credentials.broken, self._fails, self._token = False, False, "second"
        self._world.sandbox.faults.clear()


@pytest.mark.parametrize("kind", TROUBLES)
@pytest.mark.parametrize("seconds", [2, 100])
async def test_kinds_that_come_while_the_server_cannot_be_asked_are_served_when_it_can(
    calls: Calls, kind: str, seconds: float
) -> None:
    async with a_world(SandboxSettings(tokens=_tokens(kind)), definitions=[crd(KEX)]) as world:
        trouble = Trouble(kind, world)

        @ctl.on.event(PLAIN.plural, id="event")
        async def event(name: str, **_: Any) -> None:
            calls(name, {})

        async with world.running(access=trouble.access):
            trouble.begin()
            await world.sandbox.load_manifest(crd(PLAIN))
            world.sandbox.create({"apiVersion": "kopf.dev/v1", "kind": "Plain", "metadata": _named("one")})
            await rest(seconds)
            trouble.end()
            await world.until(lambda: calls.count("one"), 90)


@pytest.mark.parametrize("kind", TROUBLES)
async def test_a_declared_controller_is_started_when_the_server_can_be_asked_again(calls: Calls, kind: str) -> None:
    async with a_world(SandboxSettings(tokens=_tokens(kind)), definitions=[crd(KEX)]) as world:
        trouble = Trouble(kind, world)

        async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
            calls(key.name, {})

        ctl.declare(ctl.controller("plains.kopf.dev").reconciles(reconcile))
        async with world.running(access=trouble.access):
            await rest(5)
            trouble.begin()
            await world.sandbox.load_manifest(crd(PLAIN))
            world.sandbox.create({"apiVersion": "kopf.dev/v1", "kind": "Plain", "metadata": _named("one")})
            await rest(100)
            trouble.end()
            await world.until(lambda: calls.count("one"), 90)


@asynccontextmanager
async def _rewriting(port: int, words: dict[bytes, bytes]) -> AsyncIterator[str]:
    """A way to a server by which some words of its answers become others of the same length, for as long as there are any."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        try:
            while data := await reader.read(1 << 20):
                for word, other in words.items() if is_answer else ():
                    data = data.replace(word, other)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(
            pump(reader, there_writer, is_answer=False),
            pump(there_reader, writer, is_answer=True),
            return_exceptions=True,
        )

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def test_a_group_that_could_not_be_asked_is_asked_again(world: World, calls: Calls) -> None:
    """As one of an aggregated API that is down: no definition tells of it when it is back."""

    @ctl.on.event(PLAIN.plural, id="event")
    async def event(name: str, **_: Any) -> None:
        calls(name, {})

    await world.create("one", resource=PLAIN)
    words = {b'"resource":"plains"': b'"resource":"plainz"', b'"freshness":"Current"': b'"freshness":"Stale"  '}
    async with (
        _rewriting(urlsplit(world.sandbox.url).port or 0, words) as url,
        world.running(access=Access(url, compression=False)),
    ):
        await rest(300)
        assert not calls.made
        words.clear()
        await world.until(lambda: calls.count("one"), 90)


def _named(name: str) -> dict[str, str]:
    return {"name": name, "namespace": "default"}


def _tokens(kind: str) -> frozenset[str]:
    return frozenset({"first", "user"}) if kind == "login" else frozenset()
