import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ctl.client.config.access import Access, Constant
from ctl.client.errors import AccessError, APIError, LostAnswer, RequestError
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.client.wire.request import PatchKind

from .wireserver import PODS, QUICK, Seen, Wire, pod, replies, serving, talking

TRUSTING = replace(QUICK, trust_env=True)
"""With these the library sends everything by itself: it has to look for proxies."""


async def each_verb(client: Client) -> None:
    await client.get(PODS, "a", "ns")
    await client.list(PODS, "ns")
    await client.create(PODS, pod())
    await client.replace(PODS, pod(), namespace="ns", name="a")
    await client.patch(PODS, "a", "ns", {"metadata": {"labels": {"ö": "\u2028"}}})
    await client.patch(PODS, "a", "ns", [], kind=PatchKind.JSON, field_manager="m&=?#")
    await client.delete(PODS, "a", "ns", uid="u")
    await client.delete(PODS, "ä b", "n s")
    await client.request("POST", "/x")
    await client.request("PUT", "/x?a=b", body=b"\0raw", headers={"content-type": "text/plain", "Accept": "text/*"})
    await client.request("HEAD", "/x", params={"y": "z"}, headers={"User-Agent": "me", "Empty": ""})
    await client.request("get", "/ö?a=ö#y")


async def answer(seen: Seen, wire: Wire) -> None:
    if seen.method == "HEAD":
        wire.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    else:
        await wire.reply(200, pod() if "/pods/" in seen.path else {**pod(), "kind": "PodList", "items": []})


@pytest.mark.fast_path("it is compared with the library's sessions here")
@pytest.mark.parametrize(
    "change",
    [
        lambda access: access,
        lambda access: replace(access, compression=False),
        lambda access: replace(access, server=access.server + "/k8s/c-1"),
        lambda access: replace(access, server=access.server + "/"),
        lambda access: replace(access, server=access.server.replace("127", "me:p%40ss@127")),
        lambda access: replace(access, server=access.server.replace("127.0.0.1", "localhost")),
        lambda access: replace(
            access,
            credentials=Constant((("Impersonate-Group", "a"), ("Impersonate-Group", "ä"), ("Authorization", "t"))),
        ),
    ],
    ids=["plain", "identity", "path", "slash", "user", "name", "credentials"],
)
async def test_requests_are_what_the_library_would_have_sent(
    change: Callable[[Access], Access], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("http_proxy", raising=False)

    async def sent(settings: ClientSettings) -> list[Seen]:
        async with serving(answer) as server:
            async with Client(change(Access(server.url)), settings) as client:
                await each_verb(client)
            assert server.connections == 1
            for seen in server.seen:
                assert seen.headers.pop("host").endswith(f":{server.port}")
        return server.seen

    ours, theirs = await sent(QUICK), await sent(TRUSTING)
    for seen in theirs:
        if not seen.body:
            # The library calls nothing a stream of octets.
            seen.headers.pop("content-type", None)
    assert ours == theirs
    assert len(ours) == 12


@pytest.mark.parametrize("end", ["\r\nInjected: x", "\n", "\0"])
async def test_a_header_that_would_be_two_is_not_sent(end: str) -> None:
    async with serving(replies((200, pod()))) as server:
        credentials = Constant((("Authorization", f"Bearer secret{end}"),))
        async with Client(Access(server.url, credentials=credentials), QUICK) as client:
            with pytest.raises(ValueError, match="line break or a null byte") as caught:
                await client.get(PODS, "a", "ns")
    assert "secret" not in str(caught.value)
    assert server.seen == []


async def test_the_length_is_that_of_the_body() -> None:
    async with talking(replies((200, pod()))) as (server, client):
        for length in ("3", "30"):
            await client.request("POST", "/x", body=b"12345", headers={"content-Length": length})
    assert [(seen.body, seen.headers["content-length"]) for seen in server.seen] == [(b"12345", "5")] * 2


async def test_what_comes_before_an_answer_is_passed_over() -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        wire.writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        await wire.reply(200, pod())

    async with talking(behave) as (server, client):
        for _ in range(2):
            assert (await client.get(PODS, "a", "ns")).name == "a"
    assert (len(server.seen), server.connections) == (2, 1)


@pytest.mark.parametrize(
    "closing",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b",
        b"HTTP/1.0 200 OK\r\nX: %d\r\n\r\n%b",
    ],
    ids=["told", "until the end"],
)
async def test_a_connection_that_is_of_no_more_use_is_not_used_again(closing: bytes) -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        body = b'{"metadata":{"name":"a","namespace":"ns","uid":"u"}}'
        wire.writer.write(closing % (len(body), body))
        await wire.writer.drain()
        if b"1.0" in closing:
            wire.writer.close()

    async with talking(behave) as (server, client):
        for _ in range(2):
            assert (await client.get(PODS, "a", "ns")).uid == "u"
            await asyncio.sleep(0)
    assert (len(server.seen), server.connections) == (2, 2)


