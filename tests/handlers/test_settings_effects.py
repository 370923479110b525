"""Each setting does what it says: the table names the test that shows it, and tests that are nobody else's are here."""

import asyncio
import concurrent.futures
import dataclasses
import logging
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ctl
from ctl.client.resources import Resource
from ctl.client.settings import ClientSettings
from ctl.handlers.running.options import client_settings, informer_settings
from ctl.handlers.settings import OperatorSettings
from ctl.sandbox import LoggedRequest, Match

from .world import KEX, LAST, Calls, World, quick, rest

CLUSTER = Resource("kopf.dev", "v1", "clusterkopfpeerings", "ClusterKopfPeering", namespaced=False)

PEERING = Path(__file__).resolve().parents[2] / "examples" / "peering.yaml"
TESTS = Path(__file__).parent.parent

NOTHING = "test_settings_without_any_effect_change_nothing"
ADMISSION = "test_admission_is_refused"
"""Until webhooks are served."""
TRANSLATED = "test_what_the_client_is_told"

PROOFS = {
    "process.ultimate_exiting_timeout": "test_a_process_that_does_not_end_is_killed",
    "posting.enabled": "test_settings_say_what_is_posted",
    "posting.loggers": "test_log_messages_are_posted_when_asked_for",
    "posting.level": "test_settings_say_what_is_posted",
    "posting.default_backoffs": "test_what_cannot_be_posted_is_given_up_with_a_warning",
    "posting.logging_backoffs": "test_log_messages_are_posted_with_pauses_of_their_own",
    "posting.worker_limit": "test_no_more_objects_are_posted_about_at_once_than_are_allowed",
    "posting.idle_timeout": NOTHING,
    "posting.reporting_component": "test_an_event_is_written_as_kopf_writes_it",
    "posting.reporting_instance": "test_an_event_is_written_as_kopf_writes_it",
    "posting.event_name_prefix": "test_an_event_is_written_as_kopf_writes_it",
    "peering.name": "test_startup_handlers_choose_the_peering_and_the_priority",
    "peering.stealth": "test_stealth_hides_keep_alives_from_the_log",
    "peering.priority": "test_startup_handlers_choose_the_peering_and_the_priority",
    "peering.lifetime": "test_startup_handlers_choose_the_peering_and_the_priority",
    "peering.mandatory": "test_startup_handlers_choose_the_peering_and_the_priority",
    "peering.standalone": "test_standalone_operators_know_of_nobody",
    "peering.clusterwide": "test_peering_follows_where_the_operator_works",
    "watching.server_timeout": "test_how_streams_are_watched",
    "watching.client_timeout": "test_how_streams_are_watched",
    "watching.connect_timeout": TRANSLATED,
    "watching.reconnect_backoff": "test_how_streams_are_watched",
    "watching.inactivity_timeout": "test_a_silent_stream_is_opened_anew",
    "watching.chunk_size": "test_lists_come_in_pages",
    "watching.initial_streaming": NOTHING,
    "watching.label_selectors": "test_selectors_are_the_servers",
    "watching.field_selectors": "test_selectors_are_the_servers",
    "watching.shard_selectors": "test_selectors_are_the_servers",
    "queueing.worker_limit": "test_a_worker_limit_is_kept_and_nothing_is_left_behind",
    "queueing.idle_timeout": NOTHING,
    "queueing.exit_timeout": "test_a_handler_that_takes_longer_is_cancelled_and_the_finished_ones_are_written",
    "queueing.error_delays": "test_no_error_delays_leave_the_back_off_to_the_queue",
    "scanning.disabled": "test_without_scanning_names_are_served",
    "admission.server": ADMISSION,
    "admission.managed": ADMISSION,
    "execution.default_backoff": "test_the_default_backoff_and_the_executor",
    "execution.executor": "test_the_default_backoff_and_the_executor",
    "background.cancellation_polling": "test_polling_is_the_handlers_or_the_settings",
    "background.instant_exit_timeout": "test_daemons_that_end_at_once_cost_no_write_more",
    "background.instant_exit_zero_time_cycles": "test_daemons_that_end_at_once_cost_no_write_more",
    "networking.request_timeout": TRANSLATED,
    "networking.connect_timeout": TRANSLATED,
    "networking.error_backoffs": TRANSLATED,
    "networking.largest_answer": TRANSLATED,
    "networking.largest_event": TRANSLATED,
    "networking.enforce_retry_after": TRANSLATED,
    "networking.trust_env": TRANSLATED,
    "persistence.finalizer": "test_the_finalizer_and_the_storages",
    "persistence.progress_storage": "test_the_finalizer_and_the_storages",
    "persistence.diffbase_storage": "test_the_finalizer_and_the_storages",
    "persistence.largest_annotation": "test_no_annotation_is_written_above_the_limit_that_was_set",
    "persistence.uid_annotation": "test_copies_made_while_nobody_watched_are_new_where_the_uid_is_kept",
    "persistence.plain_secrets": "test_kopfs_way_can_be_had",
    "persistence.consistency_timeout": "test_patience_with_the_watch",
    "persistence.checkpoint_interval": "test_checkpoints_come_when_they_are_asked_for",
}

