"""Runs the pods of a release as processes, probes them, and tells the server how they are: as much of a kubelet as helm waits for."""

import asyncio
import contextlib
import dataclasses
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

from charts.release import CORE, Release, Replica
from conformance.api import Body

NODE = "kubelet-of-tests"
PERIOD = 0.2
GRACE = 40.0
MERGE = "application/merge-patch+json"


@dataclasses.dataclass
class Pod:
    """A pod that was started; `told` is what the server was told of it last."""

    replica: Replica
    told: Body | None = None
    live: bool = False
    """Whether it was alive once; from then on it is to stay so until it is stopped."""


@dataclasses.dataclass
class Kubelet:
    """The pods of one namespace, while `running` lasts; what it has seen is kept beyond that."""

    release: Release
    pods: dict[str, Pod] = dataclasses.field(default_factory=dict)
    """Those that run, by name."""
    ended: list[Replica] = dataclasses.field(default_factory=list)
    sick: list[str] = dataclasses.field(default_factory=list)
    """What was wrong: exits that nobody asked for, pages of /livez that failed."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Kubelet"]:
        """Look after the pods for as long as the block lasts; fails with what has failed."""
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        answer = await self.release.api.call("POST", "/api/v1/nodes", node)
        assert answer.code in {201, 409}, answer
        with contextlib.ExitStack() as stack:
            task = asyncio.create_task(self._run(stack))
            try:
                yield self
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task  # raises what has failed

    @property
    def logs(self) -> list[Replica]:
        """All replicas that there were."""
        return [*self.ended, *(pod.replica for pod in self.pods.values())]

    async def _run(self, stack: contextlib.ExitStack) -> None:
        while True:
            listed = (await self.release.api.get(f"{CORE.format(self.release.namespace)}/pods"))["items"]
            # Whoever deletes without patience removes the object at once.
            vanished = self.pods.keys() - {body["metadata"]["name"] for body in listed}
            await asyncio.gather(*(self._sync(body, stack) for body in listed), *map(self._end, vanished))
            await asyncio.sleep(PERIOD)

    async def _sync(self, body: Body, stack: contextlib.ExitStack) -> None:
        name = body["metadata"]["name"]
        if body["metadata"].get("deletionTimestamp"):
            await self._end(name)
        elif "helm.sh/hook" in (body["metadata"].get("annotations") or {}):
            if not body["status"].get("containerStatuses"):
                await self._test(body)
        elif name not in self.pods:
            # A pod that is on no node goes at once when it is deleted, and nobody would have time to stop it.
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": {"kind": "Node", "name": NODE},
            }
            path = f"{CORE.format(self.release.namespace)}/pods/{name}/binding"
            answer = await self.release.api.call("POST", path, binding)
            if answer.code in {404, 409}:  # it was deleted since it was listed
                return
            assert answer.code == 201, answer
            self.pods[name] = Pod(await self.release.replica(name, stack, body["spec"], **environment(body)))
        else:
            await self._probe(body, self.pods[name])

    async def _probe(self, body: Body, pod: Pod) -> None:
        code = pod.replica.operator.process.poll()
        if code is not None:
            self.sick.append(f"{body['metadata']['name']} ended with {code}: {pod.replica.operator.text()[-2000:]}")
        alive, _ = await asyncio.to_thread(pod.replica.page, "/livez")
        ready, _ = await asyncio.to_thread(pod.replica.page, "/readyz")
        pod.live = pod.live or alive == 200
        if pod.live and alive != 200:
            self.sick.append(f"{body['metadata']['name']} answers /livez with {alive}")
        status = {"phase": "Running", **conditions(ready=ready == 200)}
        if status != pod.told:
            pod.told = status
            since = {"startTime": moment(), "podIP": "127.0.0.1"}
            changed = [{**one, "lastTransitionTime": moment()} for one in status["conditions"]]
            await self._tell(body, {**status, **since, "conditions": changed})

    async def _end(self, name: str) -> None:
        """Stop it as a kubelet does, and let the object go when the process has ended."""
        pod = self.pods.pop(name, None)
        if pod is not None:
            self.ended.append(pod.replica)
            process = pod.replica.operator.process
            process.terminate()
            code = await asyncio.to_thread(process.wait, GRACE)
            if code != 0:
                self.sick.append(f"{name} ended with {code} when it was stopped")
        await self.release.api.call(
            "DELETE", f"{CORE.format(self.release.namespace)}/pods/{name}", {"gracePeriodSeconds": 0}
        )

    async def _test(self, body: Body) -> None:
        """Run the program of `helm test` to its end; the service is the first pod."""
        (container,) = body["spec"]["containers"]
        program, address = container["args"]
        assert container["command"] == ["python", "-c"]
        assert address == f"http://demo-ctl-operator.{self.release.namespace}.svc:8080"
        port = next(pod.replica.port for pod in self.pods.values())
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", program, f"http://127.0.0.1:{port}"], timeout=GRACE, check=False
        )
        ended = {"exitCode": done.returncode, "startedAt": moment(), "finishedAt": moment()}
        state = {"name": container["name"], "image": "", "imageID": "", "ready": False, "restartCount": 0}
        phase = "Succeeded" if done.returncode == 0 else "Failed"
        await self._tell(body, {"phase": phase, "containerStatuses": [{**state, "state": {"terminated": ended}}]})

    async def _tell(self, body: Body, status: Body) -> None:
        path = f"{CORE.format(self.release.namespace)}/pods/{body['metadata']['name']}/status"
        answer = await self.release.api.call("PATCH", path, {"status": status}, kind=MERGE)
        assert answer.code in {200, 404}, answer


def conditions(*, ready: bool) -> Body:
    """What a Deployment looks at."""
    word = "True" if ready else "False"
    return {"conditions": [{"type": kind, "status": word} for kind in ("Ready", "ContainersReady")]}


def environment(body: Body) -> dict[str, str]:
    """The variables of the pod that are written as they are, but for those that are about its file system."""
    (container,) = body["spec"]["containers"]
    given: Iterator[tuple[str, str]] = ((one["name"], one["value"]) for one in container["env"] if "value" in one)
    return {name: value for name, value in given if name not in {"HOME", "PYTHONDONTWRITEBYTECODE"}}


def moment() -> str:
    """Now, as the server writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
