"""One run of a published operator: its process behind a proxy of its own, in a namespace of its own, and what became of it."""

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.api import MERGE, Api, Body
from operators.processes import running
from parity import runs, world
from published import environment
from published.proxy import Proxy, Request, proxied
from targets import Target

SECONDS = 90.0
POLL_SECONDS = 0.1
HERE = Path(__file__).parent
OTHERS = "\0"
"""Between the lines about no object, in a recording's output."""
_SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]"
MADE_UP: tuple[tuple[str | re.Pattern[str], str], ...] = (
    (rf"-{_SUFFIX}{{7,10}}(-{_SUFFIX}{{5}})?\b", "-GENERATED"),
    (r"\b10\.0\.0\.\d+\b", "ADDRESS"),
    (r'("nodePort": )\d+', r"\g<1>0"),
    (r'(nodePort\\*":)\d+', r"\g<1>0"),
    *runs.SHARED,
)
"""What Kubernetes makes up: names of ReplicaSets and their pods, addresses of Services, and what no two runs share."""
Script = Callable[["Stage"], AsyncIterator[str]]


@dataclass(frozen=True, kw_only=True)
class Published:
    """An operator that others have published: what it is started with, and what is done to it."""

    name: str
    version: str
    modules: Sequence[str]
    """What the operator is started with, as `kopf run -m`."""
    options: Sequence[str] = ("--standalone", "--namespace=NAMESPACE")
    """And with these options."""
    play: Script
    """Does one step after another; says its name when it is done and what is awaited has come."""
    definitions: Callable[[], list[Body]]
    """Of the resources that it needs."""
    kept: Sequence[str]
    """The collections whose objects are compared after each step, with NAMESPACE in it."""
    exclusive: bool = False
    """It serves objects of the whole cluster: the two are run one after the other."""
    stubs: str = ""
    """A folder of `stubs` with modules and commands that stand for what is not there: a database, a cloud, a key."""
    environment: dict[str, str] = field(default_factory=dict)
    known_as: Callable[[Body], str] = lambda body: str(body["metadata"]["name"])
    """What to call an object whose name is made up anew in each run."""
    generated: Sequence[tuple[str, str]] = ()
    """Patterns of what else is made up anew in each run, and what to call it."""


