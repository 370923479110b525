"""The figures of the queue and of the timers, each printed by its own program: `make bench` runs them."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SECONDS = 300


@pytest.mark.parametrize("program", ["workqueue.py", "timers.py"])
def test_program(program: str) -> None:
    print(f"\n{program}", flush=True)
    subprocess.run([sys.executable, str(HERE / program)], check=True, timeout=SECONDS)
