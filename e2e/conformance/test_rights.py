"""Tokens of service accounts, and what their bearers may do: RBAC, and the reviews that tell of it."""

import asyncio
import dataclasses
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from conformance.api import MERGE, Api, Body
from conformance.spaces import Space, configmap
from targets import Target

RBAC = "rbac.authorization.k8s.io"
SECONDS = 60.0
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@dataclass(frozen=True)
class Account:
    """A service account of a test's own with a client that bears its token."""

    name: str
    client: Api
    admin: Api
    space: Space

    async def role(self, name: str, *rules: Body, group: bool = False) -> None:
        """Give the account a Role."""
        path = self.space.grouped(f"{RBAC}/v1", "roles")
        await self.admin.create(path, {"metadata": {"name": name}, "rules": list(rules)})
        await self.bind(name, "Role", name, group=group)

    async def bind(self, name: str, kind: str, role: str, *, group: bool = False) -> None:
        """Bind a role in the test's namespace."""
        subject = {"kind": "ServiceAccount", "name": "one", "namespace": self.space.name}
        if group:
            subject = {"kind": "Group", "name": f"system:serviceaccounts:{self.space.name}", "apiGroup": RBAC}
        reference = {"kind": kind, "name": role, "apiGroup": RBAC}
        body = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        await self.admin.create(self.space.grouped(f"{RBAC}/v1", "rolebindings"), body)
        # The real server looks at its caches.
        await settled(self)

    async def may(self, **attributes: str) -> Body:
        """What a SelfSubjectAccessReview says."""
        body = {"spec": {"resourceAttributes": attributes}}
        status: Body = (await self.client.create(f"{AUTHORIZATION}/selfsubjectaccessreviews", body))["status"]
        return status


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + SECONDS
    while not await holds():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


async def settled(account: Account) -> None:
    """Wait until roles and bindings made before are known: the server learns of each of the four kinds apart, in their order.

    A role and a binding of each sort are made and seen to give a right, and removed and seen to give none.
    """
    admin, namespace = account.admin, account.space.name
    name = f"probe-{secrets.token_hex(4)}"
    everywhere = f"/apis/{RBAC}/v1"
    for kind, place in (("Role", account.space.grouped(f"{RBAC}/v1", "")), ("ClusterRole", f"{everywhere}/")):
        plural, group = f"{kind.lower()}s", f"{name}-{kind.lower()}"
        right = {"verb": "get", "group": group, "resource": "probe", "namespace": namespace}
        rules = [{"verbs": ["get"], "apiGroups": [group], "resources": ["probe"]}]
        await admin.create(f"{place}{plural}", {"metadata": {"name": name}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": "one", "namespace": namespace}
        reference = {"kind": kind, "name": name, "apiGroup": RBAC}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        await admin.create(f"{place}{kind.lower()}bindings", binding)

        async def is_given(right: dict[str, str] = right) -> bool:
            allowed: bool = (await account.may(**right))["allowed"]
            return allowed

        async def is_taken(right: dict[str, str] = right) -> bool:
            return not await is_given(right)

        await until(is_given, f"the server never took notice of the {kind} {name}")
        # In this order: a binding to a role that is missing would be complained of.
        await admin.delete(f"{place}{kind.lower()}bindings/{name}")
        await until(is_taken, f"the server never took notice of the end of the {kind}Binding {name}")
        await admin.delete(f"{place}{plural}/{name}")


@pytest.fixture
async def account(api: Api, space: Space, target: Target) -> AsyncIterator[Account]:
    await api.create(space.core("serviceaccounts"), {"metadata": {"name": "one"}})
    answer = await api.create(space.core("serviceaccounts", "one", "token"), {"spec": {}})
    headers = {"Authorization": f"Bearer {answer['status']['token']}"}
    async with Api(dataclasses.replace(target, headers=headers)) as client:
        yield Account(f"system:serviceaccount:{space.name}:one", client, api, space)


async def test_a_token_request(api: Api, space: Space) -> None:
    await api.create(space.core("serviceaccounts"), {"metadata": {"name": "one"}})
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 700}}
    found = await api.create(space.core("serviceaccounts", "one", "token"), body)
    assert (found["kind"], found["spec"]["expirationSeconds"]) == ("TokenRequest", 700)
    assert found["metadata"]["name"] == "one"
    assert set(found["status"]) == {"token", "expirationTimestamp"}
    assert len(found["status"]["token"].split(".")) == 3
    short = {"spec": {"expirationSeconds": 10}}
    status = (await api.call("POST", space.core("serviceaccounts", "one", "token"), short)).refused(422, "Invalid")
    assert "may not specify a duration less than 10 minutes" in status["message"]
    answer = await api.call("POST", space.core("serviceaccounts", "absent", "token"), {"spec": {}})
    assert answer.refused(404, "NotFound")["message"] == 'serviceaccounts "absent" not found'
    (await api.call("GET", space.core("serviceaccounts", "one", "token"))).refused(405, "MethodNotAllowed")


