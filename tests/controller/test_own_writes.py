"""What is an echo of an own write, and what somebody else's change that its answer happens to show."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctl.client.config.access import Access
from ctl.client.errors import NotFound
from ctl.client.objects import Object
from ctl.client.patches import merge_patch
from ctl.client.resources import Key, Resource
from ctl.client.rest import Client, PatchKind
from ctl.client.settings import ClientSettings
from ctl.controller.api.client import CachedClient
from ctl.controller.api.desired import Sent, explains
from ctl.controller.building.builder import controller
from ctl.controller.building.built import BuiltController
from ctl.controller.building.context import Context
from ctl.informers.deltas import Delta
from ctl.informers.factory import SharedInformerFactory
from ctl.informers.subscription import Subscription
from ctl.sandbox import Match, Sandbox

CONFIGMAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
KEY = Key("default", "one")
JSON = st.recursive(
    st.none() | st.integers(0, 3) | st.sampled_from("abc"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


def an_object(version: str = "1", **stanzas: Any) -> Object:
    metadata = {"name": "one", "namespace": "default", "uid": "u", "resourceVersion": version, "generation": version}
    return Object.from_body({"metadata": metadata | stanzas.pop("metadata", {}), **stanzas})


@pytest.mark.parametrize(
    ("wish", "old", "new"),
    [
        (Sent({"spec": {"a": 1}}), {"spec": {"a": 0, "b": 5}}, {"spec": {"a": 1, "b": 5}}),
        (Sent({"spec": {"a": None}}), {"spec": {"a": 0, "b": 5}}, {"spec": {"b": 5}}),
        (Sent({"status": {"a": {"b": 1}}}), {}, {"status": {"a": {"b": 1}}}),
        (Sent({"status": None}), {"status": {"a": 1}}, {}),
        # Defaults of the server that were there before.
        (
            Sent({"spec": {"items": [{"image": "b"}]}}),
            {"spec": {"items": [{"image": "a", "pull": "always"}]}},
            {"spec": {"items": [{"image": "b", "pull": "always"}]}},
        ),
        (Sent({"data": {"a": "1"}}, whole=True), {"data": {"a": "0", "b": "1"}}, {"data": {"a": "1"}}),
        (Sent([{"op": "add", "path": "/spec/a/-", "value": 3}]), {"spec": {"a": [1]}}, {"spec": {"a": [1, 3]}}),
        (Sent([{"op": "remove", "path": "/spec/a"}]), {"spec": {"a": [1]}}, {"spec": {}}),
        (Sent({}), {"spec": {"a": 1}}, {"spec": {"a": 1}}),
    ],
)
def test_what_was_sent_explains_an_answer(wish: Sent, old: dict[str, Any], new: dict[str, Any]) -> None:
    assert explains(wish, an_object(**old), an_object("2", **new))


@pytest.mark.parametrize(
    ("wish", "old", "new"),
    [
        (Sent({"spec": {"a": 1}}), {"spec": {"a": 0, "b": 5}}, {"spec": {"a": 1, "b": 6}}),
        (Sent({"spec": {"a": 1}}), {"spec": {"a": 0}}, {"spec": {"a": 1}, "status": {"ready": True}}),
        (Sent({"spec": {"a": 1}}), {"spec": {"a": 0, "b": 5}}, {"spec": {"a": 1}}),
        (Sent({"spec": {"a": 1}}), {"spec": {"a": 0}}, {"spec": {"a": 2}}),
        (Sent({"spec": {"a": [1]}}), {"spec": {"a": [1]}}, {"spec": {"a": [1, 2]}}),
        (Sent({"data": {"a": "1"}}, whole=True), {"data": {"a": "0"}}, {"data": {"a": "1", "b": "1"}}),
        (Sent([{"op": "add", "path": "/spec/a/-", "value": 3}]), {"spec": {"a": [1]}}, {"spec": {"a": [1, 2, 3]}}),
        (Sent([{"op": "remove", "path": "/spec/a"}]), {"spec": {}}, {"spec": {"b": 1}}),
        (Sent({"spec": 1}), {}, {"spec": 1, "metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}}),
    ],
)
def test_what_nobody_sent_is_somebody_else_s(wish: Sent, old: dict[str, Any], new: dict[str, Any]) -> None:
    assert not explains(wish, an_object(**old), an_object("2", **new))


@given(before=BODIES, patch=BODIES, other=BODIES.filter(bool))
def test_a_merge_explains_itself_and_nothing_that_it_does_not_touch(
    before: dict[str, Any], patch: dict[str, Any], other: dict[str, Any]
) -> None:
    after = merge_patch(before, patch)
    wish = Sent({"spec": patch})
    assert explains(wish, an_object(spec=before), an_object("2", spec=after))
    assert explains(wish, an_object(spec=before, status=other), an_object("2", spec=after, status=other))
    assert not explains(wish, an_object(spec=before), an_object("2", spec=after, status=other))


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


class World:
    """A controller of ConfigMaps beside a user and another controller; `attempts` have what each attempt read."""

    def __init__(self, sandbox: Sandbox, user: Client, factory: SharedInformerFactory, built: BuiltController) -> None:
        self.sandbox = sandbox
        self.user = user
        self.factory = factory
        self.cached = built.cached
        self.other = CachedClient(built.cached.client, factory, author="other")
        self.attempts: list[Any] = []

    async def meanwhile(
        self, write: Callable[["World"], Awaitable[object]], *, by: CachedClient | None = None, listed: bool = False
    ) -> list[Any]:
        """Write while the watch has yet to tell of a change of a user's (or by another); gives what attempts read after it, or a list, has told."""
        await asyncio.sleep(5)
        self.sandbox.faults.stall_watches()
        if by is None:
            await self.user.patch(CONFIGMAPS, KEY.name, KEY.namespace, {"data": {"b": "2"}})
        else:
            await by.patch("configmaps", KEY, {"data": {"b": "2"}})
        count = len(self.attempts)
        await write(self)
        assert len(self.attempts) == count
        if listed:
            self.sandbox.compact()
            self.sandbox.faults.cut_watches()
        self.sandbox.faults.resume_watches()
        await asyncio.sleep(30)
        return self.attempts[count:]


