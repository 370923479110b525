"""Progress that is kept in ConfigMaps beside the objects."""

import asyncio
import json
from typing import Any

import pytest

import ctl
from ctl.client.resources import Resource
from ctl.handlers.settings import OperatorSettings
from ctl.handlers.storage.outside import ConfigMapProgressStorage
from ctl.handlers.storage.progress import AnnotationsProgressStorage, MultiProgressStorage, ProgressStorage
from ctl.sandbox import LoggedRequest

from .world import GLOBAL, KEX, LAST, Calls, P, World, quick, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)


def _outside(storage: ProgressStorage | None = None) -> OperatorSettings:
    settings = quick()
    settings.persistence.progress_storage = storage or ConfigMapProgressStorage()
    return settings


def _retried(calls: Calls, resource: Resource = KEX) -> None:
    @ctl.on.create(resource.plural, id="first")
    async def first(**kwargs: Any) -> str:
        calls("first", kwargs)
        return "a result"

    @ctl.on.create(resource.plural, id="second")
    async def second(retry: int, **kwargs: Any) -> None:
        calls("second", kwargs)
        if retry < 2:
            raise ctl.TemporaryError("not yet", delay=10)


async def _maps(world: World, namespace: str = "default") -> list[dict[str, Any]]:
    return [found.body() for found in await world.user.list(MAPS, namespace)]


def _written(world: World) -> list[LoggedRequest]:
    return [
        request
        for request in world.sandbox.write_log
        if request.user_agent.startswith("ctl/") and "reviews" not in request.path
    ]


async def test_handlers_that_end_in_one_round_need_none(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural)
    async def create(**kwargs: Any) -> None:
        calls("create", kwargs)

    async with world.running(settings=_outside()):
        for number in range(3):
            await world.create(f"o{number}")
            await world.handled(f"o{number}")
    maps = [
        request for request in world.sandbox.log if "configmaps" in request.path and request.user_agent[:4] == "ctl/"
    ]
    assert [request.method for request in maps] == ["GET"]
    assert len(world.writes()) == 3


async def test_records_are_beside_the_object_while_handlers_are_not_done(world: World, calls: Calls) -> None:
    _retried(calls)
    async with world.running(settings=_outside()):
        uid = (await world.create())["metadata"]["uid"]
        await world.until(lambda: calls.count("second") == 1)
        await rest()
        assert world.annotations() == {}
        [found] = await _maps(world)
        assert found["metadata"]["name"] == f"ctl-progress-{uid}"
        assert found["metadata"]["ownerReferences"][0]["uid"] == uid
        records = json.loads(found["data"]["records"])
        assert (records["first"]["success"], records["second"]["retries"]) == (True, 1)
        await world.handled()
        assert await _maps(world) == []
        assert set(world.annotations()) == {LAST}
    assert calls.names == ["first", "second", "second", "second"]
    paths = [(request.method, request.path.rsplit("/", 2)[-1][:6]) for request in _written(world)]
    # What handlers want goes before the records of it; the baseline is there before the records go.
    assert paths == [
        ("PATCH", "status"),
        ("PATCH", "ctl-pr"),
        ("POST", "config"),
        ("PATCH", "ctl-pr"),
        ("PATCH", "one"),
        ("DELETE", "ctl-pr"),
    ]


async def test_another_process_goes_on(world: World, calls: Calls) -> None:
    _retried(calls)
    async with world.running(settings=_outside()) as running:
        await world.create()
        await world.until(lambda: calls.count("second") == 1)
        await rest()
        await world.crash(running)
    async with world.running(settings=_outside()):
        await world.handled()
    assert calls.names == ["first", "second", "second", "second"]
    assert await _maps(world) == []


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("lost", [True, False])
async def test_each_write_may_fail_or_lose_its_answer(world: World, calls: Calls, number: int, lost: bool) -> None:
    _retried(calls)
    seen = -1

    def is_it(request: LoggedRequest) -> bool:
        nonlocal seen
        if request.method in {"GET", "POST"} and "configmaps" not in request.path:
            return False
        seen += request.method != "GET"
        return request.method != "GET" and seen == number

    match = world.own_patches(when=is_it).__class__(user_agent="ctl/", when=is_it)
    if lost:
        world.sandbox.faults.lose_answer(match=match)
    else:
        world.sandbox.faults.refuse(match=match)
    async with world.running(settings=_outside()):
        await world.create()
        await world.handled()
        await rest(60)
    assert calls.count("first") == 1
    assert calls.count("second") == 3
    assert await _maps(world) == []


