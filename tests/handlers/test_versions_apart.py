"""Several served versions of one kind, of which one has finished with an object before the other has."""

from pathlib import Path
from typing import Any

import pytest

import ctl
from ctl.runtime import clock

from .test_versions import CRD, NEW, OLD
from .world import LAST, Calls, P, World, a_world, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

BOTH = ("v1", "v1beta1")
PEERING = Path(__file__).resolve().parents[2] / "examples" / "peering.yaml"
PEERS = ctl.Resource("kopf.dev", "v1", "clusterkopfpeerings", "ClusterKopfPeering", namespaced=False)


def declare(
    calls: Calls, reason: str, version: str, handler: str, delays: list[float] | None = None, **options: Any
) -> None:
    """A handler that notes its calls, and fails for as long as there are delays."""

    async def handle(reason: str, **kwargs: Any) -> None:
        calls(f"{reason} {handler} {version}", kwargs)
        if delays:
            raise ctl.TemporaryError("not yet", delay=delays.pop())

    getattr(ctl.on, reason)("kopf.dev", version, "kopfexamples", id=handler, **options)(handle)


def is_handled(world: World) -> bool:
    return {key for key in world.annotations(resource=NEW) if key.startswith(P)} == {LAST}


@pytest.mark.parametrize("busy", BOTH)
@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("watching", [False, True])
async def test_what_was_done_of_a_creation_is_not_done_again(
    calls: Calls, busy: str, crash: bool, watching: bool
) -> None:
    async with a_world(definitions=[CRD]) as world:
        for version in BOTH:
            declare(calls, "create", version, f"quick-{version}")
        declare(calls, "create", busy, "slow", [30.0, 30.0])
        if watching:
            # It is shown the echoes of own writes too.
            ctl.on.event("kopf.dev", busy, "kopfexamples")(lambda **_: None)
        async with world.running() as running:
            await world.create(resource=NEW)
            await rest(20)
            assert len(world.writes(NEW)) < 8
            if crash:
                await world.crash(running)
        async with world.running():
            await world.until(lambda: is_handled(world), 100)
            await rest(5)
        assert sorted(calls.names) == [
            "create quick-v1 v1",
            "create quick-v1beta1 v1beta1",
            *[f"create slow {busy}"] * 3,
        ]


@pytest.mark.parametrize("busy", BOTH)
async def test_a_retry_of_one_version_survives_a_restart_after_the_other_has_finished(calls: Calls, busy: str) -> None:
    async with a_world(definitions=[CRD]) as world:
        await world.create(resource=NEW)
        async with world.running():
            for version in BOTH:
                declare(calls, "update", version, f"fn-{version}", [30.0] if version == busy else None)
            await rest(5)
            await world.patch({"spec": {"field": "other"}}, resource=OLD)
            await rest(10)
            assert len(calls) == 2
        async with world.running():
            await world.until(lambda: len(calls) == 3, 100)
            await world.until(lambda: is_handled(world), 100)
            await rest(5)
        assert calls.names[2:] == [f"update fn-{busy} {busy}"]


async def test_an_update_that_both_versions_have_begun_is_told_with_its_old_state_after_a_restart(calls: Calls) -> None:
    async with a_world(definitions=[CRD]) as world:
        await world.create(resource=NEW)
        async with world.running():
            for version in BOTH:
                declare(calls, "update", version, f"fn-{version}", [30.0])
            await rest(5)
            await world.patch({"spec": {"field": "other"}}, resource=OLD)
            await rest(10)
        async with world.running():
            await world.until(lambda: is_handled(world), 100)
        assert len(calls) == 4
        assert [given["old"]["spec"] for _, given in calls.made] == [{"field": "value"}] * 4


@pytest.mark.parametrize("other", BOTH)
async def test_a_version_without_handlers_for_an_object_leaves_what_the_other_wrote(calls: Calls, other: str) -> None:
    async with a_world(definitions=[CRD]) as world:
        for version in BOTH:
            declare(calls, "create", version, "create", labels={"there": "is not"} if version == other else None)
        async with world.running():
            await world.create(resource=NEW)
            await world.until(lambda: len(calls))
            await rest(5)
            assert is_handled(world)
        async with world.running():
            await rest(5)
        assert len(calls) == 1


@pytest.mark.parametrize("reason", ["create", "update"])
@pytest.mark.parametrize("busy", BOTH)
async def test_a_function_for_both_versions_waits_for_its_retry_in_peace(calls: Calls, busy: str, reason: str) -> None:
    """There is one id, and one record, for both."""
    async with a_world(definitions=[CRD]) as world:
        delays: dict[str, list[float]] = {version: [] for version in BOTH}
        for version in BOTH:
            declare(calls, "create", version, "fn", delays[version] if reason == "create" else None)
            declare(calls, "update", version, "fn", delays[version] if reason == "update" else None)
        delays[busy] += [30.0, 30.0]
        async with world.running():
            await world.create(resource=NEW)
            if reason == "update":
                await world.until(lambda: len(calls) == 2)
                await rest(5)
                await world.patch({"spec": {"field": "other"}}, resource=OLD)
            for _ in range(100):
                await rest(1)
                assert len(world.writes(NEW)) < 20
            assert is_handled(world)
            assert calls.count(f"{reason} fn {busy}") == 3


async def test_what_was_created_is_not_created_again_after_a_pause(calls: Calls) -> None:
    async with a_world(definitions=[CRD, PEERING.read_text()]) as world:
        for version in BOTH:
            declare(calls, "create", version, f"create-{version}")
        await world.create("default", resource=PEERS)
        async with world.running():
            await world.create(resource=NEW)
            await world.until(lambda: len(calls) == 2)
            await rest(5)
            record = {"priority": 100, "lifetime": 3600, "lastseen": clock.now().isoformat()}
            await world.patch({"status": {"other": record}}, "default", PEERS)
            await rest(5)
            await world.patch({"status": {"other": None}}, "default", PEERS)
            await rest(5)
        assert len(calls) == 2


@pytest.mark.parametrize("busy", BOTH)
async def test_a_creation_of_which_another_process_saw_less_is_told_as_a_change(calls: Calls, busy: str) -> None:
    async with a_world(definitions=[CRD]) as world:
        for version in BOTH:
            declare(calls, "update", version, f"update-{version}")
            declare(calls, "create", version, f"create-{version}", None if version == busy else [20.0])
        declare(calls, "create", busy, "slow", [30.0])
        async with world.running():
            await world.create(resource=NEW)
            await rest(5)
        await world.patch({"spec": {"field": "other"}}, resource=NEW)
        async with world.running():
            await world.until(lambda: is_handled(world), 100)
            await rest(5)
        assert calls.count(f"create create-{busy} {busy}") == 1
        assert calls.count(f"update update-{busy} {busy}") == 1
        assert calls.count(f"create slow {busy}") == 2
