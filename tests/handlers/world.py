"""A whole operator on a whole server, in the test's own loop: the real sandbox, the real client, real sockets, virtual time."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Unpack

from ctl.client.config.access import Access
from ctl.client.errors import NotFound
from ctl.client.resources import Resource
from ctl.client.rest import Client, PatchKind
from ctl.client.settings import ClientSettings
from ctl.handlers.declaration.registry import OperatorRegistry, set_default_registry
from ctl.handlers.running.operator import OperatorOptions, operator
from ctl.handlers.settings import OperatorSettings
from ctl.sandbox import LoggedRequest, Match, Sandbox, SandboxSettings
from ctl.sandbox.faults import Rule

Body = dict[str, Any]

KEX = Resource("kopf.dev", "v1", "kopfexamples", "KopfExample", namespaced=True)
"""Custom objects with a status subresource."""
PLAIN = Resource("kopf.dev", "v1", "plains", "Plain", namespaced=True)
"""Custom objects without any subresource."""
GLOBAL = Resource("kopf.dev", "v1", "globals", "Global", namespaced=False)
"""Custom objects without a namespace."""

FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
P = "kopf.zalando.org"
LAST = f"{P}/last-handled-configuration"
TIMEOUT = 60.0

_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.kopf.dev}}
spec:
  scope: {scope}
  group: kopf.dev
  names: {{kind: {kind}, plural: {plural}, singular: {singular}}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {subresources}
    schema:
      openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


def crd(resource: Resource, *, status: bool = True) -> str:
    """The definition of one of the resources above."""
    assert resource.kind is not None
    return _CRD.format(
        plural=resource.plural,
        singular=resource.kind.lower(),
        kind=resource.kind,
        scope="Namespaced" if resource.namespaced else "Cluster",
        subresources="{status: {}}" if status else "{}",
    )


DEFINITIONS = [crd(KEX), crd(PLAIN, status=False), crd(GLOBAL)]


@dataclass
class Running:
    """An operator that runs in a task."""

    task: asyncio.Task[None]
    stop_flag: asyncio.Event
    ready: asyncio.Event
    crashed: bool = False

    async def stop(self) -> None:
        """Stop it gracefully; raises what it raises."""
        self.stop_flag.set()
        await self.ended()

    async def ended(self) -> None:
        """Wait until it has ended; raises what it raises."""
        async with asyncio.timeout(TIMEOUT * 20):
            await self.task


@dataclass
class World:
    """A server, a user, and the operators of a test."""

    sandbox: Sandbox
    user: Client
    registry: OperatorRegistry = field(default_factory=OperatorRegistry)

    # What a user does.

    async def create(
        self, name: str = "one", spec: Mapping[str, Any] | None = None, resource: Resource = KEX, **metadata: Any
    ) -> Body:
        """Create an object."""
        place = {"namespace": "default"} if resource.namespaced else {}
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, **place, **metadata},
            "spec": {"field": "value"} if spec is None else spec,
        }
        return (await self.user.create(resource, body, place.get("namespace"))).body()

    async def patch(
        self, change: Mapping[str, Any], name: str = "one", resource: Resource = KEX, subresource: str | None = None
    ) -> Body:
        """Merge a change into an object."""
        place = "default" if resource.namespaced else None
        return (await self.user.patch(resource, name, place, change, subresource=subresource)).body()

    async def json_patch(self, ops: list[Body], name: str = "one", resource: Resource = KEX) -> Body:
        """Change an object by a JSON patch."""
        return (await self.user.patch(resource, name, "default", ops, kind=PatchKind.JSON)).body()

    async def delete(self, name: str = "one", resource: Resource = KEX) -> None:
        """Ask for an object's deletion."""
        await self.user.delete(resource, name, "default" if resource.namespaced else None)

    def find(self, name: str = "one", resource: Resource = KEX) -> Body | None:
        """An object as the server has it now, or None."""
        assert resource.kind is not None
        return self.sandbox.get(resource.api_version, resource.kind, name, "default" if resource.namespaced else None)

    def get(self, name: str = "one", resource: Resource = KEX) -> Body:
        """An object that must be there."""
        found = self.find(name, resource)
        assert found is not None, f"{resource!r} {name} is not there"
        return found

    def annotations(self, name: str = "one", resource: Resource = KEX) -> dict[str, str]:
        """The annotations of an object."""
        return dict(self.get(name, resource)["metadata"].get("annotations") or {})

    def last(self, name: str = "one", resource: Resource = KEX) -> Any:
        """The diff-base of an object, decoded; None when there is none."""
        text = self.annotations(name, resource).get(LAST)
        return None if text is None else json.loads(text)

    def record(self, handler_id: str, name: str = "one") -> Any:
        """The progress record of a handler as it is on the object; None when there is none."""
        text = self.annotations(name).get(f"{P}/{handler_id}")
        return None if text is None else json.loads(text)

    def is_clean(self, name: str = "one", resource: Resource = KEX) -> bool:
        """Whether nothing of ours is left on the object but the diff-base."""
        return {key for key in self.annotations(name, resource) if key.startswith(P)} == {LAST}

    # The operator, and what it did.

    @asynccontextmanager
    async def running(self, **options: Unpack[OperatorOptions]) -> AsyncIterator[Running]:
        """Run an operator with the default registry for the time of the block; it is stopped gracefully at its end."""
        found = self.start(**options)
        try:
            async with asyncio.timeout(TIMEOUT):
                waiter = asyncio.ensure_future(found.ready.wait())
                await asyncio.wait({waiter, found.task}, return_when=asyncio.FIRST_COMPLETED)
                waiter.cancel()
            if found.task.done():
                await found.task
            yield found
        finally:
            found.stop_flag.set()
            await asyncio.wait({found.task}, timeout=TIMEOUT * 20)
            assert found.task.done(), "the operator did not end"
        if not found.crashed:
            await found.ended()

    def start(self, **options: Unpack[OperatorOptions]) -> Running:
        """Begin to run an operator; the caller stops it."""
        stop, ready = asyncio.Event(), asyncio.Event()
        given: OperatorOptions = {
            "access": Access(server=self.sandbox.url),
            "stop_flag": stop,
            "ready_flag": ready,
            "settings": quick(),
            "registry": self.registry,
        }
        if "namespaces" not in options and "clusterwide" not in options:
            given["clusterwide"] = True
        given.update(options)
        return Running(asyncio.create_task(operator(**given), name="operator under test"), stop, ready)

    def forget_handlers(self) -> None:
        """Begin a new program: nothing is declared."""
        self.registry = OperatorRegistry()
        set_default_registry(self.registry)

    async def crash(self, running: Running) -> None:
        """End an operator of which nothing reaches the server any more."""
        running.crashed = True
        rule = self.sandbox.faults.refuse(match=Match(user_agent="ctl/"), times=None)
        running.task.cancel()
        await asyncio.wait({running.task}, timeout=TIMEOUT * 20)
        self.sandbox.faults.rules.remove(rule)
        assert running.task.done()

    def writes(self, resource: Resource = KEX) -> list[LoggedRequest]:
        """What operators wrote to objects of a resource, in order, refused writes too."""
        return [
            request
            for request in self.sandbox.write_log
            if request.user_agent.startswith("ctl/") and f"/{resource.plural}/" in request.path
        ]

    def own_patches(self, *, path: str = "", when: Callable[[LoggedRequest], bool] | None = None) -> Match:
        """A match for what operators write, for faults."""
        return Match(method="PATCH", path=path or None, user_agent="ctl/", when=when)

    def outrun(self, match: Match, times: int | None) -> Rule:
        """Let somebody else change the object before each of so many writes of operators, which is refused as a conflict then."""
        changes: set[asyncio.Task[Body]] = set()

        def also(request: LoggedRequest) -> bool:
            if match(request):
                change = {"metadata": {"annotations": {"turn": str(len(changes))}}}
                changes.add(asyncio.get_running_loop().create_task(self.patch(change)))
                return True
            return False

        rule = self.sandbox.faults.answer(409, "Conflict", match=self.own_patches(when=also), times=times)
        rule.delay = 0.1
        return rule

    @contextmanager
    def cut_after(self, writes: int, *, lost: bool) -> Iterator[asyncio.Event]:
        """Let so many writes of operators through, and none after them; or, with `lost`, let the answer to the next one be lost.

        The event says that there was one more.
        """
        seen, came, faults = list[LoggedRequest](), asyncio.Event(), self.sandbox.faults

        def after(request: LoggedRequest) -> bool:
            if request not in seen:
                seen.append(request)
            if len(seen) > writes:
                came.set()
            return came.is_set()

        match = self.own_patches(when=after)
        rule = faults.lose_answer(match=match) if lost else faults.refuse(match=match, times=None)
        try:
            yield came
        finally:
            if rule in faults.rules:
                faults.rules.remove(rule)

    def bodies(self, resource: Resource = KEX) -> list[Any]:
        """The bodies of what operators wrote, without the uids that guard them."""
        return [unguarded(request.json()) for request in self.writes(resource)]

    async def until(self, holds: Callable[[], object], seconds: float = TIMEOUT) -> None:
        """Wait, in virtual time, until something is so."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not holds():
            passed = loop.time() - began
            assert passed < seconds, "it did not come to pass"
            await asyncio.sleep(0.05 if passed < 2 else 0.5)

    async def handled(self, name: str = "one", resource: Resource = KEX, seconds: float = TIMEOUT) -> Body:
        """Wait until an object is handled: its diff-base is its present state, and no record is left."""

        def holds() -> bool:
            body = self.get(name, resource)
            return self.is_clean(name, resource) and (self.last(name, resource) or {}).get("spec") == body.get("spec")

        await self.until(holds, seconds)
        await rest()
        return self.get(name, resource)

    async def gone(self, name: str = "one", resource: Resource = KEX) -> None:
        """Wait until an object is not there any more, and the operator has heard of it."""
        await self.until(lambda: self.find(name, resource) is None)
        await rest()


async def rest(seconds: float = 0.3) -> None:
    """Let pass as much time as everything that is on its way needs."""
    await asyncio.sleep(seconds)


def quick() -> OperatorSettings:
    """Settings of an operator whose requests are not repeated: what fails is seen by the handlers' machinery."""
    settings = OperatorSettings()
    settings.networking.error_backoffs = ()
    return settings


