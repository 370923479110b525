"""How soon everything is back after an outage of the server, over real sockets, in virtual time."""

import asyncio
import random
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from ctl.client.config.access import Access
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.client.settings import ClientSettings
from ctl.informers.factory import SharedInformerFactory
from ctl.informers.informer import Informer
from ctl.informers.reflector_state import Phase
from ctl.runtime import clock
from ctl.sandbox import LoggedRequest, Match, Sandbox, SandboxSettings

pytestmark = pytest.mark.virtual_time

KINDS = {
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "services": "Service",
    "pods": "Pod",
    "endpoints": "Endpoints",
    "serviceaccounts": "ServiceAccount",
    "namespaces": "Namespace",
    "nodes": "Node",
}
RESOURCES = [
    Resource("", "v1", plural, kind=kind, namespaced=kind not in {"Namespace", "Node"})
    for plural, kind in KINDS.items()
]
MAPS = RESOURCES[0]
WATCHES = Match(watching=True)
TOKEN = SandboxSettings(clock=clock.now)


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Fleet:
    """A server, and processes that follow it."""

    sandbox: Sandbox
    clients: list[Client] = field(default_factory=list)
    factories: list[SharedInformerFactory] = field(default_factory=list)
    informers: list[Informer] = field(default_factory=list)

    def behind(self) -> list[Informer]:
        return [informer for informer in self.informers if informer.state.phase is not Phase.WATCHING]

    async def back(self, seconds: float = 5.0) -> float:
        """How long it takes until everything is followed."""
        began = now()
        await until(lambda: not self.behind() and self.sandbox.watchers >= len(self.informers), seconds)
        return now() - began


