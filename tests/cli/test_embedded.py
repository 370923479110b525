"""An operator in a program of its own (`ctl.run()`), as a process: it ends at a signal like one under `ctl run`."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from ctl.sandbox import Sandbox

from .processes import Command

PROGRAM = """
import threading

import ctl

ready = threading.Event()
# Raised when the startup handlers are done and the resources are served.
threading.Thread(target=lambda: ready.wait() and print("begun", flush=True), daemon=True).start()
ctl.run(clusterwide=True, ready_flag=ready)
print("ended", flush=True)
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
async def test_a_program_goes_on_after_its_operator_was_told_to_stop(signum: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    async with Sandbox() as sandbox:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, tmp_path / "program.py"),
            env={"KUBECONFIG": str(sandbox.kubeconfig(tmp_path / "kubeconfig"))},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        program = Command(process)
        try:
            await program.line("begun")
            assert await program.end(signum) == 0
        finally:
            if process.returncode is None:
                process.kill()
    # What a machine says that is very busy may stand between.
    assert (program.lines[0], program.lines[-1]) == ("begun", "ended")
    assert "Traceback" not in program.output