async def test_a_forged_token_is_unknown(account: Account, target: Target) -> None:
    headers = {"Authorization": account.client.target.headers["Authorization"] + "x"}
    async with Api(dataclasses.replace(target, headers=headers)) as client:
        (await client.call("GET", account.space.core("configmaps"))).refused(401, "Unauthorized")


async def test_who_am_i(account: Account) -> None:
    found = (await account.client.create(WHOAMI, {}))["status"]["userInfo"]
    assert found["username"] == account.name
    assert found["groups"] == [
        "system:serviceaccounts",
        f"system:serviceaccounts:{account.space.name}",
        "system:authenticated",
    ]
    review = {"spec": {"token": account.client.target.headers["Authorization"].partition(" ")[2]}}
    status = (await account.admin.create("/apis/authentication.k8s.io/v1/tokenreviews", review))["status"]
    assert (status["authenticated"], status["user"]["username"]) == (True, account.name)
    status = (await account.admin.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}}))[
        "status"
    ]
    assert status == {"user": {}, "error": "invalid bearer token"}


# The method, the address below the namespace, and what the refusal says of them.
REFUSALS = [
    ("GET", "configmaps", 'configmaps is forbidden: {} cannot list resource "configmaps" in API group ""'),
    ("GET", "configmaps?watch=true", 'configmaps is forbidden: {} cannot watch resource "configmaps" in API group ""'),
    ("GET", "configmaps/one", 'configmaps "one" is forbidden: {} cannot get resource "configmaps" in API group ""'),
    ("POST", "configmaps", 'configmaps is forbidden: {} cannot create resource "configmaps" in API group ""'),
    ("PUT", "configmaps/one", 'configmaps "one" is forbidden: {} cannot update resource "configmaps" in API group ""'),
    ("PATCH", "pods/one/status", 'pods "one" is forbidden: {} cannot patch resource "pods/status" in API group ""'),
    (
        "DELETE",
        "configmaps/one",
        'configmaps "one" is forbidden: {} cannot delete resource "configmaps" in API group ""',
    ),
    (
        "DELETE",
        "configmaps",
        'configmaps is forbidden: {} cannot deletecollection resource "configmaps" in API group ""',
    ),
]


