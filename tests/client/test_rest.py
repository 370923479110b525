import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ctl.client.calls import PatchKind
from ctl.client.endpoint import Access, Constant
from ctl.client.errors import (
    AccessError,
    AlreadyExists,
    APIError,
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    LostAnswer,
    NotFound,
    RequestError,
    TooManyRequests,
)
from ctl.client.lists import ListOptions
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings

from .wireserver import Behaviour, Seen, Wire, pod, serving, status

PODS = Resource("", "v1", "pods", kind="Pod", namespaced=True)
NODES = Resource("", "v1", "nodes", kind="Node", namespaced=False)
QUICK = ClientSettings(error_backoffs=(0, 0), refused_backoff=0, request_timeout=10)


def replies(*answers: tuple[int, Any] | tuple[int, Any, dict[str, str]]) -> Behaviour:
    """Answer one after the other; the last one for ever."""
    queue = list(answers)

    async def behave(seen: Seen, wire: Wire) -> None:
        code, body, *headers = queue.pop(0) if len(queue) > 1 else queue[0]
        await wire.reply(code, body, **(headers[0] if headers else {}))

    return behave


async def test_get_returns_the_object_and_says_who_asks() -> None:
    async with serving(replies((200, pod("x", "7")))) as server, Client(Access(server.url)) as client:
        found = await client.get(PODS, "x", "ns")
    assert (found.name, found.namespace, found.uid, found.resource_version) == ("x", "ns", "uid-x", "7")
    assert server.seen[0].path == "/api/v1/namespaces/ns/pods/x"
    assert server.seen[0].headers["user-agent"].startswith("ctl/")


async def test_a_server_behind_a_path() -> None:
    async with serving(replies((200, pod()))) as server, Client(Access(server.url + "/k8s/c-1")) as client:
        await client.get(PODS, "x", "ns")
    assert server.seen[0].path == "/k8s/c-1/api/v1/namespaces/ns/pods/x"


async def test_names_are_quoted_once() -> None:
    async with serving(replies((200, pod()))) as server, Client(Access(server.url)) as client:
        await client.get(PODS, "a/b c", "ns")
    assert server.seen[0].path == "/api/v1/namespaces/ns/pods/a%2Fb%20c"


async def test_list_items_lacking_a_kind_get_it_from_the_list() -> None:
    item = pod("x")
    del item["kind"], item["apiVersion"]
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [item, pod("y")]}
    async with serving(replies((200, body))) as server, Client(Access(server.url)) as client:
        page = await client.list_page(PODS)
    assert [each.body() for each in page.items] == [pod("x"), pod("y")]
    assert (page.resource_version, page.continue_token, page.size) == ("9", None, len(server_bytes(body)))


def server_bytes(body: Any) -> bytes:
    import json

    return json.dumps(body).encode()


async def test_list_parameters() -> None:
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": None}
    options = ListOptions("a=b", "metadata.name=x", 5, "tok", "0", "NotOlderThan", "shard")
    async with serving(replies((200, body))) as server, Client(Access(server.url)) as client:
        assert (await client.list_page(PODS, "ns", options)).items == []
    assert server.seen[0].path == (
        "/api/v1/namespaces/ns/pods?labelSelector=a%3Db&fieldSelector=metadata.name%3Dx&limit=5&continue=tok"
        "&resourceVersion=0&resourceVersionMatch=NotOlderThan&shardSelector=shard"
    )


def page(names: str, token: str | None = None) -> dict[str, Any]:
    meta = {"resourceVersion": "9", **({"continue": token} if token else {})}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": [pod(name) for name in names]}


async def test_all_pages_are_read() -> None:
    async with serving(replies((200, page("ab", "t1")), (200, page("c", "t2")), (200, page("d")))) as server:
        async with Client(Access(server.url)) as client:
            found = await client.list(PODS, options=ListOptions(resource_version="0"))
    assert [each.name for each in found] == list("abcd")
    assert [each.path.partition("?")[2] for each in server.seen] == [
        "limit=500&resourceVersion=0",
        "limit=500&continue=t1",
        "limit=500&continue=t2",
    ]


