"""State that is kept in two places, or where results are, survives a crash between any two writes as state in one place does."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

import ctl
from ctl.handlers.causes.views import Body
from ctl.handlers.settings import OperatorSettings, PersistenceSettings
from ctl.sandbox import LoggedRequest

from .world import FINALIZER, KEX, Calls, World, a_world, quick, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

FULL = bool(os.environ.get("SOAK_ROUNDS"))
"""`make soak` looks at all places, with functions and without them, and at a dying process's last write whose answer is lost."""
LOST = [False, True] if FULL else [False]


def _annotations_and_status() -> ctl.DiffBaseStorage:
    return ctl.MultiDiffBaseStorage([ctl.AnnotationsDiffBaseStorage(), ctl.StatusDiffBaseStorage()])


def _status_and_annotations() -> ctl.DiffBaseStorage:
    return ctl.MultiDiffBaseStorage([ctl.StatusDiffBaseStorage(), ctl.AnnotationsDiffBaseStorage()])


def _both() -> ctl.ProgressStorage:
    return ctl.MultiProgressStorage([ctl.AnnotationsProgressStorage(), ctl.StatusProgressStorage()])


Storages = tuple[Callable[[], ctl.DiffBaseStorage], Callable[[], ctl.ProgressStorage]]

PLACES: dict[str, Storages] = {
    "annotations": (ctl.AnnotationsDiffBaseStorage, ctl.SmartProgressStorage),
    "base in status": (ctl.StatusDiffBaseStorage, ctl.SmartProgressStorage),
    "base in both": (_annotations_and_status, ctl.SmartProgressStorage),
    "base in both, status first": (_status_and_annotations, ctl.SmartProgressStorage),
    "records in status": (ctl.AnnotationsDiffBaseStorage, ctl.StatusProgressStorage),
    "all in status": (ctl.StatusDiffBaseStorage, ctl.StatusProgressStorage),
    "all in both": (_status_and_annotations, _both),
}


def _settings(place: str) -> OperatorSettings:
    settings = quick()
    base, progress = PLACES[place]
    settings.persistence.diffbase_storage, settings.persistence.progress_storage = base(), progress()
    return settings


def _declare(calls: Calls, *, functions: bool) -> None:
    """Handlers that want something in both places; one needs two attempts."""

    @ctl.on.create(KEX.plural, id="wishes")
    async def wishes(patch: ctl.Patch, **kwargs: Any) -> str:
        calls("wishes", kwargs)
        patch.metadata.labels["wished"] = "yes"
        if functions:
            patch.fns.append(lambda body: body["spec"]["list"].append("x"))
            patch.fns.append(lambda body: body.setdefault("status", {}).setdefault("list", []).append("x"))
        return "result"

    @ctl.on.create(KEX.plural, id="later")
    async def later(patch: ctl.Patch, retry: int, **kwargs: Any) -> str:
        if not retry:
            raise ctl.TemporaryError("not yet", delay=3)
        calls("later", kwargs)
        patch.metadata.labels["later"] = "yes"
        return "result"


def _succeeded(persistence: PersistenceSettings, body: Any, handler_id: str) -> bool:
    record = persistence.progress_storage.fetch(key=handler_id, body=Body(body))
    return bool(record and record.get("success"))


async def _cut(place: str, number: int, *, functions: bool, lost: bool) -> bool:
    """Kill the process after so many writes, and let another one go on; gives whether there were so many."""
    calls = Calls()
    async with a_world() as world:
        _declare(calls, functions=functions)
        settings = _settings(place)
        persistence = settings.persistence
        with world.cut_after(number, lost=lost) as killed:
            async with world.running(settings=settings) as running:
                await world.create(spec={"field": 1, "list": []})
                await asyncio.wait({asyncio.create_task(killed.wait())}, timeout=60)
                known = list(calls.names)
                await world.crash(running)
        body = world.get()
        handled = persistence.diffbase_storage.fetch(body=Body(body)) is not None
        stored = {name for name in ("wishes", "later") if handled or _succeeded(persistence, body, name)}
        async with world.running(settings=_settings(place)):
            await rest(60)
        body, again = world.get(), calls.names[len(known) :]
        assert not stored & {*again}, (place, number, stored, again, body)
        assert body["metadata"]["labels"] == {"wished": "yes", "later": "yes"}, (place, number, body)
        assert (body["status"]["wishes"], body["status"]["later"]) == ("result", "result"), (place, number, body)
        if functions:
            # Once for each call whose outcome was not stored; a write that was cut off leaves part of it.
            counts = len(body["spec"]["list"]), len(body["status"]["list"])
            assert all(1 <= count <= calls.count("wishes") for count in counts), (place, number, body)
        left = [name for name in ("wishes", "later") if persistence.progress_storage.fetch(key=name, body=Body(body))]
        assert not left, (place, number, body)
        assert persistence.diffbase_storage.fetch(body=Body(body)) is not None
    return killed.is_set()


