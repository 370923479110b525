"""The page on scopes: one namespace, several, patterns of them, and the whole cluster."""

from typing import Any

import pytest

import ctl
from ctl.client.resources import Resource

from ..handlers.test_posting import deny
from ..handlers.world import GLOBAL, KEX, Calls, World, rest

pytestmark = pytest.mark.virtual_time

NAMESPACES = Resource("", "v1", "namespaces", kind="Namespace", namespaced=False)
NAMES = ["myapp-live", "myapp-pr-123", "myapp-pr-456", "otherapp-live", "otherapp-pr-123"]


async def make(world: World, *names: str) -> None:
    for name in names:
        await world.user.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


async def put(world: World, namespace: str, name: str = "one") -> None:
    metadata = {"name": name, "namespace": namespace}
    body = {"apiVersion": KEX.api_version, "kind": KEX.kind, "metadata": metadata, "spec": {}}
    await world.user.create(KEX, body, namespace)


@pytest.fixture(autouse=True)
async def handled(world: World, calls: Calls) -> None:
    """Five namespaces, and a handler that tells where it is called."""
    await make(world, *NAMES)

    @ctl.on.create(KEX.plural)
    async def create(namespace: str, name: str, **_: Any) -> None:
        calls(namespace, {"name": name})


def lists(world: World) -> set[str]:
    """The paths at which the operator has looked for objects."""
    found = {request.path for request in world.sandbox.log if request.user_agent.startswith("ctl/")}
    return {path for path in found if path.endswith(f"/{KEX.plural}")}


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["myapp-live"], {"myapp-live"}),
        (["myapp-live", "otherapp-live"], {"myapp-live", "otherapp-live"}),
        (["*-pr-123"], {"myapp-pr-123", "otherapp-pr-123"}),
        (["myapp-pr-??6"], {"myapp-pr-456"}),
        (["!*-pr-*"], {"myapp-live", "otherapp-live"}),
        (["myapp-*,!*-pr-*,*-pr-123"], {"myapp-live", "myapp-pr-123"}),
        (["!*-pr-*,*-pr-123"], {"myapp-live", "otherapp-live", "myapp-pr-123", "otherapp-pr-123"}),
        (["myapp-*", "*-pr-123"], {"myapp-live", "myapp-pr-123", "myapp-pr-456", "otherapp-pr-123"}),
    ],
    ids=lambda value: str(sorted(value)),
)
async def test_namespaces_and_patterns(world: World, calls: Calls, patterns: list[str], expected: set[str]) -> None:
    for name in NAMES:
        await put(world, name)
    async with world.running(namespaces=patterns):
        await rest(3)
        # Also what comes while the operator runs.
        for name in NAMES:
            await put(world, name, "two")
        await rest(3)
    assert set(calls.names) & set(NAMES) == expected
    assert all(calls.count(name) == 2 for name in expected)


async def test_namespaces_that_come_and_go_are_served_accordingly(world: World, calls: Calls) -> None:
    async with world.running(namespaces=["myapp-*"]):
        await make(world, "myapp-new", "otherapp-new")
        await rest(2)
        for name in ("myapp-new", "otherapp-new"):
            await put(world, name)
        await rest(2)
        assert calls.names == ["myapp-new"]
        await world.user.delete(NAMESPACES, "myapp-new")
        await rest(60)
        world.sandbox.faults.cut_watches()
        world.sandbox.log.clear()
        await rest(60)
        assert not [path for path in lists(world) if "myapp-new" in path]


async def test_the_whole_cluster_is_one_place(world: World, calls: Calls) -> None:
    @ctl.on.create(GLOBAL.plural)
    async def create(namespace: str | None, **_: Any) -> None:
        calls(f"cluster {namespace}", {})

    async with world.running(clusterwide=True):
        await put(world, "otherapp-live")
        await world.create(resource=GLOBAL)
        await rest(3)
    assert sorted(calls.names) == ["cluster None", "otherapp-live"]
    assert lists(world) == {KEX.get_url()}
    watched = [request.path for request in world.sandbox.log if request.user_agent.startswith("ctl/")]
    assert NAMESPACES.get_url() not in watched


async def test_a_star_looks_at_each_namespace(world: World, calls: Calls) -> None:
    async with world.running(namespaces=["*"]):
        await put(world, "otherapp-live")
        await rest(3)
    assert calls.names == ["otherapp-live"]
    assert KEX.get_url() not in lists(world)
    assert KEX.get_url(namespace="myapp-live") in lists(world)


async def test_without_the_right_to_see_namespaces_names_are_taken_as_they_are(
    world: World, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that do not exist yet; patterns mean nothing then."""
    deny(world, monkeypatch, ("list", NAMESPACES.plural), ("watch", NAMESPACES.plural))
    async with world.running(namespaces=["myapp-live", "not-yet", "otherapp-*"]):
        await put(world, "myapp-live")
        await put(world, "otherapp-live")
        await rest(2)
        assert calls.names == ["myapp-live"]
        await make(world, "not-yet")
        await put(world, "not-yet")
        await rest(90)
    assert calls.names == ["myapp-live", "not-yet"]