async def until(condition: Callable[[], bool], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the condition is of the world, which tells nobody
            await asyncio.sleep(0.05)


@asynccontextmanager
async def a_fleet(
    size: int = 1,
    resources: list[Resource] = RESOURCES,
    settings: ClientSettings = ClientSettings(),  # noqa: B008 - frozen
) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(Sandbox(settings=TOKEN))
        fleet = Fleet(sandbox)
        for _ in range(size):
            client = Client(Access(sandbox.url), settings)
            await stack.enter_async_context(client)
            factory = SharedInformerFactory(client)
            stack.push_async_callback(factory.stop)
            fleet.clients.append(client)
            fleet.factories.append(factory)
            fleet.informers += [factory.informer(resource) for resource in resources]
            for informer in fleet.informers[-len(resources) :]:
                informer.subscribe("test")
        await fleet.back(30)
        yield fleet


async def stop_and_start(fleet: Fleet, seconds: float) -> None:
    await fleet.sandbox.stop()
    await asyncio.sleep(seconds)
    await fleet.sandbox.start()


async def fail_everything(fleet: Fleet, seconds: float) -> None:
    fleet.sandbox.faults.answer(503, "ServiceUnavailable", times=None)
    fleet.sandbox.faults.cut_watches()
    await asyncio.sleep(seconds)
    fleet.sandbox.faults.clear()


async def reset_everything(fleet: Fleet, seconds: float) -> None:
    fleet.sandbox.faults.refuse(times=None)
    fleet.sandbox.faults.cut_watches()
    await asyncio.sleep(seconds)
    fleet.sandbox.faults.clear()


@pytest.mark.parametrize(
    ("outage", "seconds"),
    [(stop_and_start, 2), (stop_and_start, 70), (stop_and_start, 600), (fail_everything, 70), (reset_everything, 70)],
)
async def test_all_watches_are_back_within_five_seconds_of_the_return_of_the_server(
    outage: Callable[[Fleet, float], object], seconds: float
) -> None:
    async with a_fleet() as fleet:
        for _ in range(2):
            await outage(fleet, seconds)  # type: ignore[misc]
            await fleet.back(5.0)
            await asyncio.sleep(120)


async def test_a_watch_that_is_alone_with_its_server_is_back_as_soon() -> None:
    async with a_fleet(resources=[MAPS]) as fleet:
        for _ in range(5):
            await stop_and_start(fleet, random.uniform(60, 120))
            await fleet.back(5.0)


async def test_what_hangs_at_a_server_that_hangs_is_begun_anew_soon_after_its_end() -> None:
    async with a_fleet(1, RESOURCES[:3], ClientSettings(request_timeout=10.0)) as fleet:
        fleet.sandbox.faults.cut_watches()
        fleet.sandbox.faults.delay(3600, times=None)
        await asyncio.sleep(200)
        fleet.sandbox.faults.clear()
        await fleet.back(15.0)  # the requests in flight may take 10 s


async def hang_everything(fleet: Fleet, seconds: float) -> None:
    """Requests are taken and never answered, not after the return either; the connections stay as they are."""
    fleet.sandbox.faults.cut_watches()
    fleet.sandbox.faults.delay(36_000, times=None)
    await asyncio.sleep(seconds)
    fleet.sandbox.faults.clear()


@pytest.mark.parametrize("seconds", [20, 70, 200, 600])
async def test_requests_that_a_server_swallowed_are_begun_anew_at_its_return(seconds: float) -> None:
    async with a_fleet() as fleet:
        for _ in range(2):
            await hang_everything(fleet, seconds)
            await fleet.back(5.0)
            await asyncio.sleep(120)


async def test_streams_that_an_outage_has_silenced_are_opened_anew_at_its_end() -> None:
    async with a_fleet() as fleet:
        faults = fleet.sandbox.faults
        faults.stall_watches()
        hung = faults.delay(36_000, times=None)
        reading = asyncio.create_task(fleet.clients[0].list(MAPS))
        await asyncio.sleep(40)  # less than a stream may be silent
        faults.rules.remove(hung)
        async with asyncio.timeout(5.0):
            await reading
        maps = fleet.factories[0].informer(MAPS)
        await fleet.clients[0].create(MAPS, {"metadata": {"name": "later"}}, "default")
        await until(lambda: maps.lister.get("later", "default") is not None, 5.0)


async def test_a_slow_list_of_a_server_that_answers_is_waited_for() -> None:
    async with a_fleet(resources=[MAPS]) as fleet:
        fleet.sandbox.log.clear()
        fleet.sandbox.faults.delay(120, times=None, match=Match(path="/configmaps"))
        await fleet.clients[0].list(MAPS)
        asked = Counter(request.path for request in fleet.sandbox.log)
        assert asked["/api/v1/configmaps"] == 1
        assert asked["/readyz"] <= 120 / 10 + 1


async def fail_all_resources(fleet: Fleet, seconds: float) -> None:
    """As behind a proxy, or with a broken etcd: the server says that it is ready, and serves nothing."""
    resources = Match(path="^/api")
    fleet.sandbox.faults.answer(503, "ServiceUnavailable", times=None, match=resources)
    fleet.sandbox.faults.cut_watches()
    await asyncio.sleep(seconds)
    fleet.sandbox.faults.clear()


@pytest.mark.parametrize("seconds", [5, 70, 600])
@pytest.mark.parametrize("kinds", [2, 8])
async def test_all_watches_are_back_soon_when_a_ready_server_serves_resources_again(kinds: int, seconds: float) -> None:
    async with a_fleet(resources=RESOURCES[:kinds]) as fleet:
        for _ in range(2):
            await fail_all_resources(fleet, seconds)
            await fleet.back(5.0)
            await asyncio.sleep(120)


async def test_while_a_ready_server_serves_nothing_a_process_asks_rarely_whether_that_is_over() -> None:
    async with a_fleet() as fleet:
        fleet.sandbox.faults.answer(500, "InternalError", times=None, match=Match(path="^/api"))
        fleet.sandbox.faults.cut_watches()
        await asyncio.sleep(120)
        fleet.sandbox.log.clear()
        await asyncio.sleep(600)
        limits = Counter(request.query.get("limit") == "1" for request in fleet.sandbox.log.select(Match(path="^/api")))
        assert limits[True] <= 600, "one object once a second at most, for all watches together"
        assert limits[False] <= 600 / 30 * 2 * len(fleet.informers)


async def test_who_waits_for_a_connection_to_a_network_that_swallows_all_is_back_as_soon() -> None:
    async with a_fleet(resources=RESOURCES[:3]) as fleet, AsyncExitStack() as stack:
        await fleet.sandbox.stop()
        # Whoever asks for a connection to a full queue gets no answer at all.
        hole = stack.enter_context(socket.create_server(("127.0.0.1", fleet.sandbox.port), backlog=0))
        for _ in range(4):
            plug = stack.enter_context(socket.socket())
            plug.setblocking(False)
            plug.connect_ex(hole.getsockname())
        await asyncio.sleep(300)
        assert len(fleet.behind()) == 3
        await stack.aclose()
        await fleet.sandbox.start()
        await fleet.back(5.0)


async def test_a_request_that_waits_for_its_next_attempt_is_made_soon_after_the_return_of_the_server() -> None:
    async with a_fleet(resources=[MAPS]) as fleet:
        await fleet.sandbox.stop()
        writing = asyncio.create_task(fleet.clients[0].create(MAPS, {"metadata": {"name": "a"}}, "default"))
        await asyncio.sleep(34)
        await fleet.sandbox.start()
        async with asyncio.timeout(5.0):
            await writing


@pytest.mark.parametrize("code", [403, 404, 500, 503])
async def test_a_refusal_of_one_resource_keeps_its_own_pace_whatever_becomes_of_the_others(code: int) -> None:
    async with a_fleet(resources=RESOURCES[:4]) as fleet:
        secrets = Match(path="/secrets")
        fleet.sandbox.faults.answer(code, times=None, match=secrets)
        fleet.sandbox.faults.cut_watches(secrets)
        await asyncio.sleep(300)
        before = len(fleet.sandbox.log.select(secrets))
        for _ in range(300):
            # The others are answered all the time.
            await fleet.clients[0].list(MAPS)
            await asyncio.sleep(2)
        assert len(fleet.sandbox.log.select(secrets)) - before <= 45, (
            "the plateau is 30 to 60 s, twice each (a stream, a page)"
        )


async def test_during_an_outage_a_process_asks_rarely_whether_it_is_over() -> None:
    async with a_fleet() as fleet:
        fleet.sandbox.faults.answer(503, "ServiceUnavailable", times=None)
        fleet.sandbox.faults.cut_watches()
        await asyncio.sleep(120)
        fleet.sandbox.log.clear()
        await asyncio.sleep(600)
        asked = Counter(request.path.startswith("/api") for request in fleet.sandbox.log)
        assert asked[False] <= 600, "once a second at most, for all watches together"
        assert asked[True] <= 600 / 30 * 2 * len(fleet.informers)


async def test_many_processes_are_spread_over_the_first_seconds() -> None:
    async with a_fleet(60, RESOURCES[:1]) as fleet:
        await fleet.sandbox.stop()
        await asyncio.sleep(100)
        seen: list[float] = []

        def note(request: LoggedRequest) -> bool:
            seen.append(now())
            return False

        fleet.sandbox.faults.delay(0, times=None, match=Match(path="configmaps", when=note))
        began = now()
        await fleet.sandbox.start()
        await fleet.back(5.0)
        firsts = Counter(int((moment - began) / 0.5) for moment in seen)
        assert max(firsts.values()) <= 30, firsts
        assert len(firsts) >= 4, firsts
