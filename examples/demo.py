"""Shows, step by step, what a new user sees: an API server, an operator, an object's life. Run by `make demo`.

Ends with exit code 0 when everything went as it should, else with 1 and a sentence on what was missing.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from ctl import Client, NotFound, Resource, load_access

EXAMPLE = Path(os.path.relpath(Path(__file__).parent / "01-minimal"))
KOPFEXAMPLES = Resource("kopf.dev", "v1", "kopfexamples", namespaced=True)
DIFF_BASE = "kopf.zalando.org/last-handled-configuration"
PATIENCE = 30.0


class Operator:
    """`ctl run --sandbox` as a process of its own, its lines shown as they come."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.kubeconfig: asyncio.Future[Path] = asyncio.get_running_loop().create_future()
        self._showing = asyncio.create_task(self._show())

    @classmethod
    async def start(cls) -> "Operator":
        arguments = ["run", "--sandbox", "--manifest", str(EXAMPLE / "crd.yaml"), str(EXAMPLE / "example.py")]
        step("Start an operator, on an API server that lives in the same process", f"ctl {' '.join(arguments)}")
        return cls(
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "ctl", *arguments),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        )

    async def _show(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            text = line.decode().rstrip()
            print(f"    {text}", flush=True)
            if "kubeconfig: " in text and not self.kubeconfig.done():
                self.kubeconfig.set_result(Path(text.rpartition("kubeconfig: ")[2]))
        if not self.kubeconfig.done():
            self.kubeconfig.set_exception(SystemExit("demo: the operator ended before it had begun, see above."))

    async def stop(self) -> int:
        """Interrupt it as a user would, and give its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGINT)
        code = await self.process.wait()
        await self._showing
        return code


def step(what: str, command: str) -> None:
    print(f"\n\033[1m# {what}\033[0m\n$ {command}" if sys.stdout.isatty() else f"\n# {what}\n$ {command}", flush=True)


class Kubectls(yaml.SafeDumper):
    """Writes texts of several lines as kubectl does."""


Kubectls.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def show(body: dict[str, Any]) -> None:
    body["metadata"].pop("managedFields", None)
    for line in yaml.dump(body, Dumper=Kubectls, sort_keys=False, width=110).splitlines():
        print(f"    {line}", flush=True)


async def until(client: Client, name: str, what: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        body = (await client.get(KOPFEXAMPLES, name, "default")).body()
        if reached(body):
            return body
        await asyncio.sleep(0.05)
    raise SystemExit(f"demo: after {PATIENCE:.0f} s {name} still has no {what}.")


async def live(client: Client) -> None:
    wanted = yaml.safe_load((EXAMPLE / "obj.yaml").read_text())
    name = wanted["metadata"]["name"]

    step("Create an object", f"kubectl apply -f {EXAMPLE / 'obj.yaml'}")
    await client.create(KOPFEXAMPLES, wanted, "default")
    body = await until(client, name, "result in its status", lambda body: "create_fn" in body.get("status", {}))
    step(
        "What the handler returned is in the status; what was handled last, in an annotation",
        f"kubectl get kex {name} -o yaml",
    )
    show(body)

    patch = {"spec": {"field": "changed"}}
    step("Edit it", f"kubectl patch kex {name} --type=merge -p '{json.dumps(patch)}'")
    await client.patch(KOPFEXAMPLES, name, "default", patch)
    body = await until(
        client, name, "note of the change", lambda body: "changed" in body["metadata"]["annotations"][DIFF_BASE]
    )
    show({"metadata": {"annotations": body["metadata"]["annotations"]}, "spec": body["spec"]})

    step("Delete it", f"kubectl delete kex {name}")
    await client.delete(KOPFEXAMPLES, name, "default")
    try:
        await until(client, name, "end", lambda _: False)
    except NotFound:
        print(f"    {name} is gone", flush=True)


async def main() -> int:
    operator = await Operator.start()
    try:
        kubeconfig = await asyncio.wait_for(operator.kubeconfig, PATIENCE)
        async with Client(load_access(kubeconfig)) as client:
            await live(client)
        step("Stop the operator", "Ctrl-C")
    finally:
        code = await asyncio.wait_for(operator.stop(), PATIENCE)
    print(f"    exit code {code}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
