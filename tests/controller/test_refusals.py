"""A refusal is what the server says, not what has become of the object: admission webhooks may answer with any code and any words."""

import asyncio

import pytest

from ctl.client.errors import Conflict
from ctl.client.objects import Object
from ctl.client.rest import Client, PatchKind
from ctl.controller.api.client import CachedClient
from ctl.controller.building.builder import controller
from ctl.sandbox import Match, Sandbox

from .test_client import CONFIGMAPS, KEY, Controllers, a_config, a_set, cached, controllers, nothing, sandbox

__all__ = ["cached", "controllers", "sandbox"]

pytestmark = pytest.mark.virtual_time

DENIED = 'admission webhook "keep.example.com" denied the request: it is in use'


def deny(sandbox: Sandbox, method: str, times: int | None = None) -> None:
    sandbox.faults.answer(
        409, "Conflict", DENIED, match=Match(method=method, user_agent="ctl/", path="/one"), times=times
    )


def tries(sandbox: Sandbox, method: str) -> int:
    return len([request for request in sandbox.write_log if (request.method, request.code) == (method, 409)])


@pytest.fixture
async def one(cached: CachedClient) -> Object:
    """A ConfigMap that everybody knows of."""
    obj = await cached.create("configmaps", a_config(a="1"))
    await asyncio.sleep(1)
    return obj


async def test_a_refused_deletion_hides_no_living_object(
    controllers: Controllers, cached: CachedClient, sandbox: Sandbox, one: Object
) -> None:
    other = await controllers.start(controller("configmaps").named("other"), nothing)
    deny(sandbox, "DELETE")
    with pytest.raises(Conflict, match="it is in use"):
        await cached.delete("configmaps", one)
    for client in (cached, other):
        found = client.get("configmaps", KEY)
        assert found is not None, "it lives"
        assert found.uid == one.uid
    sandbox.faults.clear()
    await cached.delete("configmaps", one)
    assert cached.get("configmaps", KEY) is None


async def test_a_deletion_that_meets_a_namesake_hides_the_deleted_one_alone(
    cached: CachedClient, sandbox: Sandbox, user: Client, one: Object
) -> None:
    sandbox.faults.stall_watches()
    await user.delete(CONFIGMAPS, "one", "default")
    namesake = await user.create(CONFIGMAPS, a_config(a="2"), "default")
    await cached.delete("configmaps", one)
    found = cached.get("configmaps", KEY)
    assert found is not None
    assert found.uid == namesake.uid
    assert (await user.get(CONFIGMAPS, "one", "default")).uid == namesake.uid


async def test_what_is_not_there_is_gone(cached: CachedClient, sandbox: Sandbox, user: Client, one: Object) -> None:
    sandbox.faults.stall_watches()
    await user.delete(CONFIGMAPS, "one", "default")
    assert cached.get("configmaps", KEY) is not None, "nobody has told of it yet"
    await cached.delete("configmaps", one)
    assert cached.get("configmaps", KEY) is None


async def test_a_refusal_of_a_change_is_raised_as_it_is(cached: CachedClient, sandbox: Sandbox, one: Object) -> None:
    """It is no conflict of versions: the object is as it was, and computing the same again helps nobody."""
    deny(sandbox, "PATCH")
    with pytest.raises(Conflict, match="it is in use"):
        await cached.change("configmaps", KEY, lambda body: body["data"].update(a="2"))
    with pytest.raises(Conflict, match="it is in use"):
        await cached.ensure("configmaps", a_config(a="2"))
    with pytest.raises(Conflict, match="it is in use"):
        await cached.add_finalizer("configmaps", one, "example.com/keep")
    assert tries(sandbox, "PATCH") == 3, "one for each"


async def test_a_refusal_of_a_status_is_raised_as_it_is(cached: CachedClient, sandbox: Sandbox) -> None:
    obj = await cached.create("sets.kopf.dev", a_set())
    deny(sandbox, "PATCH")
    with pytest.raises(Conflict, match="it is in use"):
        await cached.set_status("sets.kopf.dev", obj, {"replicas": 1})


async def test_a_conflict_of_versions_is_computed_anew_as_before(
    cached: CachedClient, sandbox: Sandbox, user: Client, one: Object
) -> None:
    sandbox.faults.stall_watches()
    await user.patch(
        CONFIGMAPS, "one", "default", [{"op": "add", "path": "/data/b", "value": "1"}], kind=PatchKind.JSON
    )
    await cached.change("configmaps", KEY, lambda body: body["data"].update(a="2"))
    assert (await user.get(CONFIGMAPS, "one", "default")).body()["data"] == {"a": "2", "b": "1"}
