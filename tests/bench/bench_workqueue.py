"""How many keys a second pass through our queue and through client-go's, side by side: `make bench` prints it.

Both have their metrics on; ours has priorities and ageing on as well, which theirs has not. client-go's program is built once, when Go is
there, and kept in the user's cache folder.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .peers import HERE, client_go

ROUNDS = 3
FLOOR = 20_000
"""Keys a second that no loaded machine falls below; the figures themselves are printed."""


def ours() -> dict[str, int]:
    """Keys a second of processor time, by load."""
    run = subprocess.run(
        [sys.executable, str(HERE / "workqueue.py"), str(ROUNDS)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    found = {}
    for line in run.stdout.splitlines():
        name, _, rest = line.strip().partition(":")
        found[name] = int(rest.split()[0].replace(",", ""))
    return found


def theirs(program: Path) -> dict[str, int]:
    """The same for client-go."""
    run = subprocess.run([str(program), str(ROUNDS)], capture_output=True, text=True, timeout=120, check=True)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    return {line["load"]: line["per_cpu_s"] for line in lines}


def test_add_get_done() -> None:
    program = client_go("queue", "queue")
    mine = ours()
    peer = theirs(program) if program is not None else {}
    print()
    for load, rate in mine.items():
        beside = (
            f"client-go {peer[load]:>10,}   ratio {rate / peer[load]:.2f}" if load in peer else "client-go: no Go here"
        )
        print(f"{load:>8}: ctl {rate:>10,} add-get-done per cpu second   {beside}")
        assert rate > FLOOR
    if program is None:
        pytest.skip("Go is not installed")
