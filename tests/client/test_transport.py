import asyncio
import gzip
import json
from dataclasses import replace

import aiohttp
import pytest

from ctl.client.config.access import TLS, Access, Constant
from ctl.client.errors import AccessError, APIError, LostAnswer, RequestError
from ctl.client.rest import Client

from .wireserver import PODS, QUICK, Seen, Wire, pod, replies, serving, talking


async def test_a_proxy_of_the_configuration_is_used() -> None:
    async with serving(replies((200, pod()))) as proxy:
        client = Client(Access("http://cluster.invalid:6443", proxy=proxy.url), QUICK)
        await client.get(PODS, "a", "ns")
        await client.close()
    assert proxy.seen[0].path == "http://cluster.invalid:6443/api/v1/namespaces/ns/pods/a"


@pytest.mark.parametrize("by_access", [True, False])
async def test_a_proxy_of_the_environment_is_used_when_asked_for(
    by_access: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(replies((200, pod()))) as proxy, serving(replies((200, pod()))) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        settings = replace(QUICK, trust_env=not by_access)
        for url in ("http://cluster.invalid", server.url):
            async with Client(Access(url, trust_env=by_access), settings) as client:
                await client.get(PODS, "a", "ns")
        assert (len(proxy.seen), len(server.seen)) == (1, 1)
        async with Client(Access(server.url), QUICK) as client:
            monkeypatch.setenv("no_proxy", "")
            await client.get(PODS, "a", "ns")
        assert (len(proxy.seen), len(server.seen)) == (1, 2)


async def test_an_unreachable_proxy_is_one_message(unused_port: int) -> None:
    access = Access("http://cluster.invalid", proxy=f"http://127.0.0.1:{unused_port}")
    async with Client(access, replace(QUICK, error_backoffs=())) as client:
        with pytest.raises(RequestError, match=f"127.0.0.1.*{unused_port}") as caught:
            await client.get(PODS, "a", "ns")
    assert not caught.value.sent


async def test_long_answers_may_be_compressed_unless_told_not_to() -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        if "gzip" in seen.headers.get("accept-encoding", ""):
            await wire.reply(200, gzip.compress(json.dumps(pod()).encode()), Content_Encoding="gzip")
        else:
            await wire.reply(200, pod())

    async with serving(behave) as server:
        for compression in (True, False):
            async with Client(Access(server.url, compression=compression), QUICK) as client:
                assert (await client.get(PODS, "a", "ns")).body() == pod()
    assert ["gzip" in seen.headers["accept-encoding"] for seen in server.seen] == [True, False]


async def test_a_given_session_is_used_as_it_is() -> None:
    lost: list[Seen] = []

    async def behave(seen: Seen, wire: Wire) -> None:
        if seen.method == "PUT":
            lost.append(seen)
            wire.cut()
        else:
            await wire.reply(200, pod())

    async with serving(behave) as server, aiohttp.ClientSession(headers={"Authorization": "Own login"}) as session:
        async with Client(Access(server.url, session=session), QUICK) as client:
            await client.get(PODS, "a", "ns")
            with pytest.raises(LostAnswer):
                await client.replace(PODS, pod(), namespace="ns", name="a")
            await client.patch(PODS, "a", "ns", {})
        assert not session.closed
    assert len(lost) == 1
    assert server.seen[0].headers["authorization"] == "Own login"
    assert server.seen[0].headers["user-agent"].startswith("ctl/")


async def test_redirects_are_followed_for_reads_only() -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        if seen.path == "/there":
            await wire.reply(200, pod())
        else:
            await wire.reply(307, {}, Location="/there" if seen.method == "GET" else server.url + "/there")

    credentials = Constant((("Authorization", "t"), ("Impersonate-User", "u")))
    async with serving(behave) as server, Client(Access(server.url, credentials=credentials), QUICK) as client:
        await client.get(PODS, "a", "ns")
        with pytest.raises(APIError, match=r"307.* sends the request on to .*/there.* check its address"):
            await client.patch(PODS, "a", "ns", {})
    assert [(seen.method, seen.path) for seen in server.seen if seen.path == "/there"] == [("GET", "/there")]
    assert server.seen[-2].headers["authorization"] == "t"


@pytest.mark.parametrize("how", ["get", "list", "watch"])
async def test_a_redirect_to_another_origin_is_not_followed(how: str) -> None:
    """What we are let in with, headers of impersonation and client certificates among it, is for one server only."""

    async def ask(client: Client) -> None:
        if how == "get":
            await client.get(PODS, "a", "ns")
        elif how == "list":
            await client.list(PODS)
        else:
            async with client.watch(PODS) as stream:
                assert [batch async for batch in stream] == []

    credentials = Constant((("Authorization", "t"), ("Impersonate-User", "u")))
    async with serving(replies((200, pod()))) as target:
        elsewhere = replies((307, {}, {"Location": target.url + "/there"}))
        async with serving(elsewhere) as server, Client(Access(server.url, credentials=credentials), QUICK) as client:
            with pytest.raises(APIError, match=r"307.* sends the request on to .*/there.* check its address"):
                await ask(client)
    assert target.seen == []


async def test_redirects_that_lead_nowhere_are_one_message() -> None:
    settings = replace(QUICK, error_backoffs=())
    async with talking(replies((302, b"", {"Location": "/round"})), settings) as (server, client):
        with pytest.raises(
            RequestError, match=r"/pods/a: the server sends the request on in circles\. Check its address in "
        ):
            await client.get(PODS, "a", "ns")
        assert len(server.seen) <= 12
    async with talking(replies((302, b"", {"Location": "ftp://elsewhere"})), settings) as (server, client):
        with pytest.raises(APIError, match="sends the request on to ftp://elsewhere"):
            await client.get(PODS, "a", "ns")


async def test_an_answer_that_cannot_be_read_is_one_line() -> None:
    settings = replace(QUICK, error_backoffs=())
    async with talking(replies((200, b"plain", {"Content-Encoding": "gzip"})), settings) as (_server, client):
        with pytest.raises(RequestError, match=r"the answer was lost: [^\n]*gzip[^\n]*$"):
            await client.get(PODS, "a", "ns")


async def test_a_server_that_does_not_speak_tls() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent something strange.\n")
        writer.close()

    listener = await asyncio.start_server(refuse, "127.0.0.1", 0)
    access = Access(f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}", TLS(insecure=True))
    async with listener, Client(access, QUICK) as client:
        with pytest.raises(RequestError, match=r"no (trusted )?connection") as caught:
            await client.get(PODS, "a", "ns")
    assert not caught.value.sent


async def test_waiting_for_a_free_connection_is_no_lost_answer() -> None:
    arrived = asyncio.Event()

    async def behave(seen: Seen, wire: Wire) -> None:
        arrived.set()
        await wire.until_closed()

    settings = replace(QUICK, connections=1, error_backoffs=())
    async with serving(behave) as server, Client(Access(server.url), settings) as client:
        blocker = asyncio.create_task(client.get(PODS, "a", "ns"))
        await asyncio.wait_for(arrived.wait(), 10)
        with pytest.raises(RequestError, match="it took too long") as caught:
            await client.request("PUT", "/x", timeout=0.02)
        assert not isinstance(caught.value, LostAnswer)
        blocker.cancel()
        await asyncio.gather(blocker, return_exceptions=True)


async def test_requests_that_wait_for_a_connection_end_when_their_client_is_closed() -> None:
    arrived = asyncio.Event()

    async def behave(seen: Seen, wire: Wire) -> None:
        arrived.set()
        await wire.until_closed()

    async with serving(behave) as server, asyncio.timeout(10):
        client = Client(Access(server.url), replace(QUICK, connections=1, error_backoffs=()))
        sent = asyncio.create_task(client.get(PODS, "a", "ns"))
        await arrived.wait()
        waiting = [asyncio.create_task(client.get(PODS, "b", "ns")) for _ in range(2)]
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(RequestError):
            await sent
        for request in waiting:
            with pytest.raises(AccessError, match="This client is closed"):
                await request
    assert len(server.seen) == 1


async def test_closing_a_client_ends_its_watches() -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.until_closed()

    async with serving(behave) as server:
        client = Client(Access(server.url), QUICK)
        async with asyncio.timeout(10), client.watch(PODS) as stream:
            await client.close()
            assert [batch async for batch in stream] == []
