"""Watches: where they begin, what they bring, how they end."""

import asyncio
import time

import pytest
from conformance.api import Api, Body, version
from conformance.spaces import Space, configmap

ATTEMPTS = 5
"""A server that got no CPU for two seconds sends no bookmark in them."""
END_OF_INITIAL_EVENTS = {"k8s.io/initial-events-end": "true"}


def summary(events: list[Body]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


async def test_a_watch_brings_each_change_in_order(api: Api, space: Space) -> None:
    start = version(await api.get(space.widgets()))
    async with api.watch(space.widgets(), resourceVersion=start) as watch:
        assert watch.code == 200
        assert watch.headers["Content-Type"] == "application/json"
        made = await api.create(space.widgets(), space.widget("one", spec={"a": 1}))
        changed = await api.merge(space.widgets("one"), {"spec": {"a": 2}})
        deleted = await api.call("DELETE", space.widgets("one"))
        events = await watch.take(3)
    assert deleted.code == 200
    assert events[0] == {"type": "ADDED", "object": made}
    assert events[1] == {"type": "MODIFIED", "object": changed}
    assert events[2]["type"] == "DELETED"
    # The last state, at the version of the deletion.
    last = events[2]["object"]
    assert last["spec"] == {"a": 2}
    assert version(last) > version(changed)
    assert last["metadata"] == {**changed["metadata"], "resourceVersion": last["metadata"]["resourceVersion"]}


async def test_a_watch_begins_after_its_version(api: Api, space: Space) -> None:
    made = [await api.create(space.widgets(), space.widget(name)) for name in "abc"]
    async with api.watch(space.widgets(), resourceVersion=version(made[0])) as watch:
        assert summary(await watch.take(2)) == [("ADDED", "b"), ("ADDED", "c")]


async def test_a_watch_from_the_version_of_a_list_misses_nothing(api: Api, space: Space) -> None:
    await api.create(space.widgets(), space.widget("before"))
    listed = await api.get(space.widgets())
    await api.create(space.widgets(), space.widget("after"))
    async with api.watch(space.widgets(), resourceVersion=version(listed)) as watch:
        assert summary([await watch.next()]) == [("ADDED", "after")]


async def test_a_deletion_is_replayed(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    await api.delete(space.widgets("one"))
    async with api.watch(space.widgets(), resourceVersion=version(made)) as watch:
        assert summary([await watch.next()]) == [("DELETED", "one")]


@pytest.mark.parametrize("params", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}])
async def test_a_watch_from_nowhere_begins_with_what_exists(api: Api, space: Space, params: dict[str, str]) -> None:
    made = [await api.create(space.widgets(), space.widget(name)) for name in "ba"]
    changed = await api.merge(space.widgets("a"), {"spec": {"a": 1}})
    # What the cache has at hand is at least this, once it was asked for.
    await api.get(space.widgets(), resourceVersion=version(changed))
    async with api.watch(space.widgets(), **params) as watch:
        initial = await watch.take(2)
        await api.create(space.widgets(), space.widget("c"))
        later = await watch.next()
    assert sorted(summary(initial)) == [("ADDED", "a"), ("ADDED", "b")]
    assert {event["object"]["metadata"]["name"]: event["object"] for event in initial} == {"a": changed, "b": made[0]}
    assert summary([later]) == [("ADDED", "c")]


async def test_objects_of_builtins_say_their_kind_on_the_watch(api: Api, space: Space) -> None:
    made = await api.create(space.core("configmaps"), configmap("mine", labels={"mine": "yes"}))
    async with api.watch(space.core("configmaps"), labelSelector="mine=yes") as watch:
        event = await watch.next()
    assert event["object"]["kind"] == "ConfigMap"
    assert event["object"]["apiVersion"] == "v1"
    assert event["object"] == made


async def test_a_watch_of_all_namespaces_sees_each(api: Api, space: Space) -> None:
    start = version(await api.get(f"/apis/{space.group}/v1/widgets"))
    async with api.watch(f"/apis/{space.group}/v1/widgets", resourceVersion=start) as watch:
        made = await api.create(space.widgets(), space.widget("one"))
        assert await watch.next() == {"type": "ADDED", "object": made}


async def test_a_watch_of_a_namespace_sees_no_other(api: Api, space: Space) -> None:
    other = Space(f"{space.name}-b", space.group)
    await api.create("/api/v1/namespaces", {"metadata": {"name": other.name}})
    start = version(await api.get(space.widgets()))
    async with api.watch(space.widgets(), resourceVersion=start) as watch:
        await api.create(other.widgets(), other.widget("theirs"))
        await api.create(space.widgets(), space.widget("mine"))
        assert summary([await watch.next()]) == [("ADDED", "mine")]
    await api.call("DELETE", f"/api/v1/namespaces/{other.name}")


async def test_several_watches_see_the_same(api: Api, space: Space) -> None:
    start = version(await api.get(space.widgets()))
    async with (
        api.watch(space.widgets(), resourceVersion=start) as one,
        api.watch(space.widgets(), resourceVersion=start) as two,
    ):
        for name in "abc":
            await api.create(space.widgets(), space.widget(name))
        assert await one.take(3) == await two.take(3)


async def test_a_watch_ends_after_its_timeout(api: Api, space: Space) -> None:
    start = version(await api.create(space.widgets(), space.widget("one")))
    began = time.monotonic()
    async with api.watch(space.widgets(), resourceVersion=start - 1, timeoutSeconds=1) as watch:
        events = await watch.ended()
    assert summary(events) == [("ADDED", "one")]
    # Without it the servers choose half an hour or more.
    assert 0.9 < time.monotonic() - began < 60