async def test_who_has_no_rights_is_told_so(account: Account) -> None:
    user = f'User "{account.name}"'
    for method, rest, words in REFUSALS:
        body = configmap("one") if method in ("POST", "PUT", "PATCH") else None
        kind = MERGE if method == "PATCH" else "application/json"
        answer = await account.client.call(method, account.space.core(rest), body, kind=kind)
        status = answer.refused(403, "Forbidden")
        assert status["message"] == f'{words.format(user)} in the namespace "{account.space.name}"'
        assert status["details"]["kind"] == rest.partition("?")[0].partition("/")[0]
    status = (await account.client.call("GET", "/api/v1/nodes/one")).refused(403, "Forbidden")
    assert (
        status["message"]
        == f'nodes "one" is forbidden: {user} cannot get resource "nodes" in API group "" at the cluster scope'
    )
    answer = await account.client.call("DELETE", account.space.widgets())
    status = answer.refused(403, "Forbidden")
    assert status["details"] == {"group": account.space.group, "kind": "widgets"}
    assert f'cannot deletecollection resource "widgets" in API group "{account.space.group}"' in status["message"]
    # What is not served is refused before it is looked for.
    assert (await account.client.call("GET", "/apis/absent.example/v1/things")).code == 403
    status = (await account.client.call("GET", "/absent")).refused(403, "Forbidden")
    assert status["message"] == f'forbidden: {user} cannot get path "/absent"'
    assert status["details"] == {}
    for path in ("/api", "/apis", "/version", "/healthz", f"/apis/{account.space.group}/v1"):
        assert (await account.client.call("GET", path)).code == 200


