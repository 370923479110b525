"""Controllers that are declared beside handlers run in the same operator, on the same informers, and hear of each other's writes."""

import asyncio
import json
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access
from ctl.client.resources import Resource
from ctl.handlers.running.declared import declared
from ctl.workqueue import Exponential

from .pages import Site
from .world import KEX, PLAIN, Calls, World, a_world, crd, quick, rest

pytestmark = pytest.mark.virtual_time


async def test_handlers_and_controllers_run_side_by_side_and_hear_of_each_other(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="created")
    def created(**_: Any) -> dict[str, str]:
        return {"done": "yes"}

    @ctl.on.update(KEX.plural, field="spec.copied")
    def copied(new: Any, **kwargs: Any) -> None:
        calls("copied", {"new": new})

    @ctl.declare
    @ctl.controller("kopfexamples.kopf.dev").reconciles
    async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
        body = context.body()
        assert body is not None
        calls("reconcile", {"status": body.get("status"), "field": body["spec"]["field"]})
        if (body.get("status") or {}).get("created"):
            spec = {"spec": {"copied": body["spec"]["field"]}}
            await context.ensure(
                "kopfexamples.kopf.dev", {"metadata": {"name": key.name, "namespace": key.namespace}, **spec}
            )

    assert declared(world.registry) == (reconcile,)
    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("copied") == 1)
        await rest()
        assert calls.of("copied") == [{"new": "value"}]
        # The handlers' result was news to the controller, its own write was not.
        assert [call["status"] for call in calls.of("reconcile")][-1] == {"created": {"done": "yes"}}
        told = calls.count("reconcile")
        assert told <= 4
        # One informer tells both.
        watches = [
            request
            for request in world.sandbox.log
            if request.path.endswith("/kopfexamples") and "watch" in request.query
        ]
        assert len(watches) == 1


async def test_at_the_end_handlers_and_controllers_have_the_same_time_and_not_one_after_the_other(
    world: World, calls: Calls
) -> None:
    @ctl.on.create(KEX.plural, id="endless")
    async def endless(**_: Any) -> None:
        calls("handler", {})
        await asyncio.Event().wait()

    @ctl.declare
    @ctl.controller("kopfexamples.kopf.dev").reconciles
    async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
        calls("reconcile", {})
        await asyncio.Event().wait()

    settings = quick()
    settings.queueing.exit_timeout = 20
    async with world.running(settings=settings):
        await world.create()
        await world.until(lambda: set(calls.names) == {"handler", "reconcile"})
        began = asyncio.get_running_loop().time()
    assert 20 <= asyncio.get_running_loop().time() - began < 30


async def test_a_controller_waits_for_its_resource_and_holds_up_nobody(calls: Calls) -> None:
    async with a_world(definitions=[crd(KEX)]) as world:

        @ctl.on.create(KEX.plural, id="created")
        def created(**_: Any) -> None:
            calls("created", {})

        async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
            calls("reconcile", {"key": str(key)})

        ctl.declare(ctl.controller("plains.kopf.dev").reconciles(reconcile))
        site = Site()
        async with world.running(http=site.http):
            await world.create()
            await world.until(lambda: calls.count("created") == 1)
            await asyncio.sleep(100)
            status, text = await site.get("/readyz?verbose")
            assert status == 200
            assert "[+]controller plains.kopf.dev waits: The server serves no resource 'plains.kopf.dev'" in text
            missing = 'ctl_unserved_resources{reason="waiting",resource="controller plains.kopf.dev"}'
            assert (await site.samples())[missing] == 1
            await world.sandbox.load_manifest(crd(PLAIN))
            await asyncio.sleep(2)
            assert "[+]controller plains.kopf.dev runs\n" in (await site.get("/readyz?verbose"))[1]
            assert missing not in await site.samples()
            await world.create("two", resource=PLAIN)
            await world.until(lambda: calls.count("reconcile") == 1)
            assert calls.of("reconcile") == [{"key": "default/two"}]


async def test_controllers_look_where_the_operator_serves(world: World, calls: Calls) -> None:
    async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
        calls("reconcile", {"key": str(key)})

    ctl.declare(ctl.controller("kopfexamples.kopf.dev").reconciles(reconcile))
    await world.create()
    async with world.running(namespaces=["elsewhere"]):
        await rest(5)
        assert not calls.made
    async with world.running(namespaces=["default", "elsewhere"]):
        await rest(5)
        assert calls.of("reconcile") == [{"key": "default/one"}]


