"""Does in one run of an operator what its scenario says: objects come, change and go, and what is awaited is awaited."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.api import MERGE, Api, Body
from operators.kopfenv import kopf_python
from operators.processes import running
from parity.definitions import KINDS, address
from targets import Target

OPERATORS = Path(__file__).with_name("operators")
SECONDS = 90.0
POLL_SECONDS = 0.05
CANARY = "canary"
NOT_OURS = {CANARY, "kube-root-ca.crt"}
"""Objects that scenarios are not about; the second one is made by the real server's own controller, at any time."""

# An operator that runs itself imports kopf before anything of ours could step in: its user writes these two lines first.
EMBEDDED = """
import ctl, os, runpy, sys
ctl.install_as_kopf()
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a run happens."""

    engine: str
    """`kopf` or `ctl`."""
    target: Target
    namespace: str
    folder: Path
    """For its recording and its output."""


@dataclass
class World:
    """One run of one operator; the methods wait for what they say, and fail with what there is when time is over."""

    api: Api
    place: Place
    operator: Path
    plural: str = "apples"
    embedded: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    codes: list[int] = field(default_factory=list)
    outputs: list[Path] = field(default_factory=list)
    _running: Any = None
    _process: subprocess.Popen[bytes] | None = None

    # The operator.

    @property
    def namespace(self) -> str:
        """The namespace of this run; its name is the token of all that has to be apart from other runs, too."""
        return self.place.namespace

    def command(self, arguments: Sequence[str]) -> list[str]:
        """How the operator is started."""
        python = str(kopf_python()) if self.place.engine == "kopf" else sys.executable
        if self.embedded:
            start = [] if self.place.engine == "kopf" else ["-c", EMBEDDED]
            return [python, *start, str(self.operator), *arguments]
        if not arguments:
            arguments = ["-n", self.namespace]
        options = ["--standalone", "--verbose", "--log-format=json", *arguments, str(self.operator)]
        return [python, "-m", self.place.engine, "run", *options]

    async def start(self, *arguments: str) -> None:
        """Start it; without arguments it serves the run's namespace."""
        assert self._running is None, "it runs already"
        output = self.place.folder / f"output-{len(self.outputs)}"
        self.outputs.append(output)
        environment = {
            "RECORDING": str(self.recording),
            "NAMESPACE": self.namespace,
            "SERVER": self.place.target.url,
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.environment,
        }
        command = await asyncio.to_thread(self.command, arguments)
        self._running = running(command, self.place.target, output, **environment)
        self._process = self._running.__enter__().process

    async def ended(self) -> int:
        """Wait until it ends by itself."""
        assert self._process is not None, "it does not run"
        code = await asyncio.to_thread(self._process.wait, SECONDS)
        self.close()
        self.codes.append(code)
        return code

    async def stop(self, signum: int = signal.SIGTERM) -> int:
        """End it as its user would."""
        assert self._process is not None, "it does not run"
        self._process.send_signal(signum)
        return await self.ended()

    async def kill(self) -> None:
        """End it as a crash would."""
        assert self._process is not None, "it does not run"
        self._process.kill()
        await asyncio.to_thread(self._process.wait, SECONDS)
        self.close()

    def close(self) -> None:
        """Let go of its process; one that still runs is killed."""
        if self._running is not None:
            self._running.__exit__(None, None, None)
        self._running = self._process = None

    @property
    def runs(self) -> bool:
        """Whether it has been started and not ended."""
        return self._running is not None

    # What it did.

    @property
    def recording(self) -> Path:
        """The file of its calls."""
        return self.place.folder / "recording"

    def calls(self) -> list[Body]:
        """The calls so far."""
        text = self.recording.read_text() if self.recording.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def output(self) -> str:
        """All that it printed."""
        return "".join(path.read_text(errors="replace") for path in self.outputs if path.exists())

    async def wait(self, holds: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + seconds
        while True:
            # Asked first: what it has done at its end counts.
            ended = None if self._process is None else self._process.poll()
            if holds():
                return
            shown = "\n".join(json.dumps([c["handler"], c["object"], c["said"]]) for c in self.calls()[-20:])
            story = f"{self.place.engine}: {what}\ncalls:\n{shown}\noutput:\n{self.output()[-4000:]}"
            assert ended is None, f"It ended with {ended} while awaited: {story}"
            assert time.monotonic() < deadline, f"Awaited in vain for {seconds:.0f} s: {story}"
            await asyncio.sleep(POLL_SECONDS)

    async def called(self, handler: str, name: str | None = "one", count: int = 1, **kwargs: Any) -> None:
        """Wait until a handler was called so many times, about this object, with these arguments among others."""

        def matches(call: Body) -> bool:
            same = call["handler"] == handler and call["object"] == name
            return same and all(call["kwargs"].get(key) == value for key, value in kwargs.items())

        await self.wait(
            lambda: sum(map(matches, self.calls())) >= count, f"{handler} for {name}, {count} times, {kwargs}"
        )

    async def logged(self, text: str, count: int = 1) -> None:
        """Wait until its output has this so many times."""
        await self.wait(lambda: self.output().count(text) >= count, f"{text!r} in the output, {count} times")

    # The objects.

    def body(self, name: str, spec: Body | None = None, *, plural: str | None = None, **parts: Any) -> Body:
        """A body: parts that are no stanzas of their own go into its metadata."""
        version, kind = KINDS[plural or self.plural]
        stanzas: Body = {
            key: parts.pop(key) for key in ("data", "status", "stringData", "type", "extra") if key in parts
        }
        body: Body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, **parts}, **stanzas}
        return body if spec is None else {**body, "spec": spec}

    async def create(
        self, name: str = "one", spec: Body | None = None, *, plural: str | None = None, **parts: Any
    ) -> Body:
        """Create an object."""
        body = self.body(name, spec, plural=plural, **parts)
        return await self.api.create(address(plural or self.plural, self.namespace), body)

    async def find(self, name: str = "one", *, plural: str | None = None) -> Body | None:
        """An object as it is, or None."""
        answer = await self.api.call("GET", address(plural or self.plural, self.namespace, name))
        return None if answer.code == 404 else answer.body

    async def patch(self, name: str, change: Body, *, plural: str | None = None, subresource: str = "") -> None:
        """Merge a change into an object."""
        path = address(plural or self.plural, self.namespace, name, *filter(None, [subresource]))
        answer = await self.api.call("PATCH", path, change, kind=MERGE)
        assert answer.code == 200, answer

    async def spec(self, name: str = "one", **change: Any) -> None:
        """Merge a change into an object's spec."""
        await self.patch(name, {"spec": change})

    async def delete(self, name: str = "one", *, plural: str | None = None) -> None:
        """Ask for an object's deletion."""
        answer = await self.api.call("DELETE", address(plural or self.plural, self.namespace, name))
        assert answer.code == 200, answer

    async def until(
        self, name: str, holds: Callable[[Body | None], object], *, plural: str | None = None, seconds: float = SECONDS
    ) -> Body | None:
        """Wait until something holds for an object."""
        deadline = time.monotonic() + seconds
        while True:
            found = await self.find(name, plural=plural)
            if holds(found):
                return found
            story = f"{self.place.engine}: {name} is {found}; output:\n{self.output()[-4000:]}"
            assert time.monotonic() < deadline, f"Awaited in vain for {seconds:.0f} s: {story}"
            await asyncio.sleep(POLL_SECONDS)

    async def gone(self, name: str = "one", *, plural: str | None = None) -> None:
        """Wait until an object is gone."""
        await self.until(name, lambda found: found is None, plural=plural)

    async def handled(self, name: str = "one", *, plural: str | None = None, **spec: Any) -> None:
        """Wait until an object is handled: its diff-base has this spec, and no record of a handler is left on it."""

        def holds(body: Body | None) -> bool:
            if body is None:
                return False
            kept = {k: v for k, v in (body["metadata"].get("annotations") or {}).items() if v.lstrip().startswith("{")}
            bases = [json.loads(v) for k, v in kept.items() if k.endswith("/last-handled-configuration")]
            records = [k for k, v in kept.items() if '"retries":' in v]
            return not records and any(all(b.get("spec", {}).get(k) == v for k, v in spec.items()) for b in bases)

        await self.until(name, holds, plural=plural)

    async def ready(self, *, plural: str | None = None, handler: str | None = None, **parts: Any) -> None:
        """Wait until the operator watches: once an object of no further interest was met, the next one is an event."""
        await self.create(CANARY, {"canary": True}, plural=plural, **parts)
        await self.wait(
            lambda: any(c["object"] == CANARY and handler in {None, c["handler"]} for c in self.calls()),
            "a call for the canary",
        )

    async def items(self, plural: str) -> list[Body]:
        """The objects of a kind in the namespace."""
        answer = await self.api.get(address(plural, self.namespace))
        version, kind = KINDS[plural]
        return [{**item, "apiVersion": version, "kind": kind} for item in answer["items"]]

    async def posted(self, count: int, name: str = "one") -> None:
        """Wait until so many messages are posted about an object, repetitions counted."""
        deadline = time.monotonic() + SECONDS
        while True:
            found = [event for event in await self.items("events") if event["involvedObject"]["name"] == name]
            if sum(event.get("count") or 1 for event in found) >= count:
                return
            assert time.monotonic() < deadline, (
                f"{self.place.engine}: posted: {[(e['reason'], e['message']) for e in found]}"
            )
            await asyncio.sleep(POLL_SECONDS)