async def test_a_continue_token_that_expired_leads_to_one_full_list() -> None:
    gone = status(410, "Expired", "The provided continue parameter is too old")
    async with serving(replies((200, page("ab", "t1")), (410, gone), (200, page("abcd")))) as server:
        async with Client(Access(server.url)) as client:
            found = await client.list(PODS)
    assert [each.name for each in found] == list("abcd")
    assert server.seen[-1].path == "/api/v1/pods"


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (404, "NotFound", NotFound),
        (403, "Forbidden", Forbidden),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (422, "Invalid", Invalid),
        (418, "Teapot", APIError),
    ],
)
async def test_refusals_are_typed_and_not_retried(code: int, reason: str, kind: type[APIError]) -> None:
    async with serving(replies((code, status(code, reason, "because", name="x")))) as server:
        async with Client(Access(server.url), QUICK) as client:
            with pytest.raises(kind) as caught:
                await client.get(PODS, "x", "ns")
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.reason, caught.value.message) == (code, reason, "because")
    assert caught.value.details == {"name": "x"}
    assert "GET http://127.0.0.1" in str(caught.value)
    assert len(server.seen) == 1


async def test_a_proxys_page_is_an_error_with_its_first_words() -> None:
    async with serving(replies((502, b"<html>bad gateway</html>"))) as server:
        async with Client(Access(server.url), replace(QUICK, error_backoffs=())) as client:
            with pytest.raises(APIError, match="bad gateway"):
                await client.get(PODS, "x", "ns")


async def test_an_answer_that_is_no_object_is_one_message() -> None:
    async with serving(replies((200, b"<html>login</html>"))) as server, Client(Access(server.url), QUICK) as client:
        with pytest.raises(RequestError, match="expected an object"):
            await client.get(PODS, "x", "ns")
        with pytest.raises(RequestError, match="expected a list"):
            await client.list_page(PODS)


