"""The figures of the timers, printed by a program of their own: `make bench` runs them."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SECONDS = 300


@pytest.mark.parametrize("program", ["timers.py"])
def test_program(program: str) -> None:
    print(f"\n{program}", flush=True)
    subprocess.run([sys.executable, str(HERE / program)], check=True, timeout=SECONDS)
