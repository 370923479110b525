"""What a program of reconcilers must not do at its stop, and how long that takes."""

import asyncio
import signal
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.controller.leader.lease_client import LeaderElectionConfig
from ctl.controller.leader.lease_rules import LeaseRules
from ctl.controller.program.serve import serve
from ctl.sandbox import Match, Sandbox

pytestmark = pytest.mark.virtual_time

CONFIGMAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
SECRETS = Resource("", "v1", "secrets", kind="Secret", namespaced=True)
RULES = LeaseRules(duration=15, renew_deadline=10, retry_period=2)


async def _make(user: Client, resource: Resource, name: str, **more: Any) -> None:
    await user.create(resource, {"metadata": {"name": name, "namespace": "default"}, **more}, "default")


def _pruning(attempted: list[ctl.Key]) -> Any:
    """A controller that deletes each secret that belongs to no config map: by an empty copy of those, all of them."""

    async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
        attempted.append(key)
        wanted = {obj.name for obj in context.list("configmaps")}
        for obj in context.list("secrets"):
            if obj.name not in wanted:
                await context.delete("secrets", obj)

    return ctl.controller("secrets").watches("configmaps", ctl.mappers.constant()).reconciles(reconcile)


@pytest.mark.parametrize("trouble", ["slow", "forbidden"])
@pytest.mark.parametrize("elected", [False, True])
async def test_no_attempt_is_made_at_the_stop_while_a_first_list_is_missing(
    sandbox: Sandbox, user: Client, trouble: str, elected: bool
) -> None:
    await _make(user, CONFIGMAPS, "one")
    await _make(user, SECRETS, "one")
    lists = Match(path="/configmaps$", user_agent="ctl/")
    if trouble == "slow":
        sandbox.faults.delay(3600, match=lists)
    else:
        sandbox.faults.answer(403, "Forbidden", "not yours", match=lists, times=None)
    attempted: list[ctl.Key] = []
    loop = asyncio.get_running_loop()
    leadership = LeaderElectionConfig("maps", "default", "a", RULES) if elected else None
    running = asyncio.create_task(serve(_pruning(attempted), access=Access(sandbox.url), leadership=leadership))
    await asyncio.sleep(20)
    assert attempted == []
    began = loop.time()
    signal.raise_signal(signal.SIGTERM)
    await asyncio.wait_for(running, 100)
    assert attempted == []
    assert sandbox.get("v1", "Secret", "one") is not None
    assert loop.time() - began < 5, "nothing is waited for that cannot be done"


async def test_the_stop_ends_with_the_last_attempt_also_of_a_key_that_was_asked_for_again(
    sandbox: Sandbox, user: Client
) -> None:
    attempted: list[tuple[str, str]] = []
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
        body = context.body()
        assert body is not None
        attempted.append((key.name, body["data"]["n"]))
        await asyncio.sleep(5)

    await _make(user, CONFIGMAPS, "one", data={"n": "1"})
    running = asyncio.create_task(
        serve(
            ctl.controller("configmaps").in_namespaces("default").concurrency(2).reconciles(reconcile),
            access=Access(sandbox.url),
            stop=stop,
        )
    )
    await asyncio.sleep(3)
    await user.patch(CONFIGMAPS, "one", "default", {"data": {"n": "2"}})
    await asyncio.sleep(1)
    assert attempted == [("one", "1")]
    began = loop.time()
    stop.set()
    await asyncio.wait_for(running, 100)
    assert attempted == [("one", "1"), ("one", "2")]
    assert loop.time() - began < 12


async def test_a_stop_during_which_leadership_is_lost_waits_for_nothing_that_may_not_be_attempted(
    sandbox: Sandbox, user: Client
) -> None:
    attempted: list[str] = []
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
        attempted.append(key.name)
        await asyncio.sleep(40)

    for number in range(3):
        await _make(user, CONFIGMAPS, f"one-{number}")
    running = asyncio.create_task(
        serve(
            ctl.controller("configmaps").in_namespaces("default").reconciles(reconcile),
            access=Access(sandbox.url),
            stop=stop,
            leadership=LeaderElectionConfig("maps", "default", "a", RULES),
            options=ctl.ServeOptions(grace=300),
        )
    )
    await asyncio.sleep(10)
    assert len(attempted) == 1
    stop.set()
    await asyncio.sleep(1)
    began = loop.time()
    sandbox.faults.refuse(match=Match(path="/leases", user_agent="ctl/"), times=None)
    await asyncio.wait_for(running, 400)
    assert loop.time() - began < 40
    assert len(attempted) == 1