async def test_controllers_follow_the_namespaces_of_the_operator(world: World, calls: Calls) -> None:
    async def reconcile(key: ctl.Key, context: ctl.Context) -> None:
        calls("reconcile", {"key": str(key)})
        assert context.list("configmaps") is not None

    ctl.declare(
        ctl.controller("kopfexamples.kopf.dev").owns("configmaps").watches_source(ctl.every(3600)).reconciles(reconcile)
    )

    async def pinned(key: ctl.Key, context: ctl.Context) -> None:
        calls("pinned", {"key": str(key)})

    ctl.declare(ctl.controller("kopfexamples.kopf.dev").in_namespaces("default").named("pinned").reconciles(pinned))

    async def create(namespace: str, name: str) -> None:
        body = {"metadata": {"name": name, "namespace": namespace}, "spec": {"field": name}}
        await world.user.create(KEX, {"apiVersion": KEX.api_version, "kind": KEX.kind, **body}, namespace)

    namespaces = Resource("", "v1", "namespaces", kind="Namespace", namespaced=False)

    async def found(name: str) -> None:
        await world.user.create(namespaces, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    await world.create()
    async with world.running(namespaces=["team-*,!team-x"]):
        await rest(5)
        assert calls.of("pinned") == [{"key": "default/one"}], "it says itself where"
        assert not calls.count("reconcile"), "no namespace matches: it looks nowhere"
        for name in ("team-a", "team-x", "other"):
            await found(name)
            await create(name, f"in-{name}")
        await world.until(lambda: calls.count("reconcile") == 1)
        await rest(5)
        assert calls.of("reconcile") == [{"key": "team-a/in-team-a"}]
        await found("team-b")
        await create("team-b", "second")
        await world.until(lambda: calls.count("reconcile") == 2)
        assert calls.of("reconcile")[-1] == {"key": "team-b/second"}
        await world.user.delete(namespaces, "team-a")
        await rest(20)
        watched = [request for request in world.sandbox.log if "/team-a/" in request.path]
        await rest(700)
        assert [request for request in world.sandbox.log if "/team-a/" in request.path] == watched, "nobody looks there"
        await create("team-b", "third")
        await world.until(lambda: calls.of("reconcile")[-1] == {"key": "team-b/third"})


async def test_a_declared_controller_is_in_the_metrics_and_explains_its_keys(world: World) -> None:
    deadlines: list[float] = []

    @ctl.declare
    @ctl.controller("kopfexamples.kopf.dev").named("notes").timeout(20).rate_limiter(Exponential(60, 60)).reconciles
    async def reconcile(key: ctl.Key, context: ctl.Context) -> ctl.Result | None:
        assert context.attempt.deadline is not None
        deadlines.append(context.attempt.deadline - context.attempt.started)
        if key.name == "slow":
            await asyncio.sleep(3600)
        if key.name == "wrong":
            raise ctl.TerminalError("wrong for good")
        return ctl.Result(requeue_after=3600, priority=7) if context.attempt.number == 1 else None

    site = Site()
    for name in ("slow", "later", "wrong"):
        await world.create(name)
    async with world.running(http=site.http):
        await rest(30)
        samples = await site.samples()
        for result, count in (("requeue_after", 1), ("error", 2), ("success", 0)):
            assert samples[f'controller_runtime_reconcile_total{{controller="notes",result="{result}"}}'] == count, (
                result
            )
        assert samples['controller_runtime_reconcile_timeouts_total{controller="notes"}'] == 1
        assert samples['controller_runtime_terminal_reconcile_errors_total{controller="notes"}'] == 1
        assert samples['controller_runtime_max_concurrent_reconciles{controller="notes"}'] == 1
        assert samples['workqueue_adds_total{controller="notes",name="notes"}'] >= 3
        assert deadlines == [20.0] * 3

        async def explained(name: str) -> dict[str, Any]:
            status, text = await site.get(f"/debug/explain?controller=notes&key=default/{name}")
            assert status == 200
            found: dict[str, Any] = json.loads(text)["notes"]
            return found

        slow, later, wrong = [await explained(name) for name in ("slow", "later", "wrong")]
        assert (slow["state"], slow["failures"], slow["reason"]) == ("in back-off", 1, "retry")
        assert "TimeoutError" in slow["last_error"]
        assert (later["state"], later["priority"], later["reason"]) == ("delayed", 7, "requeue_after")
        assert 3000 < later["next_in"] <= 3600
        assert wrong["state"] == "at rest"
        assert "wrong for good" in wrong["last_error"]
        assert wrong["uid"]
        assert wrong["cached_version"] == wrong["written_version"] <= wrong["store_version"]
        assert wrong["informer"].startswith("watching")
        status, text = await site.get("/debug/explain?controller=notes&key=default/nobody")
        assert status == 404
        assert "The controller notes has no key 'default/nobody'; its cache: watching" in text


async def test_two_controllers_of_one_name_are_refused_at_the_start(world: World) -> None:
    async def reconcile(key: ctl.Key, context: ctl.Context) -> None: ...

    ctl.declare(ctl.controller("kopfexamples.kopf.dev").reconciles(reconcile))
    ctl.declare(ctl.controller("kopfexamples.kopf.dev").owns("configmaps").reconciles(reconcile))
    with pytest.raises(ValueError, match=r"two controllers of the name 'kopfexamples\.kopf\.dev'"):
        await ctl.operator(registry=world.registry, access=Access(world.sandbox.url))


def test_what_is_not_complete_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="complete controller"):
        ctl.declare(ctl.controller("kopfexamples.kopf.dev"))  # type: ignore[type-var]