async def test_a_role_allows_what_it_names(account: Account) -> None:
    client, space = account.client, account.space
    await account.role(
        "one",
        {"verbs": ["get", "list", "create"], "apiGroups": [""], "resources": ["configmaps"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"]},
        {"verbs": ["*"], "apiGroups": [space.group], "resources": ["widgets/status"]},
    )
    assert (await client.create(space.core("configmaps"), configmap("one")))["metadata"]["name"] == "one"
    assert (await client.call("GET", space.core("configmaps"))).code == 200
    (await client.call("DELETE", space.core("configmaps", "one"))).refused(403, "Forbidden")
    (await client.call("GET", "/api/v1/configmaps")).refused(403, "Forbidden")
    assert (await client.call("GET", space.core("secrets", "mine"))).code == 404
    (await client.call("GET", space.core("secrets", "others"))).refused(403, "Forbidden")
    (await client.call("GET", space.core("secrets"))).refused(403, "Forbidden")
    await account.admin.create(space.widgets(), space.widget("one"))
    assert (await client.merge(space.widgets("one", "status"), {"status": {"s": 1}}))["status"] == {"s": 1}
    (await client.call("PATCH", space.widgets("one"), {}, kind=MERGE)).refused(403, "Forbidden")
    # A list of one object is a request for that object, if it says so by a field selector.
    await account.role(
        "named",
        {"verbs": ["list", "watch"], "apiGroups": [""], "resources": ["services"], "resourceNames": ["mine"]},
    )
    services = space.core("services")
    for selector, code in (("metadata.name=mine", 200), ("metadata.name%3D%3Dmine", 200), ("metadata.name=other", 403)):
        assert (await client.call("GET", f"{services}?fieldSelector={selector}")).code == code, selector
    for selector in ("", "?fieldSelector=metadata.namespace=mine", "?fieldSelector=metadata.name!=mine", "?watch=true"):
        (await client.call("GET", services + selector)).refused(403, "Forbidden")
    # The rights go with the binding.
    await account.admin.delete(space.grouped(f"{RBAC}/v1", "rolebindings", "one"))

    async def is_refused() -> bool:
        return (await client.call("GET", space.core("configmaps"))).code == 403

    await until(is_refused, "the rights outlived their binding")


async def test_a_cluster_role_bound_in_a_namespace_and_by_group(account: Account) -> None:
    rules = [{"verbs": ["*"], "apiGroups": ["", account.space.group], "resources": ["*"]}]
    rules.append({"verbs": ["get"], "nonResourceURLs": ["/me*"]})
    name = f"all-{account.space.name}"
    await account.admin.create(f"/apis/{RBAC}/v1/clusterroles", {"metadata": {"name": name}, "rules": rules})
    try:
        await account.bind("all", "ClusterRole", name, group=True)
        assert (await account.client.call("GET", account.space.core("secrets"))).code == 200
        assert (await account.client.call("GET", account.space.widgets())).code == 200
        (await account.client.call("GET", "/api/v1/secrets")).refused(403, "Forbidden")
        (await account.client.call("GET", "/metrics")).refused(403, "Forbidden")
        subject = {"kind": "User", "name": account.name, "apiGroup": RBAC}
        reference = {"kind": "ClusterRole", "name": name, "apiGroup": RBAC}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        await account.admin.create(f"/apis/{RBAC}/v1/clusterrolebindings", binding)
        await settled(account)
        assert (await account.client.call("GET", "/api/v1/secrets")).code == 200
        # Nobody serves it, but it is not forbidden any more.
        assert (await account.client.call("GET", "/me/absent")).code == 404
    finally:
        for plural in ("clusterrolebindings", "clusterroles"):
            await account.admin.call("DELETE", f"/apis/{RBAC}/v1/{plural}/{name}")


async def test_reviews_of_the_own_rights(account: Account) -> None:
    place = account.space.name
    assert await account.may(verb="list", resource="configmaps", namespace=place) == {"allowed": False}
    await account.role("one", {"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps", "pods/log"]})
    reason = f'RBAC: allowed by RoleBinding "one/{place}" of Role "one" to ServiceAccount "one/{place}"'
    allowed = {"allowed": True, "reason": reason}
    assert await account.may(verb="list", resource="configmaps", namespace=place) == allowed
    assert await account.may(verb="list", resource="pods", subresource="log", namespace=place) == allowed
    assert not (await account.may(verb="list", resource="pods", namespace=place))["allowed"]
    assert not (await account.may(verb="list", resource="configmaps"))["allowed"]
    path = {"spec": {"nonResourceAttributes": {"path": "/api", "verb": "get"}}}
    found = await account.client.create(f"{AUTHORIZATION}/selfsubjectaccessreviews", path)
    assert found["status"]["allowed"]
    nothing = await account.client.call("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {}})
    words = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    assert words in nothing.refused(422, "Invalid")["message"]
    rules = await account.client.create(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": place}})
    own: Any = {"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps", "pods/log"]}
    assert own in rules["status"]["resourceRules"]
    assert any("/api" in rule["nonResourceURLs"] for rule in rules["status"]["nonResourceRules"])
    assert rules["status"]["incomplete"] is False
    nowhere = await account.client.call("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {}})
    assert nowhere.refused(400, "BadRequest")["message"] == "no namespace on request"


async def test_reviews_of_the_rights_of_others(account: Account) -> None:
    place = account.space.name
    await account.role("one", {"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]})

    async def allowed(verb: str, **who: Any) -> bool:
        asked = {"verb": verb, "resource": "configmaps", "namespace": place}
        body = {"spec": {"resourceAttributes": asked, **who}}
        found = await account.admin.create(f"{AUTHORIZATION}/subjectaccessreviews", body)
        answer: bool = found["status"]["allowed"]
        return answer

    assert await allowed("list", user=account.name)
    assert not await allowed("get", user=account.name)
    assert not await allowed("list", user="somebody")
    assert await allowed("get", user="somebody", groups=["system:masters"])
    (await account.client.call("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": {}})).refused(403, "Forbidden")
    assert (await account.admin.call("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": {}})).code == 422
    everything = {"spec": {"resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}}}
    mine = await account.admin.create(f"{AUTHORIZATION}/selfsubjectaccessreviews", everything)
    assert mine["status"]["allowed"]


async def test_a_binding_to_a_role_that_is_missing(account: Account) -> None:
    await account.bind("one", "ClusterRole", "absent-role")
    status = (await account.client.call("GET", account.space.core("pods"))).refused(403, "Forbidden")
    assert "rbac: RBAC: " in status["message"]
    assert 'clusterrole.rbac.authorization.k8s.io "absent-role" not found' in status["message"]
