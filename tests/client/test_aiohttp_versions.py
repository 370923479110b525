"""What aiohttp does not promise is used with tested versions only; with others its public sessions serve."""

import configparser
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from ctl.client.config.access import Access
from ctl.client.errors import LostAnswer, NotFound
from ctl.client.fence import NotLeading
from ctl.client.objects import Object
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.client.wire import http1

from .wireserver import PODS, QUICK, Seen, Wire, pod, replies, serving, talking

ROOT = Path(__file__).parents[2]


_is_used = http1.is_used


@pytest.fixture
def untested(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(aiohttp, "__version__", "4.0.0")
    monkeypatch.setattr(http1, "is_used", _is_used)
    _is_used.cache_clear()
    yield
    _is_used.cache_clear()


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("3.13.3", False),
        ("3.14.1", True),
        ("3.14.5", True),
        ("3.14.99", True),
        ("3.15.0", False),
        ("4.0.0", False),
        ("3.14.2.dev0", False),
        ("3.14.0rc1", False),
        ("", False),
    ],
)
def test_the_range_of_versions(version: str, expected: bool) -> None:
    assert http1.is_tested(version) is expected


def test_the_range_is_that_of_the_build() -> None:
    lowest = ".".join(map(str, http1.TESTED[0]))
    assert re.search(rf"^AIOHTTP_TESTED := {re.escape(lowest)}$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    newest = re.search(r"^aiohttp==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert newest is not None
    assert http1.is_tested(newest[1])
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    required = re.search(r"aiohttp >=([\d.]+)", setup["options"]["install_requires"])
    assert required is not None
    assert re.search(rf"^AIOHTTP_LOWEST := {re.escape(required[1])}$", (ROOT / "Makefile").read_text(), re.MULTILINE)


async def test_other_versions_are_named_once(untested: None, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        async with talking(replies((200, pod()))) as (_, client):
            assert (await client.get(PODS, "a", "ns")).name == "a"
    found = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage() for record in found] == [
        "Requests take more CPU with this version of aiohttp: 4.0.0; the fast path was tested with 3.14.1 up to 3.15 (excluded)."
    ]


async def test_sessions_serve_each_verb(untested: None) -> None:
    async def answer(seen: Seen, wire: Wire) -> None:
        if seen.path.endswith("/absent"):
            await wire.reply(404, {"kind": "Status", "reason": "NotFound"})
        else:
            await wire.reply(200, pod() if "/pods/" in seen.path else {**pod(), "kind": "PodList", "items": [pod()]})

    async with talking(answer) as (server, client):
        assert (await client.get(PODS, "a", "ns")).name == "a"
        assert [obj.name for obj in await client.list(PODS, "ns")] == ["a"]
        for label in "bc":
            assert (await client.patch(PODS, "a", "ns", {"metadata": {"labels": {"a": label}}})).name == "a"
        assert isinstance(await client.replace(PODS, pod(), namespace="ns", name="a"), Object)
        with pytest.raises(NotFound):
            await client.get(PODS, "absent", "ns")
    assert ([seen.method for seen in server.seen], server.connections) == (
        ["GET", "GET", "PATCH", "PATCH", "PUT", "GET"],
        1,
    )


async def test_sessions_send_no_write_a_second_time(untested: None) -> None:
    async def answer(seen: Seen, wire: Wire) -> None:
        if seen.method == "PUT":
            wire.writer.close()
        else:
            await wire.reply(200, pod())

    async with talking(answer) as (server, client):
        await client.get(PODS, "a", "ns")
        with pytest.raises(LostAnswer):
            await client.replace(PODS, pod(), namespace="ns", name="a")
    assert [seen.method for seen in server.seen] == ["GET", "PUT"]


class Lost:
    """A lease that is over when the connection is there."""

    term = 1
    asked = 0

    def left(self) -> float:
        self.asked += 1
        return 1.0 if self.asked < 4 else 0.0

    def wrote(self, resource: Resource, version: str | None) -> None:
        return


async def test_sessions_ask_the_lease_before_the_first_byte(untested: None) -> None:
    async with serving(replies((200, pod()))) as server, Client(Access(server.url), QUICK, fence=Lost()) as client:
        with pytest.raises(NotLeading):
            await client.patch(PODS, "a", "ns", {})
    assert server.seen == []
