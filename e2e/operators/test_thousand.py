"""A thousand objects at once: each handler called once, and one write for each object, counted at the server, however many handlers."""

import asyncio
import re
from pathlib import Path

import pytest
from conformance.api import Api
from operators.cluster import Examples
from operators.processes import ctl_command, running
from targets import Target

OPERATOR = Path(__file__).with_name("thousand_operator.py")
COUNT = 1000
AT_ONCE = 50
SECONDS = 120.0


async def patches(target: Target) -> int:
    """How many PATCH requests for KopfExamples the server has received."""
    if target.patches is not None:
        return target.patches("kopfexamples")
    async with Api(target) as api:
        text = (await api.call("GET", "/metrics")).body
    lines = re.findall(r'^apiserver_request_total\{(.*resource="kopfexamples".*)\} (\S+)$', text, re.MULTILINE)
    return sum(int(float(count)) for labels, count in lines if 'verb="PATCH"' in labels)


@pytest.mark.parametrize(("handlers", "objects"), [(1, COUNT), (3, COUNT // 10), (10, COUNT // 10)])
async def test_each_handler_is_called_once_with_one_write(
    served: Target, examples: Examples, tmp_path: Path, handlers: int, objects: int
) -> None:
    # What is counted may be counted later than it is seen: nobody writes now, and nobody will at the end.
    before = await patches(served)
    command = ctl_command("run", "-n", examples.namespace, str(OPERATOR))
    with running(command, served, tmp_path / "log", HANDLERS=str(handlers)) as operator:
        await examples.create("canary")
        await examples.handled("canary")
        gate = asyncio.Semaphore(AT_ONCE)

        async def create(name: str) -> None:
            async with gate:
                await examples.create(name)

        names = [f"n{number:04}" for number in range(objects)]
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(create(name))
        operator.wait_for_count(f"Creation is processed: {handlers} succeeded; 0 failed.", objects + 1, SECONDS)
        assert operator.stop() == 0
        after = await patches(served)
    called = re.findall(r"called: (n\d+)", operator.text())
    assert sorted(called) == sorted(names * handlers)
    assert after - before == objects + 1, "the canary is one, too"
