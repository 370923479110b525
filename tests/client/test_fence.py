"""What a client writes while it may, and no longer; against the sandbox, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from ctl.client.config.access import Access, Authentication
from ctl.client.errors import Conflict, LostAnswer, NotFound
from ctl.client.fence import NotLeading
from ctl.client.resources import Resource
from ctl.client.rest import Client, PatchKind
from ctl.sandbox import Match, Sandbox

pytestmark = pytest.mark.virtual_time

MAPS = Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)
REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", namespaced=False)
WRITES = Match(path="configmaps/a")


@dataclass
class Lease:
    """A fence that ends at a moment of the loop's time; None: never."""

    until: float | None
    term: int = 1
    written: list[tuple[str, str | None]] = field(default_factory=list)

    def left(self) -> float | None:
        return None if self.until is None else self.until - asyncio.get_running_loop().time()

    def wrote(self, resource: Resource, version: str | None) -> None:
        self.written.append((resource.name, version))


def _now() -> float:
    return asyncio.get_running_loop().time()


def _body(name: str = "a") -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default"}}


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        sandbox.create({"apiVersion": "v1", "kind": "ConfigMap", **_body()})
        yield sandbox


@pytest.fixture
def lease() -> Lease:
    return Lease(None)


@pytest.fixture
async def client(sandbox: Sandbox, lease: Lease) -> AsyncIterator[Client]:
    async with Client(Access(sandbox.url), fence=lease) as client:
        yield client


async def test_every_write_is_told_with_its_version(client: Client, lease: Lease) -> None:
    created = await client.create(MAPS, _body("b"))
    patched = await client.patch(MAPS, "b", "default", {"data": {"x": "1"}})
    replaced = await client.replace(MAPS, patched.body() | {"data": {}}, namespace="default", name="b")
    held = await client.patch(MAPS, "b", "default", {"metadata": {"finalizers": ["x.dev/y"]}})
    marked = await client.delete(MAPS, "b", "default")
    assert marked is not None
    await client.list(MAPS)
    await client.get(MAPS, "a", "default")
    await client.delete(MAPS, "a", "default")
    expected = [each.resource_version for each in (created, patched, replaced, held, marked)]
    assert lease.written == [("configmaps", version) for version in expected]


async def test_after_the_end_every_write_is_refused_before_anything_is_sent(
    sandbox: Sandbox, client: Client, lease: Lease
) -> None:
    lease.until = _now()
    sandbox.log.clear()
    writes = (
        client.create(MAPS, _body("b")),
        client.replace(MAPS, _body(), namespace="default", name="a"),
        client.patch(MAPS, "a", "default", {"data": {"x": "1"}}),
        client.delete(MAPS, "a", "default"),
        client.request("POST", "/api/v1/namespaces/default/configmaps", body=_body("b")),
    )
    for write in writes:
        with pytest.raises(NotLeading, match="does not hold the lease") as caught:
            await write
        assert not caught.value.sent
        assert not caught.value.retriable
    assert len(sandbox.log) == 0
    assert lease.written == []


