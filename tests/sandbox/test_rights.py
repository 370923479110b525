"""Users of the settings, with their rights."""

from typing import Any

import aiohttp

from ctl.sandbox import Sandbox, SandboxSettings, User

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
RBAC = "rbac.authorization.k8s.io"
USERS = {"t-ann": User("ann", ("staff",)), "t-bob": User("bob")}


async def ask(sandbox: Sandbox, method: str, path: str, token: str = "", **headers: str) -> tuple[int, Any]:
    if token:
        headers["Authorization"] = f"Bearer {token}"
    body: Any = {} if method == "POST" else None
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, sandbox.url + path, json=body, headers=headers) as response,
    ):
        return response.status, await response.json()


def allow(sandbox: Sandbox, subject: dict[str, Any]) -> None:
    rule = {"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]}
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": "readers"}}
    sandbox.create({**head, "kind": "ClusterRole", "rules": [rule]})
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "readers"}
    sandbox.create({**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]})


async def test_users_are_held_to_their_rights() -> None:
    async with Sandbox(settings=SandboxSettings(tokens=frozenset({"root"}), users=USERS)) as sandbox:
        allow(sandbox, {"kind": "Group", "name": "staff", "apiGroup": RBAC})
        assert (await ask(sandbox, "GET", CONFIGMAPS, "root"))[0] == 200
        assert (await ask(sandbox, "GET", CONFIGMAPS, "t-ann"))[0] == 200
        assert (await ask(sandbox, "DELETE", CONFIGMAPS, "t-ann"))[0] == 403
        code, status = await ask(sandbox, "GET", CONFIGMAPS, "t-bob")
        words = 'User "bob" cannot list resource "configmaps" in API group "" in the namespace "default"'
        assert (code, status["message"]) == (403, f"configmaps is forbidden: {words}")
        assert (await ask(sandbox, "GET", CONFIGMAPS, "other"))[0] == 401
        assert (await ask(sandbox, "GET", CONFIGMAPS))[0] == 401
        info = (await ask(sandbox, "POST", WHOAMI, "t-ann"))[1]["status"]["userInfo"]
        assert info == {"username": "ann", "groups": ["staff", "system:authenticated"]}


async def test_nobody_is_anonymous_with_authorization() -> None:
    async with Sandbox(settings=SandboxSettings(users=USERS, authorization=True)) as sandbox:
        code, status = await ask(sandbox, "GET", CONFIGMAPS)
        assert (code, 'User "system:anonymous" cannot list' in status["message"]) == (403, True)
        assert (await ask(sandbox, "GET", "/version"))[0] == 200
        assert (await ask(sandbox, "GET", "/apis"))[0] == 403
        allow(sandbox, {"kind": "User", "name": "bob", "apiGroup": RBAC})
        assert (await ask(sandbox, "GET", CONFIGMAPS, "t-bob"))[0] == 200


async def test_everybody_may_do_everything_by_default_and_act_as_others() -> None:
    async with Sandbox() as sandbox:
        assert (await ask(sandbox, "GET", CONFIGMAPS, "any"))[0] == 200
        as_bob = {"Impersonate-User": "bob"}
        assert (await ask(sandbox, "GET", CONFIGMAPS, **as_bob))[0] == 403
        info = (await ask(sandbox, "POST", WHOAMI, **as_bob))[1]["status"]["userInfo"]
        assert info == {"username": "bob", "groups": ["system:authenticated"]}


async def test_who_may_not_act_as_others_is_refused() -> None:
    async with Sandbox(settings=SandboxSettings(users=USERS)) as sandbox:
        code, status = await ask(sandbox, "GET", CONFIGMAPS, "t-ann", **{"Impersonate-User": "bob"})
        assert (code, 'cannot impersonate resource "users"' in status["message"]) == (403, True)


async def test_tokens_change_while_the_server_runs() -> None:
    async with Sandbox(settings=SandboxSettings(tokens=frozenset({"first"}))) as sandbox:
        assert (await ask(sandbox, "GET", CONFIGMAPS, "first"))[0] == 200
        sandbox.take_tokens({"second"})
        assert (await ask(sandbox, "GET", CONFIGMAPS, "first"))[0] == 401
        assert (await ask(sandbox, "GET", CONFIGMAPS, "second"))[0] == 200


async def test_managed_fields_can_be_left_out() -> None:
    async with Sandbox(settings=SandboxSettings(managed_fields=False)) as sandbox:
        code, made = await ask(sandbox, "GET", "/api/v1/namespaces/default")
        assert code == 200
        body = sandbox.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}})
        assert "managedFields" not in made["metadata"]
        assert "managedFields" not in body["metadata"]