virtual = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")


def test_every_setting_of_kopf_has_its_proof() -> None:
    settings = OperatorSettings()
    ours = {"leadership", "diagnostics"}
    fields = {
        f"{group.name}.{item.name}"
        for group in dataclasses.fields(settings)
        for item in dataclasses.fields(getattr(settings, group.name))
        if group.name not in ours and not item.name.startswith("_")
    }
    assert fields == set(PROOFS)
    known = {name for path in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}
    assert {name for name in PROOFS.values() if name not in known} == set()


def test_what_the_client_is_told() -> None:
    settings = OperatorSettings()
    settings.networking.request_timeout = 11
    settings.networking.connect_timeout = 12
    settings.networking.error_backoffs = [1, 2]
    settings.networking.enforce_retry_after = True
    settings.networking.largest_answer = 14
    settings.networking.largest_event = 15
    settings.networking.trust_env = True
    settings.watching.connect_timeout = 13
    told = client_settings(settings)
    expected = ClientSettings(
        request_timeout=11,
        connect_timeout=12,
        watch_connect_timeout=13,
        error_backoffs=[1, 2],
        enforce_retry_after=True,
        largest_answer=14,
        largest_event=15,
        trust_env=True,
    )
    assert told == expected


def test_settings_without_any_effect_change_nothing() -> None:
    """There are no idle workers, and lists are streamed wherever the server can: both are in docs/compatibility.md."""
    settings = OperatorSettings()
    before = informer_settings(settings), client_settings(settings)
    settings.posting.idle_timeout = settings.queueing.idle_timeout = 100
    settings.watching.initial_streaming = True
    assert (informer_settings(settings), client_settings(settings)) == before
    assert informer_settings(settings).stream_lists


@virtual
async def test_admission_is_refused(world: World) -> None:
    @ctl.on.validate(KEX.plural)
    def validate(**_: Any) -> None: ...

    with pytest.raises(NotImplementedError, match="Admission handlers are not served yet"):
        async with world.running():
            raise AssertionError


def _watches(world: World) -> list[LoggedRequest]:
    return [entry for entry in world.sandbox.log if entry.watching and entry.path.endswith(f"/{KEX.plural}")]


@virtual
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("server_timeout", 20, ("20", 3)),
        ("client_timeout", 20, (None, 3)),
        ("reconnect_backoff", 30, ("20", 2)),
    ],
)
async def test_how_streams_are_watched(world: World, name: str, value: float, expected: tuple[Any, int]) -> None:
    @ctl.on.event(KEX.plural)
    def event(**_: Any) -> None: ...

    settings = quick()
    if name == "reconnect_backoff":
        settings.watching.server_timeout = 20
    setattr(settings.watching, name, value)
    async with world.running(settings=settings):
        await asyncio.sleep(65)
        found = _watches(world)
    timeout, least = expected
    assert len(found) in {least, least + 1}
    if timeout is not None:
        assert {entry.query["timeoutSeconds"] for entry in found} == {timeout}


@virtual
async def test_a_silent_stream_is_opened_anew(world: World) -> None:
    @ctl.on.event(KEX.plural)
    def event(**_: Any) -> None: ...

    settings = quick()
    settings.watching.inactivity_timeout = 7
    async with world.running(settings=settings):
        before = len(_watches(world))
        world.sandbox.faults.stall_watches()
        await asyncio.sleep(20)
        assert len(_watches(world)) > before