@dataclass(kw_only=True)
class Stage:
    """Where a script is played, once for each of the two."""

    published: Published
    engine: str
    namespace: str
    folder: Path
    api: Api
    proxy: Proxy
    outputs: list[Path] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    """The paths of what the script has created."""
    _names: dict[str, str] = field(default_factory=dict)
    _running: Any = None
    _process: Any = None

    # The operator.

    @property
    def recording(self) -> Path:
        """The file of its calls."""
        return self.folder / "recording"

    async def start(self) -> None:
        """Start it."""
        assert self._running is None, "it runs already"
        output = self.folder / f"output-{len(self.outputs)}"
        self.outputs.append(output)
        kubeconfig = self.folder / "kubeconfig"
        self.proxy.kubeconfig(kubeconfig)
        stubs = HERE / "stubs" / (self.published.stubs or "none")
        path = [HERE / "beside", HERE.parent / "parity" / "operators", stubs]
        path.append(environment.kopf_path() if self.engine == "kopf" else environment.ctl_path(self.folder))
        settings = {
            "RECORDING": str(self.recording),
            "NAMESPACE": self.namespace,
            "PATH": f"{stubs}:{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            **{key: self.path(value) for key, value in self.published.environment.items()},
            "KUBECONFIG": str(kubeconfig),
            "PYTHONPATH": ":".join(map(str, path)),
        }
        modules = [part for module in ("noting", *self.published.modules) for part in ("-m", module)]
        options = [*map(self.path, self.published.options), "--log-format=json", *modules]
        command = [str(environment.python()), "-m", self.engine, "run", *options]
        self._running = running(command, self.proxy.target, output, **settings)
        self._process = self._running.__enter__().process

    async def stop(self) -> None:
        """End it as its user would."""
        self._process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(self._process.wait, SECONDS)
        self.close()
        self.codes.append(code)

    def close(self) -> None:
        """Let go of its process; one that still runs is killed."""
        if self._running is not None:
            self._running.__exit__(None, None, None)
        self._running = self._process = None

    def calls(self) -> list[Body]:
        """The calls so far."""
        text = self.recording.read_text() if self.recording.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def output(self) -> str:
        """All that it printed."""
        return "".join(path.read_text(errors="replace") for path in self.outputs if path.exists())

    def told(self) -> str:
        """For a failure: the end of its story."""
        calls = "\n".join(json.dumps([c["handler"], c["object"], c["said"]]) for c in self.calls()[-20:])
        return f"{self.engine}: calls:\n{calls}\noutput:\n{self.output()[-6000:]}"

    # What a user does.

    def path(self, where: str) -> str:
        """A path with the run's namespace and folder in it."""
        return where.replace("NAMESPACE", self.namespace).replace("FOLDER", str(self.folder))

    def filled(self, body: Body) -> Body:
        """A body with the run's namespace in it."""
        found: Body = json.loads(json.dumps(body).replace("NAMESPACE", self.namespace))
        return found

    async def create(self, where: str, body: Body) -> Body:
        """Create an object in a collection."""
        made = await self.api.create(self.path(where), self.filled(body))
        self.made.append(f"{self.path(where)}/{made['metadata']['name']}")
        return made

    async def find(self, where: str) -> Body | None:
        """An object as it is, or None."""
        answer = await self.api.call("GET", self.path(where))
        assert answer.code in {200, 404}, answer
        return None if answer.code == 404 else answer.body

    async def items(self, where: str, **params: str) -> list[Body]:
        """The objects of a collection."""
        return list((await self.api.get(self.path(where), **params))["items"])

    async def merge(self, where: str, change: Body) -> None:
        """Merge a change into an object."""
        answer = await self.api.call("PATCH", self.path(where), self.filled(change), kind=MERGE)
        assert answer.code == 200, answer

    async def delete(self, where: str) -> None:
        """Ask for the deletion of an object, and of what it owns."""
        answer = await self.api.call("DELETE", self.path(where), propagationPolicy="Background")
        assert answer.code in {200, 202}, answer

    # What is awaited.

    async def wait(self, holds: Callable[[], Any], what: str) -> None:
        """Wait until something holds; fails with what there is when time is over or the operator has ended."""
        deadline = time.monotonic() + SECONDS
        while True:
            ended = None if self._process is None else self._process.poll()
            if await holds():
                return
            assert ended is None, f"It ended with {ended} while awaited: {what}; {self.told()}"
            assert time.monotonic() < deadline, f"Awaited in vain: {what}; {self.told()}"
            await asyncio.sleep(POLL_SECONDS)

    async def until(self, where: str, holds: Callable[[Body], Any]) -> None:
        """Wait until an object is there and something holds for it."""
        last: list[Body | None] = [None]

        async def look() -> bool:
            last[0] = found = await self.find(where)
            return found is not None and bool(holds(found))

        try:
            await self.wait(look, f"{where} as it should be")
        except AssertionError as error:
            raise AssertionError(f"{error}\nlast seen: {last[0]}") from error

    async def gone(self, where: str) -> None:
        """Wait until an object is gone."""

        async def look() -> bool:
            return await self.find(where) is None

        await self.wait(look, f"{where} gone")

    async def counts(self, where: str, count: int, **params: str) -> None:
        """Wait until a collection has so many objects."""

        async def look() -> bool:
            return len(await self.items(where, **params)) == count

        await self.wait(look, f"{count} of {where} {params}")

    async def called(self, handler: str, count: int = 1) -> None:
        """Wait until a handler was called so many times."""

        async def look() -> bool:
            return [call["handler"] for call in self.calls()].count(handler) >= count

        await self.wait(look, f"{handler} called {count} times")

    async def handled(self, where: str, *, saying: str = "", **spec: Any) -> None:
        """Wait until an object is handled with this in its spec, or anywhere: no record of a handler is left on it."""

        def holds(body: Body) -> bool:
            kept = {k: v for k, v in (body["metadata"].get("annotations") or {}).items() if v.lstrip().startswith("{")}
            texts = [v for k, v in kept.items() if k.endswith("/last-handled-configuration") and saying in v]
            bases = [json.loads(text) for text in texts]
            records = [k for k, v in kept.items() if '"retries":' in v] + list(
                (body.get("status") or {}).get("kopf", ())
            )
            return not records and any(all(b.get("spec", {}).get(k) == v for k, v in spec.items()) for b in bases)

        await self.until(where, holds)

    # What became of it.

    async def recorded(self) -> runs.Recording:
        """Its calls, objects, events and lines, without names and times that no two runs share."""
        objects: dict[str, Body] = {}
        for where in self.published.kept:
            answer = await self.api.get(self.path(where))
            kind = answer["kind"].removesuffix("List")
            for item in answer["items"]:
                if item["metadata"]["name"] not in world.NOT_OURS | {"default", "kubernetes"}:
                    body = {"apiVersion": answer["apiVersion"], "kind": kind, **item}
                    objects[f"{kind}/{self._known(body)}"] = runs.plain(body)
        events = await self.items("/api/v1/namespaces/NAMESPACE/events")
        said = [line for line in map(_line, self.output().splitlines()) if line]
        found = {
            "calls": self.calls(),
            "objects": objects,
            "events": [
                event for event in events if "kopf" in {event["source"].get("component"), event["reportingComponent"]}
            ],
            "logs": [line for line in said if "object" in line],
            "output": OTHERS.join(line["message"] for line in said if "object" not in line),
        }
        text = json.dumps(found)
        for made, word in self._names.items():
            text = text.replace(made, word)
        text = text.replace(self.namespace, "NAMESPACE").replace(f"127.0.0.1:{self.proxy.port}", "SERVER")
        for pattern, word in (*self.published.generated, *MADE_UP):
            text = re.sub(pattern, word, text)
        return runs.Recording(**json.loads(text), codes=list(self.codes))

    def _known(self, body: Body) -> str:
        """What to call an object: by that its uid and its name are called from now on, wherever they are."""
        name: str = body["metadata"]["name"]
        uid: str = body["metadata"]["uid"]
        if uid not in self._names:
            known = first = self.published.known_as(body)
            number = 1
            while known != name and known in self._names.values():
                number += 1
                known = f"{first} {number}"
            self._names[uid] = f"UID of {body['kind']} {known}"
            if known != name:
                self._names[name] = known
        return self._names.get(name, name)

    def asked(self) -> list[Request]:
        """The requests since it was asked last."""
        found, self.proxy.requests = self.proxy.requests, []
        return found

    async def clear(self) -> None:
        """Leave nothing: no finalizers, no objects of the cluster."""
        self.close()
        await self.api.call("DELETE", f"/api/v1/namespaces/{self.namespace}")
        for where in self.published.kept:
            for item in await self.items(where):
                if "finalizers" in item["metadata"]:
                    path = f"{self.path(where).partition('?')[0]}/{item['metadata']['name']}"
                    await self.api.call("PATCH", path, {"metadata": {"finalizers": None}}, kind=MERGE)
        for path in self.made:
            await self.api.call("DELETE", path)


def _line(text: str) -> Body:
    """A line of the output, if it is one of the log."""
    try:
        line: Body = json.loads(text)
    except ValueError:
        return {}
    wanted = ("message", "severity", "object")
    return {key: line[key] for key in wanted if key in line} if "message" in line else {}


@asynccontextmanager
async def staged(
    published: Published, target: Target, engine: str, namespace: str, folder: Path
) -> AsyncIterator[Stage]:
    """A stage whose namespace is there until the end."""
    await asyncio.to_thread(folder.mkdir)
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(Api(target))
        proxy = await stack.enter_async_context(proxied(target))
        await api.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
        stage = Stage(published=published, engine=engine, namespace=namespace, folder=folder, api=api, proxy=proxy)
        try:
            yield stage
        finally:
            await stage.clear()
