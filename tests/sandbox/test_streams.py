"""Watch streams over real sockets: slow readers, lost clients, bookmarks, faults."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from ctl.sandbox import Match, Sandbox, SandboxSettings

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def configmap(name: str, size: int = 1) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "x" * size}}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - the server's state is seen from outside only
            await asyncio.sleep(0.005)


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    settings = SandboxSettings(watch_buffer=256 * 1024, bookmark_interval=0.05)
    async with Sandbox(settings=settings) as found:
        yield found


class Watch:
    """One open watch, read line by line on demand."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> dict[str, Any] | None:
        async with asyncio.timeout(20):
            line = await self.response.content.readline()
        return json.loads(line) if line else None

    async def object(self) -> dict[str, Any]:
        """The next event that is no bookmark."""
        while True:
            event = await self.next()
            assert event is not None
            if event["type"] != "BOOKMARK":
                return event


OPEN: list[aiohttp.ClientResponse] = []


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(read_bufsize=2**20) as found:
        yield found
        while OPEN:
            OPEN.pop().close()


async def watch(session: aiohttp.ClientSession, sandbox: Sandbox, query: str = "") -> Watch:
    version = sandbox.history.current
    response = await session.get(f"{sandbox.url}{CONFIGMAPS}?watch=true&resourceVersion={version}{query}")
    OPEN.append(response)
    return Watch(response)


async def test_a_reader_that_does_not_read_is_cut_off_and_hinders_nobody(
    sandbox: Sandbox, session: aiohttp.ClientSession
) -> None:
    good = await watch(session, sandbox)
    _, slow = await asyncio.open_connection("127.0.0.1", sandbox.port, limit=1024)
    slow.write(f"GET {CONFIGMAPS}?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await until(lambda: sandbox.watchers == 2)
    for index in range(400):
        sandbox.create(configmap(f"c{index}", 50_000))
        event = await good.object()
        assert event["object"]["metadata"]["name"] == f"c{index}"
    await until(lambda: sandbox.watchers == 1)
    slow.close()
    good.response.close()


async def test_a_client_that_hangs_up_leaves_nothing_behind(sandbox: Sandbox, session: aiohttp.ClientSession) -> None:
    one = await watch(session, sandbox)
    await until(lambda: sandbox.watchers == 1)
    one.response.close()
    await until(lambda: sandbox.watchers == 0)
    assert not sandbox.faults.streams


async def test_bookmarks_come_in_their_cadence_and_only_when_asked_for(
    sandbox: Sandbox, session: aiohttp.ClientSession
) -> None:
    asked = await watch(session, sandbox, "&allowWatchBookmarks=true")
    event = await asked.next()
    assert event is not None
    assert event["type"] == "BOOKMARK"
    assert event["object"]["metadata"]["resourceVersion"] == str(sandbox.history.current)
    silent = await watch(session, sandbox)
    sandbox.create(configmap("one"))
    event = await silent.next()
    assert event is not None
    assert event["type"] == "ADDED"


async def test_a_watch_ends_at_its_timeout(sandbox: Sandbox, session: aiohttp.ClientSession) -> None:
    one = await watch(session, sandbox, "&timeoutSeconds=1")
    assert await one.next() is None


async def test_a_stalled_stream_goes_on_with_all_it_missed(sandbox: Sandbox, session: aiohttp.ClientSession) -> None:
    one = await watch(session, sandbox, "&allowWatchBookmarks=true")
    assert sandbox.faults.stall_watches() == 1
    sandbox.create(configmap("one"))
    sandbox.create(configmap("two"))
    sandbox.faults.resume_watches()
    assert [(await one.object())["object"]["metadata"]["name"] for _ in range(2)] == ["one", "two"]


async def test_a_stream_told_to_fail_sends_an_error_and_ends(sandbox: Sandbox, session: aiohttp.ClientSession) -> None:
    one = await watch(session, sandbox)
    assert sandbox.faults.fail_watches(Match(path="secrets")) == 0
    assert sandbox.faults.fail_watches(code=410, match=Match(path="configmaps")) == 1
    event = await one.next()
    assert event is not None
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert await one.next() is None


async def test_streams_end_break_and_reset_on_demand(sandbox: Sandbox, session: aiohttp.ClientSession) -> None:
    ended = await watch(session, sandbox)
    sandbox.faults.end_watches()
    assert await ended.next() is None
    for fault in (sandbox.faults.cut_watches, sandbox.faults.reset_watches):
        broken = await watch(session, sandbox)
        assert fault() == 1
        with pytest.raises(aiohttp.ClientError):
            await broken.next()
    await until(lambda: sandbox.watchers == 0)


async def test_delayed_and_refused_requests(sandbox: Sandbox, session: aiohttp.ClientSession) -> None:
    rule = sandbox.faults.delay(0.01, match=Match(method="GET"))
    async with session.get(sandbox.url + CONFIGMAPS) as response:
        assert response.status == 200
    assert rule.hits == 1
    sandbox.faults.clear()
    sandbox.faults.refuse(match=Match(method="POST"))
    with pytest.raises(aiohttp.ClientError):
        await session.post(sandbox.url + CONFIGMAPS, data=json.dumps(configmap("one")))
    assert sandbox.get("v1", "ConfigMap", "one") is None


async def test_the_log_tells_who_asked_for_what(sandbox: Sandbox, session: aiohttp.ClientSession) -> None:
    head = {"User-Agent": "tester/1", "Content-Type": "application/json"}
    url = sandbox.url + CONFIGMAPS + "?dryRun=All"
    async with session.post(url, data=json.dumps(configmap("one")), headers=head) as response:
        assert response.status == 201
    (entry,) = sandbox.write_log
    assert (entry.method, entry.path, entry.code, entry.user_agent) == ("POST", CONFIGMAPS, 201, "tester/1")
    assert entry.query["dryRun"] == "All"
    assert entry.json()["metadata"] == {"name": "one"}
    assert sandbox.log.select(Match(user_agent="tester")) == [entry]


async def test_tokens_are_asked_for_when_given(session: aiohttp.ClientSession) -> None:
    async with Sandbox(settings=SandboxSettings(tokens=frozenset({"secret"}))) as sandbox:
        async with session.get(sandbox.url + CONFIGMAPS) as response:
            assert response.status == 401
        async with session.get(sandbox.url + CONFIGMAPS, headers={"Authorization": "Bearer secret"}) as response:
            assert response.status == 200


async def test_the_server_stops_with_open_watches(session: aiohttp.ClientSession) -> None:
    async with Sandbox() as sandbox:
        one = await watch(session, sandbox)
    with_end = await asyncio.gather(one.next(), return_exceptions=True)
    assert with_end[0] is None or isinstance(with_end[0], aiohttp.ClientError)
