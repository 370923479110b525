"""Gives each test objects and addresses of its own, and the suite its custom resources."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from conformance.api import MERGE, Api, Body
from targets import Target

ESTABLISH_SECONDS = 60.0
REMOVAL_SECONDS = 120.0
"""For a definition with thousands of objects, on a busy machine."""


@dataclass(frozen=True)
class Space:
    """A namespace of a test's own and the addresses in it."""

    name: str
    group: str
    """The group of the suite's custom resources."""

    def core(self, plural: str, *rest: str) -> str:
        """The address of a core resource: `core("configmaps", "one")`."""
        return "/".join(("/api/v1/namespaces", self.name, plural, *rest))

    def grouped(self, group: str, plural: str, *rest: str) -> str:
        """The address of a resource of a group: `grouped("apps/v1", "deployments", "one")`."""
        return "/".join(("/apis", group, "namespaces", self.name, plural, *rest))

    def widgets(self, *rest: str) -> str:
        """The address of the suite's custom resource with a status subresource: `widgets("one", "status")`."""
        return self.grouped(f"{self.group}/v1", "widgets", *rest)

    def plains(self, *rest: str) -> str:
        """The address of the suite's custom resource without subresources."""
        return self.grouped(f"{self.group}/v1", "plains", *rest)

    def widget(self, name: str, **parts: Any) -> Body:
        """A Widget's body; `labels`, `annotations`, `finalizers` go into its metadata."""
        return custom(f"{self.group}/v1", "Widget", name, parts)

    def plain(self, name: str, **parts: Any) -> Body:
        """A Plain's body."""
        return custom(f"{self.group}/v1", "Plain", name, parts)


def custom(api_version: str, kind: str, name: str, parts: Body) -> Body:
    """A body with its identity; parts that belong to the metadata go there."""
    metadata = {key: parts.pop(key) for key in ("labels", "annotations", "finalizers") if key in parts}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}, **parts}


