"""The page on configuration: what startup handlers set, and what the operator does then."""

import asyncio
import concurrent.futures
import itertools
import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest

import ctl
from ctl.client.resources import Resource
from ctl.sandbox import Match

from ..handlers.world import FINALIZER, KEX, LAST, Calls, P, World, rest

pytestmark = pytest.mark.virtual_time

EVENTS = Resource("", "v1", "events", "Event", namespaced=True)
OURS = Match(user_agent="ctl/")


def setting(configure: Callable[[ctl.OperatorSettings], None]) -> None:
    """Declare a startup handler that sets something."""

    @ctl.on.startup(id="configure")
    async def startup(settings: ctl.OperatorSettings, **_: Any) -> None:
        configure(settings)


def put(settings: ctl.OperatorSettings, **values: Any) -> None:
    """Set fields: `group__field=value`."""
    for name, value in values.items():
        group, _, field = name.partition("__")
        setattr(getattr(settings, group), field, value)


async def posted(world: World) -> list[str]:
    """The messages of what was posted."""
    await rest(5)
    return sorted(event.body()["message"] for event in await world.user.list(EVENTS, "default"))


# Events.


def talkative() -> None:
    """A handler that logs and posts at several levels."""

    @ctl.on.create(KEX.plural, id="create")
    def create(logger: Any, body: ctl.Body, **_: Any) -> None:
        logger.info("an information")
        logger.warning("a warning")
        logger.error("an error")
        ctl.info(body, reason="Explicit", message="an explicit information")
        ctl.warn(body, reason="Explicit", message="an explicit warning")


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (logging.ERROR, []),
        (logging.WARNING, ["an explicit warning"]),
        (logging.INFO, ["an explicit information", "an explicit warning"]),
    ],
)
async def test_the_level_of_what_is_posted(world: World, level: int, expected: list[str]) -> None:
    talkative()
    setting(lambda settings: put(settings, posting__level=level, posting__loggers=False))
    async with world.running(settings=ctl.OperatorSettings()):
        await world.create()
        await world.handled()
        assert await posted(world) == expected


async def test_log_messages_are_posted_by_the_same_level(world: World) -> None:
    talkative()
    setting(lambda settings: put(settings, posting__level=logging.WARNING, posting__loggers=True))
    async with world.running(settings=ctl.OperatorSettings()):
        await world.create()
        await world.handled()
        assert await posted(world) == ["a warning", "an error", "an explicit warning"]


async def test_nothing_is_posted_when_that_is_off_not_even_explicitly(world: World) -> None:
    talkative()
    setting(lambda settings: put(settings, posting__enabled=False, posting__loggers=True))
    async with world.running(settings=ctl.OperatorSettings()):
        await world.create()
        await world.handled()
        assert await posted(world) == []


# Threads.


async def test_as_many_plain_functions_at_once_as_workers(world: World) -> None:
    running, most, lock = 0, 0, threading.Lock()
    meeting = threading.Barrier(3)

    @ctl.on.create(KEX.plural)
    def create(**_: Any) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        meeting.wait(30)
        with lock:
            running -= 1

    setting(lambda settings: put(settings, execution__max_workers=3))
    async with world.running():
        for number in range(6):
            await world.create(f"o{number}")
        for number in range(6):
            await world.handled(f"o{number}")
    assert most == 3


async def test_an_executor_of_ones_own(world: World, calls: Calls) -> None:
    pool = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="mine")

    @ctl.on.create(KEX.plural)
    def create(**_: Any) -> None:
        calls(threading.current_thread().name.partition("_")[0], {})

    setting(lambda settings: put(settings, execution__executor=pool))
    async with world.running():
        await world.create()
        await world.handled()
    pool.shutdown()
    assert calls.names == ["mine"]


# The network.


class Endless:
    """Pauses that never end, and can be begun again."""

    def __iter__(self) -> Iterator[float]:
        return itertools.repeat(7.0)