@virtual
async def test_lists_come_in_pages(world: World) -> None:
    @ctl.on.event(KEX.plural)
    def event(**_: Any) -> None: ...

    settings = quick()
    settings.watching.chunk_size = 2
    # A server without streamed lists.
    world.sandbox.faults.answer(
        422, "Invalid", match=Match(watching=True, when=lambda entry: "sendInitialEvents" in entry.query), times=None
    )
    for number in range(5):
        await world.create(f"o{number}")
    async with world.running(settings=settings):
        await rest()
    pages = [entry.query for entry in world.sandbox.log if entry.path.endswith(f"/{KEX.plural}") and not entry.watching]
    assert [page.get("limit") for page in pages if page] == ["2", "2", "2"]


@virtual
async def test_selectors_are_the_servers(world: World, calls: Calls) -> None:
    @ctl.on.event(KEX.plural)
    def event(name: str, **kwargs: Any) -> None:
        calls(name, kwargs)

    settings = quick()
    settings.watching.label_selectors[KEX.plural] = "a=b"
    settings.watching.field_selectors[KEX.plural] = "metadata.name!=two"
    settings.watching.shard_selectors[KEX.plural] = "shardRange(object.metadata.uid, '0x0', '0x8')"
    for name, labels in [("one", {"a": "b"}), ("two", {"a": "b"}), ("three", {})]:
        await world.create(name, labels=labels)
    async with world.running(settings=settings):
        await rest()
    asked = _watches(world)[0].query
    assert (asked["labelSelector"], asked["fieldSelector"]) == ("a=b", "metadata.name!=two")
    assert asked["shardSelector"].startswith("shardRange(")
    assert set(calls.names) == {"one"}


@virtual
async def test_the_default_backoff_and_the_executor(world: World, calls: Calls) -> None:
    threads: set[str] = set()

    @ctl.on.create(KEX.plural)
    def create(retry: int, **kwargs: Any) -> None:
        calls("create", kwargs)
        threads.add(__import__("threading").current_thread().name)
        if not retry:
            raise ValueError("a bug")

    settings = quick()
    settings.execution.default_backoff = 17
    settings.execution.executor = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="mine")
    loop = asyncio.get_running_loop()
    async with world.running(settings=settings):
        await world.create()
        await world.until(lambda: calls.count("create") == 1)
        first = loop.time()
        await world.handled()
    settings.execution.executor.shutdown()
    assert 16 < loop.time() - first < 20
    assert all(name.startswith("mine") for name in threads)


@virtual
async def test_the_finalizer_and_the_storages(world: World) -> None:
    @ctl.on.delete(KEX.plural)
    async def delete(**_: Any) -> None: ...

    @ctl.on.create(KEX.plural, id="create")
    async def create(retry: int, **_: Any) -> None:
        if not retry:
            raise ctl.TemporaryError("not yet", delay=5)

    settings = quick()
    settings.persistence.finalizer = "my.io/finalizer"
    settings.persistence.progress_storage = ctl.StatusProgressStorage(name="mine")
    settings.persistence.diffbase_storage = ctl.AnnotationsDiffBaseStorage(prefix="my.io", key="last")
    async with world.running(settings=settings):
        await world.create()
        await world.until(lambda: (world.get().get("status") or {}).get("mine"))
        assert world.get()["status"]["mine"]["progress"]["create"]["retries"] == 1
        assert world.get()["metadata"]["finalizers"] == ["my.io/finalizer"]
        await world.until(lambda: "my.io/last" in world.annotations())
        assert set(world.annotations()) == {"my.io/last", "my.io/kopf-managed"}


@virtual
@pytest.mark.parametrize("patience", [2.0, 0.0])
async def test_patience_with_the_watch(world: World, calls: Calls, patience: float) -> None:
    """Where own writes cannot be shown at once, the watch is waited for; without patience handlers see what is there."""

    @ctl.on.create(KEX.plural)
    async def create(**kwargs: Any) -> None:
        calls("create", kwargs)

    settings = quick()
    settings.persistence.consistency_timeout = patience
    async with world.running(settings=settings):
        await world.create()
        await world.handled()
    assert len(calls) == 1


@virtual
async def test_checkpoints_come_when_they_are_asked_for(world: World) -> None:
    @ctl.on.create(KEX.plural, id="first")
    async def first(**_: Any) -> None: ...

    @ctl.on.create(KEX.plural, id="second")
    async def second(**_: Any) -> None:
        await asyncio.sleep(20)

    settings = quick()
    settings.persistence.checkpoint_interval = 10
    async with world.running(settings=settings):
        await world.create()
        await rest(9)
        assert not world.writes()
        await rest(2)
        assert world.record("first")["success"]
        await world.handled()
    assert LAST in world.annotations()


