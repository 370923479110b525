"""Runs operators as a user does: as processes, `ctl run` or the real `kopf run`, with their output kept."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from operators.kopfenv import kopf_python
from targets import Target

START_SECONDS = 60.0
STOP_SECONDS = 60.0


@dataclass(frozen=True)
class Operator:
    """A running operator: its process, and the file that its output goes to."""

    process: subprocess.Popen[bytes]
    output: Path

    def text(self) -> str:
        """What it has printed so far."""
        # What is read while it is written to may end within a letter.
        return self.output.read_text(errors="replace")

    def wait_for(self, text: str, seconds: float = START_SECONDS) -> None:
        """Wait until it has printed this; fails with all that it printed when it ends before or time is over."""
        self.wait_for_count(text, 1, seconds)

    def wait_for_count(self, text: str, count: int, seconds: float = START_SECONDS) -> None:
        """Wait until it has printed this so many times; fails as `wait_for` does."""
        self.wait_until(lambda said: said.count(text) >= count, f"{text!r} printed {count} times", seconds)

    def wait_for_line(self, pattern: str, seconds: float = START_SECONDS) -> re.Match[str]:
        """Wait until it has printed a line, to its end, in which the pattern occurs; gives what was found."""
        found: list[re.Match[str]] = []

        def look(said: str) -> bool:
            lines = said.splitlines(keepends=True)
            found[:] = [match for line in lines if line.endswith("\n") and (match := re.search(pattern, line))]
            return bool(found)

        self.wait_until(look, f"a line of {pattern!r}", seconds)
        return found[0]

    def wait_until(self, holds: Callable[[str], bool], what: str, seconds: float = START_SECONDS) -> None:
        """Wait until something holds for what it has printed; fails as `wait_for` does."""
        deadline = time.monotonic() + seconds
        while True:
            # Asked first: what it has printed at its end counts.
            ended = self.process.poll()
            if holds(self.text()):
                return
            assert ended is None, f"The operator ended with {ended}; awaited: {what}:\n{self.text()[-5000:]}"
            assert time.monotonic() < deadline, f"awaited for {seconds} s: {what}:\n{self.text()[-5000:]}"
            time.sleep(0.05)

    def stop(self, signum: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal and wait for the end; gives the exit code."""
        self.process.send_signal(signum)
        return self.process.wait(STOP_SECONDS)

    def worked(self) -> float:
        """How long the process has been at work in all, in seconds of CPU time; 0 where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait(STOP_SECONDS)


@contextlib.contextmanager
def running(command: Sequence[str], target: Target, output: Path, **environment: str) -> Iterator[Operator]:
    """Run an operator against a server for as long as the block lasts; killed at the end if it lives on."""
    known = {key: value for key, value in os.environ.items() if key not in {"KUBECONFIG", "PYTHONPATH"}}
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**known, "KUBECONFIG": str(target.kubeconfig), "PYTHONUNBUFFERED": "1", **environment},
        )
    try:
        yield Operator(process, output)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(STOP_SECONDS)


def ctl_command(*arguments: str) -> list[str]:
    """The command line of `ctl` as it is in this checkout."""
    return [sys.executable, "-m", "ctl", *arguments]


def kopf_command(*arguments: str) -> list[str]:
    """The command line of the real Kopf, from an environment of its own."""
    return [str(kopf_python()), "-m", "kopf", *arguments]
