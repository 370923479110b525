"""Three replicas of an operator as processes: one writes at any moment, whoever is killed, cut off or told to stop."""

import asyncio
import itertools
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from conformance.api import Api, Body
from conformance.spaces import provide
from controlplane import build
from controlplane.cluster import ControlPlane, Options
from informers.proxy import Proxy, proxied
from operators.cluster import Examples
from operators.processes import Operator, ctl_command, running
from targets import Target, of_control_plane

from ctl.sandbox import Sandbox

FOLDER = Path(__file__).parent
OPERATOR = FOLDER / "replica_operator.py"
STUCK = FOLDER / "stuck_operator.py"
BUSY = FOLDER / "busy_operator.py"
CRD = FOLDER.parents[1] / "examples" / "01-minimal" / "crd.yaml"
KILLS = int(os.environ.get("SOAK_KILLS", "2"))
OBJECTS = 5
DURATION = 9
"""Of the lease, in seconds; it is renewed every half second, and lost after two thirds: a leader that gets no CPU for some stays one."""
SHORT = 3
"""The same where it does not matter who of them leads."""
SECONDS = 60.0
EITHER = ("leads from now on", "Standby; the leader is")
"""What a replica says once it takes part."""
STOPS = 2
"""How often a leader is stopped for longer than its lease lasts."""
ATTEMPTS = 3
"""What is to be quick is so once in so many times, also on a machine that is busy with others."""
WORTH, LONGEST = 0.1, 180.0
"""Who starts is waited for while it gets on by so many seconds of work in SECONDS, and for so long at most."""

pytestmark = pytest.mark.timeout(300 + KILLS * 60)


@dataclass(frozen=True)
class Write:
    """One write of an operator that a server has received: whose, and when it was made (by the operator's clock)."""

    by: str
    at: float


@dataclass(frozen=True)
class Ground:
    """A server that remembers all writes."""

    target: Target
    writes: Callable[[], list[Write]]
    """All writes of operators to objects, in the order in which they were received."""
    restart: Callable[[], None] | None = None