async def test_what_stores_nothing_and_what_keeps_leases_alive_passes(client: Client, lease: Lease) -> None:
    lease.until = _now() - 100
    assert (await client.get(MAPS, "a", "default")).name == "a"
    assert len(await client.list(MAPS, "default")) == 1
    await client.request("HEAD", "/version")
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    await client.create(REVIEWS, {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", **review})
    await client.request(
        "PATCH",
        "/api/v1/namespaces/default/configmaps/a",
        params={"dryRun": "All"},
        body={"data": {"x": "1"}},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    await client.patch(MAPS, "a", "default", {"data": {"x": "1"}}, channel="renewal")
    assert lease.written == []


async def test_a_write_is_given_up_when_the_lease_ends(sandbox: Sandbox, client: Client, lease: Lease) -> None:
    sandbox.faults.delay(60, match=WRITES)
    began = _now()
    lease.until = began + 7
    with pytest.raises(NotLeading, match="given up") as caught:
        await client.patch(MAPS, "a", "default", {"data": {"x": "1"}})
    assert _now() - began == pytest.approx(7, abs=0.1)
    assert caught.value.sent
    assert lease.written == [("configmaps", None)]


async def test_a_renewal_lets_a_slow_write_go_on(sandbox: Sandbox, client: Client, lease: Lease) -> None:
    sandbox.faults.delay(60, match=WRITES, times=1)
    lease.until = _now() + 10

    async def renew() -> None:
        while True:
            await asyncio.sleep(2)
            lease.until = _now() + 10

    renewing = asyncio.create_task(renew())
    try:
        assert (await client.patch(MAPS, "a", "default", {"data": {"x": "1"}})).name == "a"
    finally:
        renewing.cancel()


async def test_retries_end_with_the_lease(sandbox: Sandbox, client: Client, lease: Lease) -> None:
    sandbox.faults.answer(503, match=WRITES, times=None)
    began = _now()
    lease.until = began + 10
    with pytest.raises(NotLeading) as caught:
        await client.patch(MAPS, "a", "default", {"data": {"x": "1"}})
    assert _now() - began == pytest.approx(10, abs=0.1)
    assert caught.value.sent, "a server that fails may have applied it"
    # 0, 1, 2, 4, 7 s; the next one would have come after the end
    assert len(sandbox.log.select(WRITES)) == 5


async def test_a_write_belongs_to_the_term_in_which_it_began(sandbox: Sandbox, client: Client, lease: Lease) -> None:
    sandbox.faults.refuse(match=WRITES, times=1)
    writing = asyncio.create_task(client.patch(MAPS, "a", "default", {"data": {"x": "1"}}))
    await asyncio.sleep(0.5)
    # Lost, and won again, during the pause before the second attempt.
    lease.term += 1
    with pytest.raises(NotLeading):
        await writing
    stored = sandbox.get("v1", "ConfigMap", "a")
    assert stored is not None
    assert "data" not in stored


async def test_an_end_that_comes_while_the_loop_is_blocked_lets_nothing_out(sandbox: Sandbox) -> None:
    """The last look is at the clock, just before the first byte."""

    class Blocked(Lease):
        def __init__(self) -> None:
            super().__init__(None)
            self.over = False

        def left(self) -> float | None:
            return 0.0 if self.over else 5.0

    class Slow:
        async def authentication(self, *, period: float) -> Authentication:
            # The lease ends, by the clock, while the request is being made ready; no timer has had a chance to say so.
            asyncio.get_running_loop().call_soon(setattr, fence, "over", True)
            return Authentication()

        async def renew(self, refused: Authentication) -> Authentication:
            return refused

    fence = Blocked()
    async with Client(Access(sandbox.url, credentials=Slow()), fence=fence) as client:
        with pytest.raises(NotLeading) as caught:
            await client.patch(MAPS, "a", "default", {"data": {"x": "1"}})
    assert not caught.value.sent
    assert not sandbox.log.select(WRITES)


async def test_what_nobody_knows_is_told_as_such(sandbox: Sandbox, client: Client, lease: Lease) -> None:
    sandbox.faults.lose_answer(match=WRITES)
    with pytest.raises(LostAnswer):
        await client.replace(MAPS, _body(), namespace="default", name="a")
    sandbox.faults.delay(10, match=WRITES, times=1)
    writing = asyncio.create_task(client.patch(MAPS, "a", "default", {"data": {"x": "1"}}))
    await asyncio.sleep(1)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    assert lease.written == [("configmaps", None)] * 2


async def test_refusals_of_the_server_are_no_writes(client: Client, lease: Lease) -> None:
    with pytest.raises(NotFound):
        await client.patch(MAPS, "absent", "default", {})
    stale = (await client.get(MAPS, "a", "default")).body()
    stale["metadata"]["resourceVersion"] = "1"
    with pytest.raises(Conflict):
        await client.replace(MAPS, stale, namespace="default", name="a")
    assert lease.written == []


async def test_a_fence_can_be_set_and_taken_away(sandbox: Sandbox, lease: Lease) -> None:
    async with Client(Access(sandbox.url)) as client:
        await client.patch(MAPS, "a", "default", {"data": {"x": "1"}})
        lease.until = _now()
        client.fence = lease
        with pytest.raises(NotLeading):
            await client.patch(MAPS, "a", "default", {"data": {"x": "2"}}, kind=PatchKind.MERGE)
        client.fence = None
        await client.patch(MAPS, "a", "default", {"data": {"x": "3"}})


async def test_an_end_closer_than_clocks_can_tell_is_an_end(sandbox: Sandbox, client: Client, lease: Lease) -> None:
    sandbox.faults.delay(1, match=WRITES)
    lease.until = _now() + 1e-9
    with pytest.raises(NotLeading):
        await client.patch(MAPS, "a", "default", {"data": {"x": "1"}})
