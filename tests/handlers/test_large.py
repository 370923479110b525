"""Objects that are too large for their state: they are handled like any other, and no request is refused for its size."""

import base64
from typing import Any

import pytest

import ctl
from ctl.client.resources import Resource

from .world import KEX, LAST, Calls, P, World, quick, rest

pytestmark = pytest.mark.virtual_time(start="2031-05-06T07:00:00Z")

DIGEST = f"{P}/last-handled-digest"
SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
KB = 1000


@pytest.fixture(autouse=True)
def nothing_is_refused(world: World) -> Any:
    yield
    codes = {(request.method, request.code) for request in world.writes() + world.writes(SECRETS)}
    assert codes <= {("PATCH", 200)}, codes


@pytest.fixture
def both(world: World, calls: Calls) -> None:
    """One handler of creations and one of updates."""

    @ctl.on.create(KEX.plural, id="create")
    async def create(**kwargs: Any) -> None:
        calls("create", kwargs)

    @ctl.on.update(KEX.plural, id="update")
    async def update(**kwargs: Any) -> None:
        calls("update", kwargs)


def _spec(size: int, field: str = "value") -> dict[str, Any]:
    return {"field": field, "big": "x" * size}


@pytest.mark.usefixtures("both")
async def test_a_large_object_has_a_digest_and_its_old_state_is_remembered(world: World, calls: Calls) -> None:
    async with world.running():
        await world.create(spec=_spec(900 * KB))
        await world.until(lambda: DIGEST in world.annotations())
        await rest()
        assert LAST not in world.annotations()
        await world.patch({"spec": {"field": "other"}})
        await world.until(lambda: calls.count("update") == 1)
        await rest()
    assert calls.names == ["create", "update"]
    (given,) = calls.of("update")
    assert given["old"]["spec"] == _spec(900 * KB)
    assert given["new"]["spec"] == _spec(900 * KB, "other")
    assert tuple(given["diff"]) == (("change", ("spec", "field"), "value", "other"),)
    assert len(world.writes()) == 2


@pytest.mark.usefixtures("both")
async def test_after_a_restart_a_large_object_is_known_but_not_what_it_was(world: World, calls: Calls) -> None:
    async with world.running():
        await world.create(spec=_spec(500 * KB))
        await world.until(lambda: DIGEST in world.annotations())
    async with world.running():
        await rest(5)
        assert calls.names == ["create"]
        await world.patch({"spec": {"field": "other"}})
        await world.until(lambda: calls.count("update") == 1)
        await rest()
        # The process has seen the unchanged object, so it has the old state again.
        assert calls.of("update")[0]["old"]["spec"]["field"] == "value"
    await world.patch({"spec": {"field": "third"}})
    async with world.running():
        await world.until(lambda: calls.count("update") == 2)
        await rest(5)
    given = calls.of("update")[1]
    assert given["old"] == {}
    assert given["new"]["spec"]["field"] == "third"
    assert [entry[:2] for entry in given["diff"]] == [("add", ("spec",))]
    assert calls.names == ["create", "update", "update"]