@pytest.mark.parametrize(
    ("backoffs", "attempts"),
    [([10, 20], 3), (1.0, 2), ((), 1), ([], 1), (Endless(), 50)],
    ids=["list", "number", "none", "empty", "endless"],
)
async def test_errors_of_the_server_are_tried_again(world: World, backoffs: Any, attempts: int) -> None:
    @ctl.on.create(KEX.plural)
    async def create(patch: ctl.Patch, **_: Any) -> None:
        patch.spec["seen"] = True

    setting(lambda settings: put(settings, networking__error_backoffs=backoffs, queueing__error_delays=[10_000]))
    async with world.running(settings=ctl.OperatorSettings()):
        rule = world.sandbox.faults.answer(503, match=world.own_patches(), times=50)
        await world.create()
        await rest(400)
        assert rule.hits == attempts
        # When the server is well again before the pauses end, nobody is asked to do it again.
        assert len(world.writes()) == attempts or world.is_clean()


async def test_errors_of_the_client_are_not(world: World) -> None:
    @ctl.on.create(KEX.plural)
    async def create(patch: ctl.Patch, **_: Any) -> None:
        patch.spec["seen"] = True

    setting(lambda settings: put(settings, networking__error_backoffs=[1] * 10, queueing__error_delays=[10_000]))
    async with world.running(settings=ctl.OperatorSettings()):
        world.sandbox.faults.answer(422, match=world.own_patches(), times=None)
        await world.create()
        await rest(400)
        assert len(world.writes()) == 1


