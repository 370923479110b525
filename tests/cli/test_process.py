"""`ctl run` takes the loop of uvloop where there is one, else that of asyncio, and looks for garbage less often."""

import asyncio
import gc
import signal
from pathlib import Path

import pytest

from ctl.cli.process import until_signalled

from .processes import PATIENCE, command

OPERATOR = """
import asyncio, ctl

@ctl.on.startup()
async def tell(logger, **_):
    logger.info("The loop is a %s.", type(asyncio.get_running_loop()).__name__)
"""
# Whatever loop this gives, the command is to run in it.
GIVEN = """
import asyncio

class Given(asyncio.SelectorEventLoop): ...

def new_event_loop():
    return Given()
"""


@pytest.mark.parametrize(
    ("uvloop", "loop"),
    [(GIVEN, "Given"), ("raise ImportError('hidden by the test')\n", "_UnixSelectorEventLoop")],
    ids=["installed", "not installed"],
)
async def test_the_operator_runs_in_the_loop_of_uvloop_where_that_is_installed(
    uvloop: str, loop: str, tmp_path: Path
) -> None:
    main, folder = tmp_path / "main.py", tmp_path / "path"
    folder.mkdir()
    main.write_text(OPERATOR)
    (folder / "uvloop.py").write_text(uvloop)
    async with command("run", "-A", "--sandbox", main, env={"PYTHONPATH": str(folder)}) as run:
        await run.line(f"The loop is a {loop}.")
        assert await run.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_is_heard_from_the_first_word_on(signum: signal.Signals) -> None:
    async with asyncio.timeout(PATIENCE):
        assert await until_signalled(lambda: signal.raise_signal(signum)) is signum


ERRAND = """
import asyncio, ctl

told = asyncio.Event()
errands = []

async def errand():
    await told.wait()
    await asyncio.sleep(0.2)  # longer than the operator takes to end
    print("The errand is done.", flush=True)

@ctl.on.startup()
async def begin(**_):
    errands.append(asyncio.create_task(errand()))
    print("The errand is begun.", flush=True)

@ctl.on.cleanup()
async def tell(**_):
    told.set()
"""


async def test_what_the_cleanup_asks_to_end_is_let_end(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(ERRAND)
    async with command("run", "-A", "--sandbox", tmp_path / "main.py") as run:
        await run.line("The errand is begun.")
        assert await run.end(signal.SIGTERM) == 0
    assert "The errand is done." in run.lines


STUBBORN = """
import asyncio, ctl

@ctl.on.startup()
def configure(settings, **_):
    settings.queueing.exit_timeout = 0.1

@ctl.on.event("configmaps")
async def deaf(**_):
    print("It is begun.", flush=True)
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            pass
"""
ONE = "{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: default}}"


async def test_a_handler_that_ignores_its_cancellation_does_not_keep_the_process(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(STUBBORN)
    (tmp_path / "one.yaml").write_text(ONE)
    async with command("run", "-A", "--sandbox", "--manifest", tmp_path / "one.yaml", tmp_path / "main.py") as run:
        await run.line("It is begun.")
        assert await run.end(signal.SIGTERM) == 0
    assert sum("is abandoned; it stands at" in line for line in run.lines) == 1
    assert "not the operator's own" not in run.output
    assert "Traceback" not in run.output


TELL = """
import gc, ctl

FROZEN = gc.get_freeze_count()  # not 0 in every Python

@ctl.on.startup()
async def tell(logger, **_):
    logger.info("Collections: %s, %s, %s.", gc.isenabled(), gc.get_threshold()[0], gc.get_freeze_count() > FROZEN)
"""


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ("", "True, 5000, True"),
        ("gc.set_threshold(123)", "True, 123, False"),
        ("gc.disable()", f"False, {gc.get_threshold()[0]}, False"),
    ],
    ids=["nothing said", "a threshold", "off"],
)
async def test_the_collector_is_slowed_down_unless_it_was_set(own: str, told: str, tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text(TELL + own)
    async with command("run", "-A", "--sandbox", main) as run:
        await run.line(f"Collections: {told}.")
        assert await run.end(signal.SIGTERM) == 0
