"""Does to objects what a user would do, and looks at what became of them."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from conformance.api import Api, Body

CRD = "customresourcedefinitions/kopfexamples.kopf.dev"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1"
OBJECTS = "/apis/kopf.dev/v1/namespaces/{namespace}/kopfexamples"
PREFIX = "kopf.zalando.org"
SECONDS = 60.0


class Examples:
    """The `KopfExample` objects of one namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self.namespace = namespace
        self._path = OBJECTS.format(namespace=namespace)

    async def create(self, name: str, spec: Body | None = None, **metadata: Any) -> Body:
        """Create one."""
        body = {
            "apiVersion": "kopf.dev/v1",
            "kind": "KopfExample",
            "metadata": {"name": name, **metadata},
            "spec": spec or {"field": "value"},
        }
        return await self._api.create(self._path, body)

    async def find(self, name: str) -> Body | None:
        """One as it is now, or None."""
        answer = await self._api.call("GET", f"{self._path}/{name}")
        assert answer.code in {200, 404}, answer
        return None if answer.code == 404 else answer.body

    async def patch(self, name: str, change: Body) -> Body:
        """Merge a change into one."""
        answer = await self._api.call("PATCH", f"{self._path}/{name}", change, kind="application/merge-patch+json")
        assert answer.code == 200, answer
        body: Body = answer.body
        return body

    async def delete(self, name: str) -> None:
        """Ask for the deletion of one."""
        await self._api.call("DELETE", f"{self._path}/{name}")

    async def create_config(self, name: str, data: Body, **metadata: Any) -> None:
        """Create a ConfigMap beside them."""
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data}
        await self._api.create(f"/api/v1/namespaces/{self.namespace}/configmaps", body)

    async def patch_config(self, name: str, change: Body) -> None:
        """Merge a change into a ConfigMap."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/{name}"
        answer = await self._api.call("PATCH", path, change, kind="application/merge-patch+json")
        assert answer.code == 200, answer

    async def configs(self) -> list[Body]:
        """The ConfigMaps of the namespace."""
        answer = await self._api.call("GET", f"/api/v1/namespaces/{self.namespace}/configmaps")
        found: list[Body] = answer.body["items"]
        return found

    async def events(self, name: str) -> list[Body]:
        """The Event objects about one, in the order of their creation."""
        answer = await self._api.call("GET", f"/api/v1/namespaces/{self.namespace}/events")
        found = [event for event in answer.body["items"] if event["involvedObject"]["name"] == name]
        return sorted(found, key=lambda event: str(event["eventTime"]))

    async def until(self, name: str, holds: Callable[[Body | None], bool], seconds: float = SECONDS) -> Body | None:
        """Wait until something holds for one; gives it as it is then, and fails with it when time is over."""
        deadline = time.monotonic() + seconds
        while True:
            found = await self.find(name)
            if holds(found):
                return found
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.05)

    async def handled(self, name: str, **spec: Any) -> Body:
        """Wait until one is handled: the diff-base has this spec, and no progress is left on it."""

        def holds(body: Body | None) -> bool:
            if body is None or progress(body):
                return False
            base = diff_base(body)
            return base is not None and all(base.get("spec", {}).get(key) == value for key, value in spec.items())

        found = await self.until(name, holds)
        assert found is not None
        return found


def annotations(body: Body) -> dict[str, str]:
    """The annotations of an object."""
    return dict(body["metadata"].get("annotations") or {})


def diff_base(body: Body) -> Body | None:
    """What was handled last, as it is kept on the object."""
    text = annotations(body).get(f"{PREFIX}/last-handled-configuration")
    return None if text is None else json.loads(text)


def progress(body: Body) -> dict[str, Body]:
    """The records of unfinished handlers on the object."""
    found = {}
    for key, text in annotations(body).items():
        prefix, _, name = key.partition("/")
        if prefix == PREFIX and name not in {"last-handled-configuration", "touch-dummy"}:
            found[name] = json.loads(text)
    return found
