"""A process that stands still blames none of its handlers."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="The system has no such signal.")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_stopped_process_blames_nobody_and_goes_on_watching(loop: str) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    script = textwrap.dedent(f"""
        import asyncio, logging, sys, time, {loop}
        from ctl.runtime.watchdog import LoopWatchdog
        logging.basicConfig(format="%(message)s", stream=sys.stdout)

        async def main():
            dog = LoopWatchdog(lambda: 0.5)
            dog.start()
            await asyncio.sleep(0.1)
            print("up", flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
            await asyncio.sleep(1.0)
            print(dog.blocks, dog.lag < 1, flush=True)
            # However often it is stopped meanwhile.
            end = time.monotonic() + 60
            while not dog.blocks[""] and time.monotonic() < end:
                time.sleep(0.01)
            await asyncio.sleep(0.5)
            print(dog.blocks, flush=True)
            dog.stop()

        asyncio.Runner(loop_factory={loop}.new_event_loop).run(main())
    """)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "up\n"
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(2.0)
            os.kill(process.pid, signal.SIGCONT)
            process.stdin.write("go on\n")
            process.stdin.flush()
            quiet, begun, ended, counted = (process.stdout.readline() for _ in range(4))
        finally:
            process.kill()
    assert quiet == "{'': 0} True\n"
    assert "blocked by something at <string>:" in begun
    assert "in main" in begun
    assert "turns again" in ended
    assert counted == "{'': 1}\n"