@pytest.mark.parametrize("group", ["batching", "queueing"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_unexpected_errors_throttle_their_object(world: World, calls: Calls, group: str) -> None:
    @ctl.on.create(KEX.plural)
    async def create(patch: ctl.Patch, name: str, **_: Any) -> None:
        calls(name, {"at": asyncio.get_running_loop().time()})
        if name == "bad" and calls.count(name) < 6:
            patch.metadata.labels["no label!"] = "x"

    setting(lambda settings: setattr(getattr(settings, group), "error_delays", [10, 20, 30]))
    async with world.running():
        await world.create("bad")
        await rest(5)
        await world.create("good")
        await world.handled("good")
        await world.handled("bad", seconds=300)
    times = [call["at"] for call in calls.of("bad")]
    assert [round(later - earlier) for earlier, later in itertools.pairwise(times)] == [10, 20, 30, 30, 30]
    assert calls.count("good") == 1


# State.


async def test_a_finalizer_of_ones_own(world: World) -> None:
    name = "my-operator.example.com/kopf-finalizer"

    @ctl.on.delete(KEX.plural)
    async def delete(**_: Any) -> None: ...

    setting(lambda settings: put(settings, persistence__finalizer=name))
    async with world.running():
        await world.create()
        await world.until(lambda: world.get()["metadata"].get("finalizers") == [name])
        await world.delete()
        await world.gone()


def slow(calls: Calls) -> None:
    """A handler with a record that lasts."""

    @ctl.on.create(KEX.plural, id="slow")
    async def create(retry: int, **_: Any) -> None:
        calls("slow", {"retry": retry})
        if retry < 2:
            raise ctl.TemporaryError("not yet", delay=20)


Storages = Callable[[], ctl.ProgressStorage]

PLACES: dict[str, tuple[Storages, list[str]]] = {
    "annotations": (
        lambda: ctl.AnnotationsProgressStorage(prefix="my-op.example.com"),
        ["annotation my-op.example.com/slow"],
    ),
    "status": (lambda: ctl.StatusProgressStorage(field="status.my-operator"), ["status my-operator"]),
    "both": (
        lambda: ctl.MultiProgressStorage(
            [
                ctl.AnnotationsProgressStorage(prefix="my-op.example.com"),
                ctl.StatusProgressStorage(field="status.my-operator"),
            ]
        ),
        ["annotation my-op.example.com/slow", "status my-operator"],
    ),
    "legacy": (lambda: ctl.StatusProgressStorage(field="status.kopf.progress"), ["status kopf"]),
    "smart": (ctl.SmartProgressStorage, [f"annotation {P}/slow"]),
}


def places(world: World) -> list[str]:
    """Where records are on the object now."""
    found = [f"annotation {key}" for key, text in world.annotations().items() if "retries" in text]
    return sorted(found + [f"status {key}" for key, value in (world.get().get("status") or {}).items() if value])


@pytest.mark.parametrize("place", PLACES)
async def test_where_progress_is_kept(world: World, calls: Calls, place: str) -> None:
    storage, expected = PLACES[place]
    slow(calls)
    setting(lambda settings: put(settings, persistence__progress_storage=storage()))
    async with world.running():
        await world.create()
        await world.until(lambda: places(world))
        await rest()
        assert places(world) == expected
    # Another process goes on where this one has ended.
    async with world.running():
        await world.until(lambda: calls.count("slow") == 3)
        await world.until(lambda: LAST in world.annotations())
        await rest()
        assert not [name for name in places(world) if name.startswith("annotation")]
    assert [call["retry"] for call in calls.of("slow")] == [0, 1, 2]


async def test_where_the_last_state_is_kept(world: World, calls: Calls) -> None:
    def storage(settings: ctl.OperatorSettings) -> None:
        settings.persistence.diffbase_storage = ctl.AnnotationsDiffBaseStorage(prefix="my-op.example.com", key="seen")

    @ctl.on.create(KEX.plural)
    @ctl.on.update(KEX.plural)
    async def handle(reason: str, **_: Any) -> None:
        calls(reason, {})

    setting(storage)
    async with world.running():
        await world.create()
        await world.until(lambda: "my-op.example.com/seen" in world.annotations())
        await world.patch({"spec": {"field": "other"}})
        await world.until(lambda: calls.count("update"))
        await rest()
    essence = json.loads(world.annotations()["my-op.example.com/seen"])
    assert essence == {"spec": {"field": "other"}}
    assert LAST not in world.annotations()
    assert calls.names == ["create", "update"]


async def test_a_transition_of_the_last_state(world: World, calls: Calls) -> None:
    """With the old place read and the new one written, nothing is handled anew; then the new one is enough."""

    @ctl.on.create(KEX.plural)
    @ctl.on.update(KEX.plural)
    async def handle(reason: str, **_: Any) -> None:
        calls(reason, {})

    def new() -> ctl.DiffBaseStorage:
        return ctl.StatusDiffBaseStorage(field="status.diff-base")

    def old() -> ctl.DiffBaseStorage:
        return ctl.AnnotationsDiffBaseStorage(prefix=P, key="last-handled-configuration")

    def both() -> ctl.DiffBaseStorage:
        return ctl.MultiDiffBaseStorage([new(), old()])

    for number, storage in enumerate((old, both, new)):
        world.forget_handlers()
        ctl.on.create(KEX.plural, id="handle")(handle)
        ctl.on.update(KEX.plural, id="handle")(handle)
        setting(partial(put, persistence__diffbase_storage=storage()))
        async with world.running():
            if not number:
                await world.create()
            await rest(5)
            await world.patch({"metadata": {"labels": {"ping": f"pong{number}"}}})
            await rest(5)
    assert calls.names == ["create", "update", "update", "update"]
    assert json.loads(world.get()["status"]["diff-base"])["metadata"]["labels"] == {"ping": "pong2"}


async def test_the_defaults_are_those_of_the_page() -> None:
    settings = ctl.OperatorSettings()
    assert settings.posting.level == logging.INFO
    assert settings.posting.enabled
    assert (settings.networking.request_timeout, settings.networking.connect_timeout) == (300, None)
    assert (settings.watching.connect_timeout, settings.watching.reconnect_backoff) == (None, 0.1)
    assert (settings.watching.server_timeout, settings.watching.client_timeout) == (None, None)
    assert settings.persistence.finalizer == FINALIZER
    backoffs = settings.networking.error_backoffs
    assert isinstance(backoffs, Iterable)
    assert 50 <= sum(backoffs) <= 90
    delays = list(settings.queueing.error_delays)
    assert (delays[0], delays[1], delays[2], delays[-1]) == (1, 1, 2, 610)
    assert isinstance(settings.persistence.progress_storage, ctl.SmartProgressStorage)
    assert isinstance(settings.persistence.diffbase_storage, ctl.AnnotationsDiffBaseStorage)