@pytest.fixture
async def world(sandbox: Sandbox) -> AsyncIterator[World]:
    async def reconcile(key: Key, context: Context) -> None:
        obj = context.cached.get("configmaps", key)
        found.attempts.append(None if obj is None else obj.body().get("data"))

    async with (
        Client(Access(sandbox.url), ClientSettings(user_agent="user")) as user,
        Client(Access(sandbox.url), ClientSettings(user_agent="ctl/test")) as client,
    ):
        factory = SharedInformerFactory(client)
        metadata = {"name": "one", "namespace": "default", "finalizers": ["example.com/kept"]}
        await user.create(CONFIGMAPS, {"metadata": metadata, "data": {"a": "1"}})
        built = controller("configmaps").reconciles(reconcile).build(client, factory)
        found = World(sandbox, user, factory, built)
        await built.start()
        await factory.wait_for_sync(timeout=10)
        yield found
        await built.stop(10)
        await factory.stop()


@pytest.mark.virtual_time
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_request_that_takes_long_deafens_no_other_controller(world: World, method: str) -> None:
    """Though it is sent again and again, for minutes."""
    heard: list[tuple[float, Any]] = []
    time = asyncio.get_running_loop().time

    async def listen(key: Key, context: Context) -> None:
        obj = context.cached.get("configmaps", key)
        heard.append((time(), None if obj is None else obj.body()["data"]["a"]))

    client = world.cached.client
    listener = controller("configmaps").named("listener").reconciles(listen).build(client, world.factory)
    await listener.start()
    await asyncio.sleep(5)
    heard.clear()
    world.sandbox.faults.delay(20, match=Match(method=method, user_agent="ctl/test"))
    obj = world.cached.get("configmaps", KEY)
    assert obj is not None
    write = world.cached.delete("configmaps", obj) if method == "DELETE" else merge_something(world)
    task = asyncio.create_task(write)
    await asyncio.sleep(2)
    began = time()
    await world.user.patch(CONFIGMAPS, "one", "default", {"data": {"a": "2"}})
    await asyncio.sleep(3)
    await world.user.patch(CONFIGMAPS, "one", "default", {"metadata": {"finalizers": None}})
    await world.user.delete(CONFIGMAPS, "one", "default")
    await asyncio.sleep(3)
    assert not task.done()
    assert heard[0][1] == "2"
    assert heard[-1][1] is None, "it has heard of the deletion"
    assert heard[0][0] - began < 1.5
    assert heard[-1][0] - began < 4.5
    with contextlib.suppress(NotFound):
        await task
    await listener.stop(10)


async def read(world: World) -> None:
    assert await world.cached.get_live("configmaps", KEY) is not None


