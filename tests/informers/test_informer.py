"""The informer against the sandbox, over real sockets, in virtual time."""

import asyncio
import itertools
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from ctl.client.config.access import Access
from ctl.client.objects import Object
from ctl.client.resources import Key, Resource
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.informers.deltas import Delta, DeltaKind, collapse
from ctl.informers.factory import SharedInformerFactory
from ctl.informers.informer import Informer
from ctl.informers.reflector_state import Phase
from ctl.informers.settings import InformerSettings
from ctl.runtime import clock
from ctl.sandbox import Match, Sandbox, SandboxSettings
from ctl.testing.time import VirtualTimeLoop

from ..handlers.weather import Manner, a_weather
from .mirror import Mirror

pytestmark = pytest.mark.virtual_time

MAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
SECRETS = Resource("", "v1", "secrets", kind="Secret", namespaced=True)
STREAMED = InformerSettings()
PAGED = InformerSettings(stream_lists=False, page_size=2)
LISTS = Match(path="configmaps", watching=False, method="GET")
WATCHES = Match(path="configmaps", watching=True)


class Cluster:
    """A sandbox, a client, a factory, and a mirror of what the first subscriber heard."""

    def __init__(self, sandbox: Sandbox, client: Client, settings: InformerSettings) -> None:
        self.sandbox = sandbox
        self.client = client
        self.factory = SharedInformerFactory(client, settings)
        self.mirror = Mirror()
        self.informer: Informer

    def put(self, name: str, value: str = "", **labels: str) -> None:
        self.sandbox.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "default", "labels": labels},
                "data": {"value": value},
            }
        )

    async def change(self, name: str, value: str) -> Object:
        return await self.client.patch(MAPS, name, "default", {"data": {"value": value}})

    async def delete(self, name: str) -> None:
        await self.client.delete(MAPS, name, "default")

    async def truth(self) -> dict[tuple[str | None, str], tuple[str, str]]:
        return {obj.key: (obj.uid, obj.resource_version) for obj in await self.client.list(MAPS)}

    async def agreement(self, seconds: float = 90.0) -> None:
        """Store and subscriber come to the truth within so many seconds."""
        truth = await self.truth()
        await until(lambda: self.state() == truth and self.mirror.state() == truth, seconds)

    def state(self) -> dict[tuple[str | None, str], tuple[str, str]]:
        return {obj.key: (obj.uid, obj.resource_version) for obj in self.informer.store}

    def requests(self, match: Match = WATCHES) -> int:
        return len(self.sandbox.log.select(match))

    def wire(self) -> list[tuple[str, str | None]]:
        return [(delta.object.name, delta.wire_type) for delta in self.mirror.seen]