async def test_a_bookmark_comes_before_the_timeout_to_those_who_ask(api: Api, space: Space) -> None:
    # Bookmarks are promised for no certain time; the servers send one shortly before the end of a watch, and below a few
    # seconds the real one has no time for it.
    made = await api.create(space.widgets(), space.widget("one"))
    params: dict[str, str | int] = {"resourceVersion": version(made), "timeoutSeconds": 4}
    for attempt in range(ATTEMPTS):
        async with (
            api.watch(space.widgets(), allowWatchBookmarks="true", **params) as asking,
            api.watch(space.widgets(), **params) as silent,
        ):
            await api.create(space.plains(), space.plain(f"elsewhere-{attempt}"))
            events = await asking.ended()
            assert await silent.ended() == []
        if events:
            break
    assert events
    for event in events:
        assert event["type"] == "BOOKMARK"
        assert event["object"]["kind"] == "Widget"
        assert event["object"]["apiVersion"] == f"{space.group}/v1"
        assert set(event["object"]) <= {"kind", "apiVersion", "metadata", "spec", "status"}
        assert event["object"]["metadata"].get("name", "") == ""
        assert version(event["object"]) >= version(made)


@pytest.mark.parametrize("params", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}])
async def test_a_streamed_list_ends_with_a_marked_bookmark(api: Api, space: Space, params: dict[str, str]) -> None:
    made = [await api.create(space.widgets(), space.widget(name)) for name in "ba"]
    await api.get(space.widgets(), resourceVersion=version(made[-1]))
    params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(space.widgets(), **params) as watch:
        events = await watch.until("BOOKMARK")
        later = await api.create(space.widgets(), space.widget("c"))
        *between, after = await watch.until("ADDED")
    assert sorted(summary(events[:-1])) == [("ADDED", "a"), ("ADDED", "b")]
    end = events[-1]["object"]
    assert end["metadata"]["annotations"] == END_OF_INITIAL_EVENTS
    assert end["kind"] == "Widget"
    assert end["apiVersion"] == f"{space.group}/v1"
    assert version(made[-1]) <= version(end) < version(later)
    assert after == {"type": "ADDED", "object": later}
    # A server that is slow to tell of an object may say first how far it has come.
    assert {event["type"] for event in between} <= {"BOOKMARK"}


async def test_a_streamed_list_of_nothing_is_its_bookmark(api: Api, space: Space) -> None:
    params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(space.core("services"), **params) as watch:
        event = await watch.next()
    assert event["type"] == "BOOKMARK"
    assert event["object"]["kind"] == "Service"
    assert event["object"]["metadata"]["annotations"] == END_OF_INITIAL_EVENTS


async def test_a_streamed_list_not_older_than_a_version(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    params = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(space.widgets(), resourceVersion=version(made), **params) as watch:
        events = await watch.until("BOOKMARK")
    assert summary(events[:-1]) == [("ADDED", "one")]
    assert version(events[-1]["object"]) >= version(made)


async def test_initial_events_may_be_declined(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    await api.get(space.widgets(), resourceVersion=version(made))
    params = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
    async with api.watch(space.widgets(), **params) as watch:
        await api.create(space.widgets(), space.widget("two"))
        assert summary([await watch.next()]) == [("ADDED", "two")]


async def test_a_streamed_list_without_its_match_is_refused(api: Api, space: Space) -> None:
    for params in (
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan"},
    ):
        (await api.call("GET", space.widgets(), watch="true", **params)).refused(422, "Invalid")


async def test_a_watch_from_the_future_is_silent(api: Api, space: Space) -> None:
    future = version(await api.get(space.widgets())) + 100_000
    async with api.watch(space.widgets(), resourceVersion=future, timeoutSeconds=1) as watch:
        await api.create(space.widgets(), space.widget("one"))
        assert await watch.ended() == []


async def test_a_watch_by_an_invalid_version_is_refused(api: Api, space: Space) -> None:
    answer = await api.call("GET", space.widgets(), watch="true", resourceVersion="latest")
    assert answer.code == 500
    assert 'resourceVersion: Invalid value: "latest"' in answer.body["message"]


async def test_a_single_object_is_not_watched_by_its_address(api: Api, space: Space) -> None:
    made = await api.create(space.widgets(), space.widget("one"))
    answer = await api.call("GET", space.widgets("one"), watch="true", resourceVersion=version(made))
    assert answer.body == made


async def test_a_large_object_is_one_line(api: Api, space: Space) -> None:
    start = version(await api.get(space.widgets()))
    async with api.watch(space.widgets(), resourceVersion=start) as watch:
        made = await api.create(space.widgets(), space.widget("one", spec={"text": "x" * 1_000_000}))
        assert await watch.next() == {"type": "ADDED", "object": made}


async def test_a_burst_comes_in_the_order_of_versions(api: Api, space: Space) -> None:
    start = version(await api.get(space.widgets()))
    async with api.watch(space.widgets(), resourceVersion=start) as watch:
        await asyncio.gather(*(api.create(space.widgets(), space.widget(f"w{i}")) for i in range(50)))
        versions = [version(event["object"]) for event in await watch.take(50)]
    assert versions == sorted(set(versions))


async def test_a_broken_off_watch_is_resumed_from_its_last_version(api: Api, space: Space) -> None:
    start = version(await api.get(space.widgets()))
    async with api.watch(space.widgets(), resourceVersion=start) as watch:
        await api.create(space.widgets(), space.widget("a"))
        seen = version((await watch.next())["object"])
    await api.create(space.widgets(), space.widget("b"))
    async with api.watch(space.widgets(), resourceVersion=seen) as watch:
        assert summary([await watch.next()]) == [("ADDED", "b")]
