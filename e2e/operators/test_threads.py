"""Five hundred daemons in plain functions: they all run, and leave the pool to the handlers, as the operator's own metrics say."""

import asyncio
import time
import urllib.request
from pathlib import Path

from operators.cluster import Examples
from operators.processes import ctl_command, running
from targets import Target

COUNT = 500
SECONDS = 120.0
OPERATOR = """
import ctl

@ctl.on.startup()
def configure(settings, **_):
    settings.diagnostics.pool_wait_limit = 30  # as long as no machine stands still

@ctl.daemon("kopfexamples", cancellation_timeout=1)
def forever(stopped, **_):
    stopped.wait()

@ctl.on.create("kopfexamples")
def create_fn(**_):
    return None
"""


async def test_sync_daemons_leave_the_threads_to_handlers(served: Target, examples: Examples, tmp_path: Path) -> None:
    path, gate = tmp_path / "main.py", asyncio.Semaphore(50)
    path.write_text(OPERATOR)

    async def create(name: str) -> None:
        async with gate:
            await examples.create(name)

    command = ctl_command("run", "-n", examples.namespace, "--http", "127.0.0.1:0", str(path))
    with running(command, served, tmp_path / "log") as operator:
        url = operator.wait_for_line(r"Metrics and health at (\S+)\.").group(1)
        async with asyncio.TaskGroup() as group:
            for number in range(COUNT):
                group.create_task(create(f"n{number:03}"))
        operator.wait_for_count("Creation is processed: 1 succeeded; 0 failed.", COUNT, SECONDS)
        end = time.monotonic() + SECONDS
        while (found := await asyncio.to_thread(_metrics, url))["ctl_daemons"] < COUNT and time.monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert found['ctl_pool_busy_threads{pool="daemons"}'] == found["ctl_daemons"] == COUNT
        assert found['ctl_pool_wait_seconds_count{pool="handlers"}'] >= COUNT
        # Daemons that had the threads would keep them for good; a machine that is very busy lets calls wait for a while.
        assert found['ctl_pool_wait_seconds_bucket{le="10.0",pool="handlers"}'] >= 0.99 * COUNT
        assert 'ctl_pool_saturation_ratio{pool="handlers"}' in found
        operator.stop()
    assert "wait for threads" not in operator.text()


def _metrics(url: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name: float(value) for name, _, value in pairs}