async def until(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the condition is of the world, which tells nobody
            await asyncio.sleep(seconds / 500)


@asynccontextmanager
async def following(
    settings: InformerSettings = STREAMED, *names: str, relisted: bool = False
) -> AsyncIterator[Cluster]:
    sandbox = Sandbox(settings=SandboxSettings(clock=clock.now))
    async with sandbox, Client(Access(sandbox.url), ClientSettings(error_backoffs=())) as client:
        cluster = Cluster(sandbox, client, settings)
        for name in names:
            cluster.put(name)
        cluster.informer = cluster.factory.informer(MAPS)
        subscription = cluster.informer.subscribe("test", relisted=relisted)
        task = asyncio.create_task(cluster.mirror.follow(subscription))
        assert await cluster.informer.wait_synced(30)
        await subscription.synced.wait()
        try:
            yield cluster
        finally:
            await cluster.factory.stop()
            await task


@pytest.mark.parametrize("settings", [STREAMED, PAGED], ids=["streamed", "pages"])
async def test_all_that_is_there_comes_as_initial_and_then_each_event_of_the_wire(settings: InformerSettings) -> None:
    async with following(settings, "a", "b", "c") as cluster:
        await cluster.change("b", "2")
        cluster.put("d")
        await cluster.delete("a")
        await cluster.agreement()
        assert cluster.wire() == [
            ("a", None),
            ("b", None),
            ("c", None),
            ("b", "MODIFIED"),
            ("d", "ADDED"),
            ("a", "DELETED"),
        ]
        assert [delta.initial for delta in cluster.mirror.seen] == [True] * 3 + [False] * 3
        pages = cluster.requests(Match(path="configmaps", method="GET", watching=False))
        assert pages == (2 if settings is PAGED else 0) + 1, "one list is the test's own"


async def test_a_server_without_streamed_lists_is_listed_in_pages() -> None:
    sandbox = Sandbox()
    async with sandbox, Client(Access(sandbox.url)) as client:
        sandbox.faults.answer(
            422, "Invalid", match=Match(when=lambda request: "sendInitialEvents" in request.query), times=None
        )
        cluster = Cluster(sandbox, client, STREAMED)
        cluster.put("a")
        informer = cluster.factory.informer(MAPS)
        assert await informer.wait_synced(30)
        assert len(informer.store) == 1
        assert informer.state.error is None
        await cluster.factory.stop()


async def test_an_ended_or_reset_watch_goes_on_from_the_same_version_without_a_list() -> None:
    async with following(STREAMED, "a") as cluster:
        for end in ("end_watches", "cut_watches", "reset_watches"):
            await cluster.change("a", f"before {end}")
            await cluster.agreement()
            getattr(cluster.sandbox.faults, end)()
            await cluster.change("a", f"after {end}")
            await cluster.agreement()
        assert cluster.informer.metrics.lists == 1
        assert [delta.wire_type for delta in cluster.mirror.seen] == [None] + ["MODIFIED"] * 6


@pytest.mark.parametrize("settings", [STREAMED, PAGED], ids=["streamed", "pages"])
async def test_deletions_missed_in_a_gap_are_delivered_with_the_last_known_state(settings: InformerSettings) -> None:
    async with following(settings, *(f"o{number}" for number in range(20))) as cluster:
        cluster.sandbox.faults.answer(503, match=WATCHES, times=2)
        cluster.sandbox.faults.end_watches()
        before = cluster.informer.store.get(Key("default", "o7"))
        for number in range(0, 20, 2):
            await cluster.delete(f"o{number}")
        await cluster.delete("o7")
        cluster.put("o7", "another one of this name")
        cluster.sandbox.compact()
        cluster.mirror.seen.clear()
        await cluster.agreement()
        gone = [delta for delta in cluster.mirror.seen if delta.kind is DeltaKind.DELETED]
        assert len(gone) == 11
        assert all(delta.final_state_unknown and delta.wire_type == "DELETED" for delta in gone)
        assert before in [delta.object for delta in gone]
        added = [delta for delta in cluster.mirror.seen if delta.kind is DeltaKind.ADDED]
        assert [(delta.object.name, delta.wire_type, delta.initial) for delta in added] == [("o7", None, False)]
        assert cluster.informer.metrics.expired == 1


async def test_an_expired_version_is_listed_anew_and_only_the_eager_hear_of_what_did_not_change() -> None:
    async with following(STREAMED, "a", "b", relisted=True) as cluster:
        quiet = Mirror()
        other = cluster.informer.subscribe("quiet")
        task = asyncio.create_task(quiet.follow(other))
        await other.synced.wait()
        cluster.mirror.seen.clear()
        quiet.seen.clear()
        cluster.sandbox.faults.fail_watches(code=410, reason="Expired")
        await until(lambda: cluster.informer.metrics.lists == 2)
        await asyncio.sleep(1)
        assert cluster.wire() == [("a", None), ("b", None)]
        assert quiet.seen == []
        other.close()
        await task


@pytest.mark.parametrize("settings", [STREAMED, PAGED], ids=["streamed", "pages"])
async def test_a_410_right_after_a_list_leads_to_a_new_list_within_half_a_second(settings: InformerSettings) -> None:
    async with following(settings, "a") as cluster:
        await until(lambda: bool(cluster.sandbox.watchers), 1.0)
        cluster.sandbox.faults.fail_watches(WATCHES)
        await until(lambda: cluster.informer.metrics.expired == 1, 1.0)
        await until(lambda: cluster.informer.metrics.lists == 2, 0.5)
        await cluster.agreement(0.5)


@pytest.mark.parametrize("settings", [STREAMED, PAGED], ids=["streamed", "pages"])
async def test_after_the_last_410_of_a_series_all_is_well_within_one_and_a_half_seconds(
    settings: InformerSettings,
) -> None:
    async with following(settings, "a") as cluster:
        end = asyncio.get_running_loop().time() + 5.0
        while asyncio.get_running_loop().time() < end:
            cluster.sandbox.faults.fail_watches(WATCHES)
            await asyncio.sleep(0.01)
        assert 5 <= cluster.informer.metrics.lists <= 15, "they back off from the second one on"
        await until(lambda: cluster.informer.state.phase is Phase.WATCHING and bool(cluster.sandbox.watchers), 1.5)


async def test_an_error_event_concerns_one_reflector_and_is_tried_again() -> None:
    async with following(STREAMED, "a") as cluster:
        other = cluster.factory.informer(SECRETS)
        assert await other.wait_synced(30)
        cluster.sandbox.faults.fail_watches(code=500, reason="InternalError", match=WATCHES)
        await until(lambda: cluster.informer.state.phase is Phase.BACKING_OFF)
        assert other.state.phase is Phase.WATCHING
        await cluster.change("a", "2")
        await cluster.agreement()
        assert cluster.informer.metrics.lists == 1
        assert other.metrics.errors == 0


@pytest.mark.parametrize("code", [403, 404])
async def test_what_people_must_mend_parks_the_informer_visibly(code: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ctl.informers")
    async with following(STREAMED, "a") as cluster:
        reason = {403: "Forbidden", 404: "NotFound"}[code]
        cluster.sandbox.faults.answer(code, reason, match=WATCHES, times=None)
        cluster.sandbox.faults.end_watches()
        await until(lambda: cluster.informer.state.phase is Phase.PARKED)
        await asyncio.sleep(3600)
        state = cluster.informer.state
        assert state.phase is Phase.PARKED
        assert (clock.now() - state.since).total_seconds() > 3500
        assert reason in str(state)
        assert not state.is_stale(), "parked is shown, and is ready"
        assert 60 <= cluster.informer.metrics.errors <= 130, "the plateau is 30 to 60 s"
        cluster.sandbox.faults.clear()
        await cluster.change("a", "2")
        cluster.factory.retry_now()
        await cluster.agreement(1.0)
    lines = [record.getMessage() for record in caplog.records]
    assert len([line for line in lines if "is parked" in line]) == 1
    assert len([line for line in lines if "recovered" in line]) == 1


async def test_a_refused_start_is_tried_for_ever_and_recovers() -> None:
    sandbox = Sandbox()
    async with sandbox, Client(Access(sandbox.url), ClientSettings(error_backoffs=())) as client:
        sandbox.faults.answer(503, "ServiceUnavailable", times=None)
        factory = SharedInformerFactory(client, STREAMED)
        informer = factory.informer(MAPS)
        assert (await factory.wait_for_sync(timeout=600)) == {informer: False}
        assert informer.state.phase is Phase.BACKING_OFF
        sandbox.faults.clear()
        assert (await factory.wait_for_sync(timeout=90)) == {informer: True}
        await factory.stop()


async def test_a_silent_watch_is_noticed_from_the_rhythm_of_bookmarks_and_opened_again() -> None:
    async with following(STREAMED, "a") as cluster:
        await asyncio.sleep(200)
        assert cluster.informer.metrics.bookmarks >= 2
        watches = cluster.requests()
        cluster.sandbox.faults.stall_watches()
        await cluster.change("a", "2")
        await cluster.agreement(90)
        assert cluster.requests() == watches + 1
        assert cluster.informer.metrics.stalls == 1
        assert cluster.informer.metrics.lists == 1


async def test_silence_is_noticed_within_90_seconds_also_before_a_rhythm_is_known() -> None:
    async with following(STREAMED, "a") as cluster:
        cluster.sandbox.faults.stall_watches()
        await cluster.change("a", "2")
        began = asyncio.get_running_loop().time()
        await cluster.agreement(95)
        assert asyncio.get_running_loop().time() - began < 91


async def test_a_silent_start_of_a_streamed_list_falls_back_to_pages() -> None:
    sandbox = Sandbox()
    async with sandbox, Client(Access(sandbox.url)) as client:
        cluster = Cluster(sandbox, client, STREAMED)
        cluster.put("a")
        sandbox.faults.delay(600, match=WATCHES, times=1)
        informer = cluster.factory.informer(MAPS)
        assert await informer.wait_synced(35)
        assert cluster.requests(LISTS) == 1
        await cluster.factory.stop()


@asynccontextmanager
async def _changing(cluster: "Cluster") -> AsyncIterator[None]:
    """Something happens every second."""

    async def change() -> None:
        for number in itertools.count():
            await asyncio.sleep(1)
            await cluster.change("a", str(number))
            cluster.put(f"another-{number}")

    task = asyncio.create_task(change())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_a_server_that_knows_no_streamed_lists_and_tells_of_changes_only_is_listed_in_pages() -> None:
    """Before Kubernetes 1.27 the parameter was ignored: the list came, its end never, and changes went on."""
    sandbox = Sandbox()
    async with sandbox, Client(Access(sandbox.url)) as client, a_weather(sandbox.url, random.Random(1)) as weather:
        weather.manner = Manner(streams_lists=False)
        cluster = Cluster(sandbox, client, STREAMED)
        cluster.put("a")
        async with Client(Access(weather.url)) as other, _changing(cluster):
            factory = SharedInformerFactory(other, STREAMED)
            informer = factory.informer(MAPS)
            assert await informer.wait_synced(35)
            await informer._reflector.relist()
            await informer._reflector.relist()
            streamed = [asked for _, asked, _ in weather.log if "sendInitialEvents" in asked.query]
            assert len(streamed) == 2
            await factory.stop()
        await cluster.factory.stop()


async def test_bookmarks_keep_the_version_fresh() -> None:
    async with following(STREAMED, "a") as cluster:
        cluster.sandbox.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
        )
        secret = cluster.sandbox.get("v1", "Secret", "s")
        assert secret is not None
        await asyncio.sleep(130)
        assert int(cluster.informer.store.resource_version) >= int(secret["metadata"]["resourceVersion"])
        assert cluster.informer.state.age is not None
        assert cluster.informer.state.age < 70


async def test_the_machine_slept_and_the_watch_is_opened_again_at_once() -> None:
    async with following(STREAMED, "a") as cluster:
        await asyncio.sleep(5)
        watches = cluster.requests()
        cluster.sandbox.faults.stall_watches()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        with clock.replaced(lambda: loop.wall() + timedelta(hours=8)):
            await asyncio.sleep(20)
        assert cluster.requests() == watches + 1


async def test_own_writes_are_seen_at_once_and_their_echoes_are_known() -> None:
    async with following(STREAMED, "a") as cluster:
        informer = cluster.informer
        cluster.sandbox.faults.stall_watches()
        for value in range(20):
            answer = await cluster.change("a", str(value))
            assert informer.add_own_write(answer)
            assert informer.store.get(answer.key) == answer
        assert informer.own_writes_pending == 1
        assert not any(informer.has_told_of(obj) for obj in informer.store)
        cluster.sandbox.faults.resume_watches()
        await cluster.agreement()
        assert informer.own_writes_pending == 0
        assert all(informer.has_told_of(obj) for obj in informer.store)
        live = [delta for delta in cluster.mirror.seen if not delta.initial]
        assert len(live) == 20
        assert all(delta.echo for delta in live)


async def test_an_echo_that_comes_before_the_answer_is_known_too() -> None:
    async with following(STREAMED, "a", "b") as cluster:
        informer = cluster.informer
        with informer.writing(Key("default", "a")):
            answer = await cluster.change("a", "own")
            await cluster.change("b", "foreign")
            await until(lambda: informer.store.resource_version > answer.resource_version)
            await asyncio.sleep(0.5)
            assert [delta.object.name for delta in cluster.mirror.seen] == ["a", "b", "b"], "only one object waits"
            informer.add_own_write(answer)
        await cluster.agreement()
        assert [(delta.object.name, delta.echo) for delta in cluster.mirror.seen[2:]] == [("b", False), ("a", True)]


async def test_a_write_that_takes_long_deafens_nobody_for_longer_than_a_second() -> None:
    async with following(STREAMED, "a", "b", "c") as cluster:
        time, told = asyncio.get_running_loop().time, dict[str, float]()
        cluster.informer.subscribe("other")  # somebody else's, who may be slow
        with cluster.informer.writing(Key("default", "a")), cluster.informer.writing(Key("default", "b")):
            for change in range(3):
                began = time()
                obj = await cluster.change("a", f"foreign {change}")
                await until(lambda: cluster.mirror.seen[-1].object.resource_version == obj.resource_version)  # noqa: B023
                told[f"change {change}"] = time() - began
                await asyncio.sleep(0.3)
            began = time()
            await cluster.delete("b")
            await until(lambda: cluster.mirror.seen[-1].kind is DeltaKind.DELETED)
            told["deletion"] = time() - began
            await cluster.change("c", "foreign")
            own = await cluster.change("a", "own")
            await asyncio.sleep(0.5)
            cluster.informer.add_own_write(own)
        await cluster.agreement()
        assert max(told.values()) < 1.1, told
        live = [delta for delta in cluster.mirror.seen if not delta.initial]
        assert [(delta.object.name, delta.kind.name, delta.echo) for delta in live] == [
            *[("a", "UPDATED", False)] * 3,
            ("b", "DELETED", False),
            ("c", "UPDATED", False),
            ("a", "UPDATED", True),
        ], "and an echo that comes with its answer is one, however long the write took"


async def test_writes_that_follow_one_another_without_a_pause_deafen_nobody_either() -> None:
    async with following(STREAMED, "a") as cluster, asyncio.TaskGroup() as group:

        async def write(delay: float) -> None:
            await asyncio.sleep(delay)
            with cluster.informer.writing(Key("default", "a")):
                await asyncio.sleep(0.9)

        for number in range(40):
            group.create_task(write(number * 0.5))
        await asyncio.sleep(2)
        began = asyncio.get_running_loop().time()
        await cluster.delete("a")
        await until(lambda: cluster.mirror.seen[-1].kind is DeltaKind.DELETED)
        assert asyncio.get_running_loop().time() - began < 1.1


async def test_an_own_deletion_hides_the_object_at_once() -> None:
    async with following(STREAMED, "a") as cluster:
        informer = cluster.informer
        cluster.sandbox.faults.stall_watches()
        obj = informer.store.get(Key("default", "a"))
        assert obj is not None
        await cluster.client.delete(MAPS, "a", "default", uid=obj.uid)
        informer.add_own_deletion(obj.key, obj.uid)
        assert obj.key not in informer.store
        cluster.sandbox.faults.resume_watches()
        await cluster.agreement()
        assert cluster.mirror.seen[-1].kind is DeltaKind.DELETED


async def test_whoever_needs_a_version_waits_for_the_watch() -> None:
    async with following(STREAMED, "a") as cluster:
        cluster.sandbox.faults.stall_watches()
        answer = await cluster.change("a", "2")
        assert not await cluster.informer.wait_for(answer, timeout=1)
        waiting = asyncio.create_task(cluster.informer.wait_for(answer, timeout=60))
        await asyncio.sleep(1)
        cluster.sandbox.faults.resume_watches()
        assert await waiting
        assert await cluster.informer.wait_for(answer)
        assert cluster.informer.waits == 2


async def test_a_selection_follows_those_that_come_and_go() -> None:
    async with following(STREAMED) as cluster:
        cluster.put("in", tier="a")
        cluster.put("out", tier="b")
        selected = cluster.factory.informer(MAPS, "default", label_selector="tier=a")
        assert await selected.wait_synced(30)
        assert [obj.name for obj in selected.store] == ["in"]
        answer = await cluster.client.patch(MAPS, "in", "default", {"metadata": {"labels": {"tier": "b"}}})
        selected.add_own_write(answer)
        assert len(selected.store) == 0, "our own write took it out of the selection"
        await cluster.client.patch(MAPS, "out", "default", {"metadata": {"labels": {"tier": "a"}}})
        await until(lambda: [obj.name for obj in selected.store] == ["out"])


async def test_late_subscribers_get_everything_once() -> None:
    async with following(STREAMED, *(f"o{number}" for number in range(50))) as cluster:
        mirrors: list[Mirror] = []
        tasks = []
        for number in range(50):
            await cluster.change(f"o{number}", "2")
            mirror = Mirror()
            mirrors.append(mirror)
            tasks.append(asyncio.create_task(mirror.follow(cluster.informer.subscribe(f"late-{number}"))))
        await cluster.agreement()
        await asyncio.sleep(0.1)
        truth = await cluster.truth()
        assert all(mirror.state() == truth for mirror in mirrors)
        for mirror in mirrors:
            assert len([delta for delta in mirror.seen if delta.initial]) == 50
        for subscription in cluster.informer.subscriptions:
            subscription.close()
        await asyncio.gather(*tasks)


async def test_informers_are_shared_and_the_last_release_closes_the_watch() -> None:
    async with following(STREAMED, "a") as cluster:
        factory, informer = cluster.factory, cluster.informer
        assert factory.informer(MAPS) is informer
        assert factory.informer(MAPS, "default") is not informer
        await until(lambda: cluster.sandbox.watchers == 2)
        await factory.release(informer)
        assert cluster.sandbox.watchers == 2
        await factory.release(informer)
        await until(lambda: cluster.sandbox.watchers == 1)
        assert informer.state.phase is Phase.STOPPED
        with pytest.raises(ValueError, match="released too often"):
            await factory.release(informer)
        again = factory.informer(MAPS)
        assert again is not informer
        assert await again.wait_synced(30)


async def test_a_transform_slims_everything_that_is_stored_and_one_that_fails_loses_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def picky(obj: Object) -> Object:
        if obj.name == "bad":
            raise ValueError("no such thing")
        return replace_data(obj)

    async with following(STREAMED) as cluster:
        cluster.put("good", "large")
        cluster.put("bad", "large")
        slim = cluster.factory.informer(MAPS, "default", transform=picky)
        assert await slim.wait_synced(30)
        assert {obj.name: obj.body().get("data") for obj in slim.store} == {"good": None, "bad": {"value": "large"}}
        answer = await cluster.change("good", "larger")
        slim.add_own_write(answer)
        seen = slim.store.get(answer.key)
        assert seen is not None
        assert "data" not in seen.body()
        with pytest.raises(ValueError, match="another transform"):
            cluster.factory.informer(MAPS, "default", transform=replace_data)
    assert len([record for record in caplog.records if "The transform of" in record.getMessage()]) == 1


def replace_data(obj: Object) -> Object:
    body = obj.body()
    body.pop("data", None)
    return Object.from_body(body)


async def test_a_stopped_factory_says_so() -> None:
    async with following(STREAMED, "a") as cluster:
        await cluster.factory.stop()
        with pytest.raises(RuntimeError, match="stopped"):
            cluster.factory.informer(MAPS)
        await cluster.factory.release(cluster.informer)
        assert len(cluster.informer.store) == 1, "the copy stays readable"


async def test_metrics_tell_of_lists_watches_and_subscribers() -> None:
    async with following(replace(STREAMED, stream_lists=False), "a", "b") as cluster:
        await cluster.change("a", "2")
        await cluster.agreement()
        await asyncio.sleep(70)
        found = {(sample.family.name, sample.labels): sample.value for sample in cluster.factory.samples()}
        labels = ("", "v1", "configmaps", "", "")
        assert found["ctl_informer_lists_total", labels] == 1
        assert found["ctl_informer_list_items_total", labels] == 2
        assert found["ctl_informer_watch_events_total", labels] == 1
        assert found["ctl_informer_bookmarks_total", labels] == 1
        assert found["ctl_informer_store_objects", labels] == 2
        assert found["ctl_informer_store_bytes", labels] == cluster.informer.store.nbytes
        assert found["ctl_informer_store_resource_version", labels] == int(cluster.informer.store.resource_version)
        assert found["ctl_informer_phase", (*labels, "watching")] == 1
        assert found["ctl_informer_subscriber_depth", (*labels, "test")] == 0
        assert found["ctl_informer_subscriber_lag_seconds", (*labels, "test")] == 0


async def test_deltas_of_one_object_arrive_in_its_order() -> None:
    async with following(PAGED, "a") as cluster:
        for value in range(30):
            await cluster.change("a", str(value))
        await cluster.agreement()
        seen: list[Delta] = cluster.mirror.seen
        assert [delta.old for delta in seen[1:]] == [delta.object for delta in seen[:-1]]


async def test_ten_minutes_of_each_trouble_are_over_within_ninety_seconds_and_concern_one_kind_only() -> None:
    async with following(STREAMED, "a") as cluster:
        faults, informer = cluster.sandbox.faults, cluster.informer
        other = cluster.factory.informer(SECRETS)
        assert await other.wait_synced(30)
        troubles: dict[str, Callable[[], object]] = {
            "reset": lambda: faults.reset_watches(WATCHES),
            "stalled": lambda: faults.stall_watches(WATCHES),
            "expired": lambda: faults.fail_watches(WATCHES, code=410, reason="Expired"),
            "error": lambda: faults.fail_watches(WATCHES, code=500, reason="InternalError"),
        }
        for name, trouble in troubles.items():
            for _ in range(20):
                trouble()
                await asyncio.sleep(30)
            faults.clear()
            await cluster.change("a", name)
            await cluster.agreement(90)
        faults.answer(503, "ServiceUnavailable", match=Match(path="configmaps", method="GET"), times=None)
        faults.cut_watches(WATCHES)
        await asyncio.sleep(85)
        assert not informer.state.is_stale()
        await asyncio.sleep(515)
        assert informer.state.is_stale(), "readiness says so"
        assert not other.state.is_stale()
        faults.clear()
        await cluster.change("a", "served again")
        await cluster.agreement(90)
        assert not informer.state.is_stale()
        assert (other.metrics.errors, other.metrics.stalls, other.metrics.lists) == (0, 0, 1)


async def test_streams_that_open_and_say_nothing_are_stale() -> None:
    async with following(STREAMED, "a") as cluster:
        faults, informer = cluster.sandbox.faults, cluster.informer
        other = cluster.factory.informer(SECRETS)
        assert await other.wait_synced(30)

        async def deaf(seconds: int) -> None:
            for _ in range(seconds):
                faults.stall_watches(WATCHES)
                await asyncio.sleep(1)

        await deaf(175)
        assert not informer.state.is_stale(), "the stream of the list may be silent, and the one after it is waited for"
        await deaf(10)
        assert informer.state.is_stale(), "no bookmark in a minute and a half"
        assert not other.state.is_stale()
        faults.clear()
        await asyncio.sleep(130)
        assert not informer.state.is_stale(), "a bookmark came"
        await deaf(92)
        assert informer.state.is_stale(), "and then none"
        assert informer.metrics.stalls > 2


async def test_the_echo_of_one_of_several_authors_bears_its_name_and_is_news_to_the_others() -> None:
    async with following(STREAMED, "a") as cluster:
        informer, key = cluster.informer, Key("default", "a")
        with informer.writing(key):
            answer = await cluster.change("a", "early")
            await until(lambda: informer.store.resource_version >= answer.resource_version)
            informer.add_own_write(answer, author="first")
        informer.add_own_write(await cluster.change("a", "late"), author="second")
        informer.add_own_write(await cluster.change("a", "nobody's"))
        await cluster.agreement()
        live = [delta for delta in cluster.mirror.seen if not delta.initial]
        assert [(delta.author, delta.echo) for delta in live] == [("first", False), ("second", False), (None, True)]
        joined = collapse(live[:2])
        assert [(delta.author, delta.echo) for delta in joined] == [(None, False)]
        assert [delta.author for delta in collapse([live[0], live[0]])] == ["first"]