def configmap(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Body:
    """A ConfigMap's body."""
    body: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return body if data is None else {**body, "data": data}


def definition(group: str, plural: str, kind: str, **spec: Any) -> Body:
    """A CustomResourceDefinition of one version `v1` that keeps all fields; `spec` overrides what is said here."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
            **spec,
        },
    }


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def establish(api: Api, body: Body) -> Body:
    """Create a definition and wait until its resources are served."""
    await api.create(DEFINITIONS, body)
    return await established(api, body)


async def established(api: Api, body: Body) -> Body:
    """Wait until a definition is established, and each served version of it answers lists and is told of by discovery."""
    name, spec = body["metadata"]["name"], body["spec"]
    deadline = time.monotonic() + ESTABLISH_SECONDS
    while True:
        found = await api.get(f"{DEFINITIONS}/{name}")
        # Just created, a definition has `"conditions": null`.
        conditions = {one["type"]: one["status"] for one in found.get("status", {}).get("conditions") or []}
        if conditions.get("Established") == "True":
            paths = [
                f"/apis/{spec['group']}/{v['name']}/{spec['names']['plural']}" for v in spec["versions"] if v["served"]
            ]
            # From the cache: until it is filled the real server answers 429, "storage is (re)initializing".
            answering = all([(await api.call("GET", path, resourceVersion=0)).code == 200 for path in paths])
            served = {v["name"] for v in spec["versions"] if v["served"]}
            if answering and await told_of(api, spec["group"], spec["names"]["plural"]) == (served, served):
                return found
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.05)


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def told_of(api: Api, group: str, plural: str) -> tuple[set[str], set[str]]:
    """The versions of a resource that aggregated discovery tells of, and the older way; the real server makes both apart from all else."""
    items = (await api.call("GET", "/apis", accept=AGGREGATED)).body["items"]
    versions = [version for one in items if one["metadata"]["name"] == group for version in one["versions"]]
    new = {version["version"] for version in versions if plural in [one["resource"] for one in version["resources"]]}
    old = set()
    answer = await api.call("GET", f"/apis/{group}")
    for version in answer.body["versions"] if answer.code == 200 else ():
        listed = await api.call("GET", f"/apis/{group}/{version['version']}")
        if listed.code == 200 and plural in [one["name"] for one in listed.body["resources"]]:
            old.add(version["version"])
    return new, old


async def forgotten(api: Api, group: str, plural: str) -> None:
    """Wait until no discovery tells of a resource any more, whose definition is gone."""
    deadline = time.monotonic() + REMOVAL_SECONDS
    while any(told := await told_of(api, group, plural)):
        assert time.monotonic() < deadline, told
        await asyncio.sleep(0.05)


async def provide(api: Api, body: Body) -> bool:
    """Make sure that the resources of a definition are served; gives whether they were not.

    A definition that is being removed is not there any more: its end is waited for.
    """
    name = body["metadata"]["name"]
    deadline = time.monotonic() + REMOVAL_SECONDS
    while (answer := await api.call("POST", DEFINITIONS, body)).code != 201:
        assert answer.code == 409, answer
        there = await api.call("GET", f"{DEFINITIONS}/{name}")
        if there.code == 200 and "deletionTimestamp" not in there.body["metadata"]:
            break
        assert time.monotonic() < deadline, there
        await asyncio.sleep(0.05)
    await established(api, body)
    return answer.code == 201


async def _free(api: Api, spec: Body) -> None:
    """Let go what operators that are no more have held: their objects would keep the definition, and each test after this one."""
    kinds = f"/apis/{spec['group']}/{next(one['name'] for one in spec['versions'] if one['storage'])}"
    found = await api.call("GET", f"{kinds}/{spec['names']['plural']}")
    for item in found.body["items"] if found.code == 200 else ():
        metadata = item["metadata"]
        if metadata.get("finalizers"):
            place = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
            address = f"{kinds}{place}/{spec['names']['plural']}/{metadata['name']}"
            await api.call("PATCH", address, {"metadata": {"finalizers": None}}, kind=MERGE)


@contextlib.contextmanager
def provided(target: Target, *definitions: Body) -> Iterator[None]:
    """Let a server serve the resources of definitions for the time of the block, those that it has not served before.

    Afterwards nothing is left of them: the next test's operators do not see them go.
    """

    async def begin() -> list[str]:
        async with Api(target) as api:
            ours = await asyncio.gather(*(provide(api, body) for body in definitions))
        return [body["metadata"]["name"] for body, new in zip(definitions, ours, strict=True) if new]

    async def end(names: list[str]) -> None:
        async with Api(target) as api:
            for name in names:
                await api.delete(f"{DEFINITIONS}/{name}")
            deadline = time.monotonic() + REMOVAL_SECONDS
            for body in definitions:
                name, spec = body["metadata"]["name"], body["spec"]
                while name in names and (found := await api.call("GET", f"{DEFINITIONS}/{name}")).code != 404:
                    assert time.monotonic() < deadline, found
                    await _free(api, spec)
                    await asyncio.sleep(0.05)
                if name in names:
                    await forgotten(api, spec["group"], spec["names"]["plural"])

    ours = asyncio.run(begin())
    try:
        yield
    finally:
        asyncio.run(end(ours))


def install(target: Target, group: str) -> None:
    """Make the suite's custom resources known to a server."""

    async def run() -> None:
        async with Api(target) as api:
            widgets = definition(group, "widgets", "Widget")
            widgets["spec"]["versions"][0]["subresources"] = {"status": {}}
            await establish(api, widgets)
            await establish(api, definition(group, "plains", "Plain"))

    asyncio.run(run())


def uninstall(target: Target, group: str) -> None:
    """Remove what `install` made, with all objects of it."""

    async def run() -> None:
        async with Api(target) as api:
            for plural in ("widgets", "plains"):
                await api.delete(f"{DEFINITIONS}/{plural}.{group}")

    asyncio.run(run())