async def test_a_request_that_is_given_up_leaves_no_answer_to_the_next() -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        if seen.path.endswith("/slow"):
            arrived.set()
            await asyncio.wait_for(given_up.wait(), 10)
        await wire.reply(200, pod(seen.path.rpartition("/")[2]))

    arrived, given_up = asyncio.Event(), asyncio.Event()
    async with talking(behave) as (server, client):
        slow = asyncio.create_task(client.get(PODS, "slow", "ns"))
        await asyncio.wait_for(arrived.wait(), 10)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        given_up.set()
        assert (await client.get(PODS, "quick", "ns")).name == "quick"
    assert server.connections == 2


@pytest.mark.parametrize(
    "junk", [b"SSH-2.0-OpenSSH_9.6\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 200 OK\r\nA\0: b\r\n\r\n"]
)
async def test_an_answer_that_is_no_http_is_lost(junk: bytes) -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        wire.writer.write(junk)
        await wire.writer.drain()

    async with talking(behave, replace(QUICK, error_backoffs=())) as (server, client):
        with pytest.raises(RequestError, match=r"GET \S+/pods/a: the answer was lost: 400, [^\n]+$"):
            await client.get(PODS, "a", "ns")
        with pytest.raises(LostAnswer):
            await client.request("POST", "/x")
    assert server.connections == 2


async def test_headers_that_end_in_the_middle_are_no_part_of_the_message() -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        wire.writer.write(b"HTTP/1.1 200 OK\r\nSet-Cookie: secret\r\nContent-")
        wire.writer.close()

    async with talking(behave, replace(QUICK, error_backoffs=())) as (_, client):
        with pytest.raises(RequestError, match=r"/pods/a: the answer was lost: Server disconnected\.$"):
            await client.get(PODS, "a", "ns")


@pytest.mark.fast_path("what a server has sent over an idle connection is seen by inner parts of the library only")
@pytest.mark.parametrize("settings", [QUICK, TRUSTING], ids=["ours", "the library's"])
async def test_what_a_server_says_without_being_asked_is_the_answer_to_nothing(
    settings: ClientSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As load balancers do with a connection that is idle."""
    monkeypatch.delenv("http_proxy", raising=False)
    wires: list[Wire] = []

    async def behave(seen: Seen, wire: Wire) -> None:
        wires.append(wire)
        await wire.reply(200, pod(seen.path.rpartition("/")[2]))

    async with talking(behave, settings) as (server, client):
        for name in "abc":
            assert (await client.get(PODS, name, "ns")).name == name
            transport: Any = client._sender._transport
            ((idle, _),) = next(iter(transport._sessions["request"].connector._conns.values()))
            await wires[-1].reply(200, pod("stale"))
            async with asyncio.timeout(10):
                while not idle.should_close:  # noqa: ASYNC110 - what has arrived is seen from outside only
                    await asyncio.sleep(0.001)
    assert (len(server.seen), server.connections) == (3, 3)


async def test_a_body_that_is_refused_unread_stands_before_no_other_request() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served.append(task)
        head = await reader.readuntil(b"\r\n\r\n")
        code = 413 if head.startswith(b"POST") else 200
        writer.write(b"HTTP/1.1 %d Said\r\nContent-Length: 2\r\n\r\n{}" % code)
        await asyncio.wait_for(over.wait(), 60)
        writer.close()

    over = asyncio.Event()
    served: list[asyncio.Task[Any]] = []
    async with await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024) as listener:
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        async with Client(Access(url), replace(QUICK, error_backoffs=())) as client:
            with pytest.raises(APIError, match="413"):
                await client.request("POST", "/x", body=b"x" * 20_000_000)
            try:
                assert await client.request("GET", "/y") == b"{}"
            finally:
                over.set()
                await asyncio.gather(*served, return_exceptions=True)
    assert len(served) == 2


async def test_an_answer_longer_than_a_buffer_comes_whole() -> None:
    body = pod(annotations={"long": "x" * 3_000_000})
    async with talking(replies((200, body))) as (_, client):
        for _ in range(2):
            assert (await client.patch(PODS, "a", "ns", {"x": "y" * 3_000_000})).body() == body


@pytest.mark.fast_path("there is no such text")
async def test_the_text_of_headers_is_not_kept_for_ever() -> None:
    """Each renewed token makes another."""
    seen: list[str] = []

    async def behave(request: Seen, wire: Wire) -> None:
        seen.append(request.headers["x"])
        await wire.reply(200, {})

    async with talking(behave) as (_, client):
        for number in [*range(100), 0, 99]:
            await client.request("GET", "/x", headers={"X": str(number)})
        routes: Any = client._sender._transport._routes
        assert len(routes["request"]._heads) <= 32
    assert seen == [str(number) for number in [*range(100), 0, 99]]


async def test_nothing_is_sent_by_a_client_that_is_closed() -> None:
    async with talking(replies((200, pod()))) as (server, client):
        await client.get(PODS, "a", "ns")
        await client.close()
        with pytest.raises(AccessError, match=re.escape("This client is closed")):
            await client.get(PODS, "a", "ns")
    assert len(server.seen) == 1