def identified(identity: str, **changes: Any) -> OperatorSettings:
    """The same of one replica; `changes` are those of `settings.leadership`."""
    settings = quick()
    settings.leadership.identity = identity
    for name, value in changes.items():
        setattr(settings.leadership, name, value)
    return settings


def unguarded(body: Any) -> Any:
    """A patch without the uid that every merge patch of ours carries."""
    if not isinstance(body, dict):
        return body
    metadata = {key: value for key, value in body.get("metadata", {}).items() if key != "uid"}
    return {
        **{key: value for key, value in body.items() if key != "metadata"},
        **({"metadata": metadata} if metadata else {}),
    }


@asynccontextmanager
async def a_world(
    settings: SandboxSettings = SandboxSettings(),  # noqa: B008 - frozen
    definitions: list[str] | None = None,
) -> AsyncIterator[World]:
    """A fresh server with the resources of this module, and a registry that decorators use for the time of the block."""
    registry = OperatorRegistry()
    set_default_registry(registry)
    async with Sandbox(settings=settings) as sandbox:
        for text in DEFINITIONS if definitions is None else definitions:
            await sandbox.load_manifest(text)
        access = Access(server=sandbox.url)
        async with Client(access, ClientSettings(user_agent="user", error_backoffs=())) as user:
            yield World(sandbox, user, registry)
    set_default_registry(OperatorRegistry())


Waited = Callable[[], Awaitable[None]]


class Calls:
    """What handlers were called with, in order: `calls(name, **kwargs)` notes one call."""

    def __init__(self) -> None:
        self.made: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, name: str, kwargs: Mapping[str, Any]) -> int:
        """Note a call; gives how many of this name there are now."""
        self.made.append((name, dict(kwargs)))
        return self.count(name)

    def __len__(self) -> int:
        return len(self.made)

    @property
    def names(self) -> list[str]:
        """The names, in order."""
        return [name for name, _ in self.made]

    def count(self, name: str) -> int:
        """How many calls of a name there are."""
        return self.names.count(name)

    def of(self, name: str) -> list[dict[str, Any]]:
        """The arguments of the calls of a name."""
        return [kwargs for known, kwargs in self.made if known == name]


def messages(records: list[logging.LogRecord], logger: str = "kopf.objects") -> list[str]:
    """What a logger said."""
    return [record.getMessage() for record in records if record.name == logger]


__all__ = [
    "FINALIZER",
    "GLOBAL",
    "KEX",
    "LAST",
    "PLAIN",
    "Calls",
    "NotFound",
    "P",
    "World",
    "a_world",
    "messages",
    "rest",
]
