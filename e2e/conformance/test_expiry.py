"""What is answered when the history that a client asks for is gone."""

import asyncio
import secrets
import time

import pytest
from conformance.api import Api, Body, version
from conformance.spaces import DEFINITIONS, Space

SECONDS = 60.0
OPTIONS = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


async def touch_definition(api: Api, space: Space) -> None:
    """Change the definition of the plains, and wait until their watches were ended by it."""
    async with api.watch(space.plains(), resourceVersion=version(await api.get(space.plains()))) as watch:
        short = f"p{secrets.token_hex(3)}"
        await api.merge(f"{DEFINITIONS}/plains.{space.group}", {"spec": {"names": {"shortNames": [short]}}})
        assert await watch.ended() == []
    # Until its cache is filled again the real server answers 429, "storage is (re)initializing".
    deadline = time.monotonic() + SECONDS
    while (answer := await api.call("GET", space.plains(), resourceVersion=0)).code == 429:
        assert time.monotonic() < deadline, answer
        await asyncio.sleep(0.05)


async def forget(api: Api, space: Space) -> None:
    """Make the server forget what the plains were before now.

    The history of etcd is compacted, and the definition touched: the real server would go on to serve lists from the
    snapshots of its watch cache for up to a quarter of a minute, and watches from its window of events without an end.
    """
    if api.target.compact is None:
        pytest.skip("The history of a cluster that KUBECONFIG names cannot be compacted from outside.")
    await asyncio.to_thread(api.target.compact)
    await touch_definition(api, space)


async def fill(api: Api, space: Space) -> list[Body]:
    return [await api.create(space.plains(), space.plain(name)) for name in "abc"]


async def test_a_watch_from_a_forgotten_version_is_an_error_event(api: Api, space: Space) -> None:
    made = await fill(api, space)
    await forget(api, space)
    async with api.watch(space.plains(), resourceVersion=version(made[0])) as watch:
        assert watch.code == 200
        event = await watch.next()
        assert await watch.ended() == []
    assert event["type"] == "ERROR"
    message = event["object"].pop("message")
    assert event["object"] == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": "Expired",
        "code": 410,
    }
    assert message.startswith(f"too old resource version: {version(made[0])} (")

    # A streamed list takes the version as a lower bound, and from a new list it goes on.
    async with api.watch(space.plains(), resourceVersion=version(made[0]), **OPTIONS) as watch:
        events = await watch.until("BOOKMARK")
    assert [event["type"] for event in events] == ["ADDED"] * 3 + ["BOOKMARK"]
    listed = await api.get(space.plains())
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b", "c"]
    async with api.watch(space.plains(), resourceVersion=version(listed)) as watch:
        await api.delete(space.plains("a"))
        assert (await watch.next())["type"] == "DELETED"


async def test_lists_of_a_forgotten_version(api: Api, space: Space) -> None:
    made = await fill(api, space)
    first = await api.get(space.plains(), limit=1)
    await forget(api, space)

    # A later page is refused, and offered at another version.
    answer = await api.call("GET", space.plains(), limit=1, **{"continue": first["metadata"]["continue"]})
    assert (answer.code, answer.body["reason"], answer.body["status"]) == (410, "Expired", "Failure")
    assert answer.body["message"].startswith(
        "The provided continue parameter is too old to display a consistent list result."
    )
    rest = await api.get(space.plains(), **{"continue": answer.body["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c"]
    assert version(rest) > version(first)

    answer = await api.call("GET", space.plains(), resourceVersion=version(made[0]), resourceVersionMatch="Exact")
    assert answer.refused(410, "Expired")["message"] == "The resourceVersion for the provided list is too old."

    # As a lower bound any version will do.
    listed = await api.get(space.plains(), resourceVersion=version(made[0]), resourceVersionMatch="NotOlderThan")
    assert len(listed["items"]) == 3
    assert await api.get(space.plains("a"), resourceVersion=version(made[0])) == made[0]


async def test_a_changed_definition_ends_its_watches_and_forgets_its_versions(api: Api, space: Space) -> None:
    # So meets an operator each upgrade of its definitions, without any compaction.
    made = await fill(api, space)
    await touch_definition(api, space)
    async with api.watch(space.plains(), resourceVersion=version(made[0])) as watch:
        event = await watch.next()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