@pytest.mark.usefixtures("both")
async def test_objects_grow_and_shrink_through_the_limit(world: World, calls: Calls) -> None:
    async with world.running():
        await world.create()
        await world.handled()
        await world.patch({"spec": {"big": "x" * 300 * KB}})
        await world.until(lambda: DIGEST in world.annotations())
        await rest()
        assert LAST not in world.annotations()
        assert calls.of("update")[0]["old"]["spec"] == {"field": "value"}
        await world.patch({"spec": {"big": None}})
        await world.until(lambda: LAST in world.annotations())
        await world.handled()
        assert DIGEST not in world.annotations()
        assert calls.of("update")[1]["old"]["spec"] == _spec(300 * KB)
    async with world.running():
        await rest(5)
    assert calls.names == ["create", "update", "update"]


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize(("left", "form"), [(300, "full"), (150, "digest"), (20, "none")])
async def test_foreign_annotations_take_their_room(world: World, calls: Calls, left: int, form: str) -> None:
    # What the full form would need is 200 bytes and some more.
    foreign = {"mine.io/big": "x" * (256 * 1024 - len("mine.io/big") - left)}
    async with world.running():
        await world.create(spec=_spec(150), annotations={})
        await world.handled()
        await world.patch({"metadata": {"annotations": {**foreign, LAST: None}}})
        await rest(5)
        present = {"full": {LAST}, "digest": {DIGEST}, "none": set()}[form]
        if form != "full":  # the full one would hold the foreign annotation too
            assert {key for key in world.annotations() if key.startswith(P)} == present
        await world.patch({"spec": {"field": "other"}})
        await rest(5)
        await world.patch({"spec": {"field": "third"}})
        await rest(5)
    assert calls.names.count("create") == 1
    assert [given["new"]["spec"]["field"] for given in calls.of("update")][-2:] == ["other", "third"]


@pytest.mark.usefixtures("both")
async def test_no_annotation_is_written_above_the_limit_that_was_set(world: World, calls: Calls) -> None:
    settings = quick()
    settings.persistence.largest_annotation = 4096
    async with world.running(settings=settings):
        await world.create("small", spec=_spec(1 * KB))
        await world.create("large", spec=_spec(5 * KB))
        await world.handled("small")
        await world.until(lambda: DIGEST in world.annotations("large"))
        await world.patch({"spec": {"field": "other"}}, "large")
        await world.until(lambda: calls.count("update") == 1)
        await rest()
    (given,) = calls.of("update")
    assert tuple(given["diff"]) == (("change", ("spec", "field"), "value", "other"),)
    for body in world.bodies():
        assert all(len(text or "") <= 4096 for text in body["metadata"]["annotations"].values())


