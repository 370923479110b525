"""How many keys a second pass through our queue and through client-go's, side by side: `make bench` prints it.

Both have their metrics on; ours has priorities and ageing on as well, which theirs has not. client-go's program is built once, when Go is
there, and kept in the user's cache folder.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ctl"
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


def theirs(go: str) -> dict[str, int]:
    """The same for client-go; built on the way."""
    source = HERE / "clientgo"
    parts = [(source / name).read_bytes() for name in ("go.mod", "go.sum", "queue/main.go")]
    program = CACHE / "bench" / f"queue-{hashlib.sha256(b''.join(parts)).hexdigest()[:16]}"
    if not program.exists():
        subprocess.run([go, "build", "-o", str(program), "./queue"], cwd=source, check=True, timeout=580)
    run = subprocess.run([str(program), str(ROUNDS)], capture_output=True, text=True, timeout=120, check=True)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    return {line["load"]: line["per_cpu_s"] for line in lines}


def test_add_get_done() -> None:
    go = shutil.which("go")
    mine = ours()
    peer = theirs(go) if go is not None else {}
    print()
    for load, rate in mine.items():
        beside = (
            f"client-go {peer[load]:>10,}   ratio {rate / peer[load]:.2f}" if load in peer else "client-go: no Go here"
        )
        print(f"{load:>8}: ctl {rate:>10,} add-get-done per cpu second   {beside}")
        assert rate > FLOOR
    if go is None:
        pytest.skip("Go is not installed")
