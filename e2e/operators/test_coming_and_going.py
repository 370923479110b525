"""Definitions and namespaces come, go and come back in another shape while operators run, with all rights and with few."""

import asyncio
import copy
import secrets
from pathlib import Path

import pytest
from conformance.api import Api, Body
from conformance.spaces import DEFINITIONS, definition, establish
from operators.auditing import Audited, alarms, service_account
from operators.processes import Operator, ctl_command, running
from targets import Target, as_user

SECONDS = 100.0
"""An operator that may not look at definitions asks for what it lacks once a minute."""
OPERATOR = """
import ctl

@ctl.on.event("{plural}")
async def event(type, body, namespace, name, logger, **_):
    if type != "DELETED":
        logger.info("%s %s sees %s of %s", body["apiVersion"].split("/")[1], namespace, name, body["metadata"]["uid"])
"""


def group() -> str:
    """A group of a test's own."""
    return f"coming-{secrets.token_hex(4)}.ctl.test"


def shaped(group: str, *, scope: str = "Namespaced", version: str = "v1") -> Body:
    """The definition in one of its shapes."""
    body = definition(group, "visitors", "Visitor")
    body["spec"]["scope"] = scope
    body["spec"]["versions"] = copy.deepcopy(body["spec"]["versions"])
    body["spec"]["versions"][0]["name"] = version
    return body


async def drop(api: Api, body: Body) -> None:
    """Delete a definition and wait until it is gone."""
    path = f"{DEFINITIONS}/{body['metadata']['name']}"
    await api.delete(path)
    async with asyncio.timeout(SECONDS):
        while (await api.call("GET", path)).code != 404:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def visit(api: Api, operator: Operator, shape: Body, namespace: str | None = "default") -> None:
    """Create an object of this shape, and wait until the operator has seen it."""
    spec, name = shape["spec"], f"n{secrets.token_hex(4)}"
    version = f"{spec['group']}/{spec['versions'][0]['name']}"
    place = f"namespaces/{namespace}/" if namespace else ""
    body = {"apiVersion": version, "kind": "Visitor", "metadata": {"name": name}}
    created = await api.create(f"/apis/{version}/{place}visitors", body)
    text = f"{spec['versions'][0]['name']} {namespace} sees {name} of {created['metadata']['uid']}"
    await asyncio.to_thread(operator.wait_for, text, SECONDS)


async def space(api: Api, name: str) -> None:
    """Create a namespace."""
    await api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


async def leave(api: Api, name: str) -> None:
    """Delete a namespace and wait until it is gone."""
    await api.call("DELETE", f"/api/v1/namespaces/{name}")
    async with asyncio.timeout(SECONDS):
        while (await api.call("GET", f"/api/v1/namespaces/{name}")).code != 404:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def program(folder: Path, plural: str) -> Path:
    """An operator's file."""
    path = folder / "main.py"
    path.write_text(OPERATOR.format(plural=plural))
    return path


async def test_a_definition_comes_goes_and_comes_back_with_another_scope_and_version(
    target: Target, tmp_path: Path
) -> None:
    own = group()
    shapes = [shaped(own), shaped(own, scope="Cluster", version="v2"), shaped(own, version="v1beta1"), shaped(own)]
    command = ctl_command("run", "-A", str(program(tmp_path, f"visitors.{own}")))
    async with Api(target) as api:
        with running(command, target, tmp_path / "log") as operator:
            await asyncio.to_thread(operator.wait_for, "visitors")
            for shape in shapes:
                await establish(api, shape)
                await visit(api, operator, shape, None if shape["spec"]["scope"] == "Cluster" else "default")
                await drop(api, shape)
            assert await asyncio.to_thread(operator.stop) == 0
    assert [line for line in alarms(operator.text()) if "[WARNING" not in line] == []


async def test_namespaces_of_a_glob_come_and_go(target: Target, tmp_path: Path) -> None:
    own, mark = group(), secrets.token_hex(4)
    shape = shaped(own)
    pattern = f"guest-{mark}-*,!guest-{mark}-not*"
    command = ctl_command("run", "-n", pattern, str(program(tmp_path, f"visitors.{own}")))
    async with Api(target) as api:
        await establish(api, shape)
        others = (f"other-{mark}", f"guest-{mark}-not-1")
        for name in (*others, f"guest-{mark}-0"):
            await space(api, name)
        try:
            with running(command, target, tmp_path / "log") as operator:
                await visit(api, operator, shape, f"guest-{mark}-0")
                for _ in range(2):
                    await space(api, f"guest-{mark}-1")
                    await visit(api, operator, shape, f"guest-{mark}-1")
                    await leave(api, f"guest-{mark}-1")
                for name in (*others, "default"):
                    body = {"apiVersion": f"{own}/v1", "kind": "Visitor", "metadata": {"name": "unseen"}}
                    await api.create(f"/apis/{own}/v1/namespaces/{name}/visitors", body)
                await visit(api, operator, shape, f"guest-{mark}-0")
                assert await asyncio.to_thread(operator.stop) == 0
        finally:
            for name in (*others, f"guest-{mark}-0"):
                await leave(api, name)
            await drop(api, shape)
    assert "unseen" not in operator.text()
    assert [line for line in alarms(operator.text()) if "[WARNING" not in line] == []


@pytest.mark.parametrize("first", ["there", "missing"])
async def test_with_few_rights_a_definition_may_come_and_come_back_too(
    audited: Audited, tmp_path: Path, first: str
) -> None:
    """The operator may look neither at definitions nor at namespaces."""
    own, name = group(), f"few-{secrets.token_hex(4)}"
    shape = shaped(own)
    rule = {"apiGroups": [own], "resources": ["visitors"], "verbs": ["list", "watch", "patch"]}
    async with Api(audited.target) as api:
        await space(api, name)
        token = await service_account(api, name, "operator", [rule])
        narrow = as_user(audited.target, "operator", token, tmp_path / "kubeconfig")
        if first == "there":
            await establish(api, shape)
        command = ctl_command("run", "-n", name, str(program(tmp_path, f"visitors.{own}")))
        with running(command, narrow, tmp_path / "log") as operator:
            if first == "missing":
                await asyncio.to_thread(operator.wait_for, "visitors")
                await establish(api, shape)
            await visit(api, operator, shape, name)
            await drop(api, shape)
            await establish(api, shape)
            await visit(api, operator, shape, name)
            assert await asyncio.to_thread(operator.stop) == 0
        await drop(api, shape)
    assert audited.refusals_of(f"system:serviceaccount:{name}:operator") == []
    assert [line for line in alarms(operator.text()) if "[WARNING" not in line] == []
