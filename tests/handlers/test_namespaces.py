"""Which namespaces are served, as they come and go, and what is not even tried without the right to."""

import logging
import re
from typing import Any

import pytest

import ctl
from ctl.client.errors import NotFound
from ctl.client.resources import Resource
from ctl.handlers.running import namespaces

from .test_posting import deny
from .world import GLOBAL, KEX, Calls, World, quick, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

NS = Resource("", "v1", "namespaces", kind="Namespace", namespaced=False)


async def make(world: World, *names: str) -> None:
    """Create namespaces."""
    for name in names:
        await world.user.create(NS, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


async def put(world: World, namespace: str, name: str = "one", **metadata: Any) -> None:
    """Create an object in a namespace."""
    metadata = {"name": name, "namespace": namespace, **metadata}
    body = {"apiVersion": KEX.api_version, "kind": KEX.kind, "metadata": metadata, "spec": {}}
    await world.user.create(KEX, body, namespace)


@pytest.fixture
def seen(calls: Calls) -> Calls:
    """The events of all objects, as `type namespace`."""

    @ctl.on.event(KEX.plural)
    @ctl.on.event(GLOBAL.plural)
    async def event(type: str | None, namespace: str | None, **_: Any) -> None:
        calls(f"{type} {namespace}", {})

    return calls


async def test_patterns_serve_the_namespaces_they_mean(world: World, seen: Calls) -> None:
    await make(world, "team-a", "team-b", "team-x", "other")
    for name in ("team-a", "team-b", "team-x", "other", "default"):
        await put(world, name)
    await world.create(resource=GLOBAL)
    async with world.running(namespaces=["team-*,!team-x", re.compile("def.*")]):
        await rest(2)
    assert sorted(seen.names) == ["None None", "None default", "None team-a", "None team-b"]


async def test_namespaces_come_and_go(world: World, seen: Calls, caplog: pytest.LogCaptureFixture) -> None:
    await make(world, "team-a")
    with caplog.at_level(logging.DEBUG, "ctl"):
        async with world.running(namespaces=["team-*"]):
            await put(world, "team-a")
            await world.until(lambda: seen.count("ADDED team-a"))
            await make(world, "team-b", "other")
            await rest(1)
            await put(world, "team-b")
            await put(world, "other")
            await world.until(lambda: seen.count("ADDED team-b") + seen.count("None team-b"))
            await world.user.delete(NS, "team-a")
            await world.until(lambda: seen.count("DELETED team-a"))
            await rest(namespaces.LINGER + 1)
            await make(world, "team-a")
            await rest(1)
            await put(world, "team-a", "two")
            await world.until(lambda: seen.count("ADDED team-a") + seen.count("None team-a") == 2)
    assert not [name for name in seen.names if name.endswith("other")]
    assert caplog.text.count("Stopping the watch-stream for") >= 2


async def test_a_namespace_under_deletion_is_served_until_it_is_gone(world: World, seen: Calls) -> None:
    @ctl.on.delete(KEX.plural)
    async def delete(namespace: str, **_: Any) -> None:
        seen(f"delete {namespace}", {})

    await make(world, "team-a")
    async with world.running(namespaces=["team-*"]):
        await put(world, "team-a", finalizers=["example.com/hold"])
        await rest(1)
        await world.user.delete(NS, "team-a")
        await rest(60)
        await world.until(lambda: seen.count("delete team-a"))
        release: Any = {"metadata": {"finalizers": None}}
        await world.user.patch(KEX, "one", "team-a", release)
        await world.until(lambda: seen.count("DELETED team-a"))
        await rest(30)
        with pytest.raises(NotFound):
            await world.user.get(NS, "team-a")


async def test_a_namespace_that_comes_back_at_once_is_served_on(world: World, seen: Calls) -> None:
    await make(world, "team-a")
    async with world.running(namespaces=["team-*"]):
        await world.user.delete(NS, "team-a")
        await rest(1)
        await make(world, "team-a")
        await rest(30)
        await put(world, "team-a")
        await world.until(lambda: seen.count("ADDED team-a"))


async def test_namespaces_named_outright_are_not_looked_for(world: World, seen: Calls) -> None:
    async with world.running(namespaces=["later", "default"]):
        await rest(1)
        await make(world, "later")
        await put(world, "later")
        await world.until(lambda: seen.count("ADDED later"))
    paths = [request.path for request in world.sandbox.log if request.user_agent.startswith("ctl/")]
    assert "/api/v1/namespaces" not in paths


async def test_without_the_right_to_list_namespaces_names_are_served(
    world: World, seen: Calls, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    deny(world, monkeypatch, ("list", "namespaces"))
    await make(world, "team-a")
    await put(world, "team-a")
    await put(world, "default")
    with caplog.at_level(logging.INFO):
        async with world.running(namespaces=["team-*", "default"]):
            await rest(2)
    assert seen.names == ["None default"]
    expected = (
        "Namespaces are not looked for by patterns: the right to list and watch them is missing. Served are: default."
    )
    assert caplog.text.count(expected) == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_the_right_to_list_namespaces_may_come_a_moment_too_late(
    world: World, seen: Calls, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For handlers and for declared controllers."""

    async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
        calls(str(key), {})

    ctl.declare(ctl.controller("kopfexamples.kopf.dev").reconciles(reconcile))
    deny(world, monkeypatch, ("list", "namespaces"))
    await make(world, "team-a")
    await put(world, "team-a")
    async with world.running(namespaces=["team-*", "default"]):
        await rest(100)
        assert seen.names == []
        monkeypatch.undo()
        await world.until(lambda: seen.count("None team-a") and calls.count("team-a/one"), 120)
        await make(world, "team-b")
        await put(world, "team-b")
        await world.until(lambda: seen.count("ADDED team-b") or seen.count("None team-b"))


async def test_without_scanning_names_are_served(world: World, seen: Calls, caplog: pytest.LogCaptureFixture) -> None:
    await make(world, "team-a")
    await put(world, "team-a")
    settings = quick()
    settings.scanning.disabled = True
    with caplog.at_level(logging.INFO):
        async with world.running(namespaces=["team-*"], settings=settings):
            await rest(2)
    assert seen.names == []
    assert "settings.scanning.disabled is set. Served are: none." in caplog.text


async def test_without_the_right_to_watch_definitions_there_is_one_line_and_no_refusal(
    world: World, seen: Calls, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    deny(world, monkeypatch, ("watch", "customresourcedefinitions"))
    await world.create()
    with caplog.at_level(logging.INFO):
        async with world.running(namespaces=["default"]):
            await world.until(lambda: len(seen))
    assert caplog.text.count("The right to list and watch customresourcedefinitions") == 1
    mine = [request for request in world.sandbox.log if request.user_agent.startswith("ctl/")]
    assert not [request for request in mine if "customresourcedefinitions" in request.path and request.method == "GET"]
    assert {request.code for request in mine} <= {0, 200, 201}
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