@pytest.mark.parametrize("functions", [False, True] if FULL else [True])
@pytest.mark.parametrize(
    "place", PLACES if FULL else ["base in both, status first", "records in status", "all in both"]
)
async def test_a_crash_between_any_two_writes_repeats_rather_than_loses(place: str, functions: bool) -> None:
    for lost in LOST:
        number = 0
        while await _cut(place, number, functions=functions, lost=lost):
            number += 1
        assert number >= 2


@pytest.mark.parametrize("place", ["annotations", "records in status", "all in both"])
async def test_an_object_that_others_keep_is_let_go_once(world: World, calls: Calls, place: str) -> None:
    """Killed around each write of a deletion: its handlers are called once, and nothing of them is left."""

    @ctl.on.delete(KEX.plural, id="first")
    async def first(**kwargs: Any) -> None:
        calls("first", kwargs)

    @ctl.on.delete(KEX.plural, id="later")
    async def later(retry: int, **kwargs: Any) -> None:
        if not retry:
            raise ctl.TemporaryError("not yet", delay=5)
        calls("later", kwargs)

    def is_there(name: str) -> bool:
        return FINALIZER in world.get(name)["metadata"].get("finalizers", ())

    for number in range(6):
        name, settings = f"o{number}", _settings(place)
        progress = settings.persistence.progress_storage
        async with world.running(settings=settings) as running:
            await world.create(name, finalizers=["others.io/keep"])
            await world.until(lambda name=name: is_there(name))  # type: ignore[misc]
            await world.delete(name)
            await world.until(lambda: _succeeded(settings.persistence, world.get(name), "first"))  # noqa: B023
            begun = len(world.writes())

            def after(_: LoggedRequest, begun: int = begun, number: int = number) -> bool:
                return len(world.writes()) - begun > number

            rule = world.sandbox.faults.refuse(match=world.own_patches(when=after), times=None)
            await rest(10)
            if number % 2:
                await world.crash(running)
            world.sandbox.faults.rules.remove(rule)
        async with world.running(settings=_settings(place)):
            await rest(60)
            await world.patch({"metadata": {"labels": {"some": "news"}}}, name)
            await rest(60)
            assert not is_there(name)
            body = Body(world.get(name))
            assert [progress.fetch(key=key, body=body) for key in ("first", "later")] == [None, None]
        assert calls.count("first") == number + 1
        assert number + 1 <= calls.count("later") <= 2 * (number + 1)


async def test_the_release_takes_the_records_along(world: World, calls: Calls) -> None:
    @ctl.on.delete(KEX.plural, id="delete")
    async def delete(retry: int, **kwargs: Any) -> None:
        calls("delete", kwargs)
        if not retry:
            raise ctl.TemporaryError("not yet", delay=5)

    async with world.running():
        await world.create(finalizers=["others.io/keep"])
        await world.until(lambda: FINALIZER in world.get()["metadata"]["finalizers"])
        await world.delete()
        await world.until(lambda: world.record("delete"))
        before = len(world.writes())
        await world.until(lambda: FINALIZER not in world.get()["metadata"]["finalizers"])
        assert world.record("delete") is None
        await rest(5)
        await world.patch({"metadata": {"labels": {"some": "news"}}})
        await rest(60)
        assert len(world.writes()) == before + 1
    assert calls.count("delete") == 2
