import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from ctl.client.config.access import Access
from ctl.client.errors import (
    APIError,
    InternalError,
    TooManyRequests,
)
from ctl.client.rest import Client

from .wireserver import PODS, QUICK, Seen, Wire, pod, replies, serving, status, talking


async def test_5xx_is_retried_and_then_escalated(caplog: pytest.LogCaptureFixture) -> None:
    async with talking(replies((500, status(500, "InternalError", "oops")))) as (_server, client):
        with caplog.at_level(logging.ERROR), pytest.raises(InternalError):
            await client.get(PODS, "x", "ns")
        assert client.metrics.retries == 2
        assert {(key.code, key.method): n for key, n in client.metrics.requests().items()} == {("500", "GET"): 3}
    what = "GET /api/v1/namespaces/ns/pods/x -> InternalError (500): oops"
    assert caplog.messages == [
        f"Request attempt #1/3 failed; will retry: {what}",
        f"Request attempt #2/3 failed; will retry: {what}",
        f"Request attempt #3/3 failed; escalating: {what}",
    ]


async def test_backoffs_may_be_one_number_or_none_at_all() -> None:
    async with serving(replies((503, status(503, "ServiceUnavailable")))) as server:
        for backoffs, attempts in ((0.0, 2), ((), 1)):
            async with Client(Access(server.url), replace(QUICK, error_backoffs=backoffs)) as client:
                with pytest.raises(APIError):
                    await client.get(PODS, "x", "ns")
            assert len(server.seen) == attempts
            server.seen.clear()


async def test_renewals_are_not_retried() -> None:
    async with talking(replies((503, status(503, "ServiceUnavailable")))) as (server, client):
        with pytest.raises(APIError):
            await client.get(PODS, "x", "ns", channel="renewal")
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("headers", "details", "asked"),
    [({"Retry-After": "3"}, 7, 3.0), ({}, 7, 7.0), ({"Retry-After": "1"}, 0, 2.0)],
)
async def test_429_waits_for_as_long_as_the_server_asks(
    headers: dict[str, str], details: int, asked: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = record_sleeps(monkeypatch)
    refusal = status(429, "TooManyRequests", retryAfterSeconds=details)
    async with talking(replies((429, refusal, headers), (200, pod())), replace(QUICK, error_backoffs=(2, 2))) as (
        _server,
        client,
    ):
        await client.replace(PODS, pod(), namespace="ns", name="a")  # 429 is not begun: even a PUT is repeated
    assert slept == [asked]


async def test_a_retry_after_may_be_enforced_when_it_is_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = record_sleeps(monkeypatch)
    settings = replace(QUICK, error_backoffs=(20,), enforce_retry_after=True)
    async with talking(replies((429, status(429), {"Retry-After": "1"}), (200, pod())), settings) as (_server, client):
        await client.get(PODS, "x", "ns")
    assert slept == [1.0]


async def test_a_pause_longer_than_a_request_may_take_is_not_waited() -> None:
    async with talking(replies((429, status(429), {"Retry-After": "11"}))) as (server, client):
        with pytest.raises(TooManyRequests) as caught:
            await client.get(PODS, "x", "ns")
    assert caught.value.retry_after == 11.0
    assert len(server.seen) == 1


def record_sleeps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    real = asyncio.sleep

    async def sleep(delay: float, result: Any = None) -> Any:
        slept.append(delay)
        return await real(0, result)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return slept


async def test_at_most_so_many_requests_at_once_and_renewals_pass_by() -> None:
    waiting: list[Wire] = []
    full, release = asyncio.Event(), asyncio.Event()

    async def behave(seen: Seen, wire: Wire) -> None:
        if seen.path.endswith("lease"):
            await wire.reply(200, pod())
            return
        waiting.append(wire)
        if len(waiting) == 2:
            full.set()
        await release.wait()
        await wire.reply(200, pod())

    async with talking(behave, replace(QUICK, connections=2)) as (server, client), asyncio.timeout(10):
        tasks = [asyncio.create_task(client.get(PODS, "x", "ns")) for _ in range(5)]
        await full.wait()
        await client.get(PODS, "lease", "ns", channel="renewal")
        assert len(waiting) == 2
        release.set()
        await asyncio.gather(*tasks)
    assert len(server.seen) == 6
    assert server.connections == 3


async def test_the_rate_limit_delays_requests_but_no_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(replies((200, pod())), replace(QUICK, qps=0.001, burst=2)) as (_server, client):
        slept = record_sleeps(monkeypatch)
        for _ in range(3):
            await client.get(PODS, "x", "ns")
        assert [900 < delay <= 1000 for delay in slept] == [True]
        for _ in range(5):
            await client.get(PODS, "x", "ns", channel="renewal")
        assert len(slept) == client.metrics.throttled == 1