async def test_moving_from_annotations(world: World, calls: Calls) -> None:
    _retried(calls)
    async with world.running() as running:
        await world.create()
        await world.until(lambda: calls.count("second") == 1)
        await rest()
        await world.crash(running)
    assert f"{P}/second" in world.annotations()
    both = MultiProgressStorage([ConfigMapProgressStorage(), AnnotationsProgressStorage()])
    async with world.running(settings=_outside(both)):
        await world.handled()
    assert calls.names == ["first", "second", "second", "second"]
    assert await _maps(world) == []


async def test_the_records_of_configmaps_are_not_handled_as_configmaps(world: World, calls: Calls) -> None:
    _retried(calls, MAPS)

    @ctl.daemon(MAPS.plural, id="daemon")
    async def daemon(stopped: Any, **kwargs: Any) -> None:
        calls("daemon", kwargs)
        await stopped.wait()

    shown: set[str] = set()

    @ctl.on.event(MAPS.plural)
    async def show(name: str, **_: Any) -> None:
        shown.add(name)

    async with world.running(settings=_outside()):
        uid = (await world.create("mine", resource=MAPS))["metadata"]["uid"]
        await world.until(lambda: calls.count("second") == 2)
        await rest()
        assert sorted(found["metadata"]["name"] for found in await _maps(world)) == [f"ctl-progress-{uid}", "mine"]
        await world.handled("mine", resource=MAPS)
        await rest()
    assert sorted(calls.names) == ["daemon", "first", "second", "second", "second"]
    assert [found["metadata"]["name"] for found in await _maps(world)] == ["mine"]
    assert shown == {"mine", f"ctl-progress-{uid}"}


async def test_an_object_that_vanishes_takes_its_records_along(world: World, calls: Calls) -> None:
    _retried(calls)
    storage = ConfigMapProgressStorage()
    async with world.running(settings=_outside(storage)):
        await world.create()
        await world.until(lambda: calls.count("second") == 1)
        await rest()
        await world.delete()
        await world.gone()
        await rest(5)
        assert storage._known == {}
        assert await _maps(world) == []


@pytest.mark.parametrize(
    "corrupt", ["{broken", "[1]", '{"second": 5}', "[" * 100_000], ids=["text", "list", "record", "depth"]
)
async def test_one_corrupt_configmap_concerns_its_object_alone_and_may_be_mended(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture, corrupt: str
) -> None:
    _retried(calls)
    async with world.running(settings=_outside()) as running:
        await world.create("one")
        await world.until(lambda: calls.count("second") == 1)
        await rest()
        (known,) = await _maps(world)
        await world.crash(running)
    name = known["metadata"]["name"]
    await world.user.patch(MAPS, name, "default", {"data": {"records": corrupt}})
    await world.create("two")
    async with world.running(settings=_outside()):
        await world.until(lambda: calls.count("first") == 2)
        await world.handled("two")
        assert f"ConfigMap default/{name}" in caplog.text
        assert LAST not in world.annotations("one")
        seconds = calls.count("second")
        await world.user.patch(MAPS, name, "default", {"data": known["data"]})
        await world.handled("one", seconds=700)
        assert calls.count("second") == seconds + 2, "it goes on where it was"
    assert calls.count("first") == 2
    assert await _maps(world) == []


async def test_cluster_scoped_objects_need_a_namespace_that_exists(
    world: World, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    _retried(calls, GLOBAL)
    async with world.running(settings=_outside(ConfigMapProgressStorage(namespace="mine"))):
        await world.create(resource=GLOBAL)
        await world.until(lambda: "Create it, or give another one" in caplog.text)
        await world.user.create(Resource("", "v1", "namespaces", "Namespace"), _namespace("mine"))
        await world.until(lambda: LAST in world.annotations(resource=GLOBAL))
        await asyncio.sleep(1)
    assert calls.names == ["first", "second", "second", "second"]


def _namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
