"""Handlers of Secrets are given real values, as under Kopf; what is stored on the objects, and what is logged, has none."""

import base64
import logging
from typing import Any

import pytest

import ctl
from ctl.client.resources import Resource

from .world import LAST, Calls, World, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)


def value(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


ONE, TWO, THREE, OTHER = value("one"), value("two"), value("three"), value("other")


async def create(world: World, data: dict[str, str], **metadata: Any) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one", **metadata}, "data": data}
    await world.user.create(SECRETS, body, "default")


async def change(world: World, calls: Calls, handler: str = "update", **data: str | None) -> dict[str, Any]:
    count = calls.count(handler)
    await world.patch({"data": data}, resource=SECRETS)
    await world.until(lambda: calls.count(handler) == count + 1)
    await rest()
    return calls.of(handler)[-1]


def stored(world: World) -> None:
    """No value was ever written anywhere."""
    for text in (ONE, TWO, THREE, OTHER):
        assert text not in str(world.bodies(SECRETS))
    for kept in world.last(resource=SECRETS)["data"].values():
        assert kept.startswith("blake2b:")


@pytest.fixture
def both(world: World, calls: Calls) -> None:
    @ctl.on.create("v1", "secrets", id="create")
    @ctl.on.update("v1", "secrets", id="update")
    async def handle(reason: str, **kwargs: Any) -> None:
        calls(reason, kwargs)


@pytest.mark.usefixtures("both")
async def test_handlers_see_real_values_on_both_sides(world: World, calls: Calls) -> None:
    async with world.running():
        await create(world, {"a": ONE, "same": OTHER})
        await world.until(lambda: LAST in world.annotations(resource=SECRETS))
        first = await change(world, calls, a=TWO)
        second = await change(world, calls, a=THREE, b=ONE)
        third = await change(world, calls, b=None)
    (created,) = calls.of("create")
    assert created["old"] is None
    assert created["new"] == {"data": {"a": ONE, "same": OTHER}, "type": "Opaque"}
    assert (first["old"]["data"], first["new"]["data"]) == ({"a": ONE, "same": OTHER}, {"a": TWO, "same": OTHER})
    assert tuple(first["diff"]) == (("change", ("data", "a"), ONE, TWO),)
    assert tuple(second["diff"]) == (("add", ("data", "b"), None, ONE), ("change", ("data", "a"), TWO, THREE))
    assert tuple(third["diff"]) == (("remove", ("data", "b"), ONE, None),)
    assert len(calls.names) == 4
    stored(world)


@pytest.mark.usefixtures("both")
async def test_after_a_restart_the_old_side_shows_seals_of_what_has_changed(world: World, calls: Calls) -> None:
    async with world.running():
        await create(world, {"a": ONE, "same": OTHER})
        await world.until(lambda: LAST in world.annotations(resource=SECRETS))
        await rest()
    seal = world.last(resource=SECRETS)["data"]["a"]
    async with world.running():
        await rest()
        assert calls.names == ["create"], "what is equal to its seal has not changed"
    await world.patch({"data": {"a": TWO}}, resource=SECRETS)
    async with world.running():
        await world.until(lambda: calls.count("update") == 1)
        await rest()
        later = await change(world, calls, a=THREE)
    given = calls.of("update")[0]
    assert given["old"]["data"] == {"a": seal, "same": OTHER}
    assert given["new"]["data"] == {"a": TWO, "same": OTHER}
    assert tuple(given["diff"]) == (("change", ("data", "a"), seal, TWO),)
    assert tuple(later["diff"]) == (("change", ("data", "a"), TWO, THREE),)
    stored(world)


@pytest.mark.usefixtures("both")
async def test_a_process_that_has_seen_a_secret_knows_its_old_values(world: World, calls: Calls) -> None:
    async with world.running():
        await create(world, {"a": ONE})
        await world.until(lambda: LAST in world.annotations(resource=SECRETS))
        await rest()
    async with world.running():
        await rest()
        given = await change(world, calls, a=TWO)
    assert tuple(given["diff"]) == (("change", ("data", "a"), ONE, TWO),)


@pytest.mark.usefixtures("both")
async def test_values_in_a_diff_base_of_kopfs_are_the_old_ones(world: World, calls: Calls) -> None:
    await create(world, {"a": ONE}, annotations={LAST: f'{{"data":{{"a":"{OTHER}"}},"type":"Opaque"}}\n'})
    async with world.running():
        await world.until(lambda: calls.count("update") == 1)
        await rest()
    assert tuple(calls.of("update")[0]["diff"]) == (("change", ("data", "a"), OTHER, ONE),)
    stored(world)


async def test_fields_and_filters_see_real_values(world: World, calls: Calls) -> None:
    @ctl.on.field("v1", "secrets", field="data.a")
    async def field(**kwargs: Any) -> None:
        calls("field", kwargs)

    @ctl.on.create("v1", "secrets", field="data.a", value=ONE, id="literal")
    @ctl.on.update("v1", "secrets", field="data.a", old=ONE, new=TWO, id="literal")
    async def literal(reason: str, **kwargs: Any) -> None:
        calls(f"literal-{reason}", kwargs)

    @ctl.on.update("v1", "secrets", field="data.a", old=lambda value, **_: value == ONE, id="callback")
    @ctl.on.update(
        "v1", "secrets", when=lambda old, new, **_: old["data"]["a"] + new["data"]["a"] == ONE + TWO, id="when"
    )
    async def asked(**kwargs: Any) -> None:
        calls("asked", kwargs)

    async with world.running():
        await create(world, {"a": ONE})
        await world.until(lambda: LAST in world.annotations(resource=SECRETS))
        given = await change(world, calls, "field", a=TWO)
    assert (given["old"], given["new"]) == (ONE, TWO)
    assert tuple(given["diff"]) == (("change", (), ONE, TWO),)
    assert sorted(calls.names) == ["asked", "asked", "field", "field", "literal-create", "literal-update"]
    stored(world)


async def test_sub_handlers_and_retries_see_real_values(world: World, calls: Calls) -> None:
    @ctl.on.update("v1", "secrets")
    async def parent(**_: Any) -> None:
        @ctl.subhandler(id="child")
        async def child(retry: int, **kwargs: Any) -> None:
            calls("child", kwargs)
            if not retry:
                raise ctl.TemporaryError("once more", delay=5)

    async with world.running():
        await create(world, {"a": ONE})
        await world.until(lambda: LAST in world.annotations(resource=SECRETS))
        await world.patch({"data": {"a": TWO}}, resource=SECRETS)
        await world.until(lambda: calls.count("child") == 2)
        await rest()
    for given in calls.of("child"):
        assert (given["old"]["data"], given["new"]["data"]) == ({"a": ONE}, {"a": TWO})
    stored(world)


async def test_what_handlers_do_to_their_values_is_stored_nowhere(world: World, calls: Calls) -> None:
    @ctl.on.create("v1", "secrets", id="create")
    @ctl.on.update("v1", "secrets", id="update")
    async def handle(reason: str, old: Any, new: Any, **kwargs: Any) -> None:
        calls(reason, {"old": old, **kwargs})
        for state in (old, new):
            if state is not None:
                state["data"].clear()
                state.setdefault("metadata", {})["labels"] = {"x": "y"}

    async with world.running():
        await create(world, {"a": ONE}, labels={"l": "m"})
        await world.until(lambda: LAST in world.annotations(resource=SECRETS))
        await change(world, calls, a=TWO)
        await change(world, calls, a=THREE)
    assert calls.names == ["create", "update", "update"]
    assert world.last(resource=SECRETS)["metadata"] == {"labels": {"l": "m"}}
    stored(world)


@pytest.mark.usefixtures("both")
async def test_values_are_in_no_log(world: World, calls: Calls, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with world.running():
        await create(world, {"a": ONE})
        await world.until(lambda: LAST in world.annotations(resource=SECRETS))
        await change(world, calls, a=TWO)
    told = [record.getMessage() for record in caplog.records]
    assert any("Updating diff" in line for line in told)
    assert not [line for line in told if ONE in line or TWO in line]


async def test_maps_that_look_like_seals_are_left_alone(world: World, calls: Calls) -> None:
    @ctl.on.update("v1", "configmaps", id="update")
    async def handle(**kwargs: Any) -> None:
        calls("update", kwargs)

    async with world.running():
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "blake2b:00"}}
        await world.user.create(CONFIGMAPS, body, "default")
        await world.until(lambda: LAST in world.annotations(resource=CONFIGMAPS))
        await world.patch({"data": {"a": "blake2b:11"}}, resource=CONFIGMAPS)
        await world.until(lambda: calls.count("update") == 1)
    (given,) = calls.of("update")
    assert tuple(given["diff"]) == (("change", ("data", "a"), "blake2b:00", "blake2b:11"),)