async def test_5xx_is_retried_and_then_escalated(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(replies((500, status(500, "InternalError")))) as server:
        async with Client(Access(server.url), QUICK) as client:
            with caplog.at_level(logging.ERROR), pytest.raises(InternalError):
                await client.get(PODS, "x", "ns")
            assert client.metrics.retries == 2
            assert {(key.code, key.method): n for key, n in client.metrics.requests().items()} == {("500", "GET"): 3}
    assert [message.split(":")[0] for message in caplog.messages] == [
        "Request attempt #1/3 failed; will retry",
        "Request attempt #2/3 failed; will retry",
        "Request attempt #3/3 failed; escalating",
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
    async with serving(replies((503, status(503, "ServiceUnavailable")))) as server:
        async with Client(Access(server.url), QUICK) as client:
            with pytest.raises(APIError):
                await client.get(PODS, "x", "ns", channel="renewal")
    assert len(server.seen) == 1


async def lose_first(seen: Seen, wire: Wire, lost: list[Seen]) -> None:
    """Read the request, then cut: it may have been applied."""
    if not lost:
        lost.append(seen)
        wire.cut()
    else:
        await wire.reply(200, pod())


@pytest.mark.parametrize("kind", [PatchKind.MERGE, PatchKind.STRATEGIC, PatchKind.APPLY])
async def test_patches_that_merge_are_resent_after_a_lost_answer(kind: PatchKind) -> None:
    lost: list[Seen] = []
    async with serving(lambda seen, wire: lose_first(seen, wire, lost)) as server:
        async with Client(Access(server.url), QUICK) as client:
            await client.patch(PODS, "a", "ns", {"spec": {"x": 1}}, kind=kind, field_manager="me", force=True)
            assert client.metrics.lost_answers == 1
    first, second = server.seen
    assert first == second
    assert first.headers["content-type"] == kind.value
    assert first.path == "/api/v1/namespaces/ns/pods/a?fieldManager=me&force=true"


async def test_deletions_with_a_uid_are_resent_after_a_lost_answer() -> None:
    lost: list[Seen] = []
    async with serving(lambda seen, wire: lose_first(seen, wire, lost)) as server:
        async with Client(Access(server.url), QUICK) as client:
            assert await client.delete(PODS, "a", "ns", uid="u") is not None
    assert [each.json for each in server.seen] == [{"preconditions": {"uid": "u"}}] * 2


async def test_a_deletion_that_was_applied_although_its_answer_was_lost_is_a_success() -> None:
    lost: list[Seen] = []

    async def behave(seen: Seen, wire: Wire) -> None:
        if lost:
            await wire.reply(404, status(404, "NotFound"))
        else:
            await lose_first(seen, wire, lost)

    async with serving(behave) as server, Client(Access(server.url), QUICK) as client:
        assert await client.delete(PODS, "a", "ns", uid="u") is None
        with pytest.raises(NotFound):
            await client.delete(PODS, "a", "ns", uid="u")


async def test_a_named_creation_is_resent_and_its_refusal_says_why() -> None:
    lost: list[Seen] = []

    async def behave(seen: Seen, wire: Wire) -> None:
        if lost:
            await wire.reply(409, status(409, "AlreadyExists"))
        else:
            await lose_first(seen, wire, lost)

    async with serving(behave) as server, Client(Access(server.url), QUICK) as client:
        with pytest.raises(AlreadyExists) as caught:
            await client.create(PODS, pod())
    assert caught.value.after_lost_answer


async def generate(client: Client) -> None:
    await client.create(PODS, {"metadata": {"generateName": "a-", "namespace": "ns"}})


async def put(client: Client) -> None:
    await client.replace(PODS, pod(), namespace="ns", name="a")


async def json_patch(client: Client) -> None:
    await client.patch(PODS, "a", "ns", [{"op": "add", "path": "/spec", "value": 1}], kind=PatchKind.JSON)


async def blind_delete(client: Client) -> None:
    await client.delete(PODS, "a", "ns")


ONCE_ONLY = [generate, put, json_patch, blind_delete]


@pytest.mark.parametrize("call", ONCE_ONLY)
async def test_what_must_not_happen_twice_is_not_resent_after_a_lost_answer(call: Any) -> None:
    lost: list[Seen] = []
    async with serving(lambda seen, wire: lose_first(seen, wire, lost)) as server:
        async with Client(Access(server.url), QUICK) as client:
            with pytest.raises(LostAnswer, match="may have been applied"):
                await call(client)
    assert len(server.seen) == 1


@pytest.mark.parametrize("call", ONCE_ONLY)
async def test_the_library_does_not_resend_by_itself_on_a_kept_alive_connection(call: Any) -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        if len(server.seen) == 2:
            wire.cut()
        else:
            await wire.reply(200, pod())

    async with serving(behave) as server, Client(Access(server.url), QUICK) as client:
        await client.get(PODS, "a", "ns")
        with pytest.raises(LostAnswer):
            await call(client)
    assert (len(server.seen), server.connections) == (2, 1)


@pytest.mark.parametrize("call", ONCE_ONLY)
async def test_a_half_answer_is_a_lost_answer(call: Any) -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        wire.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
        await wire.writer.drain()
        wire.cut()

    async with serving(behave) as server, Client(Access(server.url), QUICK) as client:
        with pytest.raises(LostAnswer):
            await call(client)
    assert len(server.seen) == 1


@pytest.mark.parametrize("call", ONCE_ONLY)
async def test_a_server_that_does_not_answer_in_time_has_lost_the_answer(call: Any) -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        await wire.until_closed()

    async with serving(behave) as server, Client(Access(server.url), replace(QUICK, request_timeout=0.05)) as client:
        with pytest.raises(LostAnswer, match="none came in time"):
            await call(client)
    assert len(server.seen) == 1


@pytest.mark.parametrize("call", ONCE_ONLY)
async def test_what_was_provably_not_sent_is_repeated(call: Any, unused_port: int) -> None:
    async with Client(Access(f"http://127.0.0.1:{unused_port}"), QUICK) as client:
        with pytest.raises(RequestError, match="Is the server running") as caught:
            await call(client)
        assert not isinstance(caught.value, LostAnswer)
        assert not caught.value.sent
        assert client.metrics.retries == 2


@pytest.mark.parametrize("call", ONCE_ONLY)
async def test_a_5xx_may_have_been_applied_unless_the_server_asks_to_come_again(call: Any) -> None:
    answers = replies((503, status(503), {"Retry-After": "0"}), (500, status(500, "InternalError")))
    async with serving(answers) as server, Client(Access(server.url), QUICK) as client:
        with pytest.raises(InternalError):
            await call(client)
    assert len(server.seen) == 2


async def test_an_object_that_stays_for_its_finalizers_is_returned_by_delete() -> None:
    stays = pod(deletionTimestamp="2020-01-01T00:00:00Z")
    async with serving(replies((200, stays), (200, status(200)))) as server, Client(Access(server.url)) as client:
        found = await client.delete(PODS, "a", "ns", resource_version="1", propagation="Background", grace_period=0)
        assert found is not None
        assert found.metadata().deletion_timestamp
        assert await client.delete(PODS, "a", "ns") is None
    assert server.seen[0].json == {
        "preconditions": {"resourceVersion": "1"},
        "propagationPolicy": "Background",
        "gracePeriodSeconds": 0,
    }
    assert server.seen[1].body == b""


@pytest.mark.parametrize(
    ("headers", "details", "asked"),
    [({"Retry-After": "3"}, 7, 3.0), ({}, 7, 7.0), ({"Retry-After": "1"}, 0, 2.0)],
)
async def test_429_waits_for_as_long_as_the_server_asks(
    headers: dict[str, str], details: int, asked: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = record_sleeps(monkeypatch)
    refusal = status(429, "TooManyRequests", retryAfterSeconds=details)
    async with serving(replies((429, refusal, headers), (200, pod()))) as server:
        async with Client(Access(server.url), replace(QUICK, error_backoffs=(2, 2))) as client:
            await put(client)  # 429 is not begun: even a PUT is repeated
    assert slept == [asked]


async def test_a_retry_after_may_be_enforced_when_it_is_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = record_sleeps(monkeypatch)
    settings = replace(QUICK, error_backoffs=(20,), enforce_retry_after=True)
    async with serving(replies((429, status(429), {"Retry-After": "1"}), (200, pod()))) as server:
        async with Client(Access(server.url), settings) as client:
            await client.get(PODS, "x", "ns")
    assert slept == [1.0]


async def test_a_pause_longer_than_a_request_may_take_is_not_waited() -> None:
    async with serving(replies((429, status(429), {"Retry-After": "11"}))) as server:
        async with Client(Access(server.url), QUICK) as client:
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


async def test_bodies_may_be_any_mappings() -> None:
    class View(Mapping[str, Any]):
        def __init__(self, data: dict[str, Any]) -> None:
            self.data = data

        def __getitem__(self, key: str) -> Any:
            return self.data[key]

        def __iter__(self) -> Any:
            return iter(self.data)

        def __len__(self) -> int:
            return len(self.data)

    async with serving(replies((200, pod()))) as server, Client(Access(server.url)) as client:
        await client.create(PODS, View({"metadata": View({"name": "a", "namespace": "ns"}), "spec": (1, 2)}))
        with pytest.raises(TypeError, match="found a object"):
            await client.create(PODS, {"metadata": {"namespace": "ns"}, "spec": object()})
    assert server.seen[0].json == {"metadata": {"name": "a", "namespace": "ns"}, "spec": [1, 2]}
    assert server.seen[0].path == "/api/v1/namespaces/ns/pods"


async def test_other_requests() -> None:
    async with serving(replies((200, {"gitVersion": "v1"}))) as server:
        access = Access(server.url, credentials=Constant((("Authorization", "Bearer t"),)), default_namespace="dns")
        async with Client(access) as client:
            assert b"gitVersion" in await client.request("GET", "/version", params={"a": True, "b": None})
            await client.request("POST", "/x", body={"y": 1}, headers={"X-Y": "z"})
            assert client.default_namespace == "dns"
    assert server.seen[0].path == "/version?a=true"
    assert server.seen[0].headers["authorization"] == "Bearer t"
    assert (server.seen[1].json, server.seen[1].headers["x-y"]) == ({"y": 1}, "z")


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

    async with serving(behave) as server, Client(Access(server.url), replace(QUICK, connections=2)) as client:
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(client.get(PODS, "x", "ns"))
            await full.wait()
            await client.get(PODS, "lease", "ns", channel="renewal")
            assert len(waiting) == 2
            release.set()
    assert len(server.seen) == 6
    assert server.connections == 3


async def test_the_rate_limit_delays_requests_but_no_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(replies((200, pod()))) as server:
        async with Client(Access(server.url), replace(QUICK, qps=0.001, burst=2)) as client:
            slept = record_sleeps(monkeypatch)
            for _ in range(3):
                await client.get(PODS, "x", "ns")
            assert [900 < delay <= 1000 for delay in slept] == [True]
            for _ in range(5):
                await client.get(PODS, "x", "ns", channel="renewal")
            assert len(slept) == client.metrics.throttled == 1


async def test_a_closed_client_says_so() -> None:
    async with serving(replies((200, pod()))) as server:
        client = Client(Access(server.url), QUICK)
        await client.get(PODS, "x", "ns")
        await client.close()
        with pytest.raises(AccessError, match="closed"):
            await client.get(PODS, "x", "ns")


async def test_cancellation_is_not_swallowed() -> None:
    arrived = asyncio.Event()

    async def behave(seen: Seen, wire: Wire) -> None:
        arrived.set()
        await wire.until_closed()

    async with serving(behave) as server, Client(Access(server.url), QUICK) as client:
        task = asyncio.create_task(client.get(PODS, "x", "ns"))
        await asyncio.wait_for(arrived.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
