from dataclasses import replace
from typing import Any

import pytest

from ctl.client.config.access import Access
from ctl.client.errors import (
    AlreadyExists,
    InternalError,
    LostAnswer,
    NotFound,
    RequestError,
)
from ctl.client.rest import Client
from ctl.client.wire.request import PatchKind

from .wireserver import PODS, QUICK, Seen, Wire, pod, replies, status, talking


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
    async with talking(lambda seen, wire: lose_first(seen, wire, lost)) as (server, client):
        await client.patch(PODS, "a", "ns", {"spec": {"x": 1}}, kind=kind, field_manager="me", force=True)
        assert client.metrics.lost_answers == 1
    first, second = server.seen
    assert first == second
    assert first.headers["content-type"] == kind.value
    assert first.path == "/api/v1/namespaces/ns/pods/a?fieldManager=me&force=true"


async def test_deletions_with_a_uid_are_resent_after_a_lost_answer() -> None:
    lost: list[Seen] = []
    async with talking(lambda seen, wire: lose_first(seen, wire, lost)) as (server, client):
        assert await client.delete(PODS, "a", "ns", uid="u") is not None
    assert [each.json for each in server.seen] == [{"preconditions": {"uid": "u"}}] * 2


async def test_a_deletion_that_was_applied_although_its_answer_was_lost_is_a_success() -> None:
    lost: list[Seen] = []

    async def behave(seen: Seen, wire: Wire) -> None:
        if lost:
            await wire.reply(404, status(404, "NotFound"))
        else:
            await lose_first(seen, wire, lost)

    async with talking(behave) as (_server, client):
        assert await client.delete(PODS, "a", "ns", uid="u") is None
        with pytest.raises(NotFound):
            await client.delete(PODS, "a", "ns", uid="u")


async def test_a_deletion_that_was_applied_although_the_server_timed_out_is_a_success() -> None:
    answers = replies((504, status(504, "Timeout")), (404, status(404, "NotFound")))
    async with talking(answers) as (_, client):
        assert await client.delete(PODS, "a", "ns", uid="u") is None


async def test_a_named_creation_is_resent_and_its_refusal_says_why() -> None:
    lost: list[Seen] = []

    async def behave(seen: Seen, wire: Wire) -> None:
        if lost:
            await wire.reply(409, status(409, "AlreadyExists"))
        else:
            await lose_first(seen, wire, lost)

    async with talking(behave) as (_server, client):
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
    async with talking(lambda seen, wire: lose_first(seen, wire, lost)) as (server, client):
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

    async with talking(behave) as (server, client):
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

    async with talking(behave) as (server, client):
        with pytest.raises(LostAnswer):
            await call(client)
    assert len(server.seen) == 1


async def test_a_server_that_does_not_answer_in_time_has_lost_the_answer() -> None:
    async def behave(seen: Seen, wire: Wire) -> None:
        if seen.method == "GET":
            await wire.reply(200, pod())
        else:
            await wire.until_closed()

    async with talking(behave, replace(QUICK, request_timeout=0.5)) as (server, client):
        await client.get(PODS, "a", "ns")  # the connection is there before the short time begins
        with pytest.raises(LostAnswer, match="none came in time"):
            await put(client)
    assert len(server.seen) == 2


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
    async with talking(answers) as (server, client):
        with pytest.raises(InternalError):
            await call(client)
    assert len(server.seen) == 2
