import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from ctl.testing.time import VirtualTimeLoop


async def test_unmarked_tests_run_in_real_time() -> None:
    assert not isinstance(asyncio.get_running_loop(), VirtualTimeLoop)


@pytest.mark.virtual_time
async def test_marked_tests_run_in_virtual_time() -> None:
    assert isinstance(asyncio.get_running_loop(), VirtualTimeLoop)


TEST = """
import asyncio, pytest
from ctl.runtime import clock

@pytest.mark.virtual_time({mark})
async def test_year():
    await asyncio.sleep(365 * 86400)
    assert clock.now().year == 2032
"""


def _run(folder: Path, mark: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\naddopts = --strict-markers\n")
    (folder / "conftest.py").write_text("pytest_plugins = ['ctl.testing.plugin']\n")
    (folder / "test_it.py").write_text(TEST.format(mark=mark))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_a_user_enables_it_in_the_conftest(tmp_path: Path) -> None:
    result = _run(tmp_path, "start='2031-05-06T00:00:00Z'")
    assert result.returncode == 0, result.stdout
    assert "1 passed" in result.stdout


def test_a_wrong_argument_is_named(tmp_path: Path) -> None:
    result = _run(tmp_path, "begin='2031-05-06T00:00:00Z'")
    assert result.returncode != 0
    assert "takes `start=` alone" in result.stdout + result.stderr
    assert "begin" in result.stdout + result.stderr
