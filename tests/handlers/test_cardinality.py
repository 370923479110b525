"""How many series of metrics there are does not depend on what is in objects, nor on what has been there once."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import ctl
from ctl.client.metrics import ClientMetrics
from ctl.client.resources import Resource

from .pages import Site
from .world import KEX, PLAIN, World, crd

pytestmark = pytest.mark.virtual_time

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)


def named(samples: dict[str, float], text: str) -> list[str]:
    return [name for name in samples if text in name]


@pytest.mark.parametrize("way", ["declared", "executed", "nested", "given"])
async def test_subhandlers_count_under_the_id_of_their_parent(world: World, site: Site, way: str) -> None:
    @ctl.on.create(KEX.plural, id="parent")
    async def parent(spec: Any, **_: Any) -> None:
        async def sub(**_: Any) -> None:
            if way == "nested":
                for item in spec["items"]:
                    ctl.subhandler(id=f"below-{item}")(nothing)

        async def nothing(**_: Any) -> None: ...

        if way == "executed":
            await ctl.execute(fns=dict.fromkeys(spec["items"], sub))
        elif way == "given":
            from ctl.handlers.declaration.specs import ChangingSpec, HandlerId

            specs = [ChangingSpec(id=HandlerId(f"parent/{item}"), fn=sub, selector=None) for item in spec["items"]]
            await ctl.execute(handlers=specs)
        else:
            for item in spec["items"]:
                ctl.subhandler(id=item)(sub)

    async with world.running(http=site.http):
        before = await site.samples()
        for number in range(5):
            await world.create(f"object-{number}", {"items": [f"item-{number}-{item}" for item in range(4)]})
            await world.handled(f"object-{number}")
        after = await site.samples()
    assert named(after, "item-") == []
    calls = 'ctl_handler_calls_total{handler="parent",kind="subhandler",outcome="succeeded"}'
    assert after[calls] == (100 if way == "nested" else 20)
    assert after['ctl_handler_calls_total{handler="parent",kind="change",outcome="succeeded"}'] == 5
    new = {re.sub(r"\{.*", "", name) for name in after.keys() - before.keys()}
    assert not [name for name in new if name.startswith("ctl_handler") and not named(after, 'kind="subhandler"')]


async def gone(world: World, resource: Resource, name: str) -> None:
    await world.user.delete(resource, name, None)
    await asyncio.sleep(60)


async def a_kind(world: World) -> Callable[[], Awaitable[None]]:
    number = next(NUMBERS)
    kind = Resource("kopf.dev", "v1", f"later{number}s", f"Later{number}", namespaced=True)
    await world.sandbox.load_manifest(crd(kind))
    await asyncio.sleep(10)
    await world.create(resource=kind)
    await asyncio.sleep(5)
    return lambda: gone(world, DEFINITIONS, f"{kind.plural}.kopf.dev")


async def a_namespace(world: World) -> Callable[[], Awaitable[None]]:
    name = f"later{next(NUMBERS)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await world.user.create(NAMESPACES, body)
    await asyncio.sleep(5)
    object = {"apiVersion": KEX.api_version, "kind": KEX.kind, "metadata": {"name": "one"}, "spec": {}}
    await world.user.create(KEX, object, name)
    await asyncio.sleep(5)
    return lambda: gone(world, NAMESPACES, name)


NUMBERS = iter(range(1_000_000))


@pytest.mark.parametrize("make", [a_kind, a_namespace])
async def test_series_of_what_is_gone_are_gone(
    world: World, site: Site, make: Callable[[World], Awaitable[Callable[[], Awaitable[None]]]]
) -> None:
    @ctl.on.event("kopf.dev", ctl.EVERYTHING)
    async def look(**_: Any) -> None: ...

    where: dict[str, Any] = {} if make is a_kind else {"namespaces": ["later*"]}
    async with world.running(http=site.http, **where):
        await (await make(world))()
        before = await site.samples()
        for _ in range(3):
            go = await make(world)
            assert [name for name in named(await site.samples(), "later") if "informer" in name]
            await go()
        after = await site.samples()
    assert named(after, "later") == []
    assert {name for name in after if "python_" not in name} == {name for name in before if "python_" not in name}


async def test_an_operator_of_many_changes_has_as_many_series_as_at_its_start(world: World, site: Site) -> None:
    @ctl.on.create(KEX.plural)
    @ctl.on.update(KEX.plural)
    @ctl.on.delete(PLAIN.plural)
    async def fn(name: str, spec: Any, **_: Any) -> None:
        @ctl.subhandler(id=f"{name}-{spec.get('field')}")
        async def sub(**_: Any) -> None: ...

    async def a_few(first: int) -> dict[str, float]:
        for number in range(first, first + 5):
            await world.create(f"object-{number}", labels={f"label-{number}": "a"})
            await world.handled(f"object-{number}")
            await world.patch({"spec": {"field": f"field-{number}"}}, f"object-{number}")
            await world.handled(f"object-{number}")
            await world.delete(f"object-{number}")
        return await site.samples()

    async with world.running(http=site.http):
        before = await a_few(0)
        after = await a_few(10)
    for text in ("object-", "label-", "field-"):
        assert named(after, text) == []
    assert {name for name in after if "python_" not in name} == {name for name in before if "python_" not in name}


def test_addresses_of_servers_are_counted_apart_to_a_limit() -> None:
    metrics = ClientMetrics()
    for number in range(1000):
        metrics.count(200, "GET", f"host-{number}", 0.1)
        metrics.count_retry(500, "GET")
    samples = list(metrics.samples())
    hosts = {sample.labels[-1] for sample in samples if sample.labels}
    assert len(hosts) < 20
    counts = [sample.value for sample in samples if sample.family.name == "rest_client_requests_total"]
    assert sum(count for count in counts if isinstance(count, int)) == 1000