async def merge_nothing(world: World) -> None:
    await world.cached.patch("configmaps", KEY, {"data": {"a": "1"}})


async def read_and_merge_nothing(world: World) -> None:
    await read(world)
    await merge_nothing(world)


async def read_and_merge_something(world: World) -> None:
    await read(world)
    await merge_something(world)


async def merge_something(world: World) -> None:
    await world.cached.patch("configmaps", KEY, {"data": {"c": "3"}})


async def patch_nothing(world: World) -> None:
    ops = [{"op": "replace", "path": "/data/a", "value": "1"}]
    await world.cached.patch("configmaps", KEY, ops, kind=PatchKind.JSON)


async def apply_something(world: World) -> None:
    await world.cached.apply("configmaps", {"metadata": {"name": "one", "namespace": "default"}, "data": {"c": "3"}})


async def change_after_a_conflict(world: World) -> None:
    assert await world.cached.change("configmaps", KEY, lambda body: body["data"].update(c="3")) is not None


async def add_a_finalizer_after_a_conflict(world: World) -> None:
    obj = world.cached.get("configmaps", KEY)
    assert obj is not None
    assert await world.cached.add_finalizer("configmaps", obj, "example.com/mine") is not None


WRITES: list[Callable[[World], Awaitable[None]]] = [
    read,
    merge_nothing,
    read_and_merge_nothing,
    read_and_merge_something,
    patch_nothing,
    apply_something,
    change_after_a_conflict,
    add_a_finalizer_after_a_conflict,
]


@pytest.mark.virtual_time
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("write", WRITES)
async def test_a_change_that_an_own_answer_shows_first_is_reconciled(
    world: World, write: Callable[[World], Awaitable[None]], *, listed: bool
) -> None:
    told = await world.meanwhile(write, listed=listed)
    assert told, "nobody was told of the user's change"
    assert told[-1]["b"] == "2"


@pytest.mark.virtual_time
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("write", [merge_nothing, merge_something])
async def test_what_another_controller_has_written_is_reconciled_whatever_is_written_after_it(
    world: World, write: Callable[[World], Awaitable[None]], *, listed: bool
) -> None:
    told = await world.meanwhile(write, by=world.other, listed=listed)
    assert told, "nobody was told of the other controller's change"
    assert told[-1]["b"] == "2"


@pytest.mark.virtual_time
async def test_a_write_to_what_is_not_known_yet_takes_nothing_for_its_own(world: World) -> None:
    await asyncio.sleep(5)
    world.sandbox.faults.stall_watches()
    await world.user.create(CONFIGMAPS, {"metadata": {"name": "two", "namespace": "default"}, "data": {"a": "1"}})
    await world.user.patch(CONFIGMAPS, "two", "default", {"metadata": {"labels": {"a": "1"}}})
    await world.cached.patch("configmaps", Key("default", "two"), {"data": {"a": "1"}})
    (informer,) = world.factory.informers
    async with informer.subscribe("test") as deltas:
        world.sandbox.faults.resume_watches()
        told = [delta async for batch in _until_quiet(deltas) for delta in batch if delta.object.name == "two"]
    assert [(delta.kind.value, delta.echo, delta.author) for delta in told] == [
        ("ADDED", False, None),
        ("UPDATED", False, None),
    ]


async def _until_quiet(deltas: Subscription) -> AsyncIterator[list[Delta]]:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(30):
            async for batch in deltas:
                yield batch


@pytest.mark.virtual_time
async def test_own_changes_trigger_nothing(world: World) -> None:
    await asyncio.sleep(5)
    count = len(world.attempts)
    await world.cached.patch("configmaps", KEY, {"data": {"b": "2"}})
    await world.cached.change("configmaps", KEY, lambda body: body["data"].update(b="3"))
    await apply_something(world)
    obj = world.cached.get("configmaps", KEY)
    assert obj is not None
    body = obj.body()
    body["data"] = {"b": "4"}
    await world.cached.replace("configmaps", body)
    await asyncio.sleep(5)
    assert len(world.attempts) == count


@pytest.mark.virtual_time
async def test_an_own_deletion_that_waits_for_a_finalizer_is_reconciled(world: World) -> None:
    """Who is to take the finalizer off may be the one who deletes."""
    await asyncio.sleep(5)
    count = len(world.attempts)
    obj = world.cached.get("configmaps", KEY)
    assert obj is not None
    await world.cached.delete("configmaps", obj)
    await asyncio.sleep(5)
    assert len(world.attempts) == count + 1