@dataclass
class Crew:
    """The replicas of one operator."""

    ground: Ground
    api: Api
    examples: Examples
    folder: Path
    stack: ExitStack
    members: dict[str, Operator] = field(default_factory=dict)
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def start(
        self, kubeconfig: Path | None = None, operator: Path = OPERATOR, stuck: str = "thread", lease: int = DURATION
    ) -> str:
        """Start one more; gives its name."""
        name = f"r{next(self.numbers)}"
        command = ctl_command(
            *("run", "-n", self.examples.namespace, "--leader-elect", "--lease-name", "replicas"),
            *("--lease-namespace", self.examples.namespace, str(operator)),
        )
        config = str(kubeconfig or self.ground.target.kubeconfig)
        given = {"REPLICA": name, "STUCK": stuck, "LEASE": str(lease)}
        self.members[name] = self.stack.enter_context(
            running(command, self.ground.target, self.folder / name, KUBECONFIG=config, **given)
        )
        return name

    async def said(self, name: str, *texts: str) -> None:
        """Wait until a replica has printed one of these, for as long as it gets on: a busy machine takes its time to start one."""
        member = self.members[name]
        what = f"{name} to say {' or '.join(map(repr, texts))}"
        await self.until(lambda: any(text in member.text() for text in texts), what, progress=member.worked)

    async def until(
        self,
        holds: Callable[[], object],
        what: str,
        seconds: float = SECONDS,
        progress: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Wait until something holds; `progress` grows, in seconds of work, while it is worth waiting for, LONGEST at most."""
        began = time.monotonic()
        deadline, end, done = began + seconds, began + LONGEST, progress()
        while not holds():
            if progress() >= done + WORTH:
                deadline, done = min(end, time.monotonic() + seconds), progress()
            if time.monotonic() >= deadline:
                logs = "\n".join(f"--- {name}:\n{member.text()[-6000:]}" for name, member in self.members.items())
                pytest.fail(f"waited {time.monotonic() - began:.0f} s for {what}\n{logs}")
            await asyncio.sleep(0.1)

    async def lease(self) -> Body:
        """The spec of the Lease."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.examples.namespace}/leases/replicas"
        answer = await self.api.call("GET", path)
        found: Body = answer.body["spec"] if answer.code == 200 else {}
        return found

    async def writer(self, after: float = 0.0, other: str = "", seconds: float = SECONDS) -> Write:
        """Wait for a write that was made after a moment, and not by this replica; gives the first such."""
        found: list[Write] = []

        def look() -> bool:
            found[:] = [write for write in self.ground.writes() if write.at > after and write.by != other]
            return bool(found)

        await self.until(look, f"a write after {after}, not by {other or 'nobody'}", seconds)
        return min(found, key=lambda write: write.at)

    async def check(self) -> None:
        """No two replicas wrote at any moment: there were no more changes of the writer than of the leader."""
        writers = [name for name, _ in itertools.groupby(write.by for write in self.ground.writes())]
        transitions = (await self.lease())["leaseTransitions"]
        assert len(writers) <= transitions + 1, (writers, transitions)


async def install(target: Target) -> None:
    async with Api(target) as api:
        await provide(api, yaml.safe_load(CRD.read_text()))


@pytest.fixture(params=["real", "sandbox"])
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    if request.param == "sandbox":
        async with Sandbox() as sandbox:
            kubeconfig = tmp_path / "kubeconfig"
            sandbox.kubeconfig(kubeconfig)

            def received() -> list[Write]:
                bodies = (log.json() for log in sandbox.write_log if "/kopfexamples/" in log.path)
                return writes_of(bodies)

            yield Ground(Target(name="sandbox", url=sandbox.url, kubeconfig=kubeconfig), received)
        return
    if os.environ.get("KUBECONFIG"):
        pytest.skip("needs a server whose audit log can be read; the one of KUBECONFIG is not ours")
    if not build.is_built():
        pytest.fail("The real control plane is not built yet: run `make e2e`, or python e2e/controlplane/build.py.")
    with ControlPlane(Options(audit=True)) as cluster:

        def audited() -> list[Write]:
            events = [
                event
                for event in cluster.audit_events()
                if event["verb"] == "patch" and event.get("objectRef", {}).get("resource") == "kopfexamples"
            ]
            events.sort(key=lambda event: str(event["requestReceivedTimestamp"]))
            return writes_of(event.get("requestObject") for event in events)

        yield Ground(of_control_plane(cluster), audited, cluster.restart_api_server)


def writes_of(bodies: Iterable[object]) -> list[Write]:
    """The writes among the bodies of requests."""
    found = []
    for body in bodies:
        status = body.get("status") if isinstance(body, dict) else None
        if status and "by" in status:
            found.append(Write(status["by"], status["at"]))
    return found


@pytest.fixture
async def crew(ground: Ground, tmp_path: Path) -> AsyncIterator[Crew]:
    await install(ground.target)
    async with Api(ground.target) as api:
        space = "replicas"
        await api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
        examples = Examples(api, space)
        for number in range(OBJECTS):
            await examples.create(f"n{number}")
        with ExitStack() as stack:
            yield Crew(ground, api, examples, tmp_path, stack)


async def three(crew: Crew) -> str:
    """Start three; gives the leader."""
    first = crew.start()
    await crew.said(first, f"{first} leads from now on")
    for name in [crew.start(), crew.start()]:
        await crew.said(name, f"Standby; the leader is {first}.")
    await crew.writer()
    return first


async def any_three(crew: Crew) -> None:
    """Start three with a short lease, whoever leads."""
    for name in [crew.start(lease=SHORT) for _ in range(3)]:
        await crew.said(name, *EITHER)
    await crew.writer()


async def test_when_leaders_are_killed_another_one_writes_within_the_lease_and_five_seconds(crew: Crew) -> None:
    await any_three(crew)
    waits = []
    for _ in range(KILLS):
        leader = (await crew.lease())["holderIdentity"]
        await asyncio.to_thread(crew.members[leader].kill)
        killed = time.time()
        first = await crew.writer(after=killed, other=leader)
        waits.append(first.at - killed)
        await crew.said(crew.start(lease=SHORT), *EITHER)
    print("seconds without a leader after kills:", *(f"{wait:.2f}" for wait in waits))
    assert sorted(waits)[len(waits) // 2 - 1] < SHORT + 5, "half of them, on any machine"
    await crew.check()


async def test_a_leader_that_is_told_to_stop_hands_over_within_a_second(crew: Crew) -> None:
    leader = await three(crew)
    for _ in range(ATTEMPTS):
        asked = time.time()
        assert await asyncio.to_thread(crew.members[leader].stop) == 0
        first = await crew.writer(after=asked, other=leader)
        last = max(write.at for write in crew.ground.writes() if write.by == leader)
        took = first.at - asked
        print(f"seconds from SIGTERM to the successor's first write: {took:.3f}; without writes: {first.at - last:.3f}")
        assert last < first.at
        await crew.said(first.by, f"{first.by} leads from now on")
        if took < 1:
            break
        leader, another = first.by, crew.start()
        await crew.said(another, f"Standby; the leader is {leader}.")
    assert took < 1
    await crew.check()


async def test_a_leader_whose_network_is_cut_stops_before_another_one_starts(crew: Crew, tmp_path: Path) -> None:
    server = urlsplit(crew.ground.target.url)
    assert server.hostname is not None
    assert server.port is not None
    async with proxied(server.hostname, server.port) as proxy:
        cut = crew.start(kubeconfig=through(proxy, crew.ground.target, tmp_path / "cut-off"))
        await crew.said(cut, f"{cut} leads from now on")
        other = crew.start()
        await crew.said(other, f"Standby; the leader is {cut}.")
        await crew.writer()
        proxy.close()
        began = time.time()
        first = await crew.writer(after=began, other=cut)
        assert first.by == other
        assert first.at - began < DURATION + 15
        await crew.said(cut, f"{cut} stands by from now on")
        proxy.reopen()
        await crew.said(cut, f"Standby; the leader is {other}.")
        assert crew.members[cut].process.poll() is None
        assert await asyncio.to_thread(crew.members[other].stop) == 0
        await crew.writer(after=time.time(), other=other)
    received = crew.ground.writes()
    assert max(write.at for write in received if write.by == cut and write.at < first.at) < first.at
    await crew.check()


async def test_when_the_api_server_is_restarted_under_them_one_leads_again(crew: Crew) -> None:
    if crew.ground.restart is None:
        pytest.skip("the sandbox has no process to restart")
    await any_three(crew)
    for _ in range(2):
        await asyncio.to_thread(crew.ground.restart)
        await crew.writer(after=time.time())
    await asyncio.sleep(1)
    assert all(member.process.poll() is None for member in crew.members.values())
    await crew.check()


@pytest.mark.parametrize(
    ("stuck", "said", "why"),
    [
        ("thread", "sticking to n0", "the handlers of"),
        ("loop", "blocking the loop for n0", "what blocks the event loop"),
    ],
)
async def test_what_cannot_be_cancelled_ends_the_process_before_another_one_may_lead(
    crew: Crew, tmp_path: Path, stuck: str, said: str, why: str
) -> None:
    server = urlsplit(crew.ground.target.url)
    assert server.hostname is not None
    assert server.port is not None
    async with proxied(server.hostname, server.port) as proxy:
        config = through(proxy, crew.ground.target, tmp_path / "cut-off")
        for _ in range(ATTEMPTS):
            name = crew.start(kubeconfig=config, operator=STUCK, stuck=stuck)
            await crew.said(name, said)
            proxy.close()
            began = time.monotonic()
            process = crew.members[name].process
            assert await asyncio.to_thread(process.wait, SECONDS) == 1
            took = time.monotonic() - began
            print(f"the process with a stuck {stuck} was gone {took:.2f} s after it was cut off")
            told = f"Error: The lease replicas/replicas was lost while what cannot be cancelled goes on: {why}"
            assert told in crew.members[name].text()
            proxy.reopen()
            if took < DURATION + 2:
                break
        # The renew deadline, and no longer than the lease lasts; what it takes to end a process comes on top. Its writes have been
        # fenced since the deadline.
        assert took < DURATION + 2


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="The system has no such signal.")
async def test_a_leader_that_was_stopped_and_goes_on_calls_no_handler(crew: Crew) -> None:
    """Of what was ready to run, whether or not its loop has heard that the lease is over."""
    late = 0
    names = [crew.start(operator=BUSY, lease=SHORT) for _ in range(2)]
    for _ in range(STOPS):
        leader = await caller(crew, names, time.monotonic())
        other = next(name for name in names if name != leader)
        process, losses = crew.members[leader].process, lost(crew.members[leader])
        process.send_signal(signal.SIGSTOP)
        try:
            stopped = time.monotonic()
            await caller(crew, [other], stopped)
        finally:
            resumed = time.monotonic()
            process.send_signal(signal.SIGCONT)
        await crew.until(lambda: lost(crew.members[leader]) > losses, "the loss to be noticed")  # noqa: B023
        late += sum(at >= resumed for at in called(crew.members[leader]))
        # It leads again after the other one.
        assert await asyncio.to_thread(crew.members[other].stop) == 0
        names = [leader, crew.start(operator=BUSY, lease=SHORT)]
    # One may have been stopped between its look at the clock and the call.
    assert late < STOPS


async def caller(crew: Crew, names: list[str], after: float) -> str:
    """Wait for a call that began after a moment; gives whose."""
    found: list[str] = []

    def look() -> bool:
        found[:] = [name for name in names if any(at > after for at in called(crew.members[name]))]
        return bool(found)

    await crew.until(look, f"a call of {names}")
    return found[0]


def lost(member: Operator) -> int:
    """How often a replica has begun to stand by."""
    return member.text().count("stands by from now on")


def called(member: Operator) -> list[float]:
    """When the handlers of a replica were called, by the clock that all processes have in common."""
    return [float(found) for found in re.findall(r"^called (\S+)$", member.text(), re.MULTILINE)]


async def test_threads_that_are_at_work_do_not_hold_up_the_end_nor_the_release(crew: Crew) -> None:
    stuck = crew.start(operator=STUCK)
    await crew.said(stuck, "sticking to n0")
    assert await asyncio.to_thread(crew.members[stuck].stop) == 0
    assert (await crew.lease())["holderIdentity"] == ""


def through(proxy: Proxy, target: Target, kubeconfig: Path) -> Path:
    """A kubeconfig of the same server by way of a proxy."""
    config = yaml.safe_load(target.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    cluster["server"] = f"{urlsplit(target.url).scheme}://127.0.0.1:{proxy.listening}"
    kubeconfig.write_text(yaml.safe_dump(config))
    return kubeconfig