async def test_records_that_do_not_fit_are_cut_or_kept_in_memory(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(retry: int, **kwargs: Any) -> None:
        calls("create", kwargs)
        if retry < 2:
            raise ctl.TemporaryError("x" * 300 * KB, delay=5)

    @ctl.on.create(KEX.plural, id="other")
    async def other(**kwargs: Any) -> None:
        calls("other", kwargs)

    async with world.running():
        await world.create()
        await world.until(lambda: calls.count("create") == 1)
        await rest()
        assert len(world.record("create")["message"]) == 100
        await world.handled()
        full = {"mine.io/big": "x" * (256 * 1024 - len("mine.io/big") - 20)}
        await world.create("full", annotations=full)
        await world.until(lambda: calls.count("create") == 6)
        await rest(10)
    assert calls.count("other") == 2
    assert calls.count("create") == 6


async def test_a_baseline_makes_room_for_records(world: World, calls: Calls) -> None:
    @ctl.on.create(KEX.plural, id="create")
    async def create(**kwargs: Any) -> None:
        calls("create", kwargs)

    @ctl.on.update(KEX.plural, id="update")
    async def update(retry: int, **kwargs: Any) -> None:
        calls("update", kwargs)
        if not retry:
            raise ctl.TemporaryError("not yet", delay=5)

    spec = _spec(256 * 1024 - 150)
    async with world.running():
        await world.create(spec=spec)
        await world.until(lambda: LAST in world.annotations())
        await rest()
        await world.patch({"spec": {"field": "other"}})
        await world.until(lambda: calls.count("update") == 1)
        await rest()
        assert world.record("update")["retries"] == 1
        assert set(world.annotations()) == {DIGEST, f"{P}/update"}
        await world.until(lambda: LAST in world.annotations())
        await rest()
    assert calls.names == ["create", "update", "update"]
    assert [given["old"]["spec"] for given in calls.of("update")] == [spec, spec]
    assert set(world.annotations()) == {LAST}


@pytest.mark.usefixtures("both")
async def test_an_object_near_the_limit_of_the_server_is_handled_too(world: World, calls: Calls) -> None:
    """The spec is small, but the object as a whole has no room for a copy of it."""
    async with world.running():
        await world.create(spec=_spec(150 * KB))
        await world.handled()
        await world.patch({"status": {"big": "x" * 700 * KB}}, subresource="status")
        await world.patch({"status": {"more": "x" * 550 * KB}}, subresource="status")
        await world.patch({"spec": {"field": "other"}})
        await world.until(lambda: calls.count("update") == 1)
        await rest()
        await world.patch({"metadata": {"annotations": {LAST: None, DIGEST: None}}})
        await world.patch({"status": {"more": "x" * 660 * KB}}, subresource="status")
        await world.patch({"spec": {"field": "third"}})
        await world.until(lambda: calls.count("update") == 2)
        await rest()
        assert DIGEST in world.annotations()
    assert calls.names == ["create", "update", "update"]


class TestSecrets:
    async def test_a_large_one_is_handled_and_its_values_are_nowhere(self, world: World, calls: Calls) -> None:
        @ctl.on.create("v1", "secrets", id="create")
        @ctl.on.update("v1", "secrets", id="update")
        async def handle(reason: str, **kwargs: Any) -> None:
            calls(reason, kwargs)

        value = base64.b64encode(b"secret" * 120 * KB).decode()
        async with world.running():
            await self._create(world, {"big": value, "same": "c2FtZQ=="})
            await world.until(lambda: LAST in world.annotations(resource=SECRETS))
            await rest()
            await world.patch({"data": {"big": "b3RoZXI="}}, resource=SECRETS)
            await world.until(lambda: calls.count("update") == 1)
            await rest()
        assert calls.names == ["create", "update"]
        (given,) = calls.of("update")
        assert [entry[:2] for entry in given["diff"]] == [("change", ("data", "big"))]
        assert given["body"]["data"] == {"big": "b3RoZXI=", "same": "c2FtZQ=="}
        assert given["old"]["data"] == {"big": value, "same": "c2FtZQ=="}
        written = str(world.bodies(SECRETS))
        assert "c2FtZQ" not in written
        assert "b3RoZXI" not in written
        assert value[:20] not in written

    async def test_kopfs_diff_base_is_understood(self, world: World, calls: Calls) -> None:
        @ctl.on.create("v1", "secrets", id="create")
        @ctl.on.update("v1", "secrets", id="update")
        async def handle(reason: str, **kwargs: Any) -> None:
            calls(reason, kwargs)

        last = '{"data":{"a":"YQ==","b":"Yg=="},"type":"Opaque"}\n'
        await self._create(world, {"a": "YQ==", "b": "Yg=="}, annotations={LAST: last})
        async with world.running():
            await rest(5)
            assert not calls.names
            assert not world.writes(SECRETS)
            await world.patch({"data": {"b": "Yw=="}}, resource=SECRETS)
            await world.until(lambda: calls.count("update") == 1)
            await rest()
        (given,) = calls.of("update")
        assert [entry[:2] for entry in given["diff"]] == [("change", ("data", "b"))]
        assert "YQ==" not in world.annotations(resource=SECRETS)[LAST]

    async def test_kopfs_way_can_be_had(self, world: World, calls: Calls) -> None:
        @ctl.on.create("v1", "secrets", id="create")
        async def create(**kwargs: Any) -> None:
            calls("create", kwargs)

        settings = quick()
        settings.persistence.plain_secrets = True
        async with world.running(settings=settings):
            await self._create(world, {"a": "YQ=="})
            await world.until(lambda: LAST in world.annotations(resource=SECRETS))
        assert world.last(resource=SECRETS) == {"data": {"a": "YQ=="}, "type": "Opaque"}
        assert calls.of("create")[0]["new"]["data"] == {"a": "YQ=="}

    async def _create(self, world: World, data: dict[str, str], **metadata: Any) -> None:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one", **metadata}, "data": data}
        await world.user.create(SECRETS, body, "default")
