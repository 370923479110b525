"""Whether there is an election, over which Lease, and what is said when it is forbidden."""

import base64
import json
import logging
from pathlib import Path

import pytest

from ctl.client.credentials import bearer
from ctl.client.endpoint import Access, Constant
from ctl.client.errors import AccessError
from ctl.client.rest import Client
from ctl.controller.rights import Rights
from ctl.handlers.electing import Candidacy, candidate, lease_name

from .world import World, identified

pytestmark = pytest.mark.virtual_time


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
        rule = "apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update, watch]"
        if asked:
            with pytest.raises(
                AccessError, match="The right to get, create, update leases in the namespace default"
            ) as info:
                await candidate(candidacy, client, Rights(client))
            assert rule in str(info.value)
            return
        assert await candidate(candidacy, client, Rights(client)) is None
    (told,) = [record for record in caplog.records if "without leader election" in record.getMessage()]
    assert told.levelno == logging.INFO
    assert rule in told.getMessage()


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
        with pytest.raises(AccessError, match="The right to get, update leases"):
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
        assert (found.settings.name, found.settings.namespace) == ("ctl-cats-main-op", "pets")
        assert found.settings.files == ("Main_op.py", "pkg.other")
        chosen = Candidacy(settings, world.registry, access, is_access_chosen=True, account=mounted)
        assert await candidate(chosen, client, rights) is None
        monkeypatch.setenv("KUBECONFIG", "/some/where")
        assert await candidate(Candidacy(settings, world.registry, access, account=mounted), client, rights) is None
        settings.leadership.elect = True
        named = await candidate(Candidacy(settings, world.registry, access, ("a.py",), account=mounted), client, rights)
        assert named is not None
        assert named.settings.name.startswith("ctl-")
        assert named.settings.name.endswith("-a")
        assert named.settings.namespace == "default"


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
