"""The `ctl` command as a process of its own, watched line by line."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import yaml

from ctl.sandbox import Sandbox

PATIENCE = 60.0
"""Seconds; only to end a test that hangs. On a busy machine a process takes a while to come up."""


def with_token(sandbox: Sandbox, path: Path, token: str) -> Path:
    """Write a kubeconfig by which a command says who it is with this token."""
    config = yaml.safe_load(sandbox.kubeconfig(path).read_text())
    config["users"][0]["user"] = {"token": token}
    path.write_text(yaml.safe_dump(config))
    return path


class Command:
    """A running command. Both of its outputs are read as one."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._grown = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            async with self._grown:
                self.lines.append(line.decode().rstrip("\n"))
                self._grown.notify_all()
        async with self._grown:
            self._grown.notify_all()

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    async def line(self, wanted: str | Callable[[str], bool]) -> str:
        """The first line that has the text or passes the test, now or later."""
        matches = (lambda line: wanted in line) if isinstance(wanted, str) else wanted

        def found() -> str | None:
            return next((line for line in self.lines if matches(line)), None)

        async with asyncio.timeout(PATIENCE), self._grown:
            await self._grown.wait_for(lambda: found() is not None or self._reading.done())
        text = found()
        assert text is not None, f"The command ended without the line:\n{self.output}"
        return text

    async def kubeconfig(self) -> Path:
        """The path that the command printed."""
        return Path((await self.line("kubeconfig: ")).rpartition("kubeconfig: ")[2])

    async def end(self, signum: signal.Signals | None = None) -> int:
        """Wait until it ends, by itself or by a signal; the exit code."""
        if signum is not None:
            self.process.send_signal(signum)
        async with asyncio.timeout(PATIENCE):
            await self._reading
            return await self.process.wait()


@contextlib.asynccontextmanager
async def command(
    *args: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    program: Sequence[str | Path] = ("-m", "ctl"),
) -> AsyncIterator[Command]:
    """Start `ctl ARGS...`, or a program of one's own, away from the tester's own cluster and settings; it is killed if the test leaves it running."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CTL_", "KOPF_", "KUBE"))}
    with tempfile.TemporaryDirectory(prefix="ctl-command-") as folder:  # who is killed leaves files behind
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *map(str, program), *map(str, args)),
            cwd=cwd,
            env={**clean, "HOME": "/nonexistent", "TMPDIR": folder, **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        running = Command(process)
        try:
            yield running
        finally:
            if process.returncode is None:
                process.kill()
            await running.end()
            print(running.output)  # pytest shows it with a failure
