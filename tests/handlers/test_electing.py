"""Whether there is an election, over which Lease, and what is said when it is forbidden."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import ctl
from ctl.client.config.access import Access, Constant
from ctl.client.config.credentials import bearer
from ctl.client.errors import AccessError
from ctl.client.resources import Resource
from ctl.client.rest import Client
from ctl.controller.api.access_review import Rights
from ctl.handlers.declaration.registry import OperatorRegistry
from ctl.handlers.running.election import Candidacy, candidate, lease_name
from ctl.sandbox import LoggedRequest, Match

from .pages import Site
from .world import KEX, Calls, Running, World, identified, rest

pytestmark = pytest.mark.virtual_time

CLUSTER = Resource("kopf.dev", "v1", "clusterkopfpeerings", "ClusterKopfPeering", namespaced=False)
PEERING = Path(__file__).resolve().parents[2] / "examples" / "peering.yaml"


@pytest.mark.parametrize("asked", [True, None])
async def test_an_election_that_is_forbidden(
    world: World, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool | None
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    settings = identified("a", elect=asked, lease_name="op", lease_namespace="default")
    # An account without any role.
    access = Access(server=world.sandbox.url, credentials=Constant(bearer(await token_of(world, "nobody"))))
    async with Client(access) as client:
        candidacy = Candidacy(settings, world.registry, access, account=account(tmp_path))
        rule = (
            "{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]} and "
            "{apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [op], verbs: [get, update, watch]}"
        )
        if asked:
            with pytest.raises(
                AccessError, match="The right to get, create, update leases in the namespace default"
            ) as info:
                await candidate(candidacy, client, Rights(client))
            assert rule in str(info.value)
            return
        alone = await candidate(candidacy, client, Rights(client))
        assert alone is not None
        assert alone.alone == "the right to get, create, update leases in the namespace default is missing"
    (told,) = [record for record in caplog.records if "without leader election" in record.getMessage()]
    assert told.levelno == logging.INFO
    assert rule in told.getMessage()


async def grant(world: World, account: str, kind: str, rules: list[dict[str, Any]]) -> None:
    """Allow an account of the namespace something, by a Role or a ClusterRole."""
    name = f"{account}-{kind.lower()}"
    space = {} if kind == "ClusterRole" else {"namespace": "default"}
    version = "rbac.authorization.k8s.io/v1"
    meta = {"name": name, **space}
    world.sandbox.create({"apiVersion": version, "kind": kind, "metadata": meta, "rules": rules})
    world.sandbox.create(
        {
            "apiVersion": version,
            "kind": f"{kind}Binding",
            "metadata": meta,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
        }
    )


LEASE_RULES = [
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update", "watch"]}
]
RULES = [
    {"apiGroups": ["kopf.dev"], "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["list", "watch"]},
]


class Replica:
    """An operator in a pod, whose account may at first do all but take part in an election."""

    def __init__(self, world: World, name: str, token: str) -> None:
        self.world, self.name, self.calls, self.site = world, name, Calls(), Site()
        self.registry = OperatorRegistry()
        self.running: Running | None = None
        self.during = 0.0
        """How long its handlers take."""

        @ctl.on.login(registry=self.registry, id="login")
        async def login(**_: Any) -> ctl.ConnectionInfo:
            return ctl.ConnectionInfo(server=world.sandbox.url, token=token)

        for activity in ("leading", "standby"):
            getattr(ctl.on, activity)(registry=self.registry, id=activity)(self._note(activity))

        @ctl.on.create(KEX.plural, registry=self.registry, id="create")
        async def create(name: str, patch: Any, **_: Any) -> None:
            self.calls(f"create {name}", {})
            await asyncio.sleep(self.during)
            patch.status["by"] = self.name
            self.calls(f"created {name}", {})

    def _note(self, activity: str) -> Any:
        async def note(**_: Any) -> None:
            self.calls(activity, {})

        return note

    def start(self) -> None:
        settings = identified(self.name, lease_name="op", lease_namespace="default")
        settings.queueing.exit_timeout = 500
        self.running = self.world.start(
            access=None, identity=self.name, registry=self.registry, settings=settings, http=self.site.http
        )

    async def stop(self) -> None:
        assert self.running is not None
        await self.running.stop()

    async def leadership(self) -> str:
        """What the page says."""
        _, text = await self.site.get("/readyz?verbose")
        return next(line for line in text.splitlines() if line.startswith("[+]leadership "))

    async def metric(self, name: str) -> float | None:
        return (await self.site.samples()).get(f'{name}{{name="op"}}')


@pytest.fixture
async def replicas(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Replica]]:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr("ctl.handlers.running.election.is_in_cluster", lambda _: True)
    token = await token_of(world, "op")
    await grant(world, "op", "ClusterRole", RULES)
    found = [Replica(world, name, token) for name in "ab"]
    yield found
    for replica in found:
        if replica.running is not None:
            await replica.stop()


async def test_replicas_that_act_without_an_election_join_it_when_the_rights_come(
    world: World, replicas: list[Replica]
) -> None:
    for replica in replicas:
        replica.start()
    await rest(20)
    for replica in replicas:
        assert replica.calls.names == ["leading"]
        told = await replica.leadership()
        assert "acting without an election" in told
        assert "the right to get, create, update leases in the namespace default is missing" in told
        assert await replica.metric("ctl_leadership_without_election") == 1
        assert await replica.metric("leader_election_master_status") is None
    world.sandbox.faults.answer(503, match=Match(path="selfsubjectaccessreviews"), times=None)
    await rest(100)
    assert all(replica.calls.names == ["leading"] for replica in replicas), (
        "nothing is joined by an answer that has not come"
    )
    world.sandbox.faults.clear()
    await grant(world, "op", "Role", LEASE_RULES)
    await rest(100)
    leader, standby = sorted(replicas, key=lambda replica: replica.calls.names[-1])
    assert leader.calls.names == ["leading", "standby", "leading"]
    assert standby.calls.names == ["leading", "standby"]
    assert "leading, for" in await leader.leadership()
    assert f"standby, the leader is {leader.name}" in await standby.leadership()
    for replica, leads in ((leader, 1), (standby, 0)):
        assert await replica.metric("ctl_leadership_without_election") == 0
        assert await replica.metric("leader_election_master_status") == leads
    for number in range(5):
        await world.create(f"one-{number}")
    await rest(5)
    assert not [name for name in standby.calls.names if name.startswith("create")]
    assert {world.get(f"one-{number}")["status"]["by"] for number in range(5)} == {leader.name}
    await leader.stop()
    await world.create("two")
    await world.until(lambda: (world.get("two").get("status") or {}).get("by") == standby.name)


async def test_what_runs_when_the_election_is_joined_may_end_and_nothing_begins_meanwhile(
    world: World, replicas: list[Replica]
) -> None:
    replica = replicas[0]
    replica.during = 300
    replica.start()
    await rest(100)
    await grant(world, "op", "Role", LEASE_RULES)
    # Long enough before it is asked for the rights again.
    await world.create("one")
    await world.until(lambda: replica.calls.count("create one") == 1)
    replica.during = 0
    await rest(65)
    await world.create("two")
    await rest(100)
    assert "create two" not in replica.calls.names
    assert "standby" not in replica.calls.names
    await world.until(lambda: replica.calls.count("created two") == 1, 200)
    assert replica.calls.names == [
        "leading",
        "create one",
        "created one",
        "standby",
        "leading",
        "create two",
        "created two",
    ]


async def test_a_replica_that_has_joined_never_acts_without_the_lease_again(
    world: World, replicas: list[Replica]
) -> None:
    replica = replicas[0]
    replica.start()
    await rest(20)
    await grant(world, "op", "Role", LEASE_RULES)
    await world.until(lambda: replica.calls.names == ["leading", "standby", "leading"], 100)
    world.sandbox.faults.answer(403, "Forbidden", match=Match(path="/leases"), times=None)
    await rest(60)
    await world.create("one")
    await rest(100)
    assert replica.calls.names == ["leading", "standby", "leading", "standby"]
    world.sandbox.faults.clear()
    await world.until(lambda: replica.calls.count("created one") == 1)


async def test_who_joins_and_is_refused_then_does_nothing_and_tries_again(
    world: World, replicas: list[Replica], caplog: pytest.LogCaptureFixture
) -> None:
    replica, seen = replicas[0], list[LoggedRequest]()
    replica.start()
    await rest(20)

    def later(request: LoggedRequest) -> bool:
        if not any(known is request for known in seen):
            seen.append(request)
        return len(seen) > 1

    rule = world.sandbox.faults.answer(403, match=Match(path="/leases", user_agent="ctl/", when=later), times=None)
    await grant(world, "op", "Role", LEASE_RULES)
    await rest(100)
    assert "The election could not be joined and will be tried again" in caplog.text
    await world.create("one")
    await rest(60)
    assert replica.calls.names == ["leading", "standby"]
    world.sandbox.faults.rules.remove(rule)
    await world.until(lambda: replica.calls.count("created one") == 1, 100)


async def test_replicas_pause_each_other_by_their_peering_until_they_have_joined(
    world: World, replicas: list[Replica]
) -> None:
    await world.sandbox.load_manifest(PEERING.read_text())
    await world.create("default", resource=CLUSTER)

    def records() -> dict[str, Any]:
        return dict(world.get("default", CLUSTER).get("status") or {})

    for replica in replicas:
        replica.start()
    await rest(20)
    await world.create("one")
    await rest(20)
    assert len(records()) == 2
    assert not any("lease" in record for record in records().values())
    assert not any(replica.calls.count("create one") for replica in replicas)
    await grant(world, "op", "Role", LEASE_RULES)
    await rest(200)
    assert [record.get("lease") for record in records().values()] == ["default/op"]
    assert world.get("one")["status"]["by"] in "ab"
    await world.create("two")
    await world.until(lambda: (world.get("two").get("status") or {}).get("by") == next(iter(records())))


@pytest.mark.parametrize("seconds", [0.5, 5, 40, 70])
async def test_a_replica_without_an_election_stops_at_any_time(
    world: World, replicas: list[Replica], seconds: float
) -> None:
    """Also while it is about to join."""
    loop = asyncio.get_running_loop()
    for replica in replicas:
        replica.start()
    await rest(seconds / 2)
    await grant(world, "op", "Role", LEASE_RULES)
    await rest(seconds / 2)
    began = loop.time()
    for replica in replicas:
        await replica.stop()
    assert loop.time() - began < 10


async def test_a_role_that_is_limited_to_the_lease_by_its_name_is_enough(world: World) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    group = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    rules = [
        {**group, "verbs": ["create"]},
        {**group, "resourceNames": ["op"], "verbs": ["get", "update", "watch"]},
    ]
    meta = {"name": "named", "namespace": "default"}
    role = {"kind": "Role", "metadata": meta, "rules": rules}
    binding = {
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "named"},
        "subjects": [{"kind": "ServiceAccount", "name": "named", "namespace": "default"}],
    }
    for plural, body in (("roles", role), ("rolebindings", binding)):
        whole = {"apiVersion": "rbac.authorization.k8s.io/v1", **body}
        await world.user.request("POST", f"{rbac}/{plural}", body=whole, headers={"Content-Type": "application/json"})
    access = Access(server=world.sandbox.url, credentials=Constant(bearer(await token_of(world, "named"))))
    async with Client(access) as client:
        named = identified("a", elect=True, lease_name="op", lease_namespace="default")
        assert await candidate(Candidacy(named, world.registry, access), client, Rights(client)) is not None
        other = identified("a", elect=True, lease_name="other", lease_namespace="default")
        with pytest.raises(AccessError, match=r"The right to get, update leases .* for the Lease 'other'"):
            await candidate(Candidacy(other, world.registry, access), client, Rights(client))


async def token_of(world: World, name: str) -> str:
    """A token of a new service account."""
    core = "/api/v1/namespaces/default/serviceaccounts"
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    await world.user.request("POST", core, body=body, headers={"Content-Type": "application/json"})
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await world.user.request(
        "POST", f"{core}/{name}/token", body=review, headers={"Content-Type": "application/json"}
    )
    token: str = json.loads(answer)["status"]["token"]
    return token


async def test_inside_of_a_cluster_the_lease_is_named_and_placed_by_the_pods_account(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, access = identified("a"), Access(server=world.sandbox.url)
    mounted = account(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    async with Client(access) as client:
        rights = Rights(client)
        found = await candidate(
            Candidacy(settings, world.registry, access, ("src/Main_op.py", "pkg.other"), account=mounted),
            client,
            rights,
        )
        assert found is not None
        assert (found.config.name, found.config.namespace) == ("ctl-cats-main-op", "pets")
        assert found.config.files == ("Main_op.py", "pkg.other")
        chosen = Candidacy(settings, world.registry, access, is_access_chosen=True, account=mounted)
        assert await candidate(chosen, client, rights) is None
        monkeypatch.setenv("KUBECONFIG", "/some/where")
        assert await candidate(Candidacy(settings, world.registry, access, account=mounted), client, rights) is None
        settings.leadership.elect = True
        named = await candidate(Candidacy(settings, world.registry, access, ("a.py",), account=mounted), client, rights)
        assert named is not None
        assert named.config.name.startswith("ctl-")
        assert named.config.name.endswith("-a")
        assert named.config.namespace == "default"


def account(folder: Path) -> Path:
    """A service account as it is mounted in a pod."""
    subject = json.dumps({"sub": "system:serviceaccount:pets:cats"}).encode()
    (folder / "token").write_text(f"e30.{base64.urlsafe_b64encode(subject).decode().rstrip('=')}.x")
    (folder / "namespace").write_text("pets")
    return folder


@pytest.mark.parametrize(
    ("user", "files", "name"),
    [
        ("system:serviceaccount:ns:sa", ["op/main.py"], "ctl-sa-main"),
        ("system:serviceaccount:ns:sa", ["pkg.mod"], "ctl-sa-pkg.mod"),
        ("Jane@Example.org", ["a b.py"], "ctl-jane-example.org-a-b"),
        ("x", [], "ctl-x-operator"),
        ("x", ["y" * 400], f"ctl-x-{'y' * 247}"),
    ],
)
def test_names_of_leases(user: str, files: list[str], name: str) -> None:
    assert lease_name(user, files) == name
