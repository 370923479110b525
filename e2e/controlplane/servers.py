"""Runs one server as a child process that never outlives the process that started it."""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

STOP_SECONDS = 10.0
TAIL_LINES = 12
PORTS = (12_000, 30_000)
"""Below the ephemeral ports of Linux (32768) and other systems (49152)."""
# Reads until our end of the pipe is closed, which the kernel does however we end; then ends the server.
_GUARD = 'cat >/dev/null; kill -KILL "$0" 2>/dev/null'


class ServerError(Exception):
    """A server did not start, or ended by itself; the message has the end of its log."""


def free_port() -> int:
    """A TCP port of 127.0.0.1 that is free now, and of those that systems give to nobody who does not ask for it.

    Out of those that they do give, another process would get it sooner or later before it is used, or while a server starts again.
    """
    while True:
        port = random.SystemRandom().randrange(*PORTS)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Server:
    """A child process with a log file, in a process group of its own so that Ctrl-C reaches it only through us."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        """Start the command at once; its output is appended to the log."""
        self.name = Path(command[0]).name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, str(self._process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The end of the log, under a heading."""
        text = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join([f"--- end of {self.log} ---", *text])

    def check(self) -> None:
        """Raise `ServerError` if the process has ended."""
        if not self.is_running:
            raise ServerError(f"{self.name} ended with exit code {self._process.returncode}.\n{self.tail()}")

    def stop(self) -> None:
        """Kill the process: what it holds is thrown away, and a polite end takes kube-apiserver ten seconds. Idempotent."""
        # The guard goes first: once the server is reaped, its process id may belong to somebody else.
        with self._guard as guard:
            if guard.poll() is None:
                os.killpg(guard.pid, signal.SIGKILL)
        if self.is_running:
            self._process.kill()
        self._process.wait(STOP_SECONDS)

    def wait_for(self, ready: Callable[[], str | None], seconds: float) -> None:
        """Wait until `ready` says nothing more is missing; raise `ServerError` when it ends or the time is over."""
        deadline = time.monotonic() + seconds
        while True:
            self.check()
            missing = ready()
            if missing is None:
                return
            if time.monotonic() > deadline:
                raise ServerError(f"{self.name} was not ready within {seconds:.0f} s: {missing}\n{self.tail()}")
            time.sleep(0.05)