@virtual
@pytest.mark.parametrize("namespaced", [False, True])
async def test_peering_follows_where_the_operator_works(world: World, namespaced: bool) -> None:
    seen: list[bool] = []

    @ctl.on.startup()
    def note(settings: ctl.OperatorSettings, **_: Any) -> None:
        seen.append(settings.peering.clusterwide)

    async with world.running(**({"namespaces": ["default"]} if namespaced else {"clusterwide": True})):
        pass
    assert seen == [not namespaced]


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_process_that_does_not_end_is_killed() -> None:
    program = textwrap.dedent("""
        import asyncio, os, signal, threading, time
        from ctl.controller.program.stopping import stopping_on_signals

        async def main():
            stop = asyncio.Event()
            with stopping_on_signals(stop.set, lambda: 0.1):
                os.kill(os.getpid(), signal.SIGTERM)
                await stop.wait()
                time.sleep(60)  # the loop hangs

        asyncio.run(main())
    """)
    ended = subprocess.run([sys.executable, "-c", program], timeout=60, check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def _posts(world: World) -> list[LoggedRequest]:
    return [entry for entry in world.sandbox.log if entry.method == "POST" and entry.path.endswith("/events")]


@virtual
async def test_log_messages_are_posted_with_pauses_of_their_own(world: World) -> None:
    @ctl.on.create(KEX.plural)
    async def create(logger: logging.Logger, **_: Any) -> None:
        logger.error("an oddity")

    world.sandbox.faults.answer(500, match=Match(path="/events"), times=None)
    settings = quick()
    settings.posting.loggers = True
    settings.posting.level = logging.ERROR
    settings.posting.default_backoffs = ()
    settings.posting.logging_backoffs = (1, 2)
    async with world.running(settings=settings):
        await world.create()
        await world.handled()
        await rest(10)
    assert len(_posts(world)) == 3


@virtual
async def test_no_more_objects_are_posted_about_at_once_than_are_allowed(world: World) -> None:
    @ctl.on.create(KEX.plural)
    async def create(body: ctl.Body, **_: Any) -> None:
        ctl.info(body, reason="Made", message="")

    world.sandbox.faults.delay(10, match=Match(path="/events", method="POST"))
    settings = quick()
    settings.posting.worker_limit = 2
    settings.queueing.exit_timeout = 60
    async with world.running(settings=settings):
        for number in range(4):
            await world.create(f"o{number}")
        await rest(15)  # the log has what was answered
        assert len(_posts(world)) == 2
        await rest(10)
        assert len(_posts(world)) == 4


@virtual
@pytest.mark.parametrize("stealth", [False, True])
async def test_stealth_hides_keep_alives_from_the_log(
    world: World, caplog: pytest.LogCaptureFixture, stealth: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    await world.sandbox.load_manifest(PEERING.read_text())
    await world.create("default", resource=CLUSTER)
    settings = quick()
    settings.peering.stealth = stealth
    settings.peering.lifetime = 10
    async with world.running(settings=settings, peering_name="default"):
        await rest(60)
    assert ("Keep-alive" in caplog.text) is not stealth


def _exits(settings: OperatorSettings, name: str, value: Any) -> None:
    settings.background.instant_exit_timeout = None
    settings.background.instant_exit_zero_time_cycles = None
    setattr(settings.background, name, value)


@virtual
@pytest.mark.parametrize(
    ("choose", "writes"),
    [
        (lambda settings: _exits(settings, "instant_exit_timeout", 5), 0),
        (lambda settings: _exits(settings, "instant_exit_zero_time_cycles", 50), 0),
    ],
)
async def test_daemons_that_end_at_once_cost_no_write_more(
    world: World, choose: Callable[[OperatorSettings], None], writes: int
) -> None:
    @ctl.daemon(KEX.plural)
    async def daemon(stopped: Any, **_: Any) -> None:
        await stopped.wait()

    settings = quick()
    choose(settings)
    async with world.running(settings=settings):
        await world.create()
        await rest()
        before = len(world.writes())
        await world.delete()
        await world.gone()
    # The one that releases the object.
    assert [request.code for request in world.writes()[before:]] == [200] * (1 + writes)
